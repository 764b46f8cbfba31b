/* TVM's own names: those of c_backend_api.h and c_runtime_api.h, and the float16 helpers: those that TVM's
 * runtime exports beside them (src/runtime/builtin_fp16.cc), and what compilers call for other types. `target="c"`, C of external code generators and float16
 * code leave them undefined. Every TVM* function that libmblob exports is here; a test compares. */
#include "host_symbols.h"

#include <string.h>
#include <tvm/runtime/c_backend_api.h>

#include "float16.h"

typedef void (*function)(void);

#define SYMBOL(name) \
  { #name, (function)name }

static const struct {
  const char *name;
  function address;
} symbols[] = {
    SYMBOL(TVMAPISetLastError),
    SYMBOL(TVMArrayAlloc),
    SYMBOL(TVMArrayCopyFromBytes),
    SYMBOL(TVMArrayCopyFromTo),
    SYMBOL(TVMArrayCopyToBytes),
    SYMBOL(TVMArrayFree),
    SYMBOL(TVMArrayFromDLPack),
    SYMBOL(TVMArrayToDLPack),
    SYMBOL(TVMBackendAllocWorkspace),
    SYMBOL(TVMBackendAnyListMoveFromPackedReturn),
    SYMBOL(TVMBackendAnyListResetItem),
    SYMBOL(TVMBackendAnyListSetPackedArg),
    SYMBOL(TVMBackendFreeWorkspace),
    SYMBOL(TVMBackendGetFuncFromEnv),
    SYMBOL(TVMBackendParallelBarrier),
    SYMBOL(TVMBackendParallelLaunch),
    SYMBOL(TVMBackendRegisterEnvCAPI),
    SYMBOL(TVMBackendRegisterSystemLibSymbol),
    SYMBOL(TVMBackendRunOnce),
    SYMBOL(TVMByteArrayFree),
    SYMBOL(TVMCFuncSetReturn),
    SYMBOL(TVMCbArgToReturn),
    SYMBOL(TVMDLManagedTensorCallDeleter),
    SYMBOL(TVMDeviceAllocDataSpace),
    SYMBOL(TVMDeviceAllocDataSpaceWithScope),
    SYMBOL(TVMDeviceCopyDataFromTo),
    SYMBOL(TVMDeviceFreeDataSpace),
    SYMBOL(TVMFuncCall),
    SYMBOL(TVMFuncCreateFromCFunc),
    SYMBOL(TVMFuncFree),
    SYMBOL(TVMFuncGetGlobal),
    SYMBOL(TVMFuncListGlobalNames),
    SYMBOL(TVMFuncRegisterGlobal),
    SYMBOL(TVMFuncRemoveGlobal),
    SYMBOL(TVMGetLastError),
    SYMBOL(TVMModFree),
    SYMBOL(TVMModGetFunction),
    SYMBOL(TVMModImport),
    SYMBOL(TVMModLoadFromFile),
    SYMBOL(TVMObjectDerivedFrom),
    SYMBOL(TVMObjectFree),
    SYMBOL(TVMObjectGetTypeIndex),
    SYMBOL(TVMObjectRetain),
    SYMBOL(TVMObjectTypeIndex2Key),
    SYMBOL(TVMObjectTypeKey2Index),
    SYMBOL(TVMSetStream),
    SYMBOL(TVMStreamCreate),
    SYMBOL(TVMStreamFree),
    SYMBOL(TVMStreamStreamSynchronize),
    SYMBOL(TVMSynchronize),
    SYMBOL(__extendhfdf2),
    SYMBOL(__extendhfsf2),
#if defined(__x86_64__)
    SYMBOL(__extendhfxf2),
    SYMBOL(__truncxfhf2),
#endif
    SYMBOL(__gnu_f2h_ieee),
    SYMBOL(__gnu_h2f_ieee),
    SYMBOL(__truncdfhf2),
    SYMBOL(__truncsfhf2),
};

void *mb_host_symbol(const char *name) {
  for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
    if (strcmp(name, symbols[i].name) != 0) continue;
    void *address;
    memcpy(&address, &symbols[i].address, sizeof(address));
    return address;
  }
  return NULL;
}

const char *mb_slot_name(size_t i) {
  static const char *const names[MB_SLOTS + 1] = {
      "__TVMFuncCall",
      "__TVMAPISetLastError",
      "__TVMBackendGetFuncFromEnv",
      "__TVMBackendAllocWorkspace",
      "__TVMBackendFreeWorkspace",
      "__TVMBackendParallelLaunch",
      "__TVMBackendParallelBarrier",
      "__tvm_module_ctx",
  };
  return names[i];
}
