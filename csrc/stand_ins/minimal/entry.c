/* The table of MBLOB_PROFILE_MINIMAL, in place of entry/profile_full.c: nothing but what kernels call. */
#include <tvm/runtime/c_backend_api.h>

#include "elf/elf.h"
#include "entry/entry.h"

/* In the order of the slots of the classic dialect (elf/slots.c). */
static const mb_code of_slots[] = {
    (mb_code)TVMFuncCall,
    (mb_code)TVMAPISetLastError,
    (mb_code)TVMBackendGetFuncFromEnv,
    (mb_code)TVMBackendAllocWorkspace,
    (mb_code)TVMBackendFreeWorkspace,
    (mb_code)TVMBackendParallelLaunch,
    (mb_code)TVMBackendParallelBarrier,
};

void *mb_host_symbol(const char *name) {
  void *found = NULL;
  for (size_t i = 0; i < sizeof(of_slots) / sizeof(*of_slots); i++)
    if (strcmp(mb_slot_name(i) + strlen("__"), name) == 0)
      memcpy(&found, &of_slots[i], sizeof(found));
  return found;
}

const struct mb_profile mb_profile = {.symbol = mb_host_symbol};
