/* For libmblob-ffi.a, which programs link together with libmblob.a: names that both define have
 * another one here. The compiler includes this file before all others (-include). */
#ifndef MBLOB_PLUGINS_STATIC_NAMES_H_
#define MBLOB_PLUGINS_STATIC_NAMES_H_

#define mb_fail mb_ffi_fail
#define mb_fail_argument mb_ffi_fail_argument
#define mb_fail_format mb_ffi_fail_format
#define mb_fail_memory mb_ffi_fail_memory
#define mblob_runtime_names mb_ffi_runtime_names
/* So that a program that links libmblob.a and libmblob-ffi.so does not take this for that of the
 * shared library: gold and mold refuse a hidden reference to it. */
#define __mblob_plugin_ffi __mblob_static_plugin_ffi

#endif
