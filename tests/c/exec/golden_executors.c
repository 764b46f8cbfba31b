/* golden_executors DIRECTORY INPUT EXPECTED: models of TVM 0.14 from C: ahead of time, and on
 * the virtual machine. The files hold raw float32: 64 of input, 10 of expected output. */
#include "../common/check.h"

enum { INPUTS = 64, OUTPUTS = 10 };

static void read_floats(const char *path, float *out, size_t count) {
  FILE *file = fopen(path, "rb");
  CHECK(file && fread(out, sizeof(float), count, file) == count);
  (void)fclose(file);
}

/* Call a function of `module`; what it returns is the caller's. */
static TVMValue call(mblob_module *module, const char *name, TVMValue *args, int *codes,
                     int count) {
  mblob_function *function = NULL;
  TVMValue ret;
  int code;
  CHECK(mblob_module_function(module, name, 1, &function) == MBLOB_OK);
  CHECK(mblob_function_call(function, args, codes, count, &ret, &code) == MBLOB_OK);
  mblob_function_release(function);
  return ret;
}

static void check_output(DLTensor *out, const float *expected) {
  CHECK(out->ndim == 2 && out->shape[0] == 1 && out->shape[1] == OUTPUTS && out->dtype.bits == 32);
  for (int i = 0; i < OUTPUTS; i++) {
    float found = ((const float *)out->data)[i], difference = found - expected[i];
    CHECK((difference < 0 ? -difference : difference) <=
          1e-5f * (expected[i] < 0 ? -expected[i] : expected[i]));
  }
  CHECK(TVMArrayFree(out) == 0);
}

static void run_ahead_of_time(const char *directory, DLTensor *data, const float *expected) {
  mblob_module *module = NULL;
  CHECK(mblob_open(in(directory, "aot_mlp.so"), NULL, &module) == MBLOB_OK);
  TVMValue device = {.v_device = {kDLCPU, 0}}, input[] = {{.v_str = "data"}, {.v_handle = data}};
  TVMValue index = {.v_int64 = 0};
  int device_code = kDLDevice, input_codes[] = {kTVMStr, kTVMDLTensorHandle},
      index_code = kTVMArgInt;
  mblob_module *executor = call(module, "default", &device, &device_code, 1).v_handle;
  mblob_module_release(module);
  CHECK(strcmp(mblob_module_type_key(executor), "AotExecutor") == 0);
  (void)call(executor, "set_input", input, input_codes, 2);
  (void)call(executor, "run", NULL, NULL, 0);
  check_output(call(executor, "get_output", &index, &index_code, 1).v_handle, expected);
  mblob_module_release(executor);
}

static void run_machine(const char *directory, DLTensor *data, const float *expected) {
  mblob_module *module = NULL;
  CHECK(mblob_open(in(directory, "vm_mlp.so"), NULL, &module) == MBLOB_OK);
  TVMValue init[] = {{.v_int64 = kDLCPU}, {.v_int64 = 0}, {.v_int64 = 2}};
  TVMValue input[] = {{.v_str = "main"}, {.v_handle = data}};
  int init_codes[] = {kTVMArgInt, kTVMArgInt, kTVMArgInt},
      input_codes[] = {kTVMStr, kTVMDLTensorHandle};
  mblob_module *vm = call(module, "vm_load_executable", NULL, NULL, 0).v_handle;
  mblob_module_release(module);
  (void)call(vm, "init", init, init_codes, 3);
  for (int round = 0; round < 3; round++) {
    (void)call(vm, "set_input", input, input_codes, 2);
    check_output(call(vm, "invoke", input, input_codes, 1).v_handle, expected);
  }
  mblob_module_release(vm);
}

int main(int argc, char **argv) {
  static float data[INPUTS], expected[OUTPUTS];
  int64_t shape[] = {1, 1, 8, 8};
  CHECK(argc == 4);
  read_floats(argv[2], data, INPUTS);
  read_floats(argv[3], expected, OUTPUTS);
  DLTensor tensor = {
      .data = data, .device = {kDLCPU, 0}, .ndim = 4, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  RUN(run_ahead_of_time, argv[1], &tensor, expected);
  RUN(run_machine, argv[1], &tensor, expected);
  return 0;
}
