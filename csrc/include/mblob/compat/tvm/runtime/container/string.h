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

class String {
 public:
  using ContainerType = class StringObj;

  String() : String(std::string()) {}
  String(std::string text)
      : shared_(std::make_shared<const Shared>(std::move(text))) {} /* NOLINT: as in TVM */
  String(const char *text) : String(std::string(text)) {}           /* NOLINT */
  String(const char *data, std::size_t size) : String(std::string(data, size)) {}
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
  int compare(const String &other) const { return text().compare(other.text()); }
  operator std::string() const { return text(); } /* NOLINT */
  operator ObjectRef() const;                     /* NOLINT: as in TVM, where it is one */
  /* The text with its size; as long as this String or a copy of it. */
  TVMByteArray *bytes() const { return const_cast<TVMByteArray *>(&shared_->bytes); }

  friend bool operator==(const String &a, const String &b) { return a.text() == b.text(); }
  friend bool operator!=(const String &a, const String &b) { return a.text() != b.text(); }
  friend bool operator<(const String &a, const String &b) { return a.text() < b.text(); }
  friend bool operator>(const String &a, const String &b) { return b < a; }
  friend bool operator<=(const String &a, const String &b) { return !(b < a); }
  friend bool operator>=(const String &a, const String &b) { return !(a < b); }
  friend String operator+(const String &a, const String &b) { return String(a.text() + b.text()); }
  friend std::ostream &operator<<(std::ostream &os, const String &s) { return os << s.text(); }

 private:
  struct Shared {
    explicit Shared(std::string given) : text(std::move(given)), bytes{text.data(), text.size()} {}
    Shared(const Shared &) = delete;
    Shared &operator=(const Shared &) = delete;
    const std::string text;
    const TVMByteArray bytes;
  };

  const std::string &text() const { return shared_->text; }

  std::shared_ptr<const Shared> shared_;
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
