/* memory_manager.h - the kinds of allocators that a program asks a virtual machine for. */
#ifndef TVM_RUNTIME_MEMORY_MEMORY_MANAGER_H_
#define TVM_RUNTIME_MEMORY_MEMORY_MANAGER_H_

namespace tvm {
namespace runtime {
namespace memory {

/* An argument of a virtual machine's `init` and `vm_initialization`: whether memory of one run is kept
 * for the next (kPooled). */
enum AllocatorType { kNaive = 1, kPooled = 2 };

}  // namespace memory
}  // namespace runtime
}  // namespace tvm

#endif /* TVM_RUNTIME_MEMORY_MEMORY_MANAGER_H_ */
