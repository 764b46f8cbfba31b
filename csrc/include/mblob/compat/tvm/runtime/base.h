/* base.h - what C that TVM 0.22 and later write includes for its macros; c_runtime_api.h has
 * them. */
#ifndef TVM_RUNTIME_BASE_H_
#define TVM_RUNTIME_BASE_H_

#include <tvm/runtime/c_runtime_api.h>

#ifndef TVM_RUNTIME_DLL
#define TVM_RUNTIME_DLL TVM_DLL
#endif

#endif /* TVM_RUNTIME_BASE_H_ */
