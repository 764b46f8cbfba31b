/* Modules of the CUDA plug-in: payloads, launches, and what is told of wrong ones. The argument
 * is the folder with the double of the driver, libcuda.so.1. */
#define _GNU_SOURCE
#include <pthread.h>

#include "cuda_plugin.h"

/* ---- calls ----------------------------------------------------------------------------------- */

static void run_add(void **arguments, const struct fake_launch *launch) {
  float *a = *(float **)arguments[0], *b = *(float **)arguments[1], *c = *(float **)arguments[2];
  int n = *(int *)arguments[3];
  CHECK(launch->grid[0] * launch->block[0] >= (unsigned)n);
  for (int i = 0; i < n; i++) c[i] = a[i] + b[i];
}

static DLTensor tensor(void *data, int device_id, int64_t *shape) {
  return (DLTensor){.data = data,
                    .device = {kDLCUDA, device_id},
                    .ndim = 1,
                    .dtype = {kDLFloat, 32, 1},
                    .shape = shape};
}

static void a_kernel_gets_tensors_scalars_and_sizes(void) {
  struct bytes payload;
  begin();
  define_kernel("add", run_add);
  void *self = open_ptx(&payload);
  void *add = function_of(self, "add");
  CHECK(add && function_of(self, "add") == add && !function_of(self, "unknown"));
  CHECK(fake->live_modules == 0); /* nothing is loaded before the first call */
  float host[3] = {1, 2, 3}, result[2] = {0};
  void *a, *c;
  int64_t shape[] = {2};
  CHECK(device->allocate(1, sizeof(host), 64, &a) == MBLOB_OK &&
        device->allocate(1, sizeof(result), 0, &c) == MBLOB_OK);
  upload(a, 1, host, sizeof(host));
  DLTensor ta = tensor(a, 1, shape), tb = ta, tc = tensor(c, 1, shape);
  tb.byte_offset = 4;
  TVMValue args[7] = {{.v_handle = &ta}, {.v_handle = &tb}, {.v_handle = &tc}, {.v_int64 = 2},
                      {.v_int64 = 3},    {.v_int64 = 64},   {.v_int64 = 256}};
  int codes[7] = {kTVMDLTensorHandle, kTVMNDArrayHandle, kTVMDLTensorHandle, kTVMArgInt,
                  kTVMArgInt,         kTVMArgInt,        kTVMArgInt};
  CHECK(runtime->call(self, add, args, codes, 7, NULL) == MBLOB_OK);
  download(c, 1, result, sizeof(result));
  CHECK(result[0] == 3 && result[1] == 5);
  CHECK(fake->last.grid[0] == 3 && fake->last.block[0] == 64 && fake->last.grid[1] == 1 &&
        fake->last.block[2] == 1);
  CHECK(fake->last.shared == 256 && fake->last.device == 1 && fake->sets_of_shared == 0 &&
        !fake->last.stream);
  CHECK(strcmp(fake->image, ptx) == 0 && fake->image_address % 64 == 0);
  CHECK(runtime->call(self, add, args, codes, 7, NULL) == MBLOB_OK && fake->live_modules == 1);
  CHECK(device->free(1, a) == MBLOB_OK && device->free(1, c) == MBLOB_OK);
  runtime->close(self);
  nothing_is_left();
}

static void addresses_go_to_the_device_of_the_thread(void) {
  struct bytes payload;
  begin();
  void *self = open_ptx(&payload), *add = function_of(self, "add");
  TVMValue args[7] = {{.v_handle = NULL}, {.v_handle = NULL}, {.v_handle = NULL}, {.v_int64 = 0},
                      {.v_int64 = 0},     {.v_int64 = 0},     {.v_int64 = 0}};
  int codes[7] = {kTVMOpaqueHandle, kTVMNullptr, kTVMOpaqueHandle, 0, 0, 0, 0};
  CHECK(runtime->call(self, add, args, codes, 7, NULL) == MBLOB_OK && fake->last.device == 0);
  CHECK(fake->last.grid[0] == 1 && fake->last.block[0] == 1); /* 0 counts as 1 */
  CHECK(device->set_device(1) == MBLOB_OK);
  CHECK(runtime->call(self, add, args, codes, 7, NULL) == MBLOB_OK && fake->last.device == 1);
  CHECK(fake->live_modules == 2);
  REFUSES(device->set_device(2), MBLOB_E_INCOMPATIBLE, "no device 2; there are 2");
  CHECK(runtime->call(self, add, args, codes, 7, NULL) == MBLOB_OK && fake->last.device == 1);
  runtime->close(self);
  nothing_is_left();
}

static void keep_scalars(void **arguments, const struct fake_launch *launch) {
  (void)launch;
  CHECK(*(int32_t *)arguments[0] == -5 && *(int64_t *)arguments[1] == INT64_MIN);
  CHECK(*(uint32_t *)arguments[2] == 4000000000u && *(uint8_t *)arguments[3] == 200);
  CHECK(*(float *)arguments[4] == 0.5f && *(double *)arguments[5] == 7);
}

static void scalars_have_their_declared_types(void) {
  struct bytes payload;
  begin();
  define_kernel("scalars", keep_scalars);
  void *self = open_ptx(&payload), *scalars = function_of(self, "scalars");
  TVMValue args[6] = {{.v_int64 = -5},  {.v_int64 = INT64_MIN}, {.v_int64 = 4000000000},
                      {.v_int64 = 200}, {.v_float64 = 0.5},     {.v_int64 = 7}};
  int codes[6] = {kTVMArgInt, kTVMArgInt, kTVMArgInt, kTVMArgInt, kTVMArgFloat, kTVMArgInt};
  CHECK(runtime->call(self, scalars, args, codes, 6, NULL) == MBLOB_OK && fake->last.count == 1);
  args[0].v_int64 = (int64_t)1 << 31;
  REFUSES(runtime->call(self, scalars, args, codes, 6, NULL), MBLOB_E_ARGUMENT,
          "argument 0: 2147483648 does not fit int32");
  args[0].v_int64 = -5, args[3].v_int64 = 256;
  REFUSES(runtime->call(self, scalars, args, codes, 6, NULL), MBLOB_E_ARGUMENT,
          "argument 3: 256 does not fit uint8");
  args[3].v_int64 = 0, args[4].v_float64 = 1e300;
  REFUSES(runtime->call(self, scalars, args, codes, 6, NULL), MBLOB_E_ARGUMENT,
          "argument 4: 1e+300 does not fit float32");
  codes[4] = kTVMStr;
  REFUSES(runtime->call(self, scalars, args, codes, 6, NULL), MBLOB_E_ARGUMENT,
          "argument 4: expected float32, found a string");
  codes[0] = kTVMArgFloat;
  REFUSES(runtime->call(self, scalars, args, codes, 6, NULL), MBLOB_E_ARGUMENT,
          "argument 0: expected int32, found a float");
  REFUSES(runtime->call(self, scalars, args, codes, 5, NULL), MBLOB_E_ARGUMENT,
          "expected 6 arguments and 0 launch sizes; found 5");
  CHECK(fake->last.count == 1);
  runtime->close(self);
  nothing_is_left();
}

static void wrong_tensors_are_told(void) {
  struct bytes payload;
  begin();
  void *self = open_ptx(&payload), *add = function_of(self, "add");
  int64_t shape[] = {2}, strides[] = {2};
  DLTensor on0 = tensor(self, 0, shape), on1 = tensor(self, 1, shape), host = on0, strided = on0;
  host.device.device_type = kDLCPU;
  strided.strides = strides;
  TVMValue args[7] = {{.v_handle = &on0}, {.v_handle = &on0}, {.v_handle = &on1}, {.v_int64 = 2},
                      {.v_int64 = 1},     {.v_int64 = 1},     {.v_int64 = 0}};
  int codes[7] = {kTVMDLTensorHandle, kTVMDLTensorHandle, kTVMDLTensorHandle, 0, 0, 0, 0};
  REFUSES(runtime->call(self, add, args, codes, 7, NULL), MBLOB_E_ARGUMENT,
          "argument 2: its memory is on cuda:1, that of an argument before it on cuda:0");
  args[2].v_handle = &host;
  REFUSES(runtime->call(self, add, args, codes, 7, NULL), MBLOB_E_ARGUMENT,
          "argument 2: its memory is on device type 1, expected cuda (2)");
  args[2].v_handle = &strided;
  REFUSES(runtime->call(self, add, args, codes, 7, NULL), MBLOB_E_ARGUMENT,
          "argument 2: expected a compact tensor, its stride 0 is 2");
  codes[2] = kTVMArgInt;
  REFUSES(runtime->call(self, add, args, codes, 7, NULL), MBLOB_E_ARGUMENT,
          "argument 2: expected a tensor or an address");
  CHECK(fake->last.count == 0);
  runtime->close(self);
}

static int launch_bounded(void *self, int64_t bx, int64_t by, int64_t bz, int64_t gx, int64_t gy) {
  TVMValue args[6] = {{.v_int64 = bx}, {.v_int64 = by}, {.v_int64 = bz},
                      {.v_int64 = gx}, {.v_int64 = gy}, {.v_int64 = 1}};
  int codes[6] = {0};
  return runtime->call(self, function_of(self, "bounded"), args, codes, 6, NULL);
}

static void sizes_are_held_against_the_device(void) {
  struct bytes payload;
  begin();
  void *self = open_ptx(&payload);
  CHECK(launch_bounded(self, 32, 2, 2, 7, 5) == MBLOB_OK);
  CHECK(fake->last.block[0] == 32 && fake->last.block[1] == 2 && fake->last.block[2] == 2);
  CHECK(fake->last.grid[0] == 7 && fake->last.grid[1] == 5 && fake->last.grid[2] == 1);
  REFUSES(launch_bounded(self, 1025, 1, 1, 1, 1), MBLOB_E_ARGUMENT,
          "a block of 1025 threads in x; cuda:0, Fake 0, allows 1024");
  REFUSES(launch_bounded(self, 1, 1, 65, 1, 1), MBLOB_E_ARGUMENT, "a block of 65 threads in z");
  REFUSES(launch_bounded(self, 64, 32, 1, 1, 1), MBLOB_E_ARGUMENT,
          "a block of 2048 threads; cuda:0, Fake 0, allows 1024");
  REFUSES(launch_bounded(self, 129, 1, 1, 1, 1), MBLOB_E_ARGUMENT,
          "its registers and launch bounds allow 128");
  REFUSES(launch_bounded(self, 1, 1, 1, 1, 65536), MBLOB_E_ARGUMENT, "a grid of 65536 blocks in y");
  REFUSES(launch_bounded(self, 1, 1, 1, INT64_MAX, 1), MBLOB_E_ARGUMENT,
          "a grid of 9223372036854775807 blocks in x");
  REFUSES(launch_bounded(self, -1, 1, 1, 1, 1), MBLOB_E_ARGUMENT, "threadIdx.x is -1");
  CHECK(fake->last.count == 1);
  runtime->close(self);
  nothing_is_left();
}

static void much_shared_memory_is_asked_for_once(void) {
  struct bytes payload;
  begin();
  void *self = open_ptx(&payload);
  CHECK(launch_shared(self, (48 << 10) - 16) == MBLOB_OK && fake->sets_of_shared == 0);
  CHECK(launch_shared(self, 60 << 10) == MBLOB_OK && fake->sets_of_shared == 1);
  CHECK(launch_shared(self, 50 << 10) == MBLOB_OK && launch_shared(self, 60 << 10) == MBLOB_OK &&
        fake->sets_of_shared == 1);
  REFUSES(
      launch_shared(self, 100 << 10), MBLOB_E_ARGUMENT,
      "102400 bytes of dynamic shared memory beside 16 of its own; cuda:0, Fake 0, allows 102400");
  fail("cuFuncSetAttribute", 0, 1);
  REFUSES(launch_shared(self, 70 << 10), MBLOB_E_KERNEL, "71680 bytes of dynamic shared memory");
  CHECK(launch_shared(self, 70 << 10) == MBLOB_OK && fake->sets_of_shared == 2);
  runtime->close(self);
  nothing_is_left();
}

static void many_arguments_are_passed(void) {
  enum { MANY = 100 };
  struct bytes payload = {.size = 0};
  char types[MANY + 1], text[4096] = "//\n.version 8.0\n.target sm_50\n.entry add(.param .u64 a";
  TVMValue args[MANY];
  int codes[MANY] = {0};
  void *self;
  begin();
  memset(types, 'l', MANY);
  types[MANY] = 0;
  for (int i = 1; i < MANY; i++) strcat(text, ", .param .u64 a");
  strcat(text, "){}");
  for (int i = 0; i < MANY; i++) args[i].v_int64 = i;
  put_string(&payload, "ptx");
  put_u64(&payload, 1);
  put_kernel(&payload, "add", types, "");
  put_string(&payload, text);
  CHECK(open_payload(&payload, &self) == MBLOB_OK);
  CHECK(runtime->call(self, function_of(self, "add"), args, codes, MANY, NULL) == MBLOB_OK &&
        fake->last.count == 1);
  codes[MANY - 1] = kTVMStr;
  REFUSES(runtime->call(self, function_of(self, "add"), args, codes, MANY, NULL), MBLOB_E_ARGUMENT,
          "argument 99");
  runtime->close(self);
  nothing_is_left();
}

static void *launch_often(void *self) {
  CHECK(device->set_device(1) == MBLOB_OK);
  for (int i = 0; i < 50; i++) CHECK(launch_shared(self, (40 + i) << 10) == MBLOB_OK);
  return NULL;
}

static void threads_share_a_module(void) {
  struct bytes payload;
  pthread_t threads[4];
  begin();
  void *self = open_ptx(&payload);
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, launch_often, self) == 0);
  for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(fake->last.count == 200 && fake->live_modules == 1 && fake->contexts == 1);
  runtime->close(self);
  nothing_is_left();
}

/* ---- payloads that are wrong ----------------------------------------------------------------- */

static void payloads_that_lie_are_refused(void) {
  struct bytes payload = payload_of("ptx", ptx, sizeof(ptx) - 1), cut;
  void *self, *function;
  begin();
  for (size_t size = 0; size < payload.size;
       size++) { /* each cut, in memory of that size: no byte behind it is read */
    unsigned char *exact = malloc(size ? size : 1);
    memcpy(exact, payload.data, size);
    const mblob_module_info info = {.struct_size = sizeof(info),
                                    .type_key = "cuda",
                                    .path = "",
                                    .dialect = "classic",
                                    .payload = exact,
                                    .payload_size = size};
    CHECK(runtime->open(&plugin_host, &info, &self) == MBLOB_E_FORMAT);
    free(exact);
  }
  cut = payload;
  put_string(&cut, "");
  REFUSES(open_payload(&cut, &self), MBLOB_E_FORMAT, "8 bytes follow the code");
  cut.size = 0;
  put_string(&cut, "ptx");
  put_u64(&cut, 2);
  put_kernel(&cut, "k", "", "");
  put_kernel(&cut, "k", "", "");
  put_string(&cut, ptx);
  REFUSES(open_payload(&cut, &self), MBLOB_E_FORMAT, "kernel 'k' is listed twice");
  static const char *const tags[] = {"blockIdx.w", "vthread", "threadIdx.x,threadIdx.x",
                                     "tir.use_dyn_shared_memory,threadIdx.x"};
  for (size_t i = 0; i < 4; i++) {
    cut.size = 0;
    put_string(&cut, "ptx");
    put_u64(&cut, 1);
    put_kernel(&cut, "k", "", tags[i]);
    put_string(&cut, ptx);
    CHECK(open_payload(&cut, &self) == MBLOB_OK);
    REFUSES(runtime->function(self, "k", &function), MBLOB_E_FORMAT, "kernel 'k': launch tag");
    CHECK(!function);
    runtime->close(self);
  }
}

/* An image that cannot be read may have any kernel: the driver decides. */
static void a_kernel_that_only_the_driver_misses(void) {
  unsigned char fatbin[16 + 32] = {0x50, 0xed, 0x55, 0xba,     1,         0,
                                   16,   0,    32,   [16] = 2, [20] = 16, [24] = 16};
  struct bytes p = payload_of("fatbin", fatbin, sizeof(fatbin));
  void *self;
  begin();
  CHECK(open_payload(&p, &self) == MBLOB_OK);
  fail("cuModuleGetFunction", 0, 500);
  REFUSES(runtime->call(self, function_of(self, "missing"), NULL, NULL, 0, NULL), MBLOB_E_KERNEL,
          "kernel 'missing' of module 1 of deploy.so: CUDA_ERROR_NOT_FOUND");
  CHECK(launch_bounded(self, 1, 1, 1, 1, 1) == MBLOB_OK);
  runtime->close(self);
  nothing_is_left();
}

static void code_that_is_none_is_refused(void) {
  static const unsigned char elf[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1, [18] = 62};
  unsigned char cubin[64 + 64] = {0x7f, 'E',        'L',       'F',       2,       1,
                                  1,    [18] = 190, [40] = 64, [58] = 64, [60] = 1};
  unsigned char fatbin[16 + 32] = {0x50, 0xed, 0x55, 0xba,     1,         0,
                                   16,   0,    32,   [16] = 2, [20] = 16, [24] = 16};
  void *self;
  begin();
  struct bytes p = payload_of("ptx", "hello", 5);
  REFUSES(open_payload(&p, &self), MBLOB_E_FORMAT, "is no PTX (no .version and .target)");
  p = payload_of("ptx", "//.version\0.target", 18);
  REFUSES(open_payload(&p, &self), MBLOB_E_FORMAT, "it has NUL bytes");
  p = payload_of("cuda", "__global__ void k() {}", 22);
  REFUSES(open_payload(&p, &self), MBLOB_E_INCOMPATIBLE, "CUDA C++ source");
  p = payload_of("cubin", elf, sizeof(elf));
  REFUSES(open_payload(&p, &self), MBLOB_E_FORMAT, "an ELF file of machine 62");
  p = payload_of("cubin", cubin, 63);
  REFUSES(open_payload(&p, &self), MBLOB_E_FORMAT,
          "cubin of at least 64 bytes, the payload has 63");
  p = payload_of("cubin", cubin, sizeof(cubin) - 1);
  REFUSES(open_payload(&p, &self), MBLOB_E_FORMAT, "cut short");
  cubin[64 + 4] = 1, cubin[64 + 32] = 200; /* a section of 200 bytes at 0 */
  p = payload_of("cubin", cubin, sizeof(cubin));
  REFUSES(open_payload(&p, &self), MBLOB_E_FORMAT, "cut short");
  cubin[64 + 32] = 100;
  p = payload_of("cubin", cubin, sizeof(cubin));
  CHECK(open_payload(&p, &self) == MBLOB_OK);
  runtime->close(self);
  p = payload_of("cubin", fatbin, sizeof(fatbin)); /* TVM labels fatbins so */
  CHECK(open_payload(&p, &self) == MBLOB_OK);
  CHECK(launch_bounded(self, 1, 1, 1, 1, 1) == MBLOB_OK);
  runtime->close(self);
  p = payload_of("fatbin", fatbin, sizeof(fatbin) - 1);
  REFUSES(open_payload(&p, &self), MBLOB_E_FORMAT, "the code is a fatbin");
  fatbin[24] = 17;
  p = payload_of("fatbin", fatbin, sizeof(fatbin));
  REFUSES(open_payload(&p, &self), MBLOB_E_FORMAT, "the code is a fatbin");
  nothing_is_left();
}

static void modules_that_do_not_load_say_why(void) {
  struct bytes payload;
  void *self;
  begin();
  static const char broken[] = "//\n.version 8.0\n.target sm_50\nsyntax error\n.entry bounded()",
                    young[] = "//\n.version 99.0\n.target sm_50\n.entry bounded()",
                    other[] = "//\n.version 8.0\n.target sm_999\n.entry bounded()";
  payload = payload_of("ptx", broken, sizeof(broken) - 1);
  CHECK(open_payload(&payload, &self) == MBLOB_OK);
  REFUSES(launch_bounded(self, 1, 1, 1, 1, 1), MBLOB_E_INCOMPATIBLE,
          "module 1 of deploy.so does not load");
  CHECK(strstr(host_error, "CUDA_ERROR_INVALID_PTX") &&
        strstr(host_error, "line 3 fatal: Parsing error near 'error'"));
  runtime->close(self);
  payload = payload_of("ptx", young, sizeof(young) - 1);
  CHECK(open_payload(&payload, &self) == MBLOB_OK);
  REFUSES(launch_bounded(self, 1, 1, 1, 1, 1), MBLOB_E_INCOMPATIBLE, "PTX 99.0 for sm_50");
  CHECK(strstr(host_error, "the driver knows CUDA 12.4") &&
        strstr(host_error, "install a newer driver"));
  runtime->close(self);
  payload = payload_of("ptx", other, sizeof(other) - 1);
  CHECK(open_payload(&payload, &self) == MBLOB_OK);
  REFUSES(launch_bounded(self, 1, 1, 1, 1, 1), MBLOB_E_INCOMPATIBLE, "compile for sm_90");
  runtime->close(self);
  self = open_ptx(&payload);
  void *function;
  REFUSES(runtime->function(self, "missing", &function), MBLOB_E_FORMAT,
          "kernel 'missing' is declared and not in the code of module 1");
  CHECK(strstr(host_error, "which has: add, bounded, scalars"));
  CHECK(launch_bounded(self, 1, 1, 1, 1, 1) == MBLOB_OK); /* the others work */
  runtime->close(self);
  nothing_is_left();
}

/* In the ffi dialect a number for each parameter follows the launch tags, and some tags have
 * other names or no argument. */
static struct bytes ffi_payload(uint32_t extra) {
  struct bytes out = {.size = 0};
  put_string(&out, "ptx");
  put_u64(&out, 1);
  put_kernel(
      &out, "add", "pppi",
      "blockIdx.x,threadIdx.x,tirx.use_dyn_shared_memory,tirx.use_programtic_dependent_launch");
  const uint32_t numbers[4] = {0, 0, extra, 0};
  put_u64(&out, 4);
  put_bytes(&out, numbers, sizeof(numbers));
  put_u64(&out, sizeof(ptx) - 1);
  put_bytes(&out, ptx, sizeof(ptx) - 1);
  return out;
}

static int open_ffi(const struct bytes *payload, void **self) {
  const mblob_module_info info = {.struct_size = sizeof(info),
                                  .type_key = "cuda",
                                  .path = "",
                                  .dialect = "ffi",
                                  .payload = payload->data,
                                  .payload_size = payload->size};
  return runtime->open(&plugin_host, &info, self);
}

static void modules_of_the_ffi_dialect_are_read(void) {
  struct bytes payload = ffi_payload(0), map = ffi_payload(1),
               classic = payload_of("ptx", ptx, sizeof(ptx) - 1);
  void *self, *function;
  begin();
  CHECK(open_ffi(&payload, &self) == MBLOB_OK);
  CHECK(function_of(self, "add"));
  runtime->close(self);
  CHECK(open_ffi(&map, &self) == MBLOB_OK);
  REFUSES(runtime->function(self, "add", &function), MBLOB_E_FORMAT,
          "parameter 2 has the extra tag 1 (1: a tensor map)");
  runtime->close(self);
  CHECK(open_ffi(&classic, &self) == MBLOB_E_FORMAT);
  CHECK(open_payload(&payload, &self) == MBLOB_E_FORMAT);
  nothing_is_left();
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  if (!cuda_tables(argv[1])) return 0;
  RUN_ALONE(a_kernel_gets_tensors_scalars_and_sizes);
  RUN_ALONE(addresses_go_to_the_device_of_the_thread);
  RUN_ALONE(scalars_have_their_declared_types);
  RUN_ALONE(wrong_tensors_are_told);
  RUN_ALONE(sizes_are_held_against_the_device);
  RUN_ALONE(much_shared_memory_is_asked_for_once);
  RUN_ALONE(many_arguments_are_passed);
  RUN_ALONE(threads_share_a_module);
  RUN_ALONE(payloads_that_lie_are_refused);
  RUN_ALONE(code_that_is_none_is_refused);
  RUN_ALONE(a_kernel_that_only_the_driver_misses);
  RUN_ALONE(modules_that_do_not_load_say_why);
  RUN_ALONE(modules_of_the_ffi_dialect_are_read);
  return 0;
}
