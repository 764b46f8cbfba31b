/* cxx_base.h - what the C++ headers of this folder stand on.
 *
 * They are TVM's C++ face for hosts (names and meaning of TVM 0.7 - 0.19), written over TVM's C
 * API alone: header-only, C++17, nothing to link but libmblob. Objects are handles of that API,
 * and every reference that an object holds is one reference of it.
 *
 * The two modes of c_runtime_api.h hold here too: everything is a host, which links libmblob (or
 * is opened by it), but for kernels, which the packager compiles with MBLOB_KERNEL. The classes
 * live in an inline namespace of their own, so that neither the two modes nor a real TVM in the
 * process are taken for one another by the linker. */
#ifndef TVM_RUNTIME_CXX_BASE_H_
#define TVM_RUNTIME_CXX_BASE_H_

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "the C++ headers of tvm/runtime need C++17: -std=c++17"
#endif

#include <tvm/runtime/c_runtime_api.h>

#if MBLOB_KERNEL_MODE
#define MBLOB_FACE kernel_face
#else
#define MBLOB_FACE host_face
#endif

#define MBLOB_FACE_BEGIN \
  namespace tvm {        \
  namespace runtime {    \
  inline namespace MBLOB_FACE {
#define MBLOB_FACE_END \
  }                    \
  }                    \
  }

#ifndef TVM_ATTRIBUTE_UNUSED
#define TVM_ATTRIBUTE_UNUSED __attribute__((unused))
#endif
#define TVM_STR_CONCAT_(x, y) x##y
#define TVM_STR_CONCAT(x, y) TVM_STR_CONCAT_(x, y)

namespace tvm {
using Device = DLDevice;
namespace runtime {
using Device = DLDevice;
}
}  // namespace tvm

#endif /* TVM_RUNTIME_CXX_BASE_H_ */
