/* relax.h - Relax's virtual machine: what the rest of the runtime sees of it. */
#ifndef MB_RELAX_H
#define MB_RELAX_H

#include "core/call/call.h"
#include "core/library/library.h"

/* Keys relax.VMExecutable, and relax.Executable of TVM 0.16 to 0.19. */
extern const struct mb_class mb_relax_executable_class, mb_relax_executable_of_0_16_class;

/* Tables of global functions: vm.builtin.*, and those that open code which is in no library. */
extern const struct mb_method relax_executable_functions[], relax_memory_functions[],
    relax_shape_functions[], relax_check_functions[], relax_closure_functions[];

#endif
