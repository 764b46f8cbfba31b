/* tvm.contrib.random.*: each thread has an engine of its own, std::mt19937 as TVM, whose numbers
 * these are for the same seed. */
#include <string.h>
#include <time.h>

#include "exec/contrib/contrib.h"
#include "exec/contrib/elements.h"

enum { STATE = 624, MIDDLE = 397 };

static __thread struct {
  uint32_t words[STATE];
  unsigned next;
  bool seeded;
} engine;

static void seed_engine(uint32_t seed) {
  engine.words[0] = seed;
  for (uint32_t i = 1; i < STATE; i++)
    engine.words[i] =
        UINT32_C(1812433253) * (engine.words[i - 1] ^ (engine.words[i - 1] >> 30)) + i;
  engine.next = STATE;
  engine.seeded = true;
}

static uint32_t draw(void) {
  if (!engine.seeded) seed_engine((uint32_t)time(NULL));
  if (engine.next == STATE) {
    for (unsigned i = 0; i < STATE; i++) {
      const uint32_t y = (engine.words[i] & UINT32_C(0x80000000)) |
                         (engine.words[(i + 1) % STATE] & UINT32_C(0x7fffffff));
      engine.words[i] =
          engine.words[(i + MIDDLE) % STATE] ^ (y >> 1) ^ (y & 1 ? UINT32_C(0x9908b0df) : 0);
    }
    engine.next = 0;
  }
  uint32_t y = engine.words[engine.next++];
  y ^= y >> 11;
  y ^= (y << 7) & UINT32_C(0x9d2c5680);
  y ^= (y << 15) & UINT32_C(0xefc60000);
  return y ^ (y >> 18);
}

/* As std::generate_canonical of libstdc++. */
static float canonical(void) {
  const float found = (float)draw() / 4294967296.0f;
  return found >= 1.0f ? 0.99999994f : found;
}

static double canonical_double(void) {
  const double low = (double)draw(),
               found = (low + (double)draw() * 4294967296.0) / 18446744073709551616.0;
  return found >= 1.0 ? 0.99999999999999989 : found;
}

static int real_argument(const struct mb_call *call, int i, double *out) {
  int64_t whole = 0;
  if (i < call->count && call->codes[i] == kTVMArgFloat) {
    *out = call->args[i].v_float64;
    return MBLOB_OK;
  }
  int status = mb_call_int(call, i, &whole);
  *out = (double)whole;
  return status;
}

/* (a, b, out): two numbers and a float32 tensor. */
static int begin_random(const struct mb_call *call, double *a, double *b, DLTensor **out,
                        size_t *size) {
  int status = mb_call_expect(call, 3, 3);
  if (!status) status = real_argument(call, 0, a);
  if (!status) status = real_argument(call, 1, b);
  if (!status) status = mb_element_tensor(call, 2, out, size);
  if (!status &&
      ((*out)->dtype.code != kDLFloat || (*out)->dtype.bits != 32 || (*out)->dtype.lanes != 1))
    status = mb_fail_coded(MBLOB_E_KERNEL, MB_ARGUMENT_DTYPE,
                           "InternalError: argument 2: expected a float32 tensor");
  return status;
}

/* (low, high, out) */
static int uniform(void *unused, struct mb_call *call) {
  (void)unused;
  double low = 0, high = 0;
  DLTensor *out = NULL;
  size_t size = 0;
  int status = begin_random(call, &low, &high, &out, &size);
  if (!status && !(high > low))
    status = mb_fail(MBLOB_E_KERNEL, "InternalError: high must be bigger than low");
  for (size_t i = 0; !status && i < size; i++) {
    const float found = canonical() * ((float)high - (float)low) + (float)low;
    memcpy(mb_element_data(out) + 4 * i, &found, 4);
  }
  return status;
}

/* libmblob links no libm. Both are exact to the last place of a float. */
static double logarithm(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof(bits));
  int exponent = (int)(bits >> 52) - 1023;
  bits = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1023) << 52;
  memcpy(&x, &bits, sizeof(x));
  if (x > 1.41421356237309505) {
    x /= 2;
    exponent++;
  }
  const double s = (x - 1) / (x + 1), square = s * s;
  double sum = 0;
  for (int i = 25; i > 0; i -= 2) sum = sum * square + 1.0 / i;
  return 2 * s * sum + exponent * 0.69314718055994530942;
}

/* Of a normal number that is not negative, or of either zero, which is its own root. */
static double square_root(double x) {
  if (x == 0) return x;
  uint64_t bits;
  double root;
  memcpy(&bits, &x, sizeof(bits));
  bits = (bits >> 1) + (UINT64_C(1023) << 51);
  memcpy(&root, &bits, sizeof(root));
  for (int i = 0; i < 5; i++) root = (root + x / root) / 2;
  return root;
}

/* As std::normal_distribution of libstdc++: two numbers at a time. */
static int normal(void *unused, struct mb_call *call) {
  (void)unused;
  double mean = 0, deviation = 0;
  DLTensor *out = NULL;
  size_t size = 0;
  float saved = 0;
  int status = begin_random(call, &mean, &deviation, &out, &size);
  if (!status && !(deviation > 0))
    status = mb_fail(MBLOB_E_KERNEL, "InternalError: standard deviation must be positive");
  for (size_t i = 0; !status && i < size; i++) {
    float found = saved, x, y, square;
    if (i % 2 == 0) {
      do {
        x = 2.0f * canonical() - 1.0f;
        y = 2.0f * canonical() - 1.0f;
        square = x * x + y * y;
      } while (square > 1.0f || square == 0.0f);
      const float log = (float)logarithm((double)square),
                  factor = (float)square_root((double)(-2.0f * log / square));
      saved = x * factor;
      found = y * factor;
    }
    found = found * (float)deviation + (float)mean;
    memcpy(mb_element_data(out) + 4 * i, &found, 4);
  }
  return status;
}

static void put_whole(const DLTensor *out, size_t i, int64_t value) {
  const size_t size = mb_element_size(out->dtype);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  memcpy(mb_element_data(out) + i * size, &value, size);
#else
  memcpy(mb_element_data(out) + i * size, (const char *)&value + 8 - size, size);
#endif
}

/* (low, high, out) */
static int randint(void *unused, struct mb_call *call) {
  (void)unused;
  int64_t low = 0, high = 0;
  DLTensor *out = NULL;
  size_t size = 0;
  int status = mb_call_expect(call, 3, 3);
  if (!status) status = mb_call_int(call, 0, &low);
  if (!status) status = mb_call_int(call, 1, &high);
  if (!status) status = mb_element_tensor(call, 2, &out, &size);
  if (status) return status;
  const DLDataType dtype = out->dtype;
  if (dtype.code > kDLUInt || !mb_element_is_number(dtype) || dtype.bits < 8)
    return mb_fail_coded(MBLOB_E_KERNEL, MB_ARGUMENT_DTYPE,
                         "InternalError: argument 2: expected a tensor of integers");
  if (high <= low) return mb_fail(MBLOB_E_KERNEL, "InternalError: high must be bigger than low");
  const int shift = 64 - dtype.bits;
  const int64_t most = dtype.code == kDLInt ? INT64_MAX >> shift
                       : dtype.bits == 64   ? INT64_MAX
                                            : (int64_t)(UINT64_MAX >> shift);
  const int64_t least = dtype.code == kDLInt ? -most - 1 : 0, end = most + (dtype.bits < 64);
  if (low < least) low = least;
  if (high > end) high = end;
  if (high <= low) return mb_fail(MBLOB_E_KERNEL, "InternalError: no number is in that range");
  const uint64_t range = (uint64_t)high - (uint64_t)low;
  for (size_t i = 0; i < size; i++) put_whole(out, i, (int64_t)((uint64_t)low + draw() % range));
  return MBLOB_OK;
}

/* (out): numbers from 1 to 10, by the width of elements alone, as TVM. */
static int random_fill(void *unused, struct mb_call *call) {
  (void)unused;
  DLTensor *out = NULL;
  size_t size = 0;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_element_tensor(call, 0, &out, &size);
  if (!status && !mb_element_is_number(out->dtype))
    status = mb_fail_coded(MBLOB_E_KERNEL, MB_ARGUMENT_DTYPE,
                           "InternalError: argument 0: no numbers of that type are made");
  for (size_t i = 0; !status && i < size; i++) {
    const double found = canonical_double() * 9.0 + 1.0;
    char *data = mb_element_data(out);
    const float narrow = (float)found;
    const uint16_t half = __gnu_f2h_ieee(narrow);
    const bool is_float = out->dtype.code == kDLFloat;
    if (is_float && out->dtype.bits == 64)
      memcpy(data + 8 * i, &found, 8);
    else if (is_float && out->dtype.bits == 32)
      memcpy(data + 4 * i, &narrow, 4);
    else if (is_float)
      memcpy(data + 2 * i, &half, 2);
    else
      put_whole(out, i, out->dtype.bits == 1 ? (int64_t)found % 2 : (int64_t)found);
  }
  return status;
}

static int seed(void *unused, struct mb_call *call) {
  (void)unused;
  int64_t number = 0;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_call_int(call, 0, &number);
  if (!status) seed_engine((uint32_t)number);
  return status;
}

/* (float32 [rows, .., choices], float32 [rows]) -> int64 [rows, 1]: where the sum of the first
 * probabilities of a row is larger than its number. */
static int multinomial_from_uniform(void *unused, struct mb_call *call) {
  (void)unused;
  DLTensor *t[2], *out = NULL;
  size_t sizes[2];
  int status = mb_call_expect(call, 2, 2);
  for (int i = 0; !status && i < 2; i++) {
    status = mb_element_tensor(call, i, &t[i], &sizes[i]);
    if (!status && (t[i]->dtype.code != kDLFloat || t[i]->dtype.bits != 32))
      status = mb_fail_coded(MBLOB_E_KERNEL, MB_ARGUMENT_DTYPE,
                             "InternalError: argument %d: expected float32", i);
  }
  if (status) return status;
  if (t[0]->ndim < 2 || (uint64_t)t[0]->shape[0] != sizes[1])
    return mb_fail(MBLOB_E_KERNEL,
                   "InternalError: argument 0: expected rows of probabilities, as many as argument "
                   "1 has numbers");
  const int64_t shape[2] = {t[0]->shape[0], 1}, choices = t[0]->shape[t[0]->ndim - 1];
  const char *rows = mb_element_data(t[0]), *numbers = mb_element_data(t[1]);
  status = vm_tensor_new(2, shape, (DLDataType){kDLInt, 64, 1}, &out);
  for (int64_t i = 0; !status && i < shape[0]; i++, rows += 4 * choices, numbers += 4) {
    int64_t k = 0;
    float sum = 0, p, number;
    memcpy(&number, numbers, 4);
    for (bool found = false; !found && k < choices; k += !found) {
      memcpy(&p, rows + 4 * k, 4);
      found = (sum += p) > number;
    }
    ((int64_t *)out->data)[i] = k < choices || !k ? k : k - 1;
  }
  if (!status) mb_call_return_array(call, out);
  return status;
}

const struct mb_method mb_random_functions[] = {
    {"tvm.contrib.random.normal", normal},
    {"tvm.contrib.random.randint", randint},
    {"tvm.contrib.random.random_fill", random_fill},
    {"tvm.contrib.random.seed", seed},
    {"tvm.contrib.random.uniform", uniform},
    {"vm.builtin.multinomial_from_uniform", multinomial_from_uniform},
    {"", NULL}};
