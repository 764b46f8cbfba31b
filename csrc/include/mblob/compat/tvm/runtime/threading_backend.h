/* threading_backend.h - the runtime's thread pool for C++ programs: how many threads it has, and
 * loops on it. */
#ifndef TVM_RUNTIME_THREADING_BACKEND_H_
#define TVM_RUNTIME_THREADING_BACKEND_H_

#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/packed_func.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

MBLOB_FACE_BEGIN

namespace threading {

class MBLOB_HIDDEN ThreadGroup {
 public:
  enum AffinityMode : int {
    kBig = 1,
    kLittle = -1,
    kSpecifyOneCorePerThread = -2,
    kSpecifyThreadShareAllCore = -3
  };
};

inline void Yield() { std::this_thread::yield(); }
/* Tasks of a loop that asks for no number; both names of TVM. */
inline int NumThreads() { return detail::RuntimeFunction("runtime.NumThreads")(); }
inline int MaxConcurrency() { return NumThreads(); }
/* `nthreads` 0: one for each of `cpus`; without those what the environment says. Threads are not
 * bound to processors, which the scheduler chooses. */
inline void Configure(ThreadGroup::AffinityMode mode, int nthreads,
                      const std::vector<unsigned> &cpus = {}, int = 0) {
  if (nthreads == 0) nthreads = static_cast<int>(cpus.size());
  (void)detail::RuntimeFunction("runtime.config_threadpool")(static_cast<int>(mode), nthreads);
}
/* Threads that are idle cost nothing, and those of a parent are not used after a fork: there is
 * nothing to do. */
inline void ResetThreadPool() {}

}  // namespace threading

/* f(task_id, num_task) in every task of one loop. What a task throws is the error of the loop. */
template <typename F>
void parallel_launch_with_threading_backend(F f) {
  const FTVMParallelLambda task = [](int task_id, TVMParallelGroupEnv *env,
                                     void *data) noexcept -> int {
    try {
      (*static_cast<F *>(data))(task_id, static_cast<int>(env->num_task));
      return 0;
    } catch (...) {
      return detail::ReportException();
    }
  };
  detail::CheckCall(TVMBackendParallelLaunch(task, &f, 0));
}

/* f(i) for every i from `begin` up to `end`, which is not reached; each task has a row of them. */
template <typename F>
void parallel_for_with_threading_backend(F f, int64_t begin, int64_t end) {
  parallel_launch_with_threading_backend([&f, begin, end](int task_id, int num_task) {
    const int64_t step = (end - begin + num_task - 1) / num_task;
    const int64_t first = std::min(end, begin + task_id * step), last = std::min(end, first + step);
    for (int64_t i = first; i < last; ++i) f(i);
  });
}

MBLOB_FACE_END

#endif /* TVM_RUNTIME_THREADING_BACKEND_H_ */
