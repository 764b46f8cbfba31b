// C++ that leaves the runtime's functions undefined: constructors that call it, exceptions,
// threads.
#include <tvm/runtime/c_backend_api.h>

#include <stdexcept>
#include <string>
#include <thread>

namespace {
struct Early {
  void *block = TVMBackendAllocWorkspace(1, 0, 128, 2, 32);
  ~Early() { (void)TVMBackendFreeWorkspace(1, 0, block); }
} early;
thread_local std::string mine = "thrown here";
}  // namespace

extern "C" TVM_DLL int throws(TVMValue *, int *, int, TVMValue *, int *, void *) {
  try {
    throw std::runtime_error(mine);
  } catch (const std::exception &error) {
    TVMAPISetLastError(error.what());
    return -1;
  }
}

extern "C" TVM_DLL int early_and_threads(TVMValue *, int *, int, TVMValue *ret, int *ret_code,
                                         void *) {
  bool there = false;
  std::thread([&there] {
    void *block = TVMBackendAllocWorkspace(1, 0, 8, 2, 32), *none = nullptr;
    there = block && !TVMBackendFreeWorkspace(1, 0, block) && !TVMFuncGetGlobal("no.such", &none) &&
            !none;
  }).join();
  ret->v_int64 = early.block && there;
  *ret_code = kTVMArgInt;
  return 0;
}
