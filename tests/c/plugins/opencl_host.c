#define _GNU_SOURCE
#include "opencl_host.h"

static _Thread_local char message[4096];

static int set_error(int status, const char *text) {
  snprintf(message, sizeof(message), "%s", text);
  return status;
}

static int set_coded_error(int status, const char *code, const char *text) {
  (void)code;
  return set_error(status, text);
}

const char *TVMGetLastError(void) { return message; } /* CHECK tells it */

static void tell_names(struct mblob_module *module, const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++) CHECK(*names[i]);
  (void)module;
}

static const mblob_host table = {.struct_size = sizeof(mblob_host),
                                 .abi_version = MBLOB_PLUGIN_ABI,
                                 .version = MBLOB_VERSION,
                                 .set_error = set_error,
                                 .last_error = TVMGetLastError,
                                 .names = tell_names,
                                 .set_coded_error = set_coded_error};

struct fake_state *fake;
const mblob_device_api *device;
const mblob_runtime *runtime;

void use_fake(const char *folder) {
  const char *path = in(folder, "fake_opencl.so");
  void *library = dlopen(path, RTLD_NOW);
  CHECK(library && (fake = dlsym(library, "fake_cl")));
  setenv("MBLOB_OPENCL_LIBRARY", path, 1);
  setenv("MBLOB_CACHE", "0", 1);
  CHECK(__mblob_plugin_opencl.start(&table) == MBLOB_OK);
  device = __mblob_plugin_opencl.device_apis;
  runtime = __mblob_plugin_opencl.runtimes;
}

void fail(const char *function, int after, int times, cl_int code) {
  fake_succeed(&fake->calls);
  fake_fail(&fake->calls, function, after, times, code);
}

int said(const char *text) {
  if (strstr(message, text)) return 1;
  fprintf(stderr, "expected: %s\n   found: %s\n", text, message);
  return 0;
}

/* ---- payloads -------------------------------------------------------------------------------- */

void put_number(struct payload *p, uint64_t value, size_t bytes) {
  CHECK(p->size + bytes <= sizeof(p->bytes));
  for (size_t i = 0; i < bytes; i++) p->bytes[p->size++] = (uint8_t)(value >> 8 * i);
}

void put_text(struct payload *p, const char *text) {
  put_number(p, strlen(text), 8);
  for (; *text; text++) put_number(p, (uint8_t)*text, 1);
}

static void put_type(struct payload *p, char letter) {
  static const char letters[] = "pbwilBWILfdh";
  static const uint8_t types[][2] = {{3, 64}, {0, 8},  {0, 16}, {0, 32}, {0, 64}, {1, 8},
                                     {1, 16}, {1, 32}, {1, 64}, {2, 32}, {2, 64}, {2, 16}};
  const char *at = strchr(letters, letter);
  CHECK(at);
  put_number(p, types[at - letters][0], 1);
  put_number(p, types[at - letters][1], 1);
  put_number(p, 1, 2);
}

void put_kernel(struct payload *p, const char *name, const char *types, const char *tags) {
  char copy[512], *rest = NULL;
  uint64_t count = 0;
  put_text(p, name);
  put_text(p, "");
  put_number(p, strlen(types), 8);
  while (*types) put_type(p, *types++);
  for (const char *at = tags; *at; at++) count += at == tags || at[-1] == ',';
  put_number(p, count, 8);
  snprintf(copy, sizeof(copy), "%s", tags);
  for (char *tag = strtok_r(copy, ",", &rest); tag; tag = strtok_r(NULL, ",", &rest))
    put_text(p, tag);
}

struct payload source_of(const char *name, const char *types, const char *tags, const char *text) {
  struct payload p = {.size = 0};
  put_text(&p, "cl");
  put_number(&p, 1, 8);
  put_kernel(&p, name, types, tags);
  put_text(&p, text);
  return p;
}

void *open_payload(const struct payload *p) {
  void *self = NULL;
  /* On the heap and of exactly that size: reading behind it is seen. It lives as long as the
   * module. */
  uint8_t *bytes = malloc(p->size + !p->size);
  CHECK(bytes);
  memcpy(bytes, p->bytes, p->size);
  mblob_module_info info = {.struct_size = sizeof(info),
                            .type_key = "opencl",
                            .path = "",
                            .dialect = "classic",
                            .payload = bytes,
                            .payload_size = p->size};
  static uint8_t *kept[64];
  static size_t next;
  free(kept[next]);
  kept[next] = bytes;
  next = (next + 1) % 64;
  int status = runtime->open(&table, &info, &self);
  CHECK(!status == (self != NULL));
  return self;
}

int call(void *module, const char *name, const TVMValue *args, const int *codes, int count) {
  void *function = NULL;
  CHECK(runtime->function(module, name, &function) == MBLOB_OK && function);
  return runtime->call(module, function, args, codes, count, NULL);
}

/* ---- one whole use --------------------------------------------------------------------------- */

const char vadd_text[] =
    "// Function: vadd\n__kernel void vadd(__global float *a, __global float *b, __global float *c) {}\n";

struct payload vadd_payload(void) {
  return source_of("vadd", "ppp", "blockIdx.x,threadIdx.x", vadd_text);
}

static int write_floats(int id, void *to, const float *values) {
  const mblob_copy copy = {.from = values,
                           .from_device = {kDLCPU, 0},
                           .to = to,
                           .to_device = {kDLOpenCL, id},
                           .size = 256};
  return device->copy(&copy);
}

static int read_floats(int id, const void *from, float *values) {
  const mblob_copy copy = {.from = from,
                           .from_device = {kDLOpenCL, id},
                           .to = values,
                           .to_device = {kDLCPU, 0},
                           .size = 256};
  return device->copy(&copy);
}

int add_vectors(void *module, int id) {
  void *memory[3] = {NULL, NULL, NULL};
  float values[64], result[64];
  int status = MBLOB_OK;
  for (int i = 0; i < 64; i++) values[i] = (float)i;
  for (int i = 0; !status && i < 3; i++) status = device->allocate(id, 256, 64, &memory[i]);
  if (!status) status = write_floats(id, memory[0], values);
  if (!status) status = write_floats(id, memory[1], values);
  TVMValue args[5] = {{.v_handle = memory[0]},
                      {.v_handle = memory[1]},
                      {.v_handle = memory[2]},
                      {.v_int64 = 4},
                      {.v_int64 = 16}};
  const int codes[] = {kTVMOpaqueHandle, kTVMOpaqueHandle, kTVMOpaqueHandle, kTVMArgInt,
                       kTVMArgInt};
  if (!status) status = call(module, "vadd", args, codes, 5);
  if (!status) status = device->synchronize(id, NULL);
  if (!status) status = read_floats(id, memory[2], result);
  for (int i = 0; !status && i < 64; i++) CHECK(result[i] == 2 * values[i]);
  for (int i = 0; i < 3; i++) {
    int freed = memory[i] ? device->free(id, memory[i]) : MBLOB_OK;
    if (!status) status = freed;
  }
  return status;
}
