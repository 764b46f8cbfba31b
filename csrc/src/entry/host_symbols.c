/* TVM's own names: those of c_backend_api.h and c_runtime_api.h, and the float16 helpers: those
 * that TVM's runtime exports beside them (src/runtime/builtin_fp16.cc), and what compilers call
 * for other types. `target="c"`, C of external code generators and float16 code leave them
 * undefined. Every TVM* function that libmblob exports is here; a test compares. */
#include "entry/entry.h"

#include <string.h>
#include <tvm/runtime/c_backend_api.h>

#include "base/base.h"

#if defined(__x86_64__)
#define NAMES_OF_X86(NAME) NAME(__extendhfxf2) NAME(__truncxfhf2)
#else
#define NAMES_OF_X86(NAME)
#endif

#define NAMES(NAME)                           \
  NAME(TVMAPISetLastError)                    \
  NAME(TVMArrayAlloc)                         \
  NAME(TVMArrayCopyFromBytes)                 \
  NAME(TVMArrayCopyFromTo)                    \
  NAME(TVMArrayCopyToBytes)                   \
  NAME(TVMArrayFree)                          \
  NAME(TVMArrayFromDLPack)                    \
  NAME(TVMArrayToDLPack)                      \
  NAME(TVMBackendAllocWorkspace)              \
  NAME(TVMBackendAnyListMoveFromPackedReturn) \
  NAME(TVMBackendAnyListResetItem)            \
  NAME(TVMBackendAnyListSetPackedArg)         \
  NAME(TVMBackendFreeWorkspace)               \
  NAME(TVMBackendGetFuncFromEnv)              \
  NAME(TVMBackendParallelBarrier)             \
  NAME(TVMBackendParallelLaunch)              \
  NAME(TVMBackendRegisterEnvCAPI)             \
  NAME(TVMBackendRegisterSystemLibSymbol)     \
  NAME(TVMBackendRunOnce)                     \
  NAME(TVMByteArrayFree)                      \
  NAME(TVMCFuncSetReturn)                     \
  NAME(TVMCbArgToReturn)                      \
  NAME(TVMDLManagedTensorCallDeleter)         \
  NAME(TVMDeviceAllocDataSpace)               \
  NAME(TVMDeviceAllocDataSpaceWithScope)      \
  NAME(TVMDeviceCopyDataFromTo)               \
  NAME(TVMDeviceFreeDataSpace)                \
  NAME(TVMFuncCall)                           \
  NAME(TVMFuncCreateFromCFunc)                \
  NAME(TVMFuncFree)                           \
  NAME(TVMFuncGetGlobal)                      \
  NAME(TVMFuncListGlobalNames)                \
  NAME(TVMFuncRegisterGlobal)                 \
  NAME(TVMFuncRemoveGlobal)                   \
  NAME(TVMGetLastError)                       \
  NAME(TVMModFree)                            \
  NAME(TVMModGetFunction)                     \
  NAME(TVMModImport)                          \
  NAME(TVMModLoadFromFile)                    \
  NAME(TVMObjectDerivedFrom)                  \
  NAME(TVMObjectFree)                         \
  NAME(TVMObjectGetTypeIndex)                 \
  NAME(TVMObjectRetain)                       \
  NAME(TVMObjectTypeIndex2Key)                \
  NAME(TVMObjectTypeKey2Index)                \
  NAME(TVMSetStream)                          \
  NAME(TVMStreamCreate)                       \
  NAME(TVMStreamFree)                         \
  NAME(TVMStreamStreamSynchronize)            \
  NAME(TVMSynchronize)                        \
  NAME(__extendhfdf2)                         \
  NAME(__extendhfsf2)                         \
  NAME(__gnu_f2h_ieee)                        \
  NAME(__gnu_h2f_ieee)                        \
  NAME(__truncdfhf2)                          \
  NAME(__truncsfhf2)                          \
  NAMES_OF_X86(NAME)

#define TEXT(name) #name "\0"
#define ADDRESS(name) (mb_code) name,

const char mblob_runtime_names[] = MB_NAMES_FOR("all") NAMES(TEXT);
static const mb_code functions[] = {NULL, NAMES(ADDRESS)};

void *mb_host_symbol(const char *name) {
  return mb_code_of(mblob_runtime_names, "all", name, functions,
                    sizeof(functions) / sizeof(*functions));
}
