/* golden_relax LIBRARY CASES: plays recorded cases of a program of Relax over mblob.h alone, and
 * compares values, shapes, types, and kinds of errors. tests/e2e/test_relax_in_c.py writes CASES:
 * words with blanks between them, texts and data as hexadecimal digits behind an x. */
#include <math.h>

#include "../common/check.h"

enum { ARGUMENTS = 64, CASES = 256, DIMENSIONS = 16 };

struct value {
  TVMValue value;
  int code;
};

static char *rest;       /* of CASES */
static mblob_module *vm; /* the machine */
static struct value results[CASES];
static int played;

/* ---- words ----------------------------------------------------------------------------------- */

static const char *word(void) {
  char *start = rest + strspn(rest, " \n");
  rest = start + strcspn(start, " \n");
  if (*rest) *rest++ = 0;
  return start;
}

static bool is_next(const char *expected) {
  const size_t blanks = strspn(rest, " \n"), size = strlen(expected);
  if (strncmp(rest + blanks, expected, size) != 0 || !strchr(" \n", rest[blanks + size]))
    return false;
  (void)word();
  return true;
}

static int64_t number(void) { return strtoll(word(), NULL, 10); }

/* Bytes of a word of hexadecimal digits, with a NUL behind them; the caller's. */
static char *bytes(size_t *size) {
  const char *digits = word();
  CHECK(*digits == 'x');
  *size = strlen(++digits) / 2;
  char *out = calloc(*size + 1, 1);
  CHECK(out != NULL);
  for (size_t i = 0; i < *size; i++) {
    const char pair[3] = {digits[2 * i], digits[2 * i + 1], 0};
    out[i] = (char)strtol(pair, NULL, 16);
  }
  return out;
}

/* ---- values ---------------------------------------------------------------------------------- */

static void drop(struct value *v) {
  if (v->code == kTVMNDArrayHandle) CHECK(TVMArrayFree(v->value.v_handle) == 0);
  if (v->code == kTVMObjectHandle) CHECK(TVMObjectFree(v->value.v_handle) == 0);
  if (v->code == kTVMPackedFuncHandle) mblob_function_release(v->value.v_handle);
  if (v->code == kTVMModuleHandle) mblob_module_release(v->value.v_handle);
  if (v->code == kTVMStr) free(v->value.v_handle);
  *v = (struct value){.code = kTVMNullptr};
}

static int call(mblob_function *function, struct value *args, int count, struct value *out) {
  TVMValue values[ARGUMENTS];
  int codes[ARGUMENTS];
  CHECK(count <= ARGUMENTS);
  for (int i = 0; i < count; i++) values[i] = args[i].value, codes[i] = args[i].code;
  *out = (struct value){.code = kTVMNullptr};
  int status = mblob_function_call(function, values, codes, count, &out->value, &out->code);
  if (status) out->code = kTVMNullptr;
  if (out->code == kTVMStr) out->value.v_handle = strdup(out->value.v_str); /* borrowed */
  return status;
}

static struct value global(const char *name, struct value *args, int count) {
  mblob_function *function = NULL;
  struct value out;
  CHECK(mblob_get_global(name, &function) == MBLOB_OK);
  CHECK(call(function, args, count, &out) == MBLOB_OK);
  mblob_function_release(function);
  return out;
}

static int64_t count_in(const char *name, struct value object) {
  return global(name, &object, 1).value.v_int64;
}

static struct value item_of(const char *name, struct value object, int64_t i) {
  struct value args[] = {object, {{.v_int64 = i}, kTVMArgInt}};
  return global(name, args, 2);
}

static bool is_object(struct value v, const char *key) {
  unsigned index = 0, found = 1;
  if (v.code != kTVMObjectHandle) return false;
  CHECK(TVMObjectTypeKey2Index(key, &index) == 0);
  CHECK(TVMObjectGetTypeIndex(v.value.v_handle, &found) == 0);
  return index == found;
}

static struct value method(const char *name) {
  struct value out = {.code = kTVMPackedFuncHandle};
  mblob_function *function = NULL;
  if (mblob_module_function(vm, name, 0, &function)) out.code = kTVMNullptr;
  out.value.v_handle = function;
  return out;
}

static DLDataType type(void) {
  const int64_t code = number(), bits = number();
  return (DLDataType){(uint8_t)code, (uint8_t)bits, 1};
}

static struct value read_value(void);

static struct value read_tensor(void) {
  const DLDataType dtype = type();
  const int ndim = (int)number();
  int64_t shape[DIMENSIONS];
  struct value out = {.code = kTVMNDArrayHandle};
  TVMArrayHandle array = NULL;
  size_t size;
  CHECK(ndim <= DIMENSIONS);
  for (int i = 0; i < ndim; i++) shape[i] = number();
  char *data = bytes(&size);
  CHECK(TVMArrayAlloc(shape, ndim, dtype.code, dtype.bits, 1, kDLCPU, 0, &array) == 0);
  CHECK(TVMArrayCopyFromBytes(array, data, size) == 0);
  free(data);
  out.value.v_handle = array;
  return out;
}

static struct value read_container(const char *maker, bool of_numbers) {
  struct value items[ARGUMENTS];
  const int count = (int)number();
  CHECK(count <= ARGUMENTS);
  for (int i = 0; i < count; i++)
    items[i] = of_numbers ? (struct value){{.v_int64 = number()}, kTVMArgInt} : read_value();
  struct value out = global(maker, items, count);
  for (int i = 0; i < count; i++) drop(&items[i]);
  return out;
}

static struct value read_result(void) {
  struct value found = results[number()];
  const int64_t steps = number();
  for (int64_t i = 0; i < steps; i++) {
    struct value item = item_of("runtime.ArrayGetItem", found, number());
    if (i) drop(&found);
    found = item;
  }
  if (steps) return found;
  CHECK(found.code == kTVMPackedFuncHandle);
  (void)mblob_function_retain(found.value.v_handle);
  return found;
}

static struct value read_value(void) {
  size_t size;
  if (is_next("tensor")) return read_tensor();
  if (is_next("tuple")) return read_container("runtime.Array", false);
  if (is_next("shape")) return read_container("runtime.ShapeTuple", true);
  if (is_next("int")) return (struct value){{.v_int64 = number()}, kTVMArgInt};
  if (is_next("bool")) return (struct value){{.v_int64 = number()}, kTVMArgBool};
  if (is_next("float")) return (struct value){{.v_float64 = strtod(word(), NULL)}, kTVMArgFloat};
  if (is_next("str")) return (struct value){{.v_handle = bytes(&size)}, kTVMStr};
  if (is_next("function")) return method(word());
  if (is_next("result")) return read_result();
  CHECK(is_next("none"));
  return (struct value){.code = kTVMNullptr};
}

/* ---- what is expected ------------------------------------------------------------------------ */

static double tolerance[2]; /* relative, absolute */

static double real_at(const char *data, DLDataType dtype, int64_t i) {
  if (dtype.bits == 64) return ((const double *)(const void *)data)[i];
  if (dtype.bits == 32) return (double)((const float *)(const void *)data)[i];
  const unsigned half = ((const uint16_t *)(const void *)data)[i];
  const int exponent = (int)(half >> 10 & 31);
  const double fraction = exponent ? 1024.0 + (half & 1023) : (double)(half & 1023);
  CHECK(dtype.bits == 16 && exponent < 31);
  return ldexp(half >> 15 ? -fraction : fraction, (exponent ? exponent : 1) - 25);
}

/* Strides may be there, of compact rows. */
static void check_strides(const DLTensor *t) {
  int64_t rows = 1;
  for (int i = t->ndim; t->strides && i-- > 0; rows *= t->shape[i]) CHECK(t->strides[i] == rows);
}

static void check_tensor(struct value found) {
  struct value wanted = read_tensor();
  const DLTensor *a = found.value.v_handle, *b = wanted.value.v_handle;
  CHECK(found.code == kTVMNDArrayHandle);
  CHECK(a->dtype.code == b->dtype.code && a->dtype.bits == b->dtype.bits && a->dtype.lanes == 1);
  CHECK(a->ndim == b->ndim && a->device.device_type == kDLCPU);
  check_strides(a);
  int64_t count = 1;
  for (int i = 0; i < a->ndim; i++) {
    CHECK(a->shape[i] == b->shape[i]);
    count *= a->shape[i];
  }
  const char *data = (const char *)a->data + a->byte_offset;
  if (a->dtype.code != kDLFloat)
    CHECK(memcmp(data, b->data, (size_t)count * ((a->dtype.bits + 7u) / 8)) == 0);
  for (int64_t i = 0; a->dtype.code == kDLFloat && i < count; i++) {
    const double x = real_at(data, a->dtype, i), y = real_at(b->data, a->dtype, i);
    CHECK(fabs(x - y) <= tolerance[1] + tolerance[0] * fabs(y));
  }
  drop(&wanted);
}

static void check_value(struct value found);

static void check_items(struct value found) {
  const int64_t count = number();
  CHECK(is_object(found, "Array") && count_in("runtime.ArraySize", found) == count);
  for (int64_t i = 0; i < count; i++) {
    struct value item = item_of("runtime.ArrayGetItem", found, i);
    check_value(item);
    drop(&item);
  }
}

/* In a tuple a text is an object. */
static void check_text(struct value found) {
  size_t size;
  char *text = bytes(&size);
  if (is_object(found, "runtime.String")) {
    const TVMByteArray *told = global("mblob.StringBytes", &found, 1).value.v_handle;
    CHECK(told->size == size && memcmp(told->data, text, size) == 0);
  } else {
    CHECK(found.code == kTVMStr && strcmp(found.value.v_handle, text) == 0);
  }
  free(text);
}

static void check_value(struct value found) {
  if (is_next("tensor")) {
    check_tensor(found);
  } else if (is_next("tuple")) {
    check_items(found);
  } else if (is_next("shape")) {
    const int64_t count = number();
    CHECK(is_object(found, "runtime.ShapeTuple"));
    CHECK(count_in("runtime.GetShapeTupleSize", found) == count);
    for (int64_t i = 0; i < count; i++)
      CHECK(item_of("runtime.GetShapeTupleElem", found, i).value.v_int64 == number());
  } else if (is_next("int")) {
    CHECK(found.code == kTVMArgInt && found.value.v_int64 == number());
  } else if (is_next("bool")) {
    CHECK(found.code == kTVMArgBool && found.value.v_int64 == number());
  } else if (is_next("float")) {
    CHECK(found.code == kTVMArgFloat && found.value.v_float64 == strtod(word(), NULL));
  } else if (is_next("str")) {
    check_text(found);
  } else if (is_next("dtype")) {
    const DLDataType wanted = type(), dtype = found.value.v_type;
    CHECK(found.code == kTVMDataType && dtype.lanes == 1);
    CHECK(dtype.code == wanted.code && dtype.bits == wanted.bits);
  } else if (is_next("closure")) {
    CHECK(found.code == kTVMPackedFuncHandle);
  } else {
    CHECK(is_next("none") && found.code == kTVMNullptr);
  }
}

/* The result of a stateful call, tuples field by field. */
static void check_output(struct value *args, int count) {
  struct value arity = method("get_output_arity"), get = method("get_output"), found;
  CHECK(call(arity.value.v_handle, args, count, &found) == MBLOB_OK);
  if (found.value.v_int64 < 0) {
    CHECK(call(get.value.v_handle, args, count, &found) == MBLOB_OK);
    check_value(found);
    drop(&found);
  } else {
    CHECK(is_next("tuple") && found.value.v_int64 == number());
    const int64_t items = found.value.v_int64;
    for (int64_t i = 0; i < items; i++) {
      args[count] = (struct value){{.v_int64 = i}, kTVMArgInt};
      check_output(args, count + 1);
    }
  }
  drop(&arity);
  drop(&get);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static int invoke(const char *name, struct value *args, int count, struct value *out) {
  struct value function = method(name);
  *out = (struct value){.code = kTVMNullptr};
  if (function.code == kTVMNullptr) return mblob_last_error_info()->status;
  int status = call(function.value.v_handle, args, count, out);
  drop(&function);
  return status;
}

/* `args` has room for three in front. */
static int call_by(const char *way, char *name, struct value *args, int count, struct value *out) {
  struct value unused;
  if (strcmp(way, "invoke_closure") == 0) return invoke(way, args, count, out);
  if (strcmp(way, "call") == 0) return invoke(name, args, count, out);
  args[-1] = (struct value){{.v_str = name}, kTVMStr};
  if (strcmp(way, "stateful") == 0) {
    int status = invoke("set_input", args - 1, count + 1, &unused);
    return status ? status : invoke("invoke_stateful", args - 1, 1, out);
  }
  CHECK(strcmp(way, "save") == 0);
  args[-3] = args[-1];
  args[-2] = (struct value){{.v_str = "saved"}, kTVMStr};
  args[-1] = (struct value){{.v_int64 = 1}, kTVMArgBool};
  int status = invoke("save_function", args - 3, count + 3, &unused);
  return status ? status : invoke("saved", NULL, 0, out);
}

/* An error of the kind, whose text has the other word in it; without a kind: no such function. */
static void check_error(int status) {
  const char *kind = word(), *found = mblob_last_error_info()->message;
  size_t size;
  char *part = bytes(&size);
  if (strcmp(kind, "AttributeError") == 0) {
    CHECK(status == MBLOB_E_NOT_FOUND);
  } else {
    CHECK(status == MBLOB_E_KERNEL);
    CHECK(strncmp(found, kind, strlen(kind)) == 0 && found[strlen(kind)] == ':');
    CHECK(strstr(found, part));
  }
  free(part);
}

static void play(void) {
  struct value room[ARGUMENTS + 3], *args = room + 3, found;
  const char *way = word();
  char *name = strdup(word());
  const int count = (int)number();
  CHECK(count <= ARGUMENTS - 3 && played < CASES);
  for (int i = 0; i < count; i++) args[i] = read_value();
  int status = call_by(way, name, args, count, &found);
  if (is_next("error")) {
    check_error(status);
  } else {
    CHECK(status == MBLOB_OK && is_next("result"));
    tolerance[0] = strtod(word(), NULL);
    tolerance[1] = strtod(word(), NULL);
    if (strcmp(way, "stateful") == 0) {
      struct value path[ARGUMENTS] = {{{.v_str = name}, kTVMStr}};
      check_output(path, 1);
    } else {
      check_value(found);
    }
  }
  while (is_next("mutates")) check_value(args[number()]);
  for (int i = 0; i < count; i++) drop(&args[i]);
  results[played++] = found;
  free(name);
}

static char *text_of(const char *path) {
  FILE *file = fopen(path, "rb");
  CHECK(file && fseek(file, 0, SEEK_END) == 0);
  const long size = ftell(file);
  char *text = calloc((size_t)size + 1, 1);
  CHECK(text && fseek(file, 0, SEEK_SET) == 0);
  CHECK(fread(text, 1, (size_t)size, file) == (size_t)size && fclose(file) == 0);
  return text;
}

int main(int argc, char **argv) {
  mblob_module *library = NULL;
  CHECK(argc == 3);
  char *text = rest = text_of(argv[2]);
  CHECK(mblob_open(argv[1], NULL, &library) == MBLOB_OK);
  CHECK(mblob_executor_create(library, NULL, kDLCPU, 0, &vm) == MBLOB_OK);
  mblob_module_release(library);
  while (is_next("case")) play();
  CHECK(*word() == 0);
  printf("%d\n", played);
  for (int i = 0; i < played; i++) drop(&results[i]);
  mblob_module_release(vm);
  free(text);
  return 0;
}
