/* binary_loader.h - LoadFromBinary and SaveToBinary of C++ modules: what <dmlc/io.h> adds to
 * TVM_REGISTER_GLOBAL("runtime.module.loadbinary_KEY").
 *
 * Where a file includes <dmlc/io.h> before it registers such a function, the function is also the
 * loader of the type key. It gets a dmlc::Stream over the mapped file. In a library without an
 * index, the payload ends where the function ends to read; then it is called twice. When a module
 * is exported, its node is asked to SaveToBinary. The include path must have <mblob.h>, as that of
 * the pkg-config package mblob-tvm and that of COMPAT=1 do. */
#ifndef MBLOB_COMPAT_BINARY_LOADER_H_
#define MBLOB_COMPAT_BINARY_LOADER_H_

#include <dmlc/memory_io.h>

#if __has_include(<mblob.h>)
#include <mblob.h>
#include <tvm/runtime/registry.h>

#include <exception>
#include <new>
#include <string>

MBLOB_FACE_BEGIN
namespace detail {

/* The bytes of a mapped file, which nobody writes to. */
class MappedStream : public dmlc::MemoryFixedSizeStream {
 public:
  using Stream::Write;
  MappedStream(const void *data, std::size_t size)
      : MemoryFixedSizeStream(const_cast<void *>(data), size) {}
  std::size_t Write(const void *, std::size_t) override {
    throw InternalError("LoadFromBinary: its stream is for reading");
  }
};

/* The module that the function makes of the bytes, and how many of them it read. */
inline Module LoadBinary(const PackedFunc &load, const void *bytes, std::size_t size,
                         std::size_t *end) {
  MappedStream stream(bytes, size);
  Module module = load(static_cast<void *>(static_cast<dmlc::Stream *>(&stream)));
  if (!module.defined()) throw InternalError("LoadFromBinary returned no module");
  *end = stream.Tell();
  return module;
}

/* The status of `body`, or that of an error with the text of what it threw, behind `where`. */
template <typename F>
int Caught(const std::string &where, F body) {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return mblob_set_error(MBLOB_E_MEMORY, (where + "out of memory").c_str());
  } catch (const std::exception &error) {
    return mblob_set_error(MBLOB_E_KERNEL, (where + error.what()).c_str());
  }
}

inline int MeasureBinary(void *load, const void *bytes, std::size_t size, std::size_t *out) {
  return Caught("", [&]() -> int {
    (void)LoadBinary(*static_cast<PackedFunc *>(load), bytes, size, out);
    return MBLOB_OK;
  });
}

inline int OpenBinary(void *load, const mblob_module_info *info, void **self) {
  return Caught(std::string("LoadFromBinary of '") + info->type_key + "': ", [&]() -> int {
    std::size_t end = 0;
    const std::size_t size = static_cast<std::size_t>(info->payload_size);
    Module module = LoadBinary(*static_cast<PackedFunc *>(load), info->payload, size, &end);
    if (end != size)
      throw InternalError("read " + std::to_string(end) + " of " + std::to_string(size) + " bytes");
    *self = new Module(std::move(module));
    return MBLOB_OK;
  });
}

inline int FunctionOfBinary(void *self, const char *name, mblob_function **out) {
  auto *module = static_cast<mblob_module *>(static_cast<Module *>(self)->handle());
  const int status = mblob_module_function(module, name, 0, out);
  return status == MBLOB_E_NOT_FOUND ? MBLOB_OK : status;
}

inline void CloseBinary(void *self) { delete static_cast<Module *>(self); }

using Write = int (*)(void *, const void *, std::size_t);

inline int SaveNode(ModuleNode *node, void *write, void *to) {
  std::string bytes;
  dmlc::MemoryStringStream stream(&bytes);
  node->SaveToBinary(&stream);
  return reinterpret_cast<Write>(write)(to, bytes.data(), bytes.size());
}

inline int SaveBinary(void *self, Write write, void *to) {
  return Caught("", [&]() -> int {
    return WithNode(*static_cast<Module *>(self), [&](ModuleNode &node) {
      return SaveNode(&node, reinterpret_cast<void *>(write), to);
    });
  });
}

/* The loader lives as long as the process, as its code does. */
inline void RegisterBinaryLoader(const std::string &key, const PackedFunc &load) {
  mblob_loader loader = {};
  loader.struct_size = sizeof(loader);
  loader.type_key = key.c_str();
  loader.context = new PackedFunc(load);
  loader.open = OpenBinary;
  loader.function = FunctionOfBinary;
  loader.close = CloseBinary;
  loader.measure = MeasureBinary;
  loader.save = SaveBinary;
  if (mblob_register_loader(&loader)) throw InternalError(mblob_last_error());
}

static const bool kLoadsBinaries TVM_ATTRIBUTE_UNUSED =
    (BinaryLoaderHook() = RegisterBinaryLoader, BinarySaverHook() = SaveNode, true);

}  // namespace detail
MBLOB_FACE_END

#endif /* __has_include(<mblob.h>) */
#endif /* MBLOB_COMPAT_BINARY_LOADER_H_ */
