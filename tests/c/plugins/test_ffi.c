/* test_ffi DIRECTORY: libraries of the ffi dialect (kernels/ffi.c), over the plug-in that runs
 * them. */
#define _GNU_SOURCE
#include <pthread.h>

#include "../common/check.h"

static mblob_function *function_of(mblob_module *module, const char *name) {
  mblob_function *function;
  CHECK(mblob_module_function(module, name, 1, &function) == MBLOB_OK);
  return function;
}

static int call(mblob_module *module, const char *name, const TVMValue *args, const int *codes,
                int count, TVMValue *ret, int *code) {
  mblob_function *function = function_of(module, name);
  int status = mblob_function_call(function, args, codes, count, ret, code);
  mblob_function_release(function);
  return status;
}

static int64_t call_ints(mblob_module *module, const char *name, int64_t a, int64_t b) {
  const TVMValue args[] = {{.v_int64 = a}, {.v_int64 = b}};
  const int codes[] = {kTVMArgInt, kTVMArgInt};
  TVMValue ret;
  int code;
  CHECK(call(module, name, args, codes, 2, &ret, &code) == MBLOB_OK && code == kTVMArgInt);
  return ret.v_int64;
}

/* ---- values ---------------------------------------------------------------------------------- */

static void values_of_all_kinds_go_in(mblob_module *module, bool old) {
  float data[3] = {1, 2, 3.5f};
  int64_t shape[1] = {3};
  DLTensor t = {
      .data = data, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  TVMByteArray bytes = {"ab", 2};
  DLTensor *array;
  CHECK(TVMArrayAlloc(shape, 1, kDLFloat, 32, 1, kDLCPU, 0, (TVMArrayHandle *)&array) == 0);
  CHECK(TVMArrayCopyFromBytes(array, data, sizeof(data)) == 0);
  const struct {
    TVMValue value;
    int code;
    int64_t type;
  } cases[] = {
      {{.v_int64 = -5}, kTVMArgInt, 1},
      {{.v_int64 = 1}, kTVMArgBool, 2},
      {{.v_float64 = 2.5}, kTVMArgFloat, 3},
      {{.v_handle = data}, kTVMOpaqueHandle, 4},
      {{.v_handle = NULL}, kTVMNullptr, 0},
      {{.v_type = {kDLFloat, 32, 1}}, kTVMDataType, 5},
      {{.v_device = {kDLCPU, 0}}, kDLDevice, 6},
      {{.v_handle = &t}, kTVMDLTensorHandle, 7},
      {{.v_handle = NULL}, kTVMDLTensorHandle, 0},
      {{.v_str = "text"}, kTVMStr, 8},
      {{.v_handle = &bytes}, kTVMBytes, 9},
      {{.v_handle = array}, kTVMNDArrayHandle, old ? 72 : 70},
      {{.v_handle = module}, kTVMModuleHandle, 64},
  };
  for (int i = 0; i < COUNT(cases); i++) {
    TVMValue ret;
    int code;
    CHECK(call(module, "type_of", &cases[i].value, &cases[i].code, 1, &ret, &code) == MBLOB_OK);
    CHECK(code == kTVMArgInt && ret.v_int64 == cases[i].type);
  }
  for (int i = 0; i < 2; i++) { /* both forms of tensors are read */
    TVMValue ret, value = {.v_handle = i ? array : &t};
    int code, given = i ? kTVMNDArrayHandle : kTVMDLTensorHandle;
    CHECK(call(module, "sum", &value, &given, 1, &ret, &code) == MBLOB_OK);
    CHECK(code == kTVMArgFloat && ret.v_float64 == 6.5);
  }
  CHECK(TVMArrayFree(array) == 0);
  const int unknown = 99;
  CHECK(call(module, "type_of", &cases[0].value, &unknown, 1, NULL, NULL) == MBLOB_E_ARGUMENT);
}

struct loan {
  mblob_lent_tensor lent;
  int kept, released;
};

static void release_loan(void *owner) { ((struct loan *)owner)->released++; }

static int keep_loan(mblob_lent_tensor *lent, void **owner, void (**release)(void *owner)) {
  struct loan *loan = (struct loan *)(void *)lent;
  loan->kept++;
  *owner = loan;
  *release = release_loan;
  return 0;
}

/* A lent tensor is an object; only one that the callee has after the call gets an owner. */
static void tensors_are_lent(mblob_module *module, bool old) {
  float data[4] = {1, 2, 3, 4};
  int64_t shape[8] = {4, 1, 1, 1, 1, 1, 1, 1};
  for (int rank = 8; rank > 0; rank--) {
    struct loan loan = {.lent = {.keep = keep_loan}};
    loan.lent.tensor = (DLTensor){.data = data,
                                  .device = {kDLCPU, 0},
                                  .ndim = rank,
                                  .dtype = {kDLFloat, 32, 1},
                                  .shape = shape};
    const TVMValue value = {.v_handle = &loan};
    const int code = MBLOB_LENT_TENSOR;
    TVMValue ret;
    int ret_code;
    CHECK(call(module, "type_of", &value, &code, 1, &ret, &ret_code) == MBLOB_OK &&
          ret.v_int64 == (old ? 72 : 70));
    CHECK(call(module, "sum", &value, &code, 1, &ret, &ret_code) == MBLOB_OK &&
          ret.v_float64 == 10);
    CHECK(!loan.kept && !loan.released);
    if (old) continue; /* it has no echo of objects */
    CHECK(call(module, "echo", &value, &code, 1, &ret, &ret_code) == MBLOB_OK &&
          ret_code == kTVMNDArrayHandle);
    CHECK(loan.kept == 1 && !loan.released);
    CHECK(((DLTensor *)ret.v_handle)->data == data && TVMArrayFree(ret.v_handle) == 0);
    CHECK(loan.released == 1);
  }
  struct loan wrong = {.lent = {.tensor = {.data = data, .ndim = 1}, .keep = keep_loan}};
  const TVMValue value = {.v_handle = &wrong};
  const int code = MBLOB_LENT_TENSOR;
  CHECK(call(module, "sum", &value, &code, 1, NULL, NULL) == MBLOB_E_ARGUMENT);
}

static void values_come_out(mblob_module *module) {
  TVMValue ret, n;
  int code, is_int = kTVMArgInt;
  for (n.v_int64 = 0; n.v_int64 <= 26; n.v_int64++) { /* short ones are in the value itself */
    CHECK(call(module, "string", &n, &is_int, 1, &ret, &code) == MBLOB_OK && code == kTVMStr);
    CHECK(strlen(ret.v_str) == (size_t)n.v_int64 &&
          strncmp(ret.v_str, "abcdefghijklmnopqrstuvwxyz", (size_t)n.v_int64) == 0);
    CHECK(call(module, "bytes", &n, &is_int, 1, &ret, &code) == MBLOB_OK && code == kTVMBytes);
    CHECK(((const TVMByteArray *)ret.v_handle)->size == (size_t)n.v_int64);
  }
  CHECK(call(module, "nul_inside", NULL, NULL, 0, &ret, &code) == MBLOB_OK &&
        code == kTVMObjectHandle);
  TVMValue text = ret;
  int is_object = code;
  TVMFunctionHandle bytes_of;
  CHECK(TVMFuncGetGlobal("mblob.StringBytes", &bytes_of) == 0);
  CHECK(TVMFuncCall(bytes_of, &text, &is_object, 1, &ret, &code) == 0 && code == kTVMOpaqueHandle);
  const TVMByteArray *bytes = ret.v_handle;
  CHECK(bytes->size == 3 && memcmp(bytes->data, "a\0b", 3) == 0);
  CHECK(TVMFuncFree(bytes_of) == 0 && TVMObjectFree(text.v_handle) == 0);
  CHECK(call(module, "nothing", NULL, NULL, 0, &ret, &code) == MBLOB_OK && code == kTVMNullptr);
  n.v_float64 = 2.5;
  const int is_float = kTVMArgFloat;
  CHECK(call(module, "echo", &n, &is_float, 1, &ret, &code) == MBLOB_OK && code == kTVMArgFloat &&
        ret.v_float64 == 2.5);
  n.v_str = "a text that is echoed";
  const int is_text = kTVMStr;
  CHECK(call(module, "echo", &n, &is_text, 1, &ret, &code) == MBLOB_OK && code == kTVMStr);
  CHECK(strcmp(ret.v_str, "a text that is echoed") == 0);
  n.v_handle = module; /* what nothing of the ffi knows comes back as it was */
  const int is_module = kTVMModuleHandle;
  CHECK(call(module, "echo", &n, &is_module, 1, &ret, &code) == MBLOB_OK &&
        code == kTVMModuleHandle && ret.v_handle == module);
  mblob_module_release(ret.v_handle);
}

/* Shapes and Arrays have a form of their own on both sides. */
/* No element type is taken for another one: by the names of mblob_call, and by numbers. */
static void each_type_is_told_from_all_others(mblob_module *module, bool old) {
  static const struct {
    const char *name;
    uint8_t code, bits; /* of DLPack */
  } types[] = {{"int8", kDLInt, 8},
               {"uint8", kDLUInt, 8},
               {"float16", kDLFloat, 16},
               {"float32", kDLFloat, 32},
               {"bfloat16", kDLBfloat, 16},
               {"complex64", kDLComplex, 64},
               {"bool", kDLBool, 8},
               {"float8_e3m4", kDLFloat8_e3m4, 8},
               {"float8_e4m3", kDLFloat8_e4m3, 8},
               {"float8_e4m3b11fnuz", kDLFloat8_e4m3b11fnuz, 8},
               {"float8_e4m3fn", kDLFloat8_e4m3fn, 8},
               {"float8_e4m3fnuz", kDLFloat8_e4m3fnuz, 8},
               {"float8_e5m2", kDLFloat8_e5m2, 8},
               {"float8_e5m2fnuz", kDLFloat8_e5m2fnuz, 8},
               {"float8_e8m0fnu", kDLFloat8_e8m0fnu, 8},
               {"float6_e2m3fn", kDLFloat6_e2m3fn, 6},
               {"float6_e3m2fn", kDLFloat6_e3m2fn, 6},
               {"float4_e2m1fn", kDLFloat4_e2m1fn, 4},
               {"e4m3_float8", kDLFloat8_e4m3fn, 8},
               {"e5m2_float8", kDLFloat8_e5m2, 8},
               {"uint1", kDLBool, 8}};
  uint64_t data[4] = {0};
  int64_t shape[1] = {2};
  for (int i = 0; i < COUNT(types); i++) {
    char text[64];
    DLTensor t = {.data = data,
                  .device = {kDLCPU, 0},
                  .ndim = 1,
                  .dtype = {types[i].code, types[i].bits, 1},
                  .shape = shape};
    (void)snprintf(text, sizeof(text), "%s[2],int,int", types[i].name);
    for (int k = 0; k < COUNT(types); k++) {
      /* Up to 0.21 flags are uint1. */
      const bool flag = old && types[k].code == kDLBool;
      const int code = flag ? kDLUInt : types[k].code, bits = flag ? 1 : types[k].bits;
      const int expected = types[i].code == types[k].code && types[i].bits == types[k].bits
                               ? MBLOB_OK
                               : MBLOB_E_KERNEL;
      CHECK(mblob_call(module, "takes_type", text, data, code, bits) == expected);
      if (!old)
        CHECK(mblob_call(module, "takes_type", "tensor,int,int", &t, code, bits) == expected);
    }
  }
}

static void containers_go_through(mblob_module *module) {
  static const char *const makers[] = {"runtime.ShapeTuple", "runtime.Array"};
  for (int i = 0; i < COUNT(makers); i++) {
    const TVMValue numbers[2] = {{.v_int64 = 4}, {.v_int64 = 5}};
    const int codes[2] = {kTVMArgInt, kTVMArgInt};
    mblob_function *make;
    TVMValue made, ret, again;
    int code, code_again;
    CHECK(mblob_get_global(makers[i], &make) == MBLOB_OK);
    CHECK(mblob_function_call(make, numbers, codes, 2, &made, &code) == MBLOB_OK &&
          code == kTVMObjectHandle);
    CHECK(call(module, "type_of", &made, &code, 1, &ret, &code_again) == MBLOB_OK &&
          ret.v_int64 == (i ? 71 : 69));
    CHECK(call(module, "echo", &made, &code, 1, &again, &code_again) == MBLOB_OK &&
          code_again == kTVMObjectHandle);
    unsigned type = 0, type_again = 1;
    CHECK(TVMObjectGetTypeIndex(made.v_handle, &type) == 0 &&
          TVMObjectGetTypeIndex(again.v_handle, &type_again) == 0);
    CHECK(type == type_again && (!i || again.v_handle == made.v_handle));
    CHECK(TVMObjectFree(made.v_handle) == 0 && TVMObjectFree(again.v_handle) == 0);
    mblob_function_release(make);
  }
}

static void tensors_are_shared(mblob_module *module) {
  const int64_t shape[1] = {6};
  DLTensor *array, *half;
  TVMValue ret, value;
  int code, is_array = kTVMNDArrayHandle;
  CHECK(TVMArrayAlloc(shape, 1, kDLFloat, 32, 1, kDLCPU, 0, (TVMArrayHandle *)&array) == 0);
  value.v_handle = array;
  CHECK(call(module, "echo", &value, &is_array, 1, &ret, &code) == MBLOB_OK);
  CHECK(code == kTVMNDArrayHandle && ret.v_handle == array);
  CHECK(TVMArrayFree(ret.v_handle) == 0);
  CHECK(call(module, "half", &value, &is_array, 1, &ret, &code) == MBLOB_OK &&
        code == kTVMNDArrayHandle);
  half = ret.v_handle;
  CHECK(half->shape[0] == 3 && half->data == array->data);
  CHECK(TVMArrayFree(array) == 0);
  ((float *)half->data)[2] = 7; /* it keeps the memory */
  value.v_handle = half;
  CHECK(call(module, "twos", &value, &is_array, 1, &ret, &code) == MBLOB_OK &&
        code == kTVMNDArrayHandle);
  CHECK(((DLTensor *)ret.v_handle)->shape[0] == 3 &&
        ((float *)((DLTensor *)ret.v_handle)->data)[2] == 2);
  CHECK(TVMArrayFree(ret.v_handle) == 0 && TVMArrayFree(half) == 0);
}

/* ---- functions ------------------------------------------------------------------------------- */

static int add_ten(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource) {
  (void)resource;
  if (count != 1 || codes[0] != kTVMArgInt)
    return mblob_set_error(MBLOB_E_ARGUMENT, "add_ten: expected one integer");
  int code = kTVMArgInt;
  TVMValue value = {.v_int64 = args[0].v_int64 + 10};
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

static int do_nothing(TVMValue *args, int *codes, int count, TVMRetValueHandle ret,
                      void *resource) {
  (void)args, (void)codes, (void)count, (void)ret, (void)resource;
  return 0;
}

static void functions_go_both_ways(mblob_module *module) {
  mblob_function *ten;
  CHECK(mblob_function_create(add_ten, NULL, NULL, &ten) == MBLOB_OK);
  TVMValue args[2] = {{.v_handle = ten}, {.v_int64 = 5}}, ret;
  int codes[2] = {kTVMPackedFuncHandle, kTVMArgInt}, code;
  CHECK(call(module, "call", args, codes, 2, &ret, &code) == MBLOB_OK && code == kTVMArgInt &&
        ret.v_int64 == 15);
  CHECK(call(module, "call", args, codes, 1, &ret, &code) == MBLOB_E_ARGUMENT);
  CHECK(strstr(mblob_last_error(), "add_ten: expected one integer"));
  CHECK(call(module, "swallows", args, codes, 1, &ret, &code) == MBLOB_OK &&
        ret.v_int64 == (int64_t)strlen("add_ten: expected one integer"));
  CHECK(call(module, "echo", args, codes, 1, &ret, &code) == MBLOB_OK &&
        code == kTVMPackedFuncHandle && ret.v_handle == ten);
  mblob_function_release(ret.v_handle);
  /* One that the library makes, which then goes through it as an argument. */
  const int64_t before = call_ints(module, "deletions", 0, 0);
  CHECK(call(module, "adder", &args[1], &codes[1], 1, &ret, &code) == MBLOB_OK &&
        code == kTVMPackedFuncHandle);
  mblob_function *five = ret.v_handle;
  args[0].v_handle = five;
  CHECK(mblob_function_call(five, &args[1], &codes[1], 1, &ret, &code) == MBLOB_OK &&
        ret.v_int64 == 10);
  CHECK(call(module, "call", args, codes, 2, &ret, &code) == MBLOB_OK && ret.v_int64 == 10);
  mblob_function_release(five);
  CHECK(call_ints(module, "deletions", 0, 0) == before + 1);
  mblob_function_release(ten);
}

static void objects_of_others_are_passed_on(mblob_module *module) {
  TVMValue ret, again;
  int code, code_again;
  const int64_t before = call_ints(module, "deletions", 0, 0);
  CHECK(call(module, "opaque", NULL, NULL, 0, &ret, &code) == MBLOB_OK &&
        code == kTVMPackedFuncHandle);
  CHECK(call(module, "type_of", &ret, &code, 1, &again, &code_again) == MBLOB_OK &&
        again.v_int64 == 200);
  CHECK(mblob_function_call(ret.v_handle, NULL, NULL, 0, NULL, NULL) == MBLOB_E_ARGUMENT);
  CHECK(strstr(mblob_last_error(), "an object of type 200 of the ffi dialect is no function"));
  mblob_function_release(ret.v_handle);
  CHECK(call_ints(module, "deletions", 0, 0) == before + 1);
}

static void functions_are_objects_of_the_interface(mblob_module *module) {
  mblob_function *add = function_of(module, "add"), *back = NULL;
  void *object = NULL;
  CHECK(mblob_function_to_ffi(add, &object) == MBLOB_OK && object);
  CHECK(mblob_function_from_ffi(object, &back) == MBLOB_OK && back == add);
  mblob_function_release(back);
  /* Called and given back as others do it: {u64 counts, i32 type, deleter, call}. */
  struct {
    int32_t type;
    uint32_t zero;
    int64_t value;
  } args[2] = {{1, 0, 3}, {1, 0, 4}}, ret = {0, 0, 0};
  struct {
    uint64_t counts;
    int32_t type;
    uint32_t zero;
    union {
      void (*call)(void *self, int flags);
      int64_t room; /* of a pointer of 64 bits, everywhere */
    } deleter;
    int (*call)(void *self, const void *args, int32_t count, void *ret);
  } *header = object;
  CHECK(header->type == 68 && header->call(object, args, 2, &ret) == 0 && ret.type == 1 &&
        ret.value == 7);
  CHECK(header->call(object, args, 1, &ret) == -1);
  header->deleter.call(object, 3);
  mblob_function_release(add);
  CHECK(mblob_function_to_ffi(NULL, &object) == MBLOB_E_ARGUMENT &&
        mblob_function_from_ffi(NULL, &back) == MBLOB_E_ARGUMENT);
}

static void functions_are_found_by_name(mblob_module *module, bool old) {
  mblob_function *ten;
  CHECK(mblob_function_create(add_ten, NULL, NULL, &ten) == MBLOB_OK);
  CHECK(mblob_register_global("test.ten", ten, 1) == MBLOB_OK);
  TVMValue args[2] = {{.v_str = "test.ten"}, {.v_int64 = 1}}, ret;
  int codes[2] = {kTVMStr, kTVMArgInt}, code;
  for (int i = 0; i < 3; i++)
    CHECK(call(module, "asks", args, codes, 2, &ret, &code) == MBLOB_OK && code == kTVMArgInt &&
          ret.v_int64 == 11);
  args[0].v_str = "test.nobody";
  CHECK(call(module, "asks", args, codes, 2, &ret, &code) == MBLOB_E_NOT_FOUND);
  CHECK(strstr(mblob_last_error(), "Cannot find function test.nobody"));
  if (!old) {
    args[0].v_str = "test.registered";
    args[1].v_handle = ten;
    codes[1] = kTVMPackedFuncHandle;
    CHECK(call(module, "registers", args, codes, 2, NULL, NULL) == MBLOB_OK);
    CHECK(call(module, "global", args, codes, 1, &ret, &code) == MBLOB_OK &&
          code == kTVMPackedFuncHandle && ret.v_handle == ten);
    mblob_function_release(ret.v_handle);
    args[0].v_str = "test.nobody";
    CHECK(call(module, "global", args, codes, 1, &ret, &code) == MBLOB_OK && code == kTVMNullptr);
    mblob_function *nothing;
    CHECK(mblob_function_create(do_nothing, NULL, NULL, &nothing) == MBLOB_OK);
    CHECK(mblob_register_global("once", nothing, 1) == MBLOB_OK);
    mblob_function_release(nothing);
    const int64_t first = call_ints(module, "once", 0, 0); /* the library stays in memory */
    CHECK(first >= 1 && call_ints(module, "once", 0, 0) == first + 1);
    CHECK(TVMFuncRemoveGlobal("once") == 0 && TVMFuncRemoveGlobal("test.registered") == 0);
  }
  CHECK(TVMFuncRemoveGlobal("test.ten") == 0);
  mblob_function_release(ten);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void expect_error(mblob_module *module, const char *name, const char *text) {
  CHECK(call(module, name, NULL, NULL, 0, NULL, NULL) == MBLOB_E_KERNEL);
  CHECK(strcmp(mblob_last_error(), text) == 0);
}

static void errors_have_kind_and_text(mblob_module *module, bool old) {
  const TVMValue args[2] = {{.v_str = "IndexError"}, {.v_str = "line 1\nline 2"}};
  const int codes[2] = {kTVMStr, kTVMStr};
  CHECK(call(module, "fails", args, codes, 2, NULL, NULL) == MBLOB_E_KERNEL);
  CHECK(strcmp(mblob_last_error(), "IndexError: line 1\nline 2") == 0);
  expect_error(module, "fails_silently", "fails_silently: returned -1 and gave no reason");
  expect_error(module, "add", "TypeError: add: expected 2 arguments");
  if (old) return;
  expect_error(module, "fails_in_parts", "ValueError: one two three");
  expect_error(module, "fails_with_object", "my.Error: a message");
}

/* However long the chain is: the stack does not grow with it. */
static void causes_and_contexts_end_with_their_error(mblob_module *module) {
  const int code = kTVMArgInt;
  for (int64_t count = 1; count <= 400000; count *= 400000) {
    const TVMValue arg = {.v_int64 = count};
    const int64_t before = call_ints(module, "deletions", 0, 0);
    CHECK(call(module, "fails_with_causes", &arg, &code, 1, NULL, NULL) == MBLOB_E_KERNEL);
    CHECK(strcmp(mblob_last_error(), "my.Error: a message") == 0);
    CHECK(call_ints(module, "deletions", 0, 0) == before + count);
  }
}

static void loops_run_and_fail(mblob_module *module) {
  CHECK(call_ints(module, "parallel", -1, 0) == 6);
  const TVMValue two = {.v_int64 = 2};
  const int code = kTVMArgInt;
  CHECK(call(module, "parallel", &two, &code, 1, NULL, NULL) == MBLOB_E_KERNEL);
  CHECK(strstr(mblob_last_error(), "IndexError: this task fails"));
  CHECK(call_ints(module, "workspace", 0, 0) == 7);
}

static void *work(void *argument) {
  mblob_module *module = argument;
  for (int i = 0; i < 200; i++) {
    CHECK(call_ints(module, "add", i, 1) == i + 1);
    CHECK(call(module, "add", NULL, NULL, 0, NULL, NULL) == MBLOB_E_KERNEL);
    CHECK(strcmp(mblob_last_error(), "TypeError: add: expected 2 arguments") == 0);
    CHECK(call_ints(module, "parallel", -1, 0) == 6);
  }
  return NULL;
}

static void threads_keep_their_errors(mblob_module *module) {
  pthread_t threads[4];
  for (int i = 0; i < COUNT(threads); i++)
    CHECK(pthread_create(&threads[i], NULL, work, module) == 0);
  for (int i = 0; i < COUNT(threads); i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

/* ---- libraries ------------------------------------------------------------------------------- */

static void entries_and_names(mblob_module *module) {
  mblob_function *function;
  const TVMValue args[] = {{.v_int64 = 1}, {.v_int64 = 2}};
  const int codes[] = {kTVMArgInt, kTVMArgInt};
  TVMValue ret;
  int code;
  CHECK(call(module, "__tvm_main__", args, codes, 2, &ret, &code) == MBLOB_OK && ret.v_int64 == 3);
  CHECK(mblob_module_function(module, "nobody", 0, &function) == MBLOB_E_NOT_FOUND);
  CHECK(strstr(mblob_last_error(), "it has: ") && !strstr(mblob_last_error(), "__tvm") &&
        strstr(mblob_last_error(), "add"));
  CHECK(strcmp(mblob_module_dialect(module), "") == 0); /* there is no blob */
}

static void the_plug_in_is_missing(const char *dir) {
  mblob_module *module;
  CHECK(setenv("MBLOB_PLUGIN_PATH", "/nowhere", 1) == 0);
  CHECK(mblob_open(in(dir, "ffi.so"), NULL, &module) == MBLOB_E_INCOMPATIBLE && !module);
  CHECK(strstr(mblob_last_error(), "need libmblob-ffi.so") &&
        strstr(mblob_last_error(), "/nowhere"));
  mblob_function *function = NULL, *other = NULL;
  void *object = &object;
  CHECK(mblob_function_create(add_ten, NULL, NULL, &function) == MBLOB_OK);
  CHECK(mblob_function_to_ffi(function, &object) == MBLOB_E_INCOMPATIBLE && !object);
  CHECK(mblob_function_from_ffi(&function, &other) == MBLOB_E_INCOMPATIBLE && !other);
  mblob_function_release(function);
}

static void closes_and_opens(const char *dir, const char *name) {
  for (int i = 0; i < 3; i++) {
    mblob_module *module = open_ok(dir, name);
    CHECK(call_ints(module, "add", i, 1) == i + 1);
    functions_are_found_by_name(module, strcmp(name, "ffi_old.so") == 0);
    mblob_module_release(module);
  }
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  const char *dir = argv[1];
  /* mblob.c has the plug-in itself; else it lies, built with the same sanitizers, beside this program */
  const bool within = getenv("MBLOB_TEST_PLUGIN_WITHIN") != NULL;
  char plugins[4096] = "";
  CHECK(readlink("/proc/self/exe", plugins, sizeof(plugins) - 8) > 0);
  if (!within) {
    printf("  the_plug_in_is_missing\n");
    (void)fflush(stdout);
    const pid_t child = fork();
    int status = 1;
    CHECK(child >= 0);
    if (!child) {
      the_plug_in_is_missing(dir);
      exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  strcpy(strrchr(plugins, '/'), "/ffi");
  CHECK(setenv("MBLOB_PLUGIN_PATH", within ? "/nowhere" : plugins, 1) == 0);
  mblob_module *module = open_ok(dir, "ffi.so"), *old = open_ok(dir, "ffi_old.so");
  RUN(values_of_all_kinds_go_in, module, false);
  RUN(values_of_all_kinds_go_in, old, true);
  RUN(each_type_is_told_from_all_others, module, false);
  RUN(each_type_is_told_from_all_others, old, true);
  RUN(tensors_are_lent, module, false);
  RUN(tensors_are_lent, old, true);
  RUN(values_come_out, module);
  RUN(containers_go_through, module);
  RUN(tensors_are_shared, module);
  RUN(functions_go_both_ways, module);
  RUN(objects_of_others_are_passed_on, module);
  RUN(functions_are_objects_of_the_interface, module);
  RUN(functions_are_found_by_name, module, false);
  RUN(functions_are_found_by_name, old, true);
  RUN(errors_have_kind_and_text, module, false);
  RUN(errors_have_kind_and_text, old, true);
  RUN(causes_and_contexts_end_with_their_error, module);
  RUN(loops_run_and_fail, module);
  RUN(loops_run_and_fail, old);
  RUN(threads_keep_their_errors, module);
  RUN(entries_and_names, module);
  RUN(entries_and_names, old);
  mblob_module_release(module);
  mblob_module_release(old);
  RUN(closes_and_opens, dir, "ffi.so");
  RUN(closes_and_opens, dir, "ffi_old.so");
  return 0;
}
