/* Arguments of a packed call as what a kernel's launch takes. */
#define _GNU_SOURCE
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "kernel_list.h"

static bool is_integer(int code) { return code == kTVMArgInt || code == kTVMArgBool; }

static int wrong_count(const struct mb_kernel *kernel, int count) {
  char tags[160] = "";
  for (size_t i = 0, used = 0; i < kernel->tag_count && used < sizeof(tags); i++)
    used += (size_t)snprintf(tags + used, sizeof(tags) - used, "%s%s", i ? ", " : ": ",
                             mb_launch_tag_names[kernel->tags[i]]);
  return mb_fail_argument(
      MB_ARGUMENT_COUNT,
      "kernel '%s': expected %zu argument%s and %zu launch size%s%s; found %d value%s",
      kernel->name, kernel->type_count, kernel->type_count == 1 ? "" : "s", kernel->tag_count,
      kernel->tag_count == 1 ? "" : "s", tags, count, count == 1 ? "" : "s");
}

int mb_kernel_launch(const struct mb_kernel *kernel, const TVMValue *args, const int *codes,
                     int count, struct mb_launch *out) {
  *out = (struct mb_launch){{1, 1, 1, 1, 1, 1}, 0};
  if (count < 0 || (size_t)count != kernel->type_count + kernel->tag_count)
    return wrong_count(kernel, count);
  for (size_t i = 0; i < kernel->tag_count; i++) {
    size_t at = kernel->type_count + i;
    unsigned tag = kernel->tags[i];
    const char *what = mb_launch_tag_names[tag];
    if (!is_integer(codes[at]))
      return mb_fail_argument(MB_ARGUMENT_TYPE,
                              "kernel '%s': argument %zu is %s, expected an int, found %s",
                              kernel->name, at, what, mb_type_code_name(codes[at]));
    int64_t value = args[at].v_int64;
    if (value < 0)
      return mb_fail(MBLOB_E_ARGUMENT, "kernel '%s': argument %zu: %s is %lld, expected at least 0",
                     kernel->name, at, what, (long long)value);
    if (tag == MB_SHARED_BYTES)
      out->shared = (uint64_t)value;
    else
      out->extent[tag] = value ? (uint64_t)value : 1; /* as TVM's runtime takes it */
  }
  return MBLOB_OK;
}

const char *mb_kernel_type_text(DLDataType type, char text[32]) {
  static const char *const names[] = {MB_DTYPE_NAMES, [kDLBool] = "bool"};
  if (type.code >= sizeof(names) / sizeof(*names))
    (void)snprintf(text, 32, "type code %u of %u bits", type.code, type.bits);
  else if (mb_is_pointer(type) && type.bits == 64 && type.lanes == 1)
    (void)snprintf(text, 32, "handle");
  else if (type.lanes == 1)
    (void)snprintf(text, 32, "%s%u", names[type.code], type.bits);
  else
    (void)snprintf(text, 32, "%s%ux%u", names[type.code], type.bits, type.lanes);
  return text;
}

static int wrong_type(const struct mb_kernel *kernel, int index, int code) {
  char text[32];
  return mb_fail_argument(MB_ARGUMENT_TYPE, "kernel '%s'" MB_TEXT_ARGUMENT "%d: " MB_TEXT_EXPECTED,
                          kernel->name, index, mb_kernel_type_text(kernel->types[index], text),
                          mb_type_code_name(code));
}

/* The low bytes of a number, in the order of this machine. */
static void put_bits(unsigned bits, int64_t value, uint64_t *out) {
  uint8_t byte = (uint8_t)value;
  uint16_t half = (uint16_t)value;
  uint32_t word = (uint32_t)value;
  if (bits <= 8)
    memcpy(out, &byte, sizeof(byte));
  else if (bits == 16)
    memcpy(out, &half, sizeof(half));
  else if (bits == 32)
    memcpy(out, &word, sizeof(word));
  else
    memcpy(out, &value, sizeof(value));
}

static int put_integer(const struct mb_kernel *kernel, int index, int64_t value, uint64_t *out) {
  DLDataType type = kernel->types[index];
  unsigned bits = type.bits;
  bool is_unsigned = type.code == kDLUInt || type.code == kDLBool;
  /* Packed calls have int64 alone: a uint64 comes as the int64 of its bits, smaller ones as what
   * they are. */
  int64_t low = bits == 64 ? INT64_MIN : is_unsigned ? 0 : -((int64_t)1 << (bits - 1));
  int64_t high = bits == 64 ? INT64_MAX : ((int64_t)1 << (is_unsigned ? bits : bits - 1)) - 1;
  if (value < low || value > high) {
    char text[32];
    (void)mb_kernel_type_text(type, text);
    return mb_fail(MBLOB_E_ARGUMENT, "kernel '%s': argument %d: %lld does not fit %s", kernel->name,
                   index, (long long)value, text);
  }
  put_bits(bits, value, out);
  return MBLOB_OK;
}

static int put_float(const struct mb_kernel *kernel, int index, double value, uint64_t *out) {
  if (kernel->types[index].bits == 64) {
    memcpy(out, &value, sizeof(value));
    return MBLOB_OK;
  }
  if (isfinite(value) && fabs(value) > (double)FLT_MAX)
    return mb_fail(MBLOB_E_ARGUMENT, "kernel '%s': argument %d: %g does not fit float32",
                   kernel->name, index, value);
  float narrow = (float)value;
  memcpy(out, &narrow, sizeof(narrow));
  return MBLOB_OK;
}

int mb_kernel_scalar(const struct mb_kernel *kernel, int index, TVMValue value, int code,
                     uint64_t *out, size_t *size) {
  DLDataType type = kernel->types[index];
  *out = 0;
  *size = (size_t)(type.bits + 7) / 8;
  bool is_whole = type.code == kDLInt || type.code == kDLUInt || type.code == kDLBool;
  if (!mb_kernel_takes_scalar(type)) {
    char text[32];
    (void)mb_kernel_type_text(type, text);
    return mb_fail(MBLOB_E_INCOMPATIBLE, "kernel '%s': argument %d: a %s cannot be passed by value",
                   kernel->name, index, text);
  }
  if (is_whole)
    return is_integer(code) ? put_integer(kernel, index, value.v_int64, out)
                            : wrong_type(kernel, index, code);
  if (code != kTVMArgFloat && !is_integer(code)) return wrong_type(kernel, index, code);
  return put_float(kernel, index, code == kTVMArgFloat ? value.v_float64 : (double)value.v_int64,
                   out);
}

int mb_kernel_check_compact(const struct mb_kernel *kernel, int index, const DLTensor *tensor) {
  int64_t expected;
  int axis = mb_loose_axis(tensor, &expected);
  return axis < 0
             ? MBLOB_OK
             : mb_fail(
                   MBLOB_E_ARGUMENT,
                   "kernel '%s': argument %d: expected a compact tensor, its stride %d is %lld, "
                   "not %lld elements",
                   kernel->name, index, axis, (long long)tensor->strides[axis],
                   (long long)expected);
}
