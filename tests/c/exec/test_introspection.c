/* test_introspection DIRECTORY: what executors tell of their inputs and outputs, and memory of the
 * caller in their place. */
#include "exec/aot/executor.h"
#include "graphs.h"

static _Alignas(128) float one_to_four[4] = {1, 2, 3, 4};

static mblob_tensor_info info_of(mblob_module *executor, int end, size_t i) {
  mblob_tensor_info info;
  CHECK(mblob_executor_info(executor, end, i, &info) == MBLOB_OK &&
        info.struct_size == sizeof(info));
  return info;
}

static size_t count_of(mblob_module *executor, int end) {
  size_t count = 99;
  CHECK(mblob_executor_count(executor, end, &count) == MBLOB_OK);
  return count;
}

/* `extent`: all of its extents; -1: 2, 3, ... */
static void expect_floats(const mblob_tensor_info *info, const char *name, int ndim, int64_t extent,
                          uint64_t size) {
  CHECK(strcmp(info->name, name) == 0 && info->ndim == ndim && info->size == size);
  CHECK(info->dtype.code == kDLFloat && info->dtype.bits == 32 && info->dtype.lanes == 1 &&
        info->device.device_type == kDLCPU);
  for (int i = 0; i < ndim; i++) CHECK(info->shape[i] == (extent < 0 ? i + 2 : extent));
}

static void there_are_no_more(mblob_module *executor, int end, size_t count, const char *text) {
  mblob_tensor_info info;
  CHECK(count_of(executor, end) == count);
  CHECK(mblob_executor_info(executor, end, count, &info) == MBLOB_E_ARGUMENT &&
        strstr(mblob_last_error(), text));
  CHECK(strcmp(mblob_last_error_info()->code, "argument_index") == 0);
  CHECK(!*info.name && info.ndim == -1 && !info.dtype.bits && !info.data);
  CHECK(mblob_executor_info(executor, end, SIZE_MAX, &info) == MBLOB_E_ARGUMENT);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static mblob_module *graph(mblob_module *kernels, const int *heads) {
  char *json = graph_json(diamond, COUNT(diamond), heads);
  mblob_module *module = create(json, kernels);
  free(json);
  return module;
}

static void a_graph_tells_its_inputs_and_outputs(mblob_module *kernels) {
  mblob_module *m = graph(kernels, (int[]){4, 3, -1});
  there_are_no_more(m, MBLOB_INPUTS, 1, "no input 1; there are 1");
  there_are_no_more(m, MBLOB_OUTPUTS, 2, "no output 2; there are 2");
  mblob_tensor_info info = info_of(m, MBLOB_INPUTS, 0);
  expect_floats(&info, "data", 1, 4, 16);
  CHECK(!info.flags);
  CALL(m, "set_input", "str,float32[4]", "data", one_to_four);
  CALL(m, "run", "");
  info = info_of(m, MBLOB_OUTPUTS, 1);
  expect_floats(&info, "double:1", 2, 2, 16);
  CHECK(((const float *)info.data)[3] == 10);
  float found[4];
  CHECK(mblob_executor_get_output(m, 0, "float32[4]", found) == MBLOB_OK);
  CHECK(mblob_executor_get_output(m, INT64_C(1) << 32, "float32[4]", found) == MBLOB_E_ARGUMENT &&
        strstr(mblob_last_error(), "no output 4294967296"));
  info = info_of(m, MBLOB_OUTPUTS, 0);
  expect_floats(&info, "mixed:0", 1, 4, 16);
  mblob_module_release(m);
}

/* A dictionary of one parameter, as save_param_dict writes it. */
static size_t put(char *to, size_t at, const void *data, size_t size) {
  memcpy(to + at, data, size);
  return at + size;
}
/* A number of `size` bytes, little endian. */
static size_t put_some(char *to, size_t at, uint64_t number, size_t size) {
  for (size_t i = 0; i < size; i++) to[at + i] = (char)(number >> 8 * i);
  return at + size;
}
static size_t put_number(char *to, size_t at, uint64_t number) {
  return put_some(to, at, number, 8);
}

static void parameters_are_marked(mblob_module *kernels) {
  char bytes[256];
  mblob_module *m = graph(kernels, (int[]){4, -1});
  mblob_function *load = NULL;
  size_t at = put_number(bytes, 0, UINT64_C(0xF7E58D4F05049CB7));
  at = put_number(bytes, put_number(bytes, at, 0), 1);
  at = put(bytes, put_number(bytes, at, 4), "data", 4);
  at = put_number(bytes, put_number(bytes, at, 1), UINT64_C(0xDD5E40F096B4A13F));
  at = put_number(bytes, at, 0);
  at = put_some(bytes, put_some(bytes, put_some(bytes, at, 1, 4), 0, 4), 1, 4); /* cpu(0), ndim */
  at = put(bytes, at, (const char[]){kDLFloat, 32, 1, 0}, 4);
  at = put_number(bytes, put_number(bytes, at, 4), sizeof(one_to_four));
  for (size_t i = 0; i < 4; i++) {
    uint32_t bits;
    memcpy(&bits, one_to_four + i, 4);
    at = put_some(bytes, at, bits, 4);
  }
  TVMByteArray array = {bytes, at};
  const TVMValue arg = {.v_handle = &array};
  const int code = kTVMBytes;
  CHECK(mblob_module_function(m, "load_params", 0, &load) == MBLOB_OK);
  CHECK(mblob_function_call(load, &arg, &code, 1, NULL, NULL) == MBLOB_OK);
  mblob_function_release(load);
  CHECK(info_of(m, MBLOB_INPUTS, 0).flags == (MBLOB_TENSOR_PARAMETER | MBLOB_TENSOR_LOADED));
  CHECK(!info_of(m, MBLOB_OUTPUTS, 0).flags);
  mblob_module_release(m);
}

/* ---- models compiled ahead of time ----------------------------------------------------------- */

/* The model in kernels/aot.c is written down as a 64-bit little-endian machine has it. */
static bool model_is_for_this_machine(void) {
  return sizeof(void *) == 8 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
}

static int no_functions(void *self, const char *name, mblob_function **out) {
  (void)self, (void)name;
  *out = NULL;
  return MBLOB_OK;
}

static mblob_module *aot(mblob_module *library) {
  static const mblob_loader loader = {
      .struct_size = sizeof(loader), .type_key = "importer", .function = no_functions};
  static const struct mb_stored_arrays nothing = {0};
  mblob_module *importer = NULL, *executor = NULL;
  CHECK(mblob_module_create(&loader, NULL, &importer) == MBLOB_OK);
  CHECK(mblob_module_import(importer, library) == MBLOB_OK);
  CHECK(mb_aot_executor_create(importer, &nothing, &executor) == MBLOB_OK);
  mblob_module_release(importer);
  return executor;
}

static void a_model_compiled_ahead_of_time_tells_them(mblob_module *library) {
  if (!model_is_for_this_machine()) return;
  mblob_module *m = aot(library);
  there_are_no_more(m, MBLOB_INPUTS, 2, "no input 2; there are 2");
  there_are_no_more(m, MBLOB_OUTPUTS, 1, "no output 1; there are 1");
  mblob_tensor_info info = info_of(m, MBLOB_INPUTS, 0);
  expect_floats(&info, "x", 1, 4, 16);
  info = info_of(m, MBLOB_INPUTS, 1);
  expect_floats(&info, "w", 1, 4, 16);
  info = info_of(m, MBLOB_OUTPUTS, 0);
  CHECK(info.size == 16 && *info.name);
  mblob_module_release(m);
}

/* ---- memory of the caller -------------------------------------------------------------------- */

static void expect_own_memory(mblob_module *m, const char *name) {
  _Alignas(128) static float mine[8], out[4];
  int64_t shape = 4;
  DLTensor tensor = {
      .data = mine, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = &shape};
  CHECK(mblob_call(m, "set_input_zero_copy", "str,tensor", name, &tensor) == MBLOB_OK);
  tensor.data = NULL; /* the tensor itself may go, its memory not */
  CHECK(info_of(m, MBLOB_INPUTS, 0).data == mine);
  tensor.data = out;
  CHECK(mblob_call(m, "set_output_zero_copy", "int,tensor", 0, &tensor) == MBLOB_OK);
  memset(out, 0, sizeof(out));
  memcpy(mine, one_to_four, sizeof(one_to_four));
  CHECK(mblob_executor_run(m) == MBLOB_OK && out[3] != 0);
  CHECK(info_of(m, MBLOB_OUTPUTS, 0).data == out);
  /* Never a copy that goes with the call, which the executor would keep. */
  CHECK(mblob_call(m, "set_input_zero_copy", "str,float32[4]", name, (char *)mine + 1) ==
        MBLOB_E_ARGUMENT);
  CHECK(strstr(mblob_last_error(), "aligned"));
  CHECK(mblob_call(m, "set_output_zero_copy", "int,float32[4]", 0, (char *)out + 1) ==
        MBLOB_E_ARGUMENT);
  memcpy(mine, (const float[]){5, 6, 7, 8}, sizeof(one_to_four));
  const float before = out[0];
  CHECK(mblob_executor_run(m) == MBLOB_OK && out[0] != before);
}

static void memory_of_the_caller_is_used_in_place(mblob_module *kernels, mblob_module *library) {
  mblob_module *m = graph(kernels, (int[]){4, -1});
  expect_own_memory(m, "data");
  mblob_module_release(m);
  if (!model_is_for_this_machine()) return;
  m = aot(library);
  CHECK(mblob_executor_set_input(m, "w", "float32[4]", one_to_four) == MBLOB_OK);
  expect_own_memory(m, "x");
  mblob_module_release(m);
}

/* ---- virtual machines ------------------------------------------------------------------------ */

static int copy(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource) {
  (void)codes, (void)ret, (void)resource;
  if (count > 1) memset(((DLTensor *)args[count - 1].v_handle)->data, 0, 4);
  return 0;
}

static int find_primitive(void *self, const char *name, mblob_function **out) {
  (void)self;
  *out = NULL;
  return strncmp(name, "vm_", 3) == 0 ? mblob_function_create(copy, NULL, NULL, out) : MBLOB_OK;
}

static uint8_t file_bytes[1 << 20];

static size_t read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  CHECK(file);
  const size_t size = fread(file_bytes, 1, sizeof(file_bytes), file);
  (void)fclose(file);
  return size;
}

/* A program that the global function `load` makes of its bytes and, if there are any, kernels. */
static mblob_module *program(const char *load, const uint8_t *code, size_t size,
                             mblob_module *kernels) {
  mblob_function *function = NULL;
  TVMByteArray array = {(const char *)code, size};
  const TVMValue args[] = {{.v_handle = &array}, {.v_handle = kernels}};
  const int codes[] = {kTVMBytes, kTVMModuleHandle};
  TVMValue ret;
  int ret_code;
  CHECK(mblob_get_global(load, &function) == MBLOB_OK);
  CHECK(mblob_function_call(function, args, codes, kernels ? 2 : 1, &ret, &ret_code) == MBLOB_OK);
  mblob_function_release(function);
  return ret.v_handle;
}

static mblob_module *machine(const char *load, const uint8_t *code, size_t size,
                             mblob_module *kernels) {
  mblob_module *executable = program(load, code, size, kernels), *vm = NULL;
  CHECK(mblob_executor_create(executable, NULL, kDLCPU, 0, &vm) == MBLOB_OK);
  mblob_module_release(executable);
  return vm;
}

static bool starts_with(const char *text) {
  return strncmp(mblob_last_error(), text, strlen(text)) == 0;
}

/* Errors name the function that the program called, not the one behind it. */
static void errors_begin_with_the_function(mblob_module *vm) {
  float x[6] = {0};
  CHECK(mblob_executor_set_input(vm, "nope", "float32[2,3]", x) == MBLOB_E_ARGUMENT);
  CHECK(starts_with("mblob_executor_set_input: no input 'nope'; there are "));
  CHECK(mblob_executor_get_output(vm, 1 << 20, "float32[1]", x) != MBLOB_OK);
  CHECK(strstr(mblob_last_error(), "mblob_executor_get_output: "));
  CHECK(mblob_executor_run(vm) != MBLOB_OK);
  CHECK(strstr(mblob_last_error(), "mblob_executor_run: "));
  CHECK(!strstr(mblob_last_error(), "invoke_stateful"));
}

/* Names are known at once, types and shapes of inputs when they are set, of outputs after a run. */
static bool expect_machine(mblob_module *vm) {
  const size_t inputs = count_of(vm, MBLOB_INPUTS);
  static const float six[6] = {1, 2, 3};
  size_t outputs = 99;
  CHECK(mblob_executor_count(vm, MBLOB_OUTPUTS, &outputs) != MBLOB_OK && *mblob_last_error());
  for (size_t i = 0; i < inputs; i++) {
    mblob_tensor_info info = info_of(vm, MBLOB_INPUTS, i);
    CHECK(*info.name && info.ndim == -1 && !info.dtype.bits && !info.shape && !info.data);
    CHECK(mblob_executor_set_input(vm, info.name, "float32[2,3]", six) == MBLOB_OK);
    info = info_of(vm, MBLOB_INPUTS, i);
    expect_floats(&info, info.name, 2, -1, 24);
  }
  there_are_no_more(vm, MBLOB_INPUTS, inputs, "there are");
  if (!inputs || mblob_executor_run(vm)) return false;
  outputs = count_of(vm, MBLOB_OUTPUTS);
  bool known = false;
  for (size_t i = 0; i < outputs; i++) {
    mblob_tensor_info info = info_of(vm, MBLOB_OUTPUTS, i);
    CHECK(!*info.name);
    known |= info.ndim >= 0 && info.dtype.bits && info.data;
  }
  there_are_no_more(vm, MBLOB_OUTPUTS, outputs, "no output");
  return known;
}

static void a_host_names_the_function_of_a_program(const char *dir) {
  static const char *const names[] = {"y", "x", "scope"};
  const float x[2] = {7, 8};
  float found[2] = {0};
  mblob_module *vm = NULL, *executable = program("mblob.RelaxExecutable", file_bytes,
                                                 read_file(in(dir, "relax_programs.bin")), NULL);
  CHECK(mblob_executor_create(executable, "inner", kDLCPU, 0, &vm) == MBLOB_OK);
  CHECK(count_of(vm, MBLOB_INPUTS) == 3);
  CHECK(strcmp(info_of(vm, MBLOB_INPUTS, 2).name, "scope") == 0);
  for (int i = 0; i < 3; i++)
    CHECK(mblob_executor_set_input(vm, names[i], "float32[2]", x) == MBLOB_OK);
  CHECK(mblob_executor_run(vm) == MBLOB_OK && count_of(vm, MBLOB_OUTPUTS) == 2);
  CHECK(mblob_executor_get_output(vm, 0, "float32[2]", found) == MBLOB_OK && found[1] == 8);
  mblob_module_release(vm);

  CHECK(mblob_executor_create(executable, "iner", kDLCPU, 0, &vm) == MBLOB_E_ARGUMENT && !vm);
  CHECK(strstr(mblob_last_error(), "no function 'iner'; there are 7: main, down, pair, ") &&
        strstr(mblob_last_error(), "did you mean 'inner'?"));
  CHECK(strcmp(mblob_last_error_info()->code, "argument_name") == 0);
  CHECK(mblob_executor_create(executable, "default", kDLCPU, 0, &vm) == MBLOB_OK);
  CHECK(count_of(vm, MBLOB_INPUTS) == 1); /* main */
  mblob_module_release(vm);
  mblob_module_release(executable);
}

static void a_machine_tells_what_it_knows(const char *dir) {
  static const mblob_loader loader = {
      .struct_size = sizeof(loader), .type_key = "kernels", .function = find_primitive};
  mblob_module *kernels = NULL, *vm;
  size_t size = read_file(in(dir, "vm_programs.bin")), ran = 0;
  uint64_t each = 0;
  CHECK(mblob_module_create(&loader, NULL, &kernels) == MBLOB_OK);
  for (size_t at = 0; at < size; at += 8 + each) { /* each behind its size, least byte first */
    each = 0;
    for (size_t i = 8; i-- > 0;) each = each << 8 | file_bytes[at + i];
    vm = machine("runtime.Load_Executable", file_bytes + at + 8, each, kernels);
    CHECK(mblob_call(vm, "set_limits", "int,int", 2000, 1 << 24) == MBLOB_OK);
    ran += expect_machine(vm);
    mblob_module_release(vm);
  }
  CHECK(ran > 0);
  size = read_file(in(dir, "relax_programs.bin"));
  vm = machine("mblob.RelaxExecutable", file_bytes, size, NULL);
  errors_begin_with_the_function(vm);
  CHECK(expect_machine(vm));
  mblob_module_release(vm);
  mblob_module_release(kernels);
}

/* ---- others ---------------------------------------------------------------------------------- */

static void what_is_no_executor_says_so(mblob_module *library) {
  mblob_tensor_info info;
  size_t count = 99;
  CHECK(mblob_executor_count(library, MBLOB_INPUTS, &count) == MBLOB_E_ARGUMENT && !count &&
        strstr(mblob_last_error(), "module 'library' is no executor"));
  CHECK(mblob_executor_info(library, MBLOB_OUTPUTS, 0, &info) == MBLOB_E_ARGUMENT);
  CHECK(mblob_executor_count(NULL, MBLOB_INPUTS, &count) == MBLOB_E_ARGUMENT);
  CHECK(mblob_executor_count(library, MBLOB_INPUTS, NULL) == MBLOB_E_ARGUMENT);
  CHECK(mblob_executor_info(NULL, MBLOB_INPUTS, 0, &info) == MBLOB_E_ARGUMENT);
  CHECK(mblob_executor_info(library, MBLOB_INPUTS, 0, NULL) == MBLOB_E_ARGUMENT);
}

static void another_end_than_inputs_and_outputs_is_refused(mblob_module *kernels) {
  mblob_module *m = graph(kernels, (int[]){4, 3, -1});
  mblob_tensor_info info;
  size_t count = 99;
  for (int end = -1; end <= 2; end += 3) {
    CHECK(mblob_executor_count(m, end, &count) == MBLOB_E_ARGUMENT && !count &&
          strstr(mblob_last_error(), "expected a mblob_end"));
    CHECK(mblob_executor_info(m, end, 0, &info) == MBLOB_E_ARGUMENT && !*info.name);
  }
  mblob_module_release(m);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  mblob_module *kernels = open_ok(argv[1], "graph.so"), *library = open_ok(argv[1], "aot.so");
  RUN(a_graph_tells_its_inputs_and_outputs, kernels);
  RUN(parameters_are_marked, kernels);
  RUN(a_model_compiled_ahead_of_time_tells_them, library);
  RUN(memory_of_the_caller_is_used_in_place, kernels, library);
  RUN(a_host_names_the_function_of_a_program, argv[1]);
  RUN(a_machine_tells_what_it_knows, argv[1]);
  RUN(what_is_no_executor_says_so, library);
  RUN(another_end_than_inputs_and_outputs_is_refused, kernels);
  mblob_module_release(kernels);
  mblob_module_release(library);
  return 0;
}
