/* array.h - Array<T>: values in a row, counted by the runtime; any function can be given one, or
 * give one. Changing an Array makes another one: copies that were made before stay as they are,
 * as in TVM. */
#ifndef TVM_RUNTIME_CONTAINER_ARRAY_H_
#define TVM_RUNTIME_CONTAINER_ARRAY_H_

#include <tvm/runtime/packed_func.h>

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

MBLOB_FACE_BEGIN

template <typename T>
class MBLOB_HIDDEN Array : public ObjectRef {
 public:
  static constexpr unsigned kTypeIndex = 4;
  using value_type = T;

  /* An input iterator: what it gives is a value. */
  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = const T *;
    using reference = T;

    iterator(const Array *array, std::size_t at) : array_(array), at_(at) {}
    iterator operator+(difference_type n) const {
      return iterator(array_, at_ + static_cast<std::size_t>(n));
    }
    difference_type offset() const { return static_cast<difference_type>(at_); }
    T operator*() const { return (*array_)[at_]; }
    iterator &operator++() {
      ++at_;
      return *this;
    }
    iterator operator++(int) { return iterator(array_, at_++); }
    iterator &operator--() {
      --at_;
      return *this;
    }
    bool operator==(const iterator &other) const { return at_ == other.at_; }
    bool operator!=(const iterator &other) const { return at_ != other.at_; }

   private:
    const Array *array_;
    std::size_t at_;
  };

  Array() = default;       /* null, which has no items */
  Array(std::nullptr_t) {} /* NOLINT: as in TVM */
  explicit Array(detail::Owned array) : ObjectRef(array, kTypeCode) {}
  Array(std::initializer_list<T> items) : Array(std::vector<T>(items)) {} /* NOLINT */
  Array(const std::vector<T> &items) : ObjectRef(Make(items)) {}          /* NOLINT */
  template <typename Iterator, typename = std::enable_if_t<!std::is_integral_v<Iterator>>>
  Array(Iterator begin, Iterator end) : Array(std::vector<T>(begin, end)) {}
  Array(std::size_t count, const T &item) : Array(std::vector<T>(count, item)) {}

  std::size_t size() const {
    return defined() ? static_cast<std::size_t>(
                           detail::RuntimeFunction("runtime.ArraySize")(*this).operator int64_t())
                     : 0;
  }
  bool empty() const { return size() == 0; }
  T operator[](std::size_t i) const {
    if (!defined()) throw InternalError("Array: index " + std::to_string(i) + " of 0 items");
    return detail::FromPacked<T>(detail::RuntimeFunction("runtime.ArrayGetItem")(*this, i));
  }
  T front() const { return (*this)[0]; }
  T back() const { return (*this)[size() - 1]; }
  iterator begin() const { return iterator(this, 0); }
  iterator end() const { return iterator(this, size()); }
  std::reverse_iterator<iterator> rbegin() const { return std::make_reverse_iterator(end()); }
  std::reverse_iterator<iterator> rend() const { return std::make_reverse_iterator(begin()); }
  operator std::vector<T>() const { return std::vector<T>(begin(), end()); } /* NOLINT */

  /* Each takes as long as there are items; for many, fill a std::vector first. */
  void push_back(const T &item) {
    std::vector<T> items = *this;
    items.push_back(item);
    *this = Array(items);
  }
  void Set(std::size_t i, const T &item) {
    std::vector<T> items = *this;
    if (i >= items.size())
      throw InternalError("Array: index " + std::to_string(i) + " of " +
                          std::to_string(items.size()) + " items");
    items[i] = item;
    *this = Array(items);
  }
  void pop_back() { erase(At(size() - 1)); }
  void insert(iterator place, const T &item) {
    std::vector<T> items = *this;
    if (place.offset() < 0 || static_cast<std::size_t>(place.offset()) > items.size())
      throw InternalError("Array: cannot insert at " + std::to_string(place.offset()) + " of " +
                          std::to_string(items.size()) + " items");
    items.insert(items.begin() + place.offset(), item);
    *this = Array(items);
  }
  void erase(iterator place) { erase(place, At(static_cast<std::size_t>(place.offset()) + 1)); }
  void erase(iterator first, iterator last) {
    std::vector<T> items = *this;
    if (first.offset() < 0 || first.offset() > last.offset() ||
        static_cast<std::size_t>(last.offset()) > items.size())
      throw InternalError("Array: cannot erase items " + std::to_string(first.offset()) + " to " +
                          std::to_string(last.offset()) + " of " + std::to_string(items.size()));
    items.erase(items.begin() + first.offset(), items.begin() + last.offset());
    *this = Array(items);
  }
  void resize(std::size_t count) {
    std::vector<T> items = *this;
    items.resize(count);
    *this = Array(items);
  }
  void clear() { *this = Array(std::vector<T>()); }
  void reserve(std::size_t) {} /* nothing that could be kept free */
  /* What `f` makes of each item. */
  template <typename F, typename U = std::decay_t<std::invoke_result_t<F, T>>>
  Array<U> Map(F f) const {
    std::vector<U> items;
    for (const T &item : static_cast<std::vector<T>>(*this)) items.push_back(f(item));
    return Array<U>(items);
  }

 private:
  iterator At(std::size_t i) const { return iterator(this, i); }
  static ObjectRef Make(const std::vector<T> &items) {
    return detail::CallWithList("runtime.Array", items.size(), [&](const TVMArgsSetter &set) {
      std::size_t i = 0;
      for (const T &item : items) set(i++, item);
    });
  }
};

MBLOB_FACE_END

namespace tvm {
using runtime::Array;
}

#endif /* TVM_RUNTIME_CONTAINER_ARRAY_H_ */
