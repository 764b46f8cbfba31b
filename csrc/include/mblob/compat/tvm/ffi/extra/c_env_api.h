/* c_env_api.h - functions of a module's imports: TVMFFIEnvModLookupFromImports, which c_api.h
 * has. */
#ifndef TVM_FFI_EXTRA_C_ENV_API_H_
#define TVM_FFI_EXTRA_C_ENV_API_H_

#include <tvm/ffi/c_api.h>

#endif /* TVM_FFI_EXTRA_C_ENV_API_H_ */
