/* parallel_for.h - loops over threads of their own. What an iteration throws is thrown by the loop,
 * after all threads have ended. Loops within loops are refused, as in TVM. */
#ifndef TVM_SUPPORT_PARALLEL_FOR_H_
#define TVM_SUPPORT_PARALLEL_FOR_H_

#include <tvm/runtime/logging.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tvm {
namespace support MBLOB_HIDDEN {
namespace detail {

/* True if this thread runs an iteration. */
inline bool &InLoop() {
  static thread_local bool in_loop = false;
  return in_loop;
}

/* body(thread) on `count` threads, the caller's among them. */
inline void RunThreads(int count, const std::function<void(int)> &body) {
  if (InLoop()) throw runtime::InternalError("parallel_for: a loop within a loop");
  std::mutex mutex;
  std::exception_ptr first;
  const auto run = [&](int thread) {
    InLoop() = true;
    try {
      body(thread);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!first) first = std::current_exception();
    }
    InLoop() = false;
  };
  std::vector<std::thread> others;
  try {
    for (int i = 1; i < count; ++i) others.emplace_back(run, i);
  } catch (...) {
    const std::lock_guard<std::mutex> lock(mutex);
    first = std::current_exception();
  }
  run(0);
  for (std::thread &thread : others) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace detail

using PartitionerFuncType =
    std::function<std::vector<std::vector<int>>(int begin, int end, int step, int threads)>;

/* Iterations dealt out to threads one by one. */
inline std::vector<std::vector<int>> rr_partitioner(int begin, int end, int step, int threads) {
  std::vector<std::vector<int>> parts(static_cast<std::size_t>(std::max(threads, 1)));
  std::size_t next = 0;
  for (int64_t i = begin; i < end; i += step) {
    parts[next].push_back(static_cast<int>(i));
    next = (next + 1) % parts.size();
  }
  return parts;
}

/* f(i) for i = begin, begin + step, ... below `end`. */
inline void parallel_for(int begin, int end, const std::function<void(int)> &f, int step = 1,
                         const PartitionerFuncType partitioner = rr_partitioner) {
  if (step <= 0) throw runtime::InternalError("parallel_for: step is " + std::to_string(step));
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const auto parts = partitioner(begin, end, step, threads);
  detail::RunThreads(static_cast<int>(parts.size()), [&](int thread) {
    for (int i : parts[static_cast<std::size_t>(thread)]) f(i);
  });
}

/* f(thread, i) for i from `begin` on below `end`; each thread takes the next i when it is free. */
inline void parallel_for_dynamic(int begin, int end, int num_threads,
                                 const std::function<void(int thread_id, int task_id)> &f) {
  if (num_threads < 1)
    throw runtime::InternalError("parallel_for_dynamic: num_threads is " +
                                 std::to_string(num_threads));
  std::atomic<int64_t> next{begin};
  detail::RunThreads(num_threads, [&](int thread) {
    for (int64_t i; (i = next.fetch_add(1)) < end;) f(thread, static_cast<int>(i));
  });
}

}  // namespace support MBLOB_HIDDEN
}  // namespace tvm

#endif /* TVM_SUPPORT_PARALLEL_FOR_H_ */
