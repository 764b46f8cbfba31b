/* Another runtime in the process: it exports TVM's names, and whoever calls them is told off. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FAKE(name)                                                     \
  int name(void);                                                      \
  int name(void) {                                                     \
    (void)fputs("the other runtime's " #name " was called\n", stderr); \
    abort();                                                           \
  }

FAKE(TVMAPISetLastError)
FAKE(TVMBackendAllocWorkspace)
FAKE(TVMBackendFreeWorkspace)
FAKE(TVMBackendGetFuncFromEnv)
FAKE(TVMBackendParallelBarrier)
FAKE(TVMBackendParallelLaunch)
FAKE(TVMFuncCall)
FAKE(TVMFuncGetGlobal)
FAKE(__extendhfdf2)
FAKE(__extendhfsf2)
FAKE(__extendhfxf2)
FAKE(__gnu_f2h_ieee)
FAKE(__gnu_h2f_ieee)
FAKE(__truncdfhf2)
FAKE(__truncsfhf2)
FAKE(__truncxfhf2)

/* What this library itself gets under that name: its own function, whatever was loaded before. */
void *own_call(void);
void *own_call(void) { return (void *)(uintptr_t)TVMFuncCall; }
