/* A host that knows nothing of mblob: it opens a library as TVM's own runtime of 0.8 to 0.19
 * does (library_module.cc): dlopen, its functions into the slots, the blob read item by item
 * with the loaders that it has, its context last. It has one loader, for a JSON runtime, whose
 * module doubles its input.
 *
 * tvm_host LIBRARY KEY: runs the function `run` of the library over four floats; KEY is what the
 * loader is registered for. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

typedef int (*packed)(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                      void *resource);

static char symbol[64]; /* of the module of the JSON runtime */
static const unsigned char *at, *end;

static void die(const char *what, const char *detail) {
  fprintf(stderr, "%s%s\n", what, detail);
  exit(1);
}

/* ---- the runtime ---- */

static int double_all(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                      void *resource) {
  float *x = ((DLTensor *)args[0].v_handle)->data;
  for (int i = 0; i < 4; i++) x[i] *= 2;
  (void)codes, (void)count, (void)ret, (void)ret_code, (void)resource;
  return 0;
}

static void host_set_error(const char *text) {
  fprintf(stderr, "error of the library: %s\n", text);
}

static int context; /* what __tvm_module_ctx points to */

static int host_from_env(void *module, const char *name, void **out) {
  if (module != &context || strcmp(name, symbol) != 0) return host_set_error(name), -1;
  *out = (void *)(uintptr_t)double_all;
  return 0;
}

static int host_call(void *function, TVMValue *args, int *codes, int count, TVMValue *ret,
                     int *ret_code) {
  return ((packed)(uintptr_t)function)(args, codes, count, ret, ret_code, NULL);
}

static void fill(void *library, const char *slot, uintptr_t function) {
  uintptr_t *found = dlsym(library, slot);
  if (found) *found = function;
}

/* ---- the blob ---- */

static uint64_t take_number(void) {
  uint64_t value = 0;
  if (end - at < 8) die("the blob is too short", "");
  for (int i = 0; i < 8; i++) value |= (uint64_t)*at++ << 8 * i;
  return value;
}

static void take_text(char *text, size_t size) {
  uint64_t length = take_number();
  if (length > (uint64_t)(end - at) || (text && length >= size))
    die("a text of the blob is too long", "");
  if (text) memcpy(text, at, length), text[length] = 0;
  at += length;
}

/* As JSONRuntimeBase::LoadFromBinary reads it: symbol, graph, names of constants. */
static void load_json_runtime(void) {
  take_text(symbol, sizeof(symbol));
  take_text(NULL, 0);
  for (uint64_t n = take_number(); n; n--) take_text(NULL, 0);
}

static uint64_t take_numbers(void) {
  uint64_t count = take_number();
  for (uint64_t i = 0; i < count; i++) (void)take_number();
  return count;
}

static void load_blob(const char *known) {
  uint64_t modules = 0, rows = 0;
  for (uint64_t n = take_number(); n; n--) {
    char key[64];
    take_text(key, sizeof(key));
    printf("%s ", key);
    if (strcmp(key, "_import_tree") == 0) {
      rows = take_numbers();
      (void)take_numbers();
      continue;
    }
    modules++;
    if (strcmp(key, "_lib") == 0) continue;
    if (strcmp(key, known) != 0)
      die("Binary was created using a key but a loader of that name is not registered: ", key);
    load_json_runtime();
  }
  if (rows != modules + 1) die("the import tree has another number of modules", "");
  printf("\n");
}

int main(int argc, char **argv) {
  if (argc != 3) die("tvm_host LIBRARY KEY", "");
  void *library = dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL);
  if (!library) die("Failed to load dynamic shared library ", dlerror());
  fill(library, "__TVMFuncCall", (uintptr_t)host_call);
  fill(library, "__TVMAPISetLastError", (uintptr_t)host_set_error);
  fill(library, "__TVMBackendGetFuncFromEnv", (uintptr_t)host_from_env);
  at = dlsym(library, "__tvm_dev_mblob");
  if (!at) die("no __tvm_dev_mblob", "");
  end = at + 8;
  uint64_t size = take_number();
  end = at + size;
  load_blob(argv[2]);
  fill(library, "__tvm_module_ctx", (uintptr_t)&context);
  packed run = (packed)(uintptr_t)dlsym(library, "run");
  if (!run) die("Module has no function 'run'", "");
  float x[4] = {1, 2, 3, 4};
  int64_t shape[1] = {4};
  DLTensor tensor = {
      .data = x, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  TVMValue args[1] = {{.v_handle = &tensor}}, ret;
  int codes[1] = {kTVMDLTensorHandle}, code = kTVMNullptr;
  if (run(args, codes, 1, &ret, &code, NULL)) die("run failed", "");
  printf("%g %g %g %g\n", x[0], x[1], x[2], x[3]);
  return dlclose(library);
}
