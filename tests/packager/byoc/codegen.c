/* Code generators in C: "relay.ext.to_c" gives C source, "relay.ext.to_module" a module that saves
 * itself, and "relay.ext.fails" an error. Each notes what it was called with (`called`). */
#include <mblob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

static char seen[4096];

/* The text behind `"NAME": "`, up to the next quote. */
static void text_of(const char *json, const char *name, char out[64]) {
  char pattern[80];
  snprintf(pattern, sizeof(pattern), "\"%s\": \"", name);
  const char *at = strstr(json, pattern);
  if (at) sscanf(at + strlen(pattern), "%63[^\"]", out);
}

static int give(TVMRetValueHandle ret, TVMValue value, int code) {
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

static int called(TVMValue *args, int *codes, int n, TVMRetValueHandle ret, void *resource) {
  (void)args, (void)codes, (void)n, (void)resource;
  return give(ret, (TVMValue){.v_str = seen}, kTVMStr);
}

static int note(const TVMValue *args, const int *codes, int n) {
  if (n < 1 || codes[0] != kTVMStr) return mblob_set_error(MBLOB_E_ARGUMENT, "expected a text");
  size_t size = (size_t)snprintf(seen, sizeof(seen), "%s", args[0].v_str);
  for (int i = 1; i < n; i++) {
    const DLTensor *t = args[i].v_handle;
    if (codes[i] != kTVMDLTensorHandle && codes[i] != kTVMNDArrayHandle)
      return mblob_set_error(MBLOB_E_ARGUMENT, "expected tensors");
    size += (size_t)snprintf(seen + size, sizeof(seen) - size, "\nconstant of %d dimensions: %d",
                             t->ndim, ((const int32_t *)t->data)[0]);
  }
  return MBLOB_OK;
}

/* add: x + w, of int32[4]; the constant w stands in the source. */
static int to_c(TVMValue *args, int *codes, int n, TVMRetValueHandle ret, void *resource) {
  (void)resource;
  int status = note(args, codes, n);
  if (status) return status;
  const int32_t none[4] = {0}, *w = n > 1 ? ((const DLTensor *)args[1].v_handle)->data : none;
  char symbol[64] = "", source[1024];
  text_of(args[0].v_str, "symbol", symbol);
  snprintf(source, sizeof(source),
           "#include <stdint.h>\n"
           "static const uint32_t w[4] = {%uu, %uu, %uu, %uu};\n"
           "void %s(const int32_t *x, int32_t *y) {\n"
           "  for (int i = 0; i < 4; i++) y[i] = (int32_t)((uint32_t)x[i] + w[i]);\n"
           "}\n",
           (uint32_t)w[0], (uint32_t)w[1], (uint32_t)w[2], (uint32_t)w[3], symbol);
  return give(ret, (TVMValue){.v_str = source}, kTVMStr);
}

/* ---- a module -------------------------------------------------------------------------------- */

static int save(void *self, int (*write)(void *, const void *, size_t), void *to) {
  return write(to, self, strlen(self) + 1);
}

static int no_function(void *self, const char *name, mblob_function **out) {
  (void)self, (void)name, (void)out;
  return MBLOB_OK;
}

/* Its payload is the symbol of the region. */
static int to_module(TVMValue *args, int *codes, int n, TVMRetValueHandle ret, void *resource) {
  (void)resource;
  int status = note(args, codes, n);
  if (status) return status;
  char *symbol = calloc(1, 64);
  const mblob_loader loader = {.struct_size = sizeof(loader),
                               .type_key = "tests.saved",
                               .function = no_function,
                               .close = free,
                               .save = save};
  mblob_module *made = NULL;
  if (!symbol) return mblob_set_error(MBLOB_E_MEMORY, "out of memory");
  text_of(args[0].v_str, "symbol", symbol);
  status = mblob_module_create(&loader, symbol, &made);
  if (status) {
    free(symbol);
    return status;
  }
  status = give(ret, (TVMValue){.v_handle = made}, kTVMModuleHandle);
  mblob_module_release(made);
  return status;
}

static int fails(TVMValue *args, int *codes, int n, TVMRetValueHandle ret, void *resource) {
  (void)args, (void)codes, (void)n, (void)ret, (void)resource;
  return mblob_set_error(MBLOB_E_KERNEL, "this accelerator has no adder");
}

static int gives_a_number(TVMValue *args, int *codes, int n, TVMRetValueHandle ret,
                          void *resource) {
  (void)args, (void)codes, (void)n, (void)resource;
  return give(ret, (TVMValue){.v_int64 = 5}, kTVMArgInt);
}

__attribute__((constructor)) static void register_all(void) {
  const struct {
    const char *name;
    TVMPackedCFunc call;
  } all[] = {{"relay.ext.to_c", to_c},
             {"relay.ext.to_module", to_module},
             {"relay.ext.fails", fails},
             {"relay.ext.number", gives_a_number},
             {"tests.called", called}};
  for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
    mblob_function *function = NULL;
    if (mblob_function_create(all[i].call, NULL, NULL, &function)) continue;
    (void)mblob_register_global(all[i].name, function, 1);
    mblob_function_release(function);
  }
}
