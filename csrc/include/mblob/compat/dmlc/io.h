/* io.h - dmlc::Stream under the path of dmlc-core: what NDArray::Save and Load, and SaveToBinary
 * of modules take. Installed by `make install COMPAT=1` only: a real dmlc-core has a file of
 * this name.
 *
 * Numbers are little endian in a stream; texts and vectors begin with their size, a u64. */
#ifndef DMLC_IO_H_
#define DMLC_IO_H_

#include <tvm/runtime/array_stream.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#ifndef DMLC_IO_NO_ENDIAN_SWAP
#define DMLC_IO_NO_ENDIAN_SWAP (!::tvm::runtime::detail::kSwapsBytes)
#endif

namespace dmlc {

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
    } else if constexpr (std::is_same_v<T, std::string>) {
      Write(static_cast<uint64_t>(value.size()));
      if (!value.empty()) Write(value.data(), value.size());
    } else {
      WriteItems(value);
    }
  }
  /* Whether there was one. */
  template <typename T>
  bool Read(T *value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      if (Read(static_cast<void *>(value), sizeof(T)) != sizeof(T)) return false;
      tvm::runtime::detail::TurnNumbers(value, sizeof(T), 1);
      return true;
    } else if constexpr (std::is_same_v<T, std::string>) {
      return ReadText(value);
    } else {
      return ReadItems(value);
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
  template <typename T>
  void WriteItems(const std::vector<T> &values) {
    Write(static_cast<uint64_t>(values.size()));
    WriteArray(values.data(), values.size());
  }
  /* A size may lie: what is there grows with what was read. */
  template <typename T>
  bool ReadItems(std::vector<T> *values) {
    uint64_t count = 0;
    values->clear();
    if (!Read(&count)) return false;
    for (T value; values->size() < count;) {
      if (!Read(&value)) return false;
      values->push_back(std::move(value));
    }
    return true;
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
