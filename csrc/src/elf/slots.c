/* The names of the variables that a loader fills. */
#include <stddef.h>

#include "elf/elf.h"

#define SLOT_NAMES(NAME)                         \
  NAME(0, "__TVMFuncCall")                       \
  NAME(1, "__TVMAPISetLastError")                \
  NAME(2, "__TVMBackendGetFuncFromEnv")          \
  NAME(3, "__TVMBackendAllocWorkspace")          \
  NAME(4, "__TVMBackendFreeWorkspace")           \
  NAME(5, "__TVMBackendParallelLaunch")          \
  NAME(6, "__TVMBackendParallelBarrier")         \
  NAME(7, "__TVMFFIFunctionCall")                \
  NAME(8, "__TVMFFIErrorSetRaisedFromCStr")      \
  NAME(9, "__TVMFFIErrorSetRaisedFromCStrParts") \
  NAME(10, "__TVMFFIEnvModLookupFromImports")    \
  NAME(11, "__TVMFFIHandleInitOnce")             \
  NAME(12, "__tvm_module_ctx")                   \
  NAME(13, "__tvm_ffi_library_ctx")              \
  NAME(14, "__tvm_ffi__library_ctx")

/* Texts and numbers, in which nothing has to be relocated. */
#define MEMBER(i, name) char name_##i[sizeof(name)];
#define SLOT_TEXT(i, name) .name_##i = name,
#define PLACE(i, name) [i] = offsetof(struct texts, name_##i),

struct texts {
  SLOT_NAMES(MEMBER)
};
static const struct texts texts = {SLOT_NAMES(SLOT_TEXT)};
static const uint16_t places[MB_SLOTS_AND_CONTEXTS] = {SLOT_NAMES(PLACE)};

const char *mb_slot_name(size_t i) { return (const char *)&texts + places[i]; }
