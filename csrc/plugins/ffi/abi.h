/* abi.h - values, objects and functions as libraries of TVM 0.21 and later pass them (docs/ffi.md).
 *
 * Numbers of types are those of 0.22 and later everywhere here; mb_type_of_releases turns them into
 * those of 0.21 and back. */
#ifndef MB_FFI_ABI_H
#define MB_FFI_ABI_H

#include <mblob/dlpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As base/argument_types.h has them, which who includes both is told of: kernels need this file alone. */
#define MB_E4M3_FLOAT8 6
#define MB_E5M2_FLOAT8 7
#define MB_FLOAT8_E3M4 128

/* What the type field of a value says. */
enum mb_any_type {
  MB_ANY_NONE = 0,
  MB_ANY_INT = 1,
  MB_ANY_BOOL = 2,
  MB_ANY_FLOAT = 3,
  MB_ANY_POINTER = 4,
  MB_ANY_DTYPE = 5,
  MB_ANY_DEVICE = 6,
  MB_ANY_TENSOR_VIEW = 7, /* DLTensor *, borrowed */
  MB_ANY_C_STRING = 8,    /* const char *, borrowed */
  MB_ANY_BYTES_VIEW = 9,  /* struct mb_text *, borrowed */
  MB_ANY_MOVED = 10,      /* object **, of which the callee may take the object */
  MB_ANY_SMALL_STRING = 11,
  MB_ANY_SMALL_BYTES = 12,
  MB_ANY_OBJECT = 64, /* the first of those that are counted */
  MB_ANY_STRING = 65,
  MB_ANY_BYTES = 66,
  MB_ANY_ERROR = 67,
  MB_ANY_FUNCTION = 68,
  MB_ANY_SHAPE = 69,
  MB_ANY_TENSOR = 70,
  MB_ANY_ARRAY = 71,
  MB_ANY_MAP = 72,
  MB_ANY_MODULE = 73,
  MB_ANY_OPAQUE = 74, /* an object of the caller's language, which others only pass on */
  MB_ANY_LIST = 75,
  MB_ANY_DICT = 76,
  MB_ANY_BIG_INT = 78,
};

#define MB_SMALL_TEXT 7 /* bytes of a text that a value itself holds */

struct mb_any {
  int32_t type;
  uint32_t size; /* of a small text, else 0 */
  union {
    int64_t i64;
    double f64;
    void *pointer;
    DLDataType dtype;
    DLDevice device;
    char text[8];
  } u;
};

/* Texts and bytes; what a string object has behind its header. A string ends with a NUL that is
 * not counted. */
struct mb_text {
  const char *data;
  size_t size;
};

/* 0, or -1 with the error kept for the thread. The caller sets the type of `result` to
 * MB_ANY_NONE before. */
typedef int (*mb_safe_call)(void *handle, const struct mb_any *args, int32_t count,
                            struct mb_any *result);

struct mb_function_cell {
  mb_safe_call call;
  void *cpp_call; /* of C++ libraries among themselves; NULL here */
};

struct mb_shape_cell {
  const int64_t *extents;
  size_t count;
};

struct mb_error_cell {
  struct mb_text kind, message, backtrace;
  void (*update_backtrace)(void *self, const struct mb_text *backtrace, int32_t mode);
  void *cause, *context; /* objects, or NULL */
};

/* TVM 0.21; 0.22 and later, whose objects are laid out otherwise. */
enum mb_releases { MB_RELEASES_0_21, MB_RELEASES_0_22 };

/* From a number of 0.22 to that of the releases, and back: shape and array, tensor and map changed
 * places. */
static inline int32_t mb_type_of_releases(enum mb_releases releases, int32_t type) {
  if (releases == MB_RELEASES_0_22 || type < MB_ANY_SHAPE || type > MB_ANY_MAP) return type;
  return type < MB_ANY_ARRAY ? type + 2 : type - 2;
}

/* The codes of DLPack, which callees know, and those of the runtime, where 6 and 7 are TVM
 * 0.15's two 8-bit floats: flags are uint1 there (here, too, up to 0.21), and float8_e3m4 has a
 * code of its own.
 *
 * What the caller of a function describes, a DLTensor or a DLDataType, already has the codes of
 * the callee, or one of those two. */

static inline DLDataType mb_dtype_of_releases(enum mb_releases releases, DLDataType dtype) {
  if (dtype.code == MB_FLOAT8_E3M4) dtype.code = kDLFloat8_e3m4;
  bool is_flag = releases == MB_RELEASES_0_22 && dtype.code == kDLUInt && dtype.bits == 1;
  return is_flag ? (DLDataType){kDLBool, 8, dtype.lanes} : dtype;
}

/* What the runtime itself has: counted arrays, items of containers, results of its functions. */
static inline DLDataType mb_dtype_to_releases(enum mb_releases releases, DLDataType dtype) {
  if (dtype.code == MB_E4M3_FLOAT8)
    dtype.code = kDLFloat8_e4m3fn;
  else if (dtype.code == MB_E5M2_FLOAT8)
    dtype.code = kDLFloat8_e5m2;
  return mb_dtype_of_releases(releases, dtype);
}

static inline DLDataType mb_dtype_of_runtime(enum mb_releases releases, DLDataType dtype) {
  if (dtype.code == kDLFloat8_e3m4) dtype.code = MB_FLOAT8_E3M4;
  return releases == MB_RELEASES_0_22 && dtype.code == kDLBool
             ? (DLDataType){kDLUInt, 1, dtype.lanes}
             : dtype;
}

#endif
