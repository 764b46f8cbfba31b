/* executor_info.h - the names of executors. */
#ifndef TVM_RUNTIME_EXECUTOR_INFO_H_
#define TVM_RUNTIME_EXECUTOR_INFO_H_

namespace tvm {
namespace runtime {
static constexpr const char *kTvmExecutorGraph = "graph";
static constexpr const char *kTvmExecutorAot = "aot";
}  // namespace runtime
}  // namespace tvm

#endif /* TVM_RUNTIME_EXECUTOR_INFO_H_ */
