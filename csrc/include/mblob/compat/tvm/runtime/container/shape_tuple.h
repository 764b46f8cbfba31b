/* shape_tuple.h - ShapeTuple: the extents of a tensor; copies share them. As an argument or
 * result it is the runtime's object, which is made when it is first needed. */
#ifndef TVM_RUNTIME_CONTAINER_SHAPE_TUPLE_H_
#define TVM_RUNTIME_CONTAINER_SHAPE_TUPLE_H_

#include <tvm/runtime/object.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <ostream>
#include <utility>
#include <vector>

MBLOB_FACE_BEGIN

/* What `->` of a ShapeTuple shows. */
struct MBLOB_HIDDEN ShapeTupleObj {
  const int64_t *data;
  uint64_t size;
  static constexpr const char *_type_key = "runtime.ShapeTuple";
  static constexpr uint32_t RuntimeTypeIndex() { return 6; }
  int64_t Product() const {
    int64_t product = 1;
    for (uint64_t i = 0; i < size; ++i) product *= data[i];
    return product;
  }
};

class MBLOB_HIDDEN ShapeTuple {
 public:
  using index_type = int64_t;
  using ContainerType = ShapeTupleObj;

  ShapeTuple() : ShapeTuple(std::vector<index_type>()) {}
  ShapeTuple(std::initializer_list<index_type> extents)
      : ShapeTuple(std::vector<index_type>(extents)) {}
  ShapeTuple(std::vector<index_type> extents) /* NOLINT: as in TVM */
      : shared_(std::make_shared<Shared>(std::move(extents))) {}
  template <typename Iterator>
  ShapeTuple(Iterator begin, Iterator end) : ShapeTuple(std::vector<index_type>(begin, end)) {}
  explicit ShapeTuple(ObjectRef object); /* one of runtime.ShapeTuple, which it then is */
  /* Never moved from: there is always a row of extents. */
  ShapeTuple(const ShapeTuple &) = default;
  ShapeTuple &operator=(const ShapeTuple &) = default;

  const ShapeTupleObj *operator->() const { return &shared_->view; }
  const ShapeTupleObj *get() const { return &shared_->view; }
  bool defined() const { return true; }
  const index_type *data() const { return extents().data(); }
  std::size_t size() const { return extents().size(); }
  bool empty() const { return extents().empty(); }
  const index_type *begin() const { return data(); }
  const index_type *end() const { return data() + size(); }
  index_type operator[](std::size_t i) const { return at(i); }
  index_type at(std::size_t i) const {
    if (i >= size())
      throw InternalError("ShapeTuple: index " + std::to_string(i) + " of " +
                          std::to_string(size()) + " extents");
    return extents()[i];
  }
  index_type front() const { return at(0); }
  index_type back() const { return at(size() - 1); }
  index_type Product() const { return shared_->view.Product(); }
  operator std::vector<index_type>() const {
    return extents();
  } /* NOLINT: what Shape() gave in 0.7 */
  operator ObjectRef() const { return object(); } /* NOLINT: as in TVM, where it is one */
  /* The runtime's object; as long as this ShapeTuple or a copy of it. */
  const ObjectRef &object() const;

  friend bool operator==(const ShapeTuple &a, const ShapeTuple &b) {
    return a.extents() == b.extents();
  }
  friend bool operator!=(const ShapeTuple &a, const ShapeTuple &b) {
    return a.extents() != b.extents();
  }
  friend std::ostream &operator<<(std::ostream &os, const ShapeTuple &shape) {
    os << '[';
    for (std::size_t i = 0; i < shape.size(); ++i) os << (i ? ", " : "") << shape[i];
    return os << ']';
  }

 private:
  struct Shared {
    explicit Shared(std::vector<index_type> given)
        : extents(std::move(given)), view{extents.data(), extents.size()} {}
    Shared(const Shared &) = delete;
    Shared &operator=(const Shared &) = delete;
    const std::vector<index_type> extents;
    const ShapeTupleObj view;
    std::once_flag once; /* when `object` was made */
    ObjectRef object;
  };

  const std::vector<index_type> &extents() const { return shared_->extents; }

  std::shared_ptr<Shared> shared_;
};

MBLOB_FACE_END

namespace tvm {
using runtime::ShapeTuple;
}

/* As in object.h. */
#if !defined(TVM_RUNTIME_MODULE_H_) && !defined(TVM_RUNTIME_NDARRAY_H_)
#include <tvm/runtime/packed_func.h>
#endif

#endif /* TVM_RUNTIME_CONTAINER_SHAPE_TUPLE_H_ */
