/* string.h - String: text that cannot be changed; copies share it. It may hold zero bytes: such
 * a String is passed to functions as bytes, others as text. Where an ObjectRef is wanted it
 * becomes one, an object with a copy of it. */
#ifndef TVM_RUNTIME_CONTAINER_STRING_H_
#define TVM_RUNTIME_CONTAINER_STRING_H_

#include <tvm/runtime/cxx_base.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

MBLOB_FACE_BEGIN

class ObjectRef;
/* What `->` of a String shows, and pointers to one that is an object: `data` and `size`. */
class MBLOB_HIDDEN StringObj : public TVMByteArray {
 public:
  static constexpr const char *_type_key = "runtime.String";
  static constexpr uint32_t RuntimeTypeIndex() { return 3; }
};

class MBLOB_HIDDEN String {
 public:
  using ContainerType = StringObj;

  String() : String(std::string()) {}
  String(std::string text)
      : shared_(std::make_shared<Shared>(std::move(text))) {} /* NOLINT: as in TVM */
  String(const char *text) : String(std::string(text)) {}     /* NOLINT */
  String(const char *data, std::size_t size) : String(std::string(data, size)) {}
  String(std::size_t count, char c) : String(std::string(count, c)) {}
  explicit String(ObjectRef object); /* one of runtime.String, which the String then is */
  explicit String(const StringObj *object);
  /* Never moved from: there is always a text. */
  String(const String &) = default;
  String &operator=(const String &) = default;
  String &operator=(const std::string &text) { return *this = String(text); }
  String &operator=(const char *text) { return *this = String(text); }

  const char *c_str() const { return text().c_str(); }
  const char *data() const { return c_str(); }
  std::size_t size() const { return text().size(); }
  std::size_t length() const { return size(); }
  bool empty() const { return text().empty(); }
  char at(std::size_t i) const { return text().at(i); }
  /* -1, 0 or 1: char by char, zero bytes as any other, then by the size. */
  int compare(const String &other) const {
    const std::string &a = text(), &b = other.text();
    const std::size_t both = std::min(a.size(), b.size());
    for (std::size_t i = 0; i < both; ++i)
      if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    return a.size() == b.size() ? 0 : a.size() < b.size() ? -1 : 1;
  }
  operator std::string() const { return text(); } /* NOLINT */
  operator ObjectRef() const;                     /* NOLINT: as in TVM, where it is one */
  const ObjectRef &object() const;                /* the same, made when it is first needed */
  bool defined() const { return true; }
  bool same_as(const String &other) const;
  bool same_as(const ObjectRef &other) const;
  const StringObj *operator->() const { return get(); }
  const StringObj *get() const { return &shared_->bytes; }
  /* The text with its size; as long as this String or a copy of it. */
  TVMByteArray *bytes() const { return const_cast<StringObj *>(get()); }

  friend bool operator==(const String &a, const String &b) { return a.text() == b.text(); }
  friend bool operator!=(const String &a, const String &b) { return a.text() != b.text(); }
  friend bool operator<(const String &a, const String &b) { return a.compare(b) < 0; }
  friend bool operator>(const String &a, const String &b) { return b < a; }
  friend bool operator<=(const String &a, const String &b) { return !(b < a); }
  friend bool operator>=(const String &a, const String &b) { return !(a < b); }
  friend String operator+(const String &a, const String &b) { return String(a.text() + b.text()); }
  friend std::ostream &operator<<(std::ostream &os, const String &s) { return os << s.text(); }

 private:
  struct Shared {
    explicit Shared(std::string given)
        : text(std::move(given)), bytes{{text.data(), text.size()}} {}
    Shared(const Shared &) = delete;
    Shared &operator=(const Shared &) = delete;
    const std::string text;
    const StringObj bytes;
    std::once_flag once; /* when `object` was made */
    std::shared_ptr<const ObjectRef> object;
  };

  const std::string &text() const { return shared_->text; }

  std::shared_ptr<Shared> shared_;
};

MBLOB_FACE_END

namespace tvm {
using runtime::String;
}

template <>
struct std::hash<tvm::runtime::String> {
  std::size_t operator()(const tvm::runtime::String &s) const noexcept {
    return std::hash<std::string_view>()({s.data(), s.size()});
  }
};

#endif /* TVM_RUNTIME_CONTAINER_STRING_H_ */
