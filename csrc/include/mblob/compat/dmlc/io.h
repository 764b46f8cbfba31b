/* io.h - dmlc::Stream under the path of dmlc-core: what NDArray::Save and Load, and SaveToBinary
 * of modules take. Installed by `make install COMPAT=1` only: a real dmlc-core has a file of
 * this name.
 *
 * Numbers are little endian in a stream; texts and containers begin with their size, a u64. A struct
 * without pointers is its memory, and so is a pair of two such values. Of other pairs both values
 * follow each other. */
#ifndef DMLC_IO_H_
#define DMLC_IO_H_

#include <tvm/runtime/array_stream.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#ifndef DMLC_IO_NO_ENDIAN_SWAP
#define DMLC_IO_NO_ENDIAN_SWAP (!::tvm::runtime::detail::kSwapsBytes)
#endif

namespace dmlc {

class Stream;

/* True if a value is stored as its memory; true if a class has Save and Load. */
template <typename T>
struct is_pod {
  static constexpr bool value =
      std::is_trivial_v<T> && std::is_standard_layout_v<T> && !std::is_pointer_v<T>;
};
template <typename T>
struct has_saveload {
  static constexpr bool value = false;
};
#define DMLC_DECLARE_TRAITS(Trait, Type, Value)           \
  template <>                                             \
  struct Trait<Type> {                                    \
    [[maybe_unused]] static constexpr bool value = Value; \
  }

namespace detail {

/* What a container stores: of a map, pairs without const. */
template <typename T>
struct Item {
  using type = T;
};
template <typename K, typename V>
struct Item<std::pair<const K, V>> {
  using type = std::pair<K, V>;
};

template <typename T>
struct IsPair : std::false_type {};
template <typename A, typename B>
struct IsPair<std::pair<A, B>> : std::true_type {};

template <typename T, typename = void>
struct IsContainer : std::false_type {};
template <typename T>
struct IsContainer<T, std::void_t<decltype(std::declval<T &>().insert(
                          std::declval<T &>().end(), std::declval<typename T::value_type>()))>>
    : std::true_type {};

template <typename T, typename = void>
struct IsSaved : has_saveload<T> {};
template <typename T>
struct IsSaved<T, std::void_t<decltype(std::declval<const T &>().Save(std::declval<Stream *>())),
                              decltype(std::declval<T &>().Load(std::declval<Stream *>()))>>
    : std::true_type {};

template <typename T>
inline constexpr bool kIsText = std::is_same_v<T, std::string>;
/* Numbers and structs, which are their memory. */
template <typename T>
inline constexpr bool kIsMemory =
    is_pod<T>::value && (DMLC_IO_NO_ENDIAN_SWAP || std::is_arithmetic_v<T>);

}  // namespace detail

class Stream {
 public:
  virtual ~Stream() = default;
  /* Bytes read: fewer than `size` at the end only. */
  virtual std::size_t Read(void *data, std::size_t size) = 0;
  /* Bytes written. */
  virtual std::size_t Write(const void *data, std::size_t size) = 0;

  /* A file of this machine; `flag` is "r", "w" or "a". Throws, or null with `allow_null`. */
  static Stream *Create(const char *path, const char *flag, bool allow_null = false);

  template <typename T>
  void Write(const T &value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      tvm::runtime::detail::WriteNumber(this, value);
    } else if constexpr (detail::kIsText<T>) {
      Write(static_cast<uint64_t>(value.size()));
      if (!value.empty()) Write(value.data(), value.size());
    } else if constexpr (detail::kIsMemory<T>) {
      Write(static_cast<const void *>(&value), sizeof(T));
    } else if constexpr (detail::IsPair<T>::value) {
      WritePair(value);
    } else if constexpr (detail::IsContainer<T>::value) {
      Write(static_cast<uint64_t>(value.size()));
      using Item = typename detail::Item<typename T::value_type>::type;
      for (const auto &item : value) Write(static_cast<const Item &>(item));
    } else {
      static_assert(detail::IsSaved<T>::value, "a value that no dmlc::Stream can hold");
      value.Save(this);
    }
  }
  /* True if there was one. */
  template <typename T>
  bool Read(T *value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      if (Read(static_cast<void *>(value), sizeof(T)) != sizeof(T)) return false;
      tvm::runtime::detail::TurnNumbers(value, sizeof(T), 1);
      return true;
    } else if constexpr (detail::kIsText<T>) {
      return ReadText(value);
    } else if constexpr (detail::kIsMemory<T>) {
      return Read(static_cast<void *>(value), sizeof(T)) == sizeof(T);
    } else if constexpr (detail::IsPair<T>::value) {
      return ReadPair(value);
    } else if constexpr (detail::IsContainer<T>::value) {
      return ReadItems(value);
    } else {
      static_assert(detail::IsSaved<T>::value, "a value that no dmlc::Stream can hold");
      return LoadObject(value);
    }
  }
  template <typename T>
  void WriteArray(const T *values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) Write(values[i]);
  }
  template <typename T>
  bool ReadArray(T *values, std::size_t count) {
    std::size_t i = 0;
    while (i < count && Read(&values[i])) ++i;
    return i == count;
  }

 private:
  /* A pair of such values is the memory of the pair. What is between the two is written as zeros. */
  template <typename A, typename B>
  static constexpr bool kIsMemoryPair =
      detail::kIsMemory<A> && detail::kIsMemory<B> && DMLC_IO_NO_ENDIAN_SWAP;
  template <typename A, typename B>
  static std::size_t OffsetOfSecond(const std::pair<A, B> &pair) {
    return static_cast<std::size_t>(reinterpret_cast<const char *>(&pair.second) -
                                    reinterpret_cast<const char *>(&pair));
  }
  template <typename A, typename B>
  void WritePair(const std::pair<A, B> &pair) {
    if constexpr (kIsMemoryPair<A, B>) {
      char memory[sizeof(pair)] = {};
      std::memcpy(memory, &pair.first, sizeof(A));
      std::memcpy(memory + OffsetOfSecond(pair), &pair.second, sizeof(B));
      Write(static_cast<const void *>(memory), sizeof(memory));
    } else {
      Write(pair.first);
      Write(pair.second);
    }
  }
  template <typename A, typename B>
  bool ReadPair(std::pair<A, B> *pair) {
    if constexpr (kIsMemoryPair<A, B>) {
      char memory[sizeof(*pair)];
      if (Read(static_cast<void *>(memory), sizeof(memory)) != sizeof(memory)) return false;
      std::memcpy(&pair->first, memory, sizeof(A));
      std::memcpy(&pair->second, memory + OffsetOfSecond(*pair), sizeof(B));
      return true;
    } else {
      return Read(&pair->first) && Read(&pair->second);
    }
  }
  template <typename T>
  bool ReadItems(T *values);
  template <typename T>
  bool LoadObject(T *value) {
    if constexpr (std::is_void_v<decltype(value->Load(this))>) {
      value->Load(this);
      return true;
    } else {
      return value->Load(this);
    }
  }
  bool ReadText(std::string *text) {
    uint64_t size = 0;
    char piece[4096];
    text->clear();
    if (!Read(&size)) return false;
    while (text->size() < size) {
      const uint64_t left = size - text->size();
      const std::size_t wanted =
          left < sizeof(piece) ? static_cast<std::size_t>(left) : sizeof(piece);
      if (Read(static_cast<void *>(piece), wanted) != wanted) return false;
      text->append(piece, wanted);
    }
    return true;
  }
};

namespace detail {

/* A stream that knows whether more was asked for than it has. */
class EndingStream final : public Stream {
 public:
  explicit EndingStream(Stream *stream) : stream_(stream) {}
  using Stream::Read;
  using Stream::Write;
  std::size_t Read(void *data, std::size_t size) override {
    const std::size_t found = stream_->Read(data, size);
    has_ended_ = has_ended_ || found < size;
    return found;
  }
  std::size_t Write(const void *data, std::size_t size) override {
    return stream_->Write(data, size);
  }
  bool has_ended() const { return has_ended_; }

 private:
  Stream *stream_;
  bool has_ended_ = false;
};

}  // namespace detail

/* A size may lie: what is there grows with what was read. A class need not say that it read nothing. */
template <typename T>
bool Stream::ReadItems(T *values) {
  using Item = typename detail::Item<typename T::value_type>::type;
  uint64_t count = 0;
  values->clear();
  if (!Read(&count)) return false;
  detail::EndingStream stream(this);
  for (; count > 0 && !stream.has_ended(); --count) {
    Item value{};
    if constexpr (detail::kIsMemory<Item> || detail::kIsText<Item>) {
      if (!Read(&value)) return false;
    } else {
      if (!stream.Read(&value)) return false;
    }
    values->insert(values->end(), std::move(value));
  }
  return count == 0;
}

class SeekStream : public Stream {
 public:
  virtual void Seek(std::size_t position) = 0;
  virtual std::size_t Tell() = 0;
  /* As Stream::Create, to read. */
  static SeekStream *CreateForRead(const char *path, bool allow_null = false);
};

class Serializable {
 public:
  virtual ~Serializable() = default;
  virtual void Load(Stream *stream) = 0;
  virtual void Save(Stream *stream) const = 0;
};

namespace detail {

class FileStream : public SeekStream {
 public:
  using Stream::Read;
  using Stream::Write;
  explicit FileStream(std::FILE *file) : file_(file, std::fclose) {}
  std::size_t Read(void *data, std::size_t size) override {
    return std::fread(data, 1, size, file_.get());
  }
  std::size_t Write(const void *data, std::size_t size) override {
    const std::size_t written = std::fwrite(data, 1, size, file_.get());
    if (written != size) throw Error("dmlc::Stream: the file takes no more bytes");
    return written;
  }
  void Seek(std::size_t position) override {
    if (std::fseek(file_.get(), static_cast<long>(position), SEEK_SET) != 0)
      throw Error("dmlc::SeekStream: no position " + std::to_string(position));
  }
  std::size_t Tell() override { return static_cast<std::size_t>(std::ftell(file_.get())); }

  static FileStream *Open(const char *path, const std::string &flag, bool allow_null) {
    std::FILE *file = std::fopen(path, (flag.substr(0, 1) + "b").c_str());
    if (file) return new FileStream(file);
    if (!allow_null) throw Error(std::string("dmlc::Stream: ") + path + " cannot be opened");
    return nullptr;
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> file_;
};

}  // namespace detail

inline Stream *Stream::Create(const char *path, const char *flag, bool allow_null) {
  return detail::FileStream::Open(path, flag, allow_null);
}
inline SeekStream *SeekStream::CreateForRead(const char *path, bool allow_null) {
  return detail::FileStream::Open(path, "r", allow_null);
}

}  // namespace dmlc

/* Streams over memory, and loaders of modules that read from them. */
#include <dmlc/memory_io.h>

#endif /* DMLC_IO_H_ */
