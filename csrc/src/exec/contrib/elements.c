#include "exec/contrib/elements.h"

#include <math.h>
#include <string.h>

#include "core/device/device.h"

int mb_element_tensor(const struct mb_call *call, int i, DLTensor **out, size_t *size) {
  size_t bytes = 0;
  int status = mb_call_tensor(call, i, out);
  if (!status) status = mb_tensor_check(*out, &bytes);
  if (!status && !mb_device_is_host((int)(*out)->device.device_type))
    status = mb_fail(MBLOB_E_INCOMPATIBLE, "argument %d: expected a tensor of the host", i);
  if (status) return status;
  *size = 1;
  for (int k = 0; k < (*out)->ndim; k++) *size *= (size_t)(*out)->shape[k];
  return MBLOB_OK;
}

bool mb_element_is_number(DLDataType dtype) {
  if (dtype.lanes != 1) return false;
  const unsigned bits = dtype.bits;
  if (dtype.code == kDLInt || (dtype.code == kDLUInt && bits > 1))
    return bits == 8 || bits == 16 || bits == 32 || bits == 64;
  if (dtype.code == kDLUInt || dtype.code == kDLBool) return true;
  return dtype.code == kDLFloat && (bits == 16 || bits == 32 || bits == 64);
}

#define RETURN_LOADED(type) \
  type value;               \
  memcpy(&value, data + i * sizeof(value), sizeof(value))

static int64_t read_int(const char *data, size_t i, unsigned bits) {
  if (bits == 8) return ((const int8_t *)data)[i];
  if (bits == 16) {
    RETURN_LOADED(int16_t);
    return value;
  }
  if (bits == 32) {
    RETURN_LOADED(int32_t);
    return value;
  }
  RETURN_LOADED(int64_t);
  return value;
}

static uint64_t read_uint(const char *data, size_t i, unsigned bits) {
  const uint64_t value = (uint64_t)read_int(data, i, bits < 8 ? 8 : bits);
  return bits >= 64 ? value : value & ((UINT64_C(1) << (bits < 8 ? 8 : bits)) - 1);
}

static double read_real(const char *data, size_t i, unsigned bits) {
  if (bits == 16) {
    RETURN_LOADED(uint16_t);
    return (double)__gnu_h2f_ieee(value);
  }
  if (bits == 32) {
    RETURN_LOADED(float);
    return (double)value;
  }
  RETURN_LOADED(double);
  return value;
}

struct mb_number mb_element_read(const char *data, size_t i, DLDataType dtype) {
  struct mb_number number = {.kind = MB_WHOLE, .u.whole = 0};
  if (dtype.code == kDLFloat) {
    number.kind = MB_REAL;
    number.u.real = read_real(data, i, dtype.bits);
  } else if (dtype.code == kDLInt) {
    number.u.whole = read_int(data, i, dtype.bits);
  } else {
    number.kind = MB_UNSIGNED;
    number.u.natural = read_uint(data, i, dtype.bits);
  }
  return number;
}

/* Both are of one type. */
bool mb_number_less(struct mb_number a, struct mb_number b) {
  if (a.kind == MB_REAL)
    return a.u.real < b.u.real || (isnan(b.u.real) && !isnan(a.u.real)); /* a total order */
  return a.kind == MB_WHOLE ? a.u.whole < b.u.whole : a.u.natural < b.u.natural;
}

/* Merging, from runs of one upwards. */
void mb_stable_sort(size_t *positions, size_t *spare, size_t count,
                    bool (*less)(const void *context, size_t a, size_t b), const void *context) {
  for (size_t i = 0; i < count; i++) positions[i] = i;
  for (size_t width = 1; width < count; width *= 2) {
    for (size_t start = 0; start < count; start += 2 * width) {
      const size_t middle = count - start < width ? count : start + width,
                   end = count - start < 2 * width ? count : start + 2 * width;
      size_t a = start, b = middle, to = start;
      while (a < middle || b < end) {
        const bool right = a == middle || (b < end && less(context, positions[b], positions[a]));
        spare[to++] = positions[right ? b++ : a++];
      }
    }
    memcpy(positions, spare, count * sizeof(*positions));
  }
}
