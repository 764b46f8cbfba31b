/* test_virtual_machine DIRECTORY: programs on several threads, and programs that lie: every
 * field of every instruction replaced, with the hash repaired, loaded and run within limits.
 * Each must end in a result or an error. */
#include "../common/check.h"

#include <pthread.h>
#include <stdbool.h>

enum { THREADS = 4, RUNS = 50, PARAM_LIMIT = 8, INSTRUCTION_LIMIT = 2000, BYTE_LIMIT = 1 << 24 };

static uint8_t *seeds;
static size_t seeds_size;

static void read_seeds(const char *directory) {
  FILE *file = fopen(in(directory, "vm_programs.bin"), "rb");
  CHECK(file && fseek(file, 0, SEEK_END) == 0);
  seeds_size = (size_t)ftell(file);
  seeds = malloc(seeds_size);
  rewind(file);
  CHECK(seeds && fread(seeds, 1, seeds_size, file) == seeds_size);
  (void)fclose(file);
}

static uint64_t word_at(const uint8_t *p) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; i--) value = value << 8 | p[i];
  return value;
}

static void put_word(uint8_t *p, uint64_t value) {
  for (int i = 0; i < 8; i++) p[i] = (uint8_t)(value >> 8 * i);
}

/* ---- primitives ------------------------------------------------------------------------------ */

static size_t size_of(const DLTensor *t) {
  size_t size = ((size_t)t->dtype.bits * t->dtype.lanes + 7) / 8;
  for (int i = 0; i < t->ndim; i++) size *= (size_t)t->shape[i];
  return size;
}

/* Reads all of its inputs and writes all of its output, the last argument, whatever their
 * shapes. */
static int primitive(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource) {
  unsigned sum = 0;
  (void)ret;
  (void)resource;
  for (int i = 0; i < count; i++) {
    const DLTensor *t = args[i].v_handle;
    if (codes[i] != kTVMNDArrayHandle || t->byte_offset || t->strides || (uintptr_t)t->data % 64)
      return mblob_set_error(MBLOB_E_KERNEL, "not an array for kernels");
    const volatile uint8_t *data = t->data;
    for (size_t k = 0, size = i + 1 < count ? size_of(t) : 0; k < size; k++) sum += data[k];
  }
  if (!count) return mblob_set_error(MBLOB_E_KERNEL, "no output");
  const DLTensor *out = args[count - 1].v_handle;
  if (size_of(out)) memset(out->data, (int)(sum & 1), size_of(out));
  return 0;
}

static int find_primitive(void *self, const char *name, mblob_function **out) {
  (void)self;
  return strncmp(name, "vm_", 3) == 0 ? mblob_function_create(primitive, NULL, NULL, out)
                                      : MBLOB_OK;
}

static mblob_module *make_kernels(void) {
  const mblob_loader loader = {
      .struct_size = sizeof(loader), .type_key = "kernels", .function = find_primitive};
  mblob_module *module = NULL;
  CHECK(mblob_module_create(&loader, NULL, &module) == MBLOB_OK);
  return module;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* A status; `ret` may be NULL. */
static int call(mblob_module *module, const char *name, TVMValue *args, int *codes, int count,
                TVMValue *ret, int *ret_code) {
  mblob_function *function = NULL;
  TVMValue ignored;
  int ignored_code, *code = ret_code ? ret_code : &ignored_code;
  CHECK(mblob_module_function(module, name, 0, &function) == MBLOB_OK);
  int status = mblob_function_call(function, args, codes, count, ret ? ret : &ignored, code);
  CHECK(!status || mblob_last_error()[0]);
  mblob_function_release(function);
  return status;
}

static int load(const uint8_t *code, size_t size, mblob_module *kernels, mblob_module **out) {
  mblob_function *function = NULL;
  TVMByteArray bytes = {(const char *)code, size};
  TVMValue args[] = {{.v_handle = &bytes}, {.v_handle = kernels}}, ret;
  int codes[] = {kTVMBytes, kTVMModuleHandle}, ret_code;
  CHECK(mblob_get_global("runtime.Load_Executable", &function) == MBLOB_OK);
  int status = mblob_function_call(function, args, codes, 2, &ret, &ret_code);
  mblob_function_release(function);
  *out = status ? NULL : ret.v_handle;
  return status;
}

static void drop(TVMValue value, int code) {
  if (code == kTVMNDArrayHandle) (void)TVMArrayFree(value.v_handle);
  if (code == kTVMModuleHandle) mblob_module_release(value.v_handle);
}

/* Read what was returned, as far as it goes. */
static void look_at(TVMValue value, int code, int depth) {
  if (code == kTVMNDArrayHandle) {
    const DLTensor *t = value.v_handle;
    const volatile uint8_t *data = t->data;
    unsigned sum = 0;
    for (size_t k = 0; k < size_of(t); k++) sum += data[k];
    (void)sum;
  }
  if (code != kTVMModuleHandle || depth > 4) return;
  TVMValue size, field, index = {.v_int64 = 0};
  int size_code, field_code, index_code = kTVMArgInt;
  CHECK(call(value.v_handle, "get_size", NULL, NULL, 0, &size, &size_code) == MBLOB_OK);
  for (; index.v_int64 < size.v_int64; index.v_int64++) {
    if (call(value.v_handle, "get_field", &index, &index_code, 1, &field, &field_code)) continue;
    look_at(field, field_code, depth + 1);
    drop(field, field_code);
  }
}

/* ---- running a program ----------------------------------------------------------------------- */

static const float floats[4] = {1, 2, 3, 4};
static const int64_t number = 3, shape_of_result[2] = {2, 2};
static const int64_t four = 4, two = 2;

/* Something for a parameter of that name. */
static DLTensor argument_for(const char *param) {
  DLTensor t = {.device = {kDLCPU, 0}};
  if (*param == 'n') {
    t.data = (void *)(uintptr_t)&number;
    t.dtype = (DLDataType){kDLInt, 64, 1};
  } else if (*param == 's') {
    t.data = (void *)(uintptr_t)shape_of_result;
    t.dtype = (DLDataType){kDLInt, 64, 1};
    t.ndim = 1;
    t.shape = (int64_t *)(uintptr_t)&two;
  } else {
    t.data = (void *)(uintptr_t)floats;
    t.dtype = (DLDataType){kDLFloat, 32, 1};
    t.ndim = 1;
    t.shape = (int64_t *)(uintptr_t)&four;
  }
  return t;
}

/* Arguments for `function` behind its name; how many values, -1 if there are too many. */
static int prepare(mblob_module *executable, const char *function, TVMValue *args, int *codes,
                   DLTensor *tensors) {
  TVMValue arity, name, asked[] = {{.v_str = function}, {.v_int64 = 0}};
  int code, asked_codes[] = {kTVMStr, kTVMArgInt};
  args[0].v_str = function;
  codes[0] = kTVMStr;
  CHECK(call(executable, "get_function_arity", asked, asked_codes, 1, &arity, &code) == MBLOB_OK);
  if (arity.v_int64 > PARAM_LIMIT) return -1;
  for (; asked[1].v_int64 < arity.v_int64; asked[1].v_int64++) {
    int64_t i = asked[1].v_int64;
    CHECK(call(executable, "get_function_param_name", asked, asked_codes, 2, &name, &code) ==
          MBLOB_OK);
    tensors[i] = argument_for(name.v_str);
    args[i + 1].v_handle = &tensors[i];
    codes[i + 1] = kTVMDLTensorHandle;
  }
  return (int)arity.v_int64 + 1;
}

static int run_function(mblob_module *executable, mblob_module *vm, const char *function) {
  TVMValue args[PARAM_LIMIT + 1], ret;
  int codes[PARAM_LIMIT + 1], code;
  DLTensor tensors[PARAM_LIMIT];
  int count = prepare(executable, function, args, codes, tensors);
  if (count < 0) return MBLOB_E_ARGUMENT;
  int status = call(vm, "invoke", args, codes, count, &ret, &code);
  if (status) return status;
  look_at(ret, code, 0);
  drop(ret, code);
  return MBLOB_OK;
}

static mblob_module *start(mblob_module *executable) {
  TVMValue limits[] = {{.v_int64 = INSTRUCTION_LIMIT}, {.v_int64 = BYTE_LIMIT}}, vm;
  int limit_codes[] = {kTVMArgInt, kTVMArgInt}, code;
  if (call(executable, "vm_load_executable", NULL, NULL, 0, &vm, &code)) return NULL;
  CHECK(call(vm.v_handle, "set_limits", limits, limit_codes, 2, NULL, NULL) == MBLOB_OK);
  return vm.v_handle;
}

/* Load the code and run each of its functions; how many gave a result. */
static int run_all(const uint8_t *code, size_t size, mblob_module *kernels) {
  mblob_module *executable = NULL;
  TVMValue list;
  int list_code, good = 0;
  if (load(code, size, kernels, &executable)) return 0;
  CHECK(call(executable, "get_bytecode", NULL, NULL, 0, &list, &list_code) == MBLOB_OK);
  CHECK(call(executable, "get_function_names", NULL, NULL, 0, &list, &list_code) == MBLOB_OK);
  char *names = strdup(list.v_str), *rest = NULL;
  mblob_module *vm = start(executable);
  CHECK(names);
  for (char *name = strtok_r(names, "\n", &rest); vm && name; name = strtok_r(NULL, "\n", &rest))
    good += run_function(executable, vm, name) == MBLOB_OK;
  free(names);
  mblob_module_release(vm);
  mblob_module_release(executable);
  return good;
}

/* ---- programs that lie ----------------------------------------------------------------------- */

static uint64_t hash_of(const uint8_t *instruction, uint64_t count) {
  uint64_t hash = word_at(instruction + 16);
  for (uint64_t i = 2; i < count; i++)
    hash ^= word_at(instruction + 8 + 8 * i) + UINT64_C(0x9e3779b9) + (hash << 6) + (hash >> 2);
  return hash;
}

/* Whether an instruction starts at `at`: a count, a hash, an opcode, and fields that give the
 * hash. */
static bool is_instruction(const uint8_t *code, size_t size, size_t at) {
  if (size - at < 24) return false;
  uint64_t count = word_at(code + at);
  if (count < 2 || count > (size - at) / 8 - 1 || word_at(code + at + 16) > 20) return false;
  return hash_of(code + at, count) == word_at(code + at + 8);
}

static int lie_about(uint8_t *code, size_t size, size_t at, mblob_module *kernels) {
  static const uint64_t lies[] = {
      0, 1, 2, 5, 64, 4096, UINT64_MAX, UINT64_C(1) << 31, UINT64_C(1) << 61, UINT64_C(1) << 63};
  uint64_t count = word_at(code + at);
  int good = 0;
  for (uint64_t field = 1; field < count; field++) { /* 1: the opcode */
    uint8_t *place = code + at + 8 + 8 * field;
    uint64_t old = word_at(place), old_hash = word_at(code + at + 8);
    for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
      put_word(place, lies[i]);
      uint64_t hash = hash_of(code + at, count);
      put_word(code + at + 8, hash);
      good += run_all(code, size, kernels);
    }
    put_word(place, old);
    put_word(code + at + 8, old_hash);
  }
  return good;
}

static void lies_end_in_results_or_errors(void) {
  mblob_module *kernels = make_kernels();
  int good = 0, instructions = 0;
  for (size_t at = 0; at < seeds_size; at += 8 + word_at(seeds + at)) {
    size_t size = word_at(seeds + at);
    uint8_t *code = malloc(size); /* its own block: reads behind its end are seen */
    CHECK(code);
    memcpy(code, seeds + at + 8, size);
    CHECK(run_all(code, size, kernels) > 0);
    for (size_t place = 0; place < size; place++)
      if (is_instruction(code, size, place)) {
        good += lie_about(code, size, place, kernels);
        instructions++;
      }
    CHECK(run_all(code, size, kernels) > 0);
    free(code);
  }
  CHECK(instructions > 100 && good > 0);
  mblob_module_release(kernels);
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *work(void *executable) {
  mblob_module *vm = start(executable);
  CHECK(vm);
  for (int i = 0; i < RUNS; i++) CHECK(run_function(executable, vm, "main") == MBLOB_OK);
  mblob_module_release(vm);
  return NULL;
}

static void machines_of_one_program_run_on_threads(void) {
  pthread_t threads[THREADS];
  mblob_module *kernels = make_kernels(), *executable = NULL;
  CHECK(load(seeds + 8, word_at(seeds), kernels, &executable) == MBLOB_OK);
  mblob_module_release(kernels);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, work, executable) == 0);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  mblob_module_release(executable);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  read_seeds(argv[1]);
  RUN(machines_of_one_program_run_on_threads);
  RUN(lies_end_in_results_or_errors);
  free(seeds);
  return 0;
}
