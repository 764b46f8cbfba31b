/* cxx_base.h - what the C++ headers of this folder stand on.
 *
 * They are TVM's C++ face for hosts (names and meaning of TVM 0.7 - 0.19), written over TVM's C
 * API alone: header-only, C++17, nothing to link but libmblob. Objects are handles of that API,
 * and every reference that an object holds is one reference of it.
 *
 * The two modes of c_runtime_api.h hold here too: everything is a host, which links libmblob (or
 * is opened by it), but for kernels, which the packager compiles with MBLOB_KERNEL.
 *
 * Classes and functions have TVM's names, and hidden visibility: each shared library and program has
 * its own, so they and those of a real TVM in the process are not taken for one another. */
#ifndef TVM_RUNTIME_CXX_BASE_H_
#define TVM_RUNTIME_CXX_BASE_H_

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "the C++ headers of tvm/runtime need C++17: -std=c++17"
#endif

#include <tvm/runtime/c_runtime_api.h>

/* Standard headers that TVM's own bring along. */
#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#if MBLOB_KERNEL_MODE
#define MBLOB_FACE kernel_face
#else
#define MBLOB_FACE host_face
#endif

/* Of a class that a program may have declared before, which the namespace's visibility misses. */
#define MBLOB_HIDDEN __attribute__((visibility("hidden")))
#define MBLOB_FACE_BEGIN \
  namespace tvm {        \
  namespace runtime MBLOB_HIDDEN {
#define MBLOB_FACE_END \
  }                    \
  }

/* A program's class with a member or base of these classes is hidden, too; g++ says so for each. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wattributes"
#endif

#ifndef TVM_ATTRIBUTE_UNUSED
#define TVM_ATTRIBUTE_UNUSED __attribute__((unused))
#endif
#define TVM_STR_CONCAT_(x, y) x##y
#define TVM_STR_CONCAT(x, y) TVM_STR_CONCAT_(x, y)

#define TVM_ALWAYS_INLINE inline __attribute__((always_inline))
#define TVM_NO_INLINE __attribute__((noinline))

namespace tvm {
using Device = DLDevice;
namespace runtime {
using Device = DLDevice;
}
}  // namespace tvm

#endif /* TVM_RUNTIME_CXX_BASE_H_ */
