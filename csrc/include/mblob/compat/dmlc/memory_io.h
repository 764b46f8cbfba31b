/* memory_io.h - streams over memory, under the path of dmlc-core. Installed by `make install
 * COMPAT=1` only. */
#ifndef DMLC_MEMORY_IO_H_
#define DMLC_MEMORY_IO_H_

#include <dmlc/io.h>

#include <algorithm>
#include <cstring>

namespace dmlc {

/* Over `size` bytes that stay the caller's. */
class MemoryFixedSizeStream : public SeekStream {
 public:
  using Stream::Read;
  using Stream::Write;
  MemoryFixedSizeStream(void *data, std::size_t size)
      : data_(static_cast<char *>(data)), size_(size) {}
  std::size_t Read(void *data, std::size_t size) override {
    const std::size_t count = std::min(size, size_ - at_);
    if (count != 0) std::memcpy(data, data_ + at_, count);
    at_ += count;
    return count;
  }
  std::size_t Write(const void *data, std::size_t size) override {
    if (size > size_ - at_)
      throw Error("dmlc::MemoryFixedSizeStream: " + std::to_string(size) + " bytes from " +
                  std::to_string(at_) + " on, there are " + std::to_string(size_));
    if (size != 0) std::memcpy(data_ + at_, data, size);
    at_ += size;
    return size;
  }
  void Seek(std::size_t position) override { at_ = std::min(position, size_); }
  std::size_t Tell() override { return at_; }

 private:
  char *data_;
  std::size_t size_, at_ = 0;
};

/* Over a text that stays the caller's, and grows. */
class MemoryStringStream : public SeekStream {
 public:
  using Stream::Read;
  using Stream::Write;
  explicit MemoryStringStream(std::string *text) : text_(text) {}
  std::size_t Read(void *data, std::size_t size) override {
    const std::size_t count = at_ < text_->size() ? std::min(size, text_->size() - at_) : 0;
    if (count != 0) std::memcpy(data, text_->data() + at_, count);
    at_ += count;
    return count;
  }
  std::size_t Write(const void *data, std::size_t size) override {
    if (at_ > text_->size()) text_->resize(at_);
    if (size == 0) return 0;
    text_->replace(at_, std::min(size, text_->size() - at_), static_cast<const char *>(data), size);
    at_ += size;
    return size;
  }
  void Seek(std::size_t position) override { at_ = position; }
  std::size_t Tell() override { return at_; }

 private:
  std::string *text_;
  std::size_t at_ = 0;
};

}  // namespace dmlc

#include <tvm/runtime/binary_loader.h>

#endif /* DMLC_MEMORY_IO_H_ */
