// logging_test, threading_backend_test, random_engine_test, profiling_test and parallel_for_test of
// TVM 0.14, in words of our own.
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/logging.h>
#include <tvm/runtime/profiling.h>
#include <tvm/runtime/threading_backend.h>
#include <tvm/support/parallel_for.h>
#include <tvm/support/random_engine.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "cases.h"

using tvm::runtime::detail::TvmLogDebugSettings;
using tvm::support::LinearCongruentialEngine;
using tvm::support::parallel_for;
using tvm::support::parallel_for_dynamic;

// ---- logging

CASE(TvmLogDebugSettings, Disabled) {
  for (const char *spec : {static_cast<const char *>(nullptr), "", "0"})
    EXPECT(!TvmLogDebugSettings::ParseSpec(spec).dlog_enabled());
}

CASE(TvmLogDebugSettings, DlogOnly) {
  const auto settings = TvmLogDebugSettings::ParseSpec("1");
  EXPECT(settings.dlog_enabled() && !settings.VerboseEnabled("a/src/b.cc", 0));
}

CASE(TvmLogDebugSettings, VLogEnabledDefault) {
  const auto settings = TvmLogDebugSettings::ParseSpec("DEFAULT=3");
  EXPECT(settings.dlog_enabled() && settings.VerboseEnabled("a/src/foo/bar.cc", 3));
  EXPECT(!settings.VerboseEnabled("a/src/foo/bar.cc", 4));
}

CASE(TvmLogDebugSettings, VLogEnabledComplex) {
  const auto settings =
      TvmLogDebugSettings::ParseSpec("foo/bar.cc=3,baz.cc=-1,DEFAULT=2,another/file.cc=4");
  EXPECT(settings.dlog_enabled() && settings.VerboseEnabled("a/src/foo/bar.cc", 3));
  EXPECT(!settings.VerboseEnabled("a/src/foo/bar.cc", 4));
  EXPECT(settings.VerboseEnabled("a/src/foo/other.cc", 2));
  EXPECT(!settings.VerboseEnabled("a/src/foo/other.cc", 3));
  EXPECT(!settings.VerboseEnabled("a/src/baz.cc", 0));
}

CASE(TvmLogDebugSettings, IllFormed) {
  const auto error = [](const char *spec) {
    return Thrown([spec] { (void)TvmLogDebugSettings::ParseSpec(spec); });
  };
  const std::string start = "TVM_LOG_DEBUG ill-formed at position ";
  EXPECT(Has(error("foo/bar.cc=bogus;"), start + "11: invalid level: \"bogus;\""));
  EXPECT(Has(error("DEFAULT=2;bar/baz.cc=2"), start + "8: invalid level: \"2;bar/baz.cc=2\""));
  EXPECT(Has(error("DEFAULT=2,bar/baz.cc+2"),
             start + "22: expecting \"=<level>\" after \"bar/baz.cc+2\""));
}

CASE(TvmLogDebugSettings, SpecPrefix) {
  const auto settings = TvmLogDebugSettings::ParseSpec(
      "../src/foo/bar.cc=3,src/baz.cc=3,foo/bar/src/another/file.cc=4");
  EXPECT(settings.dlog_enabled());
  for (const char *file : {"a/src/foo/bar.cc", "foo/bar.cc", "a/src/baz.cc", "baz.cc"})
    EXPECT(settings.VerboseEnabled(file, 3));
  for (const char *file : {"a/src/another/file.cc", "another/file.cc"})
    EXPECT(settings.VerboseEnabled(file, 4));
}

// ---- threads

namespace {

constexpr std::size_t kNumbers = 128;

int AddNumbers(int task, TVMParallelGroupEnv *env, void *data) {
  auto *sum = static_cast<std::atomic<std::size_t> *>(data);
  const std::size_t each = (kNumbers + static_cast<std::size_t>(env->num_task) - 1) /
                           static_cast<std::size_t>(env->num_task);
  const std::size_t first = static_cast<std::size_t>(task) * each;
  for (std::size_t i = first; i < kNumbers && i < first + each; ++i) sum->fetch_add(i);
  return 0;
}

void SumIsRight() {
  std::atomic<std::size_t> sum(0);
  EXPECT(TVMBackendParallelLaunch(AddNumbers, &sum, 0) == 0);
  EXPECT(sum == kNumbers * (kNumbers - 1) / 2);
}

struct Tasks {
  std::atomic<int> most{0};
};
int CountTasks(int, TVMParallelGroupEnv *env, void *data) {
  static_cast<Tasks *>(data)->most = static_cast<int>(env->num_task);
  return 0;
}

}  // namespace

CASE(ThreadingBackend, TVMBackendParallelLaunch) { SumIsRight(); }

CASE(ThreadingBackend, TVMBackendParallelLaunchMultipleThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([] {
      for (int k = 0; k < 3; ++k) SumIsRight();
    });
  for (std::thread &thread : threads) thread.join();
}

CASE(ThreadingBackend, TVMBackendAffinityConfigure) {
  using tvm::runtime::threading::ThreadGroup;
  const int most = tvm::runtime::threading::MaxConcurrency();
  if (most <= 1) return;
  const int each = most / 2;
  std::vector<unsigned> cpus;
  for (int i = 0; i < each; ++i) cpus.push_back(static_cast<unsigned>(i));
  for (const auto mode :
       {ThreadGroup::kSpecifyOneCorePerThread, ThreadGroup::kSpecifyThreadShareAllCore}) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i)
      threads.emplace_back([&] {
        tvm::runtime::threading::Configure(mode, 0, cpus);
        SumIsRight();
        Tasks tasks;
        EXPECT(TVMBackendParallelLaunch(CountTasks, &tasks, 0) == 0 && tasks.most == each);
      });
    for (std::thread &thread : threads) thread.join();
  }
}

// ---- support

CASE(RandomEngine, Randomness) {
  int64_t state = 0;
  LinearCongruentialEngine engine(&state);
  engine.Seed(0x114514);
  bool seen[100] = {};
  for (int i = 0; i < 100000; ++i) seen[engine() % 100] = true;
  for (bool one : seen) EXPECT(one);
}

CASE(RandomEngine, Reproducibility) {
  int64_t first = 0, second = 0;
  LinearCongruentialEngine a(&first), b(&second);
  a.Seed(42);
  b.Seed(42);
  std::minstd_rand standard(42);
  for (int i = 0; i < 100000; ++i) {
    const auto number = a();
    EXPECT(number == b() && number == standard());
  }
}

CASE(RandomEngine, Serialization) {
  int64_t first = 0, second = 0;
  LinearCongruentialEngine a(&first), b(&second);
  a.Seed(77);
  for (int round = 0; round < 2; ++round) {
    second = first;
    for (int i = 0; i < 10000; ++i) EXPECT(a() == b());
    for (int i = 0; i < 1234; ++i) (void)a();
  }
}

CASE(DefaultTimer, Basic) {
  tvm::runtime::Timer timer = tvm::runtime::Timer::Start(tvm::Device{kDLCPU, 0});
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  timer->Stop();
  EXPECT(timer->SyncAndGetElapsedNanos() > 9000000);
}

CASE(ParallelFor, Basic) {
  std::vector<int> b(1000);
  for (int count : {10, 1000}) {
    parallel_for(0, count, [&](int i) { b[static_cast<std::size_t>(i)] = i; });
    for (int i = 0; i < count; ++i) EXPECT(b[static_cast<std::size_t>(i)] == i);
  }
  parallel_for(0, 1000, [&](int i) { b[static_cast<std::size_t>(i)] *= 2; }, 2);
  for (int i = 0; i < 1000; ++i) EXPECT(b[static_cast<std::size_t>(i)] == (i % 2 ? i : 2 * i));
}

CASE(ParallelFor, NestedWithNormalForLoop) {
  static int products[50][50];
  parallel_for(0, 50, [](int i) {
    for (int j = 0; j < 50; ++j) products[i][j] = i * j;
  });
  for (int i = 0; i < 50; ++i) parallel_for(0, 50, [i](int j) { EXPECT(products[i][j] == i * j); });
}

CASE(ParallelFor, NestedWithParallelFor) {
  (void)Thrown<std::exception>(
      [] { parallel_for(0, 100, [](int) { parallel_for(0, 100, [](int) {}); }); });
}

CASE(ParallelFor, Exception) {
  EXPECT(Has(Thrown<std::exception>([] { parallel_for(0, 100, [](int) { LOG(FATAL) << "no"; }); }),
             "no"));
}

CASE(ParallelForDynamic, Basic) {
  std::vector<int> a(1000);
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  parallel_for_dynamic(0, 1000, threads, [&](int, int i) { a[static_cast<std::size_t>(i)] = i; });
  for (int i = 0; i < 1000; ++i) EXPECT(a[static_cast<std::size_t>(i)] == i);
}

CASE(ParallelForDynamic, ExceptionOnMain) {
  (void)Thrown<std::exception>([] {
    parallel_for_dynamic(0, 10, 1, [](int thread, int) {
      if (thread == 0) LOG(FATAL) << "Error";
    });
  });
}

CASE(ParallelForDynamic, ExceptionOnArbitrary) {
  (void)Thrown<std::exception>(
      [] { parallel_for_dynamic(0, 100, 3, [](int, int) { LOG(FATAL) << "Error"; }); });
}
