/* test_calls DIRECTORY: looking up and calling functions, and what they find, on the libraries
 * that the Makefile builds. */
#include <limits.h>

#include "../common/check.h"

static void the_ten_line_way_works(const char *dir) {
  float a[3] = {1, 2, 3}, b[3] = {10, 20, 30}, c[3] = {0};
  mblob_module *module = open_ok(dir, "plain.so");
  CHECK(strcmp(mblob_module_type_key(module), "library") == 0);
  CHECK(mblob_module_import_count(module) == 0 && mblob_module_import_at(module, 0) == NULL);
  CHECK(mblob_call(module, "vadd", "float32[3],float32[3],float32[3]", a, b, c) == MBLOB_OK);
  CHECK(c[0] == 11 && c[1] == 22 && c[2] == 33);
  CHECK(mblob_call(module, "__tvm_main__", "float32[3],float32[3],float32[3]", c, b, a) ==
        MBLOB_OK);
  CHECK(a[2] == 63);
  mblob_module_release(module);
}

static void a_kernel_error_comes_through_exactly(const char *dir) {
  mblob_module *module = open_ok(dir, "plain.so");
  CHECK(mblob_call(module, "vadd", "int64", (int64_t)1) == MBLOB_E_KERNEL);
  CHECK(strcmp(mblob_last_error(), "vadd: num_args should be 3") == 0);
  CHECK(mblob_call(module, "fails_silently", "int64", (int64_t)1) == MBLOB_E_KERNEL);
  CHECK(strstr(mblob_last_error(), "fails_silently"));
  mblob_module_release(module);
}

static void results_are_what_the_kernel_stored(const char *dir) {
  mblob_module *module = open_ok(dir, "plain.so");
  mblob_function *function;
  TVMValue ret;
  int code;
  CHECK(call_int(module, "returns_int", 5) == 1);
  CHECK(mblob_module_function(module, "returns_string", 0, &function) == MBLOB_OK);
  CHECK(mblob_function_call(function, NULL, NULL, 0, &ret, &code) == MBLOB_OK);
  CHECK(code == kTVMStr && strcmp(ret.v_str, "from a kernel") == 0);
  mblob_function_release(function);
  CHECK(call_status(module, "returns_nonsense", 0) == MBLOB_E_ARGUMENT);
  mblob_module_release(module);
}

static void a_missing_function_lists_what_there_is(const char *dir) {
  mblob_module *module = open_ok(dir, "plain.so");
  mblob_function *function;
  CHECK(mblob_module_function(module, "nope", 1, &function) == MBLOB_E_NOT_FOUND && !function);
  CHECK(strstr(mblob_last_error(), "vadd"));
  CHECK(mblob_module_function(module, "some_data", 1, &function) == MBLOB_E_NOT_FOUND);
  CHECK(mblob_module_function(module, "malloc", 1, &function) == MBLOB_E_NOT_FOUND);
  CHECK(mblob_module_symbol(module, "malloc") == NULL);
  CHECK(*(int *)mblob_module_symbol(module, "some_data") == 5);
  union {
    void *address;
    double (*function)(double);
  } plain = {mblob_module_symbol(module, "plain_c")};
  CHECK(plain.function(1) == 1.5);
  mblob_module_release(module);
}

static void arrays_are_as_large_as_their_type_says(const char *dir) {
  mblob_module *module = open_ok(dir, "plain.so");
  const char *const wrong[] = {"int7[1]",         "uint3[1]",        "int128[1]",
                               "float8[1]",       "float31[1]",      "bfloat32[1]",
                               "complex8[1]",     "float32x0[1]",    "float32x70000[1]",
                               "float8_e4m3f[1]", "e4m3_float8x[1]", "_[1]"};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
    CHECK(mblob_call(module, "returns_int", wrong[i], dir) == MBLOB_E_ARGUMENT);
    CHECK(strstr(mblob_last_error(), "unknown element type"));
  }
  /* 4 bytes each, in a place that needs a copy: sanitizers see a byte too much. */
  const char *const four[] = {"int4x8[1]",       "int8x4[1]",        "float16x2[1]",
                              "float32x1[1]",    "uint1x32[1]",      "bool[4]",
                              "e4m3_float8[4]",  "float8_e5m2x4[1]", "float8_e4m3b11fnuz[2, 2]",
                              "float4_e2m1fn[4]"};
  for (size_t i = 0; i < sizeof(four) / sizeof(*four); i++) {
    char *bytes = malloc(5);
    CHECK(bytes && memcpy(bytes, "abcd", 5));
    CHECK(mblob_call(module, "returns_int", four[i], bytes + 1) == MBLOB_OK);
    free(bytes);
  }
  mblob_module_release(module);
}

static void a_function_keeps_its_library(const char *dir) {
  mblob_module *module = open_ok(dir, "plain.so");
  mblob_function *function;
  TVMValue ret;
  int code;
  CHECK(mblob_module_function(module, "returns_int", 0, &function) == MBLOB_OK);
  mblob_module_release(module);
  CHECK(mblob_function_call(function, NULL, NULL, 0, &ret, &code) == MBLOB_OK && ret.v_int64 == 0);
  mblob_function_release(mblob_function_retain(function));
  mblob_function_release(function);
}

static void the_table_tells_plain_from_packed(const char *dir) {
  mblob_module *module = open_ok(dir, "table.so");
  mblob_function *function;
  float x[4] = {1, 2, 3, 4};
  CHECK(mblob_module_function(module, "scale", 0, &function) == MBLOB_OK);
  CHECK(mblob_function_alignment(function) == 0);
  CHECK(strcmp(mblob_function_signature(function), "float *, float, int64_t") == 0);
  mblob_function_release(function);
  CHECK(mblob_call(module, "scale", "float32[4],float64,int64", x, 2.0, (int64_t)4) == MBLOB_OK &&
        x[3] == 8);
  CHECK(mblob_module_function(module, "lonely", 0, &function) == MBLOB_E_NOT_FOUND);
  CHECK(strstr(mblob_last_error(), "plain C function"));
  CHECK(mblob_module_function(module, "wide", 0, &function) == MBLOB_OK);
  CHECK(mblob_function_alignment(function) == 32 && !*mblob_function_signature(function));
  mblob_function_release(function);
  mblob_module_release(module);
  module = open_ok(dir, "plain.so");
  CHECK(mblob_module_function(module, "vadd", 0, &function) == MBLOB_OK);
  CHECK(mblob_function_alignment(function) == 64);
  mblob_function_release(function);
  mblob_module_release(module);
}

static int64_t noted(mblob_module *module, int code) {
  CHECK(*(const int *)mblob_module_symbol(module, "noted_code") == code);
  return ((const TVMValue *)mblob_module_symbol(module, "noted_value"))->v_int64;
}

static double noted_float(mblob_module *module) {
  (void)noted(module, kTVMArgFloat);
  return ((const TVMValue *)mblob_module_symbol(module, "noted_value"))->v_float64;
}

#define NOTES(type, value, expected)                           \
  CHECK(mblob_call(module, "note", type, value) == MBLOB_OK && \
        noted(module, kTVMArgInt) == (expected))
#define REFUSES(text, ...) \
  CHECK(mblob_call(module, __VA_ARGS__) == MBLOB_E_ARGUMENT && strstr(mblob_last_error(), text))

static void numbers_are_what_their_words_say(const char *dir) {
  mblob_module *module = open_ok(dir, "table.so");
  float x = 0;
  NOTES("int", 3, 3);
  NOTES("int", -3, -3);
  NOTES("int", INT_MIN, INT_MIN);
  NOTES("int8", (int8_t)-128, -128);
  NOTES("int16", (int16_t)-3, -3);
  NOTES("int32", (int32_t)-3, -3);
  NOTES("int64", INT64_MIN, INT64_MIN);
  NOTES("uint8", (uint8_t)255, 255);
  NOTES("uint16", (uint16_t)65535, 65535);
  NOTES("uint32", UINT32_MAX, INT64_C(0xffffffff));
  NOTES("uint64", (uint64_t)INT64_MAX, INT64_MAX);
  NOTES("bool", true, 1);
  CHECK(mblob_call(module, "note", "float32", 1.5f) == MBLOB_OK && noted_float(module) == 1.5);
  CHECK(mblob_call(module, "note", "float64", 0.1) == MBLOB_OK && noted_float(module) == 0.1);
  CHECK(mblob_call(module, "note", "double", 0.1) == MBLOB_OK && noted_float(module) == 0.1);
  /* One behind the other, and behind a pointer: each takes as much as it is. */
  CHECK(mblob_call(module, "note", "float32[*], int, int64, int, float32, uint64, int", (int64_t)1,
                   &x, 1, INT64_MIN, 2, 1.5f, UINT64_C(5), -7) == MBLOB_OK);
  CHECK(noted(module, kTVMArgInt) == -7);
  mblob_module_release(module);
}

static void numbers_out_of_range_are_refused(const char *dir) {
  mblob_module *module = open_ok(dir, "table.so");
  float x = 0;
  REFUSES("128 is no int8", "note", "int8", 128);
  REFUSES("-129 is no int8", "note", "int8", -129);
  REFUSES("-1 is no uint8", "note", "uint8", -1);
  REFUSES("65536 is no uint16", "note", "uint16", 65536);
  REFUSES("2 is no bool", "note", "bool", 2);
  /* The convention has 64 bits with a sign. */
  REFUSES("18446744073709551615 is above INT64_MAX", "note", "uint64", UINT64_MAX);
  CHECK(mblob_call(module, "note_u64", "float32[1], uint64", &x, UINT64_MAX) == MBLOB_OK &&
        noted(module, kTVMArgInt) == -1);
  REFUSES("expected 0 or more for a uint64_t, found -1", "note_u64", "float32[1], int", &x, -1);
  mblob_module_release(module);
}

static void a_wrong_word_is_told_the_words(const char *dir) {
  mblob_module *module = open_ok(dir, "table.so");
  REFUSES("unknown word 'in'; expected int, int8,", "note", "in", 1);
  REFUSES("(TYPE, ...); did you mean 'int'?", "note", "in", 1);
  REFUSES("; did you mean 'float64'?", "note", "flaot64", 1.0);
  REFUSES(
      "unknown word 'size_t'; expected int, int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool, float32, "
      "float64, double, str, handle, tensor, object, function, module, shape[dimensions], DTYPE[dimensions] or "
      "(TYPE, ...)",
      "note", "size_t", (size_t)1);
  REFUSES("unknown element type 'flaot32'; expected one such as", "note", "flaot32[1]",
          (void *)module);
  REFUSES("int8x4; did you mean 'float32'?", "note", "flaot32[1]", (void *)module);
  REFUSES("unknown element type 'double'", "note", "double[1]", (void *)module);
  REFUSES("cannot be read; expected int, int8,", "note", "unsigned int", 1u);
  mblob_module_release(module);
}

static void a_damaged_table_is_refused(const char *dir) {
  mblob_module *module;
  CHECK(mblob_open(in(dir, "bad_table.so"), NULL, &module) == MBLOB_E_FORMAT && !module);
  CHECK(strcmp(mblob_last_error_info()->code, "function_table") == 0);
}

static void loops_run_on_real_threads(const char *dir) {
  mblob_module *module = open_ok(dir, "plain.so");
  CHECK(call_int(module, "parallel", 1) == 1);
  CHECK(call_int(module, "parallel", 5) == 5);
  CHECK(call_int(module, "parallel", 0) >= 1);
  CHECK(call_status(module, "parallel_fails", 0) == MBLOB_E_KERNEL);
  CHECK(strstr(mblob_last_error(), "Task 1 error: the second task does not like it"));
  CHECK(call_status(module, "parallel_nested", 0) == MBLOB_OK);
  CHECK(call_status(module, "workspace", 20) == MBLOB_OK);
  CHECK(call_status(module, "workspace", 60) == MBLOB_OK);
  mblob_module_release(module);
}

/* ---- environment ----------------------------------------------------------------------------- */

static int twice(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource) {
  (void)codes;
  if (count != 1) return mblob_set_error(MBLOB_E_ARGUMENT, "twice: one argument");
  TVMValue value = {.v_int64 = 2 * args[0].v_int64 + *(int *)resource};
  int code = kTVMArgInt;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

static int finalized;
static void finalize(void *resource) { finalized += *(int *)resource; }

static void kernels_reach_global_functions(const char *dir) {
  int bias = 1;
  mblob_function *function, *other;
  mblob_module *module = open_ok(dir, "plain.so");
  CHECK(call_status(module, "calls_twice", 4) != MBLOB_OK);
  CHECK(strstr(mblob_last_error(),
               "Cannot find function host.twice in the imported modules or global registry"));
  CHECK(mblob_function_create(twice, &bias, finalize, &function) == MBLOB_OK);
  CHECK(mblob_register_global("host.twice", function, 0) == MBLOB_OK);
  CHECK(mblob_register_global("host.twice", function, 0) == MBLOB_E_ARGUMENT);
  mblob_function_release(function);
  CHECK(call_int(module, "calls_twice", 4) == 9);
#ifdef __GLIBC__ /* another linker leaves a weak reference to the runtime alone */
  CHECK(call_status(module, "asks_the_host", 4) == MBLOB_OK);
#endif
  CHECK(mblob_get_global("host.twice", &other) == MBLOB_OK);
  mblob_function_release(other);
  CHECK(mblob_get_global("host.none", &other) == MBLOB_E_NOT_FOUND && !other);
  mblob_module_release(module);
  CHECK(finalized == 0);
  CHECK(TVMFuncRemoveGlobal("host.twice") == 0);
  CHECK(finalized == 1);
}

static int note_count(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *seen) {
  (void)args;
  (void)ret;
  ((int *)seen)[0] = count;
  ((int *)seen)[1] = count ? codes[count - 1] : -1;
  return 0;
}

/* Returns its first argument. */
static int give(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *unused) {
  (void)unused;
  return count ? TVMCFuncSetReturn(ret, args, codes, 1) : 0;
}

static int find_function(void *self, const char *name, mblob_function **out) {
  *out = NULL;
  if (strcmp(name, "note_count") == 0) return mblob_function_create(note_count, self, NULL, out);
  return strcmp(name, "give") == 0 ? mblob_function_create(give, NULL, NULL, out) : MBLOB_OK;
}

static mblob_module *callbacks(int *seen) {
  static const mblob_loader loader = {
      .struct_size = sizeof(loader), .type_key = "callbacks", .function = find_function};
  mblob_module *module = NULL;
  CHECK(mblob_module_create(&loader, seen, &module) == MBLOB_OK);
  return module;
}

static void a_prepared_call_takes_new_arguments(const char *dir) {
  float a[4] = {1, 2, 3}, b[4] = {10, 20, 30}, c[5] = {0};
  mblob_module *module = open_ok(dir, "plain.so");
  mblob_prepared *vadd = NULL;
  CHECK(mblob_prepare(module, "vadd", "float32[*],float32[3],float32[3]", &vadd) == MBLOB_OK);
  CHECK(mblob_call_prepared(vadd, (int64_t)3, a, b, c) == MBLOB_OK && c[2] == 33);
  CHECK(mblob_call_prepared(vadd, (int64_t)1, c, b, c) == MBLOB_OK && c[0] == 21 && c[1] == 22);
  CHECK(mblob_call_prepared(vadd, (int64_t)3, a, b, c + 1) == MBLOB_OK && c[3] == 33);
  CHECK(mblob_call_prepared(vadd, (int64_t)-1, a, b, c) == MBLOB_E_ARGUMENT &&
        strstr(mblob_last_error(), "no array has these dimensions"));
  CHECK(mblob_call_prepared(vadd, (int64_t)3, a, NULL, c) == MBLOB_E_ARGUMENT &&
        strstr(mblob_last_error(),
               "argument 1 of \"float32[*],float32[3],float32[3]\": the pointer"));
  mblob_module_release(module); /* the call keeps the library */
  CHECK(mblob_call_prepared(vadd, (int64_t)3, a, b, c) == MBLOB_OK);
  mblob_prepared_release(vadd);
  mblob_prepared_release(NULL);
  CHECK(mblob_call_prepared(NULL) == MBLOB_E_ARGUMENT);
}

static void open_extents_are_taken_wherever_they_stand(const char *dir) {
  float a[4] = {1, 2, 3, 4}, b[4] = {10, 20, 30, 40}, c[4] = {0};
  mblob_module *module = open_ok(dir, "plain.so");
  mblob_prepared *call = NULL;
  CHECK(mblob_prepare(module, "vadd", "float32[*],float32[3],float32[*]", &call) == MBLOB_OK);
  CHECK(mblob_call_prepared(call, (int64_t)3, a, b, (int64_t)3, c) == MBLOB_OK && c[2] == 33);
  CHECK(mblob_call_prepared(call, (int64_t)3, a, b, (int64_t)-3, c) == MBLOB_E_ARGUMENT);
  CHECK(mblob_call_prepared(call, (int64_t)3, a, b, (int64_t)3, NULL) == MBLOB_E_ARGUMENT);
  mblob_prepared_release(call);
  CHECK(mblob_prepare(module, "vadd", "float32[*,2],float32[2,*],float32[*,*]", &call) == MBLOB_OK);
  CHECK(mblob_call_prepared(call, INT64_MAX, a, (int64_t)2, b, (int64_t)2, (int64_t)2, c) ==
            MBLOB_E_ARGUMENT &&
        strstr(mblob_last_error(), "no array has these dimensions"));
  CHECK(mblob_call_prepared(call, (int64_t)0, NULL, (int64_t)0, NULL, (int64_t)0, (int64_t)2,
                            NULL) != MBLOB_E_MEMORY);
  mblob_prepared_release(call);
  mblob_module_release(module);
}

static void a_text_is_checked_when_a_call_is_prepared(const char *dir) {
  static const char *const texts[] = {"float32[3",
                                      "int,",
                                      "(int",
                                      "int)",
                                      "int -> ",
                                      "int ->",
                                      "nothing",
                                      "int -> nothing",
                                      "int -> shape[2]",
                                      "int -> int, int",
                                      "((((((((((int))))))))))",
                                      "(int,)",
                                      ","};
  mblob_module *module = open_ok(dir, "plain.so");
  mblob_prepared *call = NULL;
  for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
    CHECK(mblob_prepare(module, "returns_int", texts[i], &call) == MBLOB_E_ARGUMENT && !call);
  CHECK(mblob_prepare(module, "nope", "int", &call) == MBLOB_E_NOT_FOUND && !call);
  CHECK(mblob_prepare(module, "vadd", "int", NULL) == MBLOB_E_ARGUMENT);
  mblob_module_release(module);
}

static void results_go_where_the_text_says(const char *dir) {
  mblob_module *module = open_ok(dir, "plain.so"), *mine = callbacks(NULL), *child = NULL;
  const char *text = NULL;
  int8_t small = 0;
  int64_t wide = 0;
  double number = 0;
  float single = 0;
  bool flag = false;
  CHECK(mblob_call(module, "returns_int", "int,int -> int64", 1, 2, &wide) == MBLOB_OK &&
        wide == 2);
  CHECK(mblob_call(module, "returns_int", " -> int8", &small) == MBLOB_OK && small == 0);
  CHECK(mblob_call(module, "returns_int", "int->float64", 1, &number) == MBLOB_OK && number == 1);
  CHECK(mblob_call(module, "returns_string", "-> str", &text) == MBLOB_OK &&
        strcmp(text, "from a kernel") == 0);
  CHECK(mblob_call(module, "returns_string", "-> int", &wide) == MBLOB_E_ARGUMENT &&
        strstr(mblob_last_error(),
               "returns_string: result of \"-> int\": expected int, found a string"));
  CHECK(mblob_call(mine, "give", "float32 -> float32", 1.5, &single) == MBLOB_OK && single == 1.5f);
  CHECK(mblob_call(mine, "give", "int -> bool", 1, &flag) == MBLOB_OK && flag);
  CHECK(mblob_call(mine, "give", "int -> int8", 128, &small) == MBLOB_E_ARGUMENT &&
        strstr(mblob_last_error(), "128 is no int8"));
  CHECK(mblob_call(mine, "give", "module -> module", module, &child) == MBLOB_OK);
  CHECK(child == module);
  mblob_value_release((TVMValue){.v_handle = child}, kTVMModuleHandle);
  void *nothing = &wide;
  CHECK(mblob_call(mine, "give", "-> object", &nothing) == MBLOB_OK && !nothing);
  mblob_module_release(mine);
  mblob_module_release(module);
}

static void tuples_and_shapes_are_objects(const char *dir) {
  (void)dir;
  int seen[2] = {0};
  float x[2] = {1, 2};
  mblob_module *module = callbacks(seen);
  CHECK(mblob_call(module, "note_count", "int, (float32[2], (int, float32[*]), ()), shape[2,*]", 1,
                   x, 2, (int64_t)2, x, (int64_t)3) == MBLOB_OK);
  CHECK(seen[0] == 3 && seen[1] == kTVMObjectHandle);
  void *shape = NULL;
  CHECK(mblob_call(module, "give", "shape[2,*] -> object", (int64_t)3, &shape) == MBLOB_OK &&
        shape);
  CHECK(mblob_call(module, "note_count", "object", shape) == MBLOB_OK && seen[0] == 1);
  mblob_value_release((TVMValue){.v_handle = shape}, kTVMObjectHandle);
  /* What is kept would point to memory that may go. */
  void *kept = NULL;
  CHECK(mblob_call(module, "give", "(float32[2]) -> object", x, &kept) == MBLOB_E_ARGUMENT &&
        strstr(mblob_last_error(), "the function keeps the tensor") && !kept);
  CHECK(mblob_call(module, "note_count", "(float32[2])", NULL) == MBLOB_E_ARGUMENT);
  mblob_module_release(module);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  const char *dir = argv[1];
  RUN(the_ten_line_way_works, dir);
  RUN(a_kernel_error_comes_through_exactly, dir);
  RUN(results_are_what_the_kernel_stored, dir);
  RUN(a_missing_function_lists_what_there_is, dir);
  RUN(arrays_are_as_large_as_their_type_says, dir);
  RUN(a_function_keeps_its_library, dir);
  RUN(the_table_tells_plain_from_packed, dir);
  RUN(numbers_are_what_their_words_say, dir);
  RUN(numbers_out_of_range_are_refused, dir);
  RUN(a_prepared_call_takes_new_arguments, dir);
  RUN(open_extents_are_taken_wherever_they_stand, dir);
  RUN(a_text_is_checked_when_a_call_is_prepared, dir);
  RUN(results_go_where_the_text_says, dir);
  RUN(tuples_and_shapes_are_objects, dir);
  RUN(a_wrong_word_is_told_the_words, dir);
  RUN(a_damaged_table_is_refused, dir);
  RUN(loops_run_on_real_threads, dir);
  RUN(kernels_reach_global_functions, dir);
  return 0;
}
