/* map.h - Map<K, V>: values by key, counted by the runtime; any function can be given one, or
 * give one. Keys are texts or numbers, or objects, which are equal when they are the same
 * object. Items keep the order in which they were given. Changing a Map makes another one. */
#ifndef TVM_RUNTIME_CONTAINER_MAP_H_
#define TVM_RUNTIME_CONTAINER_MAP_H_

#include <tvm/runtime/container/optional.h>
#include <tvm/runtime/packed_func.h>

#include <initializer_list>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

MBLOB_FACE_BEGIN

template <typename K, typename V>
class MBLOB_HIDDEN Map : public ObjectRef {
 public:
  static constexpr unsigned kTypeIndex = 5;
  using key_type = K;
  using mapped_type = V;
  using value_type = std::pair<K, V>;

  /* Over the items as they were when it was made. */
  class iterator {
   public:
    iterator(std::shared_ptr<const std::vector<value_type>> items, std::size_t at)
        : items_(std::move(items)), at_(at) {}
    const value_type &operator*() const { return (*items_)[at_]; }
    const value_type *operator->() const { return &(*items_)[at_]; }
    iterator &operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const iterator &other) const { return at_ == other.at_; }
    bool operator!=(const iterator &other) const { return at_ != other.at_; }

   private:
    std::shared_ptr<const std::vector<value_type>> items_;
    std::size_t at_;
  };

  Map() = default;       /* null, which has no items */
  Map(std::nullptr_t) {} /* NOLINT: as in TVM */
  explicit Map(detail::Owned map) : ObjectRef(map, kTypeCode) {}
  Map(std::initializer_list<value_type> items) : Map(items.begin(), items.end()) {} /* NOLINT */
  /* From pairs of keys and values, such as those of a std::map. */
  template <typename Iterator>
  Map(Iterator begin, Iterator end) : Map(FromItems(std::vector<value_type>(begin, end))) {}
  template <typename Hash, typename Equal>
  Map(const std::unordered_map<K, V, Hash, Equal> &items) /* NOLINT: as in TVM */
      : Map(items.begin(), items.end()) {}

  std::size_t size() const {
    return defined() ? static_cast<std::size_t>(
                           detail::RuntimeFunction("runtime.MapSize")(*this).operator int64_t())
                     : 0;
  }
  bool empty() const { return size() == 0; }
  std::size_t count(const K &key) const {
    return defined() && detail::RuntimeFunction("runtime.MapCount")(*this, key).operator bool() ? 1
                                                                                                : 0;
  }
  V at(const K &key) const {
    if (!defined()) throw InternalError("Map: the map is null");
    return detail::FromPacked<V>(detail::RuntimeFunction("runtime.MapGetItem")(*this, key));
  }
  V operator[](const K &key) const { return at(key); }
  Optional<V> Get(const K &key) const { return count(key) ? Optional<V>(at(key)) : Optional<V>(); }
  iterator begin() const { return iterator(Items(), 0); }
  iterator end() const { return iterator(nullptr, size()); }
  iterator find(const K &key) const {
    auto items = Items();
    std::size_t i = 0;
    while (i < items->size() && !((*items)[i].first == key)) ++i;
    return iterator(std::move(items), i);
  }
  /* Takes as long as there are items; for many, fill a std::map first. */
  void Set(const K &key, const V &value) {
    std::vector<value_type> items = *Items();
    items.emplace_back(key, value); /* the last one of a key counts */
    *this = FromItems(items);
  }
  void erase(const K &key) {
    std::vector<value_type> items;
    const auto before = Items();
    for (const value_type &item : *before)
      if (!(item.first == key)) items.push_back(item);
    *this = FromItems(items);
  }
  void clear() { *this = FromItems({}); }

 private:
  static Map FromItems(const std::vector<value_type> &items) {
    Map map;
    static_cast<ObjectRef &>(map) =
        detail::CallWithList("runtime.Map", 2 * items.size(), [&](const TVMArgsSetter &set) {
          std::size_t i = 0;
          for (const value_type &item : items) {
            set(i++, item.first);
            set(i++, item.second);
          }
        });
    return map;
  }
  std::shared_ptr<const std::vector<value_type>> Items() const {
    auto items = std::make_shared<std::vector<value_type>>();
    if (!defined()) return items;
    const PackedFunc get = detail::RuntimeFunction("runtime.ArrayGetItem");
    const ObjectRef row = detail::RuntimeFunction("runtime.MapItems")(*this);
    for (std::size_t i = 0, n = size(); i < n; ++i)
      items->emplace_back(detail::FromPacked<K>(get(row, 2 * i)),
                          detail::FromPacked<V>(get(row, 2 * i + 1)));
    return items;
  }
};

/* The items of both; where both have a key, that of `b`. */
template <typename K, typename V>
Map<K, V> Merge(Map<K, V> a, const Map<K, V> &b) {
  for (const auto &item : b) a.Set(item.first, item.second);
  return a;
}

MBLOB_FACE_END

namespace tvm {
using runtime::Map;
using runtime::Merge;
}  // namespace tvm

#endif /* TVM_RUNTIME_CONTAINER_MAP_H_ */
