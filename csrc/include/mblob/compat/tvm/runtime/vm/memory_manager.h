/* memory_manager.h - AllocatorType, where it is in TVM 0.7 to 0.13. */
#ifndef TVM_RUNTIME_VM_MEMORY_MANAGER_H_
#define TVM_RUNTIME_VM_MEMORY_MANAGER_H_

#include <tvm/runtime/memory/memory_manager.h>

namespace tvm {
namespace runtime {
namespace vm {
using memory::AllocatorType;
using memory::kNaive;
using memory::kPooled;
}  // namespace vm
}  // namespace runtime
}  // namespace tvm

#endif /* TVM_RUNTIME_VM_MEMORY_MANAGER_H_ */
