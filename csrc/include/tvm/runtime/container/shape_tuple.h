/* shape_tuple.h - ShapeTuple: the extents of a tensor. */
#ifndef TVM_RUNTIME_CONTAINER_SHAPE_TUPLE_H_
#define TVM_RUNTIME_CONTAINER_SHAPE_TUPLE_H_

#include <tvm/runtime/logging.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <utility>
#include <vector>

MBLOB_FACE_BEGIN

class ShapeTuple {
 public:
  using index_type = int64_t;

  ShapeTuple() = default;
  ShapeTuple(std::initializer_list<index_type> extents) : extents_(extents) {}
  ShapeTuple(std::vector<index_type> extents) : extents_(std::move(extents)) {} /* NOLINT: as in TVM */
  template <typename Iterator>
  ShapeTuple(Iterator begin, Iterator end) : extents_(begin, end) {}

  const index_type *data() const { return extents_.data(); }
  std::size_t size() const { return extents_.size(); }
  bool empty() const { return extents_.empty(); }
  const index_type *begin() const { return data(); }
  const index_type *end() const { return data() + size(); }
  index_type operator[](std::size_t i) const { return at(i); }
  index_type at(std::size_t i) const {
    if (i >= size())
      throw InternalError("ShapeTuple: index " + std::to_string(i) + " of " + std::to_string(size()) +
                          " extents");
    return extents_[i];
  }
  index_type front() const { return at(0); }
  index_type back() const { return at(size() - 1); }
  index_type Product() const {
    index_type product = 1;
    for (index_type extent : extents_) product *= extent;
    return product;
  }
  operator std::vector<index_type>() const { return extents_; } /* NOLINT: what Shape() gave in 0.7 */

  friend bool operator==(const ShapeTuple &a, const ShapeTuple &b) { return a.extents_ == b.extents_; }
  friend bool operator!=(const ShapeTuple &a, const ShapeTuple &b) { return a.extents_ != b.extents_; }
  friend std::ostream &operator<<(std::ostream &os, const ShapeTuple &shape) {
    os << '[';
    for (std::size_t i = 0; i < shape.size(); ++i) os << (i ? ", " : "") << shape[i];
    return os << ']';
  }

 private:
  std::vector<index_type> extents_;
};

MBLOB_FACE_END

namespace tvm {
using runtime::ShapeTuple;
}

#endif /* TVM_RUNTIME_CONTAINER_SHAPE_TUPLE_H_ */
