/* memory_manager.h - AllocatorType, where it is in TVM 0.12 and 0.13. */
#ifndef TVM_RUNTIME_RELAX_VM_MEMORY_MANAGER_H_
#define TVM_RUNTIME_RELAX_VM_MEMORY_MANAGER_H_

#include <tvm/runtime/memory/memory_manager.h>

namespace tvm {
namespace runtime {
namespace relax_vm {
using memory::AllocatorType;
using memory::kNaive;
using memory::kPooled;
}  // namespace relax_vm
}  // namespace runtime
}  // namespace tvm

#endif /* TVM_RUNTIME_RELAX_VM_MEMORY_MANAGER_H_ */
