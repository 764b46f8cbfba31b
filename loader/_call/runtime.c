/* runtime.c - the TVM C API functions of libmblob, never those of another TVM in the process.
 *
 * A plain reference to TVMArrayFree would bind to whichever library came first into the global
 * scope. dlsym on the handle of libmblob itself looks there first. */
#define _GNU_SOURCE
#include "call.h"

#include <dlfcn.h>
#include <string.h>

call_runtime call_tvm;

static bool lookup(void *library, const char *name, void *out) {
  void *address = dlsym(library, name);
  if (address == NULL) {
    PyErr_Format(PyExc_ImportError, "libmblob.so has no %s: %s; build mblob again", name,
                 dlerror());
    return false;
  }
  memcpy(out, &address, sizeof address); /* ISO C has no cast from void * to a function pointer */
  return true;
}

bool call_runtime_bind(void) {
  if (mblob_abi_version() != MBLOB_ABI_VERSION) {
    PyErr_Format(PyExc_ImportError,
                 "libmblob.so has ABI version %u, this module was built for %u; build mblob again",
                 (unsigned)mblob_abi_version(), (unsigned)MBLOB_ABI_VERSION);
    return false;
  }
  Dl_info info;
  uint32_t (*known)(void) = mblob_abi_version;
  void *address;
  memcpy(&address, &known, sizeof address);
  if (dladdr(address, &info) == 0 || info.dli_fname == NULL) {
    PyErr_SetString(PyExc_ImportError, "libmblob.so cannot be found in the process");
    return false;
  }
  void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) {
    PyErr_Format(PyExc_ImportError, "%s: %s", info.dli_fname, dlerror());
    return false;
  }
  bool ok = lookup(library, "TVMCFuncSetReturn", &call_tvm.set_return) &&
            lookup(library, "TVMArrayFree", &call_tvm.array_free) &&
            lookup(library, "TVMArrayAlloc", &call_tvm.array_alloc) &&
            lookup(library, "TVMArrayCopyFromTo", &call_tvm.copy_from_to) &&
            lookup(library, "TVMArrayFromDLPack", &call_tvm.from_dlpack) &&
            lookup(library, "TVMArrayToDLPack", &call_tvm.to_dlpack) &&
            lookup(library, "TVMSynchronize", &call_tvm.synchronize) &&
            lookup(library, "TVMObjectFree", &call_tvm.object_free) &&
            lookup(library, "TVMObjectGetTypeIndex", &call_tvm.object_type) &&
            lookup(library, "TVMBackendRegisterEnvCAPI", &call_tvm.register_hook);
  dlclose(library); /* stays loaded: this module links against it */
  return ok;
}
