/* argument_types.h - types of arguments and of elements. Made by mblob/argument_types.py. */
#ifndef MB_ARGUMENT_TYPES_H
#define MB_ARGUMENT_TYPES_H

#define MB_ARGUMENT_WORDS  \
  {"int", AS_INT, kTVMArgInt, 8 * sizeof(int)}, \
  {"int8", AS_INT, kTVMArgInt, 8}, \
  {"int16", AS_INT, kTVMArgInt, 16}, \
  {"int32", AS_INT, kTVMArgInt, 32}, \
  {"int64", AS_INT64, kTVMArgInt, 64}, \
  {"uint8", AS_INT, kTVMArgInt, 8}, \
  {"uint16", AS_INT, kTVMArgInt, 16}, \
  {"uint32", AS_UNSIGNED, kTVMArgInt, 32}, \
  {"uint64", AS_UINT64, kTVMArgInt, 64}, \
  {"bool", AS_INT, kTVMArgBool, 1}, \
  {"float32", AS_DOUBLE, kTVMArgFloat, 32}, \
  {"float64", AS_DOUBLE, kTVMArgFloat, 64}, \
  {"double", AS_DOUBLE, kTVMArgFloat, 64}, \
  {"str", AS_POINTER, kTVMStr, 0}, \
  {"handle", AS_POINTER, kTVMOpaqueHandle, 0}, \
  {"tensor", AS_POINTER, kTVMDLTensorHandle, 0}, \
  {"object", AS_POINTER, kTVMObjectHandle, 0}, \
  {"function", AS_POINTER, kTVMPackedFuncHandle, 0}, \
  {"module", AS_POINTER, kTVMModuleHandle, 0}
#define MB_ARGUMENT_WORD_SIZE 9
#define MB_ARGUMENT_WORDS_TEXT "int, int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool, float32, float64, double, str, handle, tensor, object, function, module, shape[dimensions], DTYPE[dimensions] or (TYPE, ...)"
#define MB_C_TYPES  \
  {"int8_t", kDLInt, 8}, \
  {"int_least8_t", kDLInt, 8}, \
  {"int16_t", kDLInt, 16}, \
  {"int_least16_t", kDLInt, 16}, \
  {"int32_t", kDLInt, 32}, \
  {"int_least32_t", kDLInt, 32}, \
  {"int64_t", kDLInt, 64}, \
  {"int_least64_t", kDLInt, 64}, \
  {"intmax_t", kDLInt, 64}, \
  {"int_fast64_t", kDLInt, 64}, \
  {"uint8_t", kDLUInt, 8}, \
  {"uint_least8_t", kDLUInt, 8}, \
  {"uint16_t", kDLUInt, 16}, \
  {"uint_least16_t", kDLUInt, 16}, \
  {"uint32_t", kDLUInt, 32}, \
  {"uint_least32_t", kDLUInt, 32}, \
  {"uint64_t", kDLUInt, 64}, \
  {"uint_least64_t", kDLUInt, 64}, \
  {"uintmax_t", kDLUInt, 64}, \
  {"uint_fast64_t", kDLUInt, 64}, \
  {"bool", kDLUInt, 1}, \
  {"_Bool", kDLUInt, 1}, \
  {"float", kDLFloat, 32}, \
  {"float32_t", kDLFloat, 32}, \
  {"double", kDLFloat, 64}, \
  {"float64_t", kDLFloat, 64}, \
  {"_Float16", kDLFloat, 16}, \
  {"__fp16", kDLFloat, 16}, \
  {"__bf16", kDLBfloat, 16}, \
  {"intptr_t", kDLInt, 64}, \
  {"uintptr_t", kDLUInt, 64}, \
  {"size_t", kDLUInt, 64}, \
  {"ssize_t", kDLInt, 64}, \
  {"ptrdiff_t", kDLInt, 64}
#define MB_C_TYPES_OF_LIBRARIES  \
  {"int_fast8_t", kDLInt, 8 * sizeof(int_fast8_t)}, \
  {"int_fast16_t", kDLInt, 8 * sizeof(int_fast16_t)}, \
  {"int_fast32_t", kDLInt, 8 * sizeof(int_fast32_t)}, \
  {"uint_fast8_t", kDLUInt, 8 * sizeof(uint_fast8_t)}, \
  {"uint_fast16_t", kDLUInt, 8 * sizeof(uint_fast16_t)}, \
  {"uint_fast32_t", kDLUInt, 8 * sizeof(uint_fast32_t)}
#define MB_C_TYPE_OF_UINT64_SIZE 15
#define MB_C_TYPES_OF_UINT64  \
  {"uint64_t", 64}, \
  {"uint_least64_t", 64}, \
  {"uintmax_t", 64}, \
  {"uint_fast64_t", 64}, \
  {"uintptr_t", 64}, \
  {"size_t", 64}, \
  {"uint_fast8_t", 8 * sizeof(uint_fast8_t)}, \
  {"uint_fast16_t", 8 * sizeof(uint_fast16_t)}, \
  {"uint_fast32_t", 8 * sizeof(uint_fast32_t)}
#define MB_E4M3_FLOAT8 6
#define MB_E5M2_FLOAT8 7
#define MB_FLOAT8_E3M4 128
#define MB_WORD_COLUMNS ":columns"
#define MB_WORD_CHARS ":chars"
#define MB_WORD_TEXT ":text"
#define MB_DTYPE_NAMES "int", "uint", "float", "handle", "bfloat", "complex"
#define MB_DTYPE_LAST 17
#define MB_SMALL_FLOATS  \
  {6, 8, "e4m3_float8"}, \
  {7, 8, "e5m2_float8"}, \
  {8, 8, "float8_e4m3"}, \
  {9, 8, "float8_e4m3b11fnuz"}, \
  {10, 8, "float8_e4m3fn"}, \
  {11, 8, "float8_e4m3fnuz"}, \
  {12, 8, "float8_e5m2"}, \
  {13, 8, "float8_e5m2fnuz"}, \
  {14, 8, "float8_e8m0fnu"}, \
  {15, 6, "float6_e2m3fn"}, \
  {16, 6, "float6_e3m2fn"}, \
  {17, 4, "float4_e2m1fn"}, \
  {128, 8, "float8_e3m4"}
#define MB_DTYPES_OF_DLPACK  \
  {6, 8, "bool"}, \
  {7, 8, "float8_e3m4"}
#define MB_DTYPES_OF_SAFETENSORS  \
  {1, 1, "BOOL"}, \
  {1, 8, "U8"}, \
  {0, 8, "I8"}, \
  {1, 16, "U16"}, \
  {0, 16, "I16"}, \
  {1, 32, "U32"}, \
  {0, 32, "I32"}, \
  {1, 64, "U64"}, \
  {0, 64, "I64"}, \
  {2, 16, "F16"}, \
  {4, 16, "BF16"}, \
  {2, 32, "F32"}, \
  {2, 64, "F64"}, \
  {5, 64, "C64"}, \
  {10, 8, "F8_E4M3"}, \
  {11, 8, "F8_E4M3FNUZ"}, \
  {12, 8, "F8_E5M2"}, \
  {13, 8, "F8_E5M2FNUZ"}, \
  {14, 8, "F8_E8M0"}, \
  {15, 6, "F6_E2M3"}, \
  {16, 6, "F6_E3M2"}, \
  {17, 4, "F4"}

#endif
