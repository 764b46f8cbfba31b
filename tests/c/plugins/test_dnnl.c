/* The oneDNN plug-in by itself, through its table: a host of our own counts what is taken and
 * given back, payloads are cut and changed byte by byte, and where there is a libdnnl a small
 * network is run. */
#include <mblob/plugin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../common/check.h"
#include "plugin_host.h"

extern const mblob_plugin __mblob_plugin_dnnl;

/* ---- a host ---- */

static atomic_int live, taken; /* pieces of memory: now, and ever */
static int results;

static unsigned char bytes_given[4096]; /* the last result that was bytes */
static size_t bytes_size;

static int return_value(void *ret, TVMValue value, int code) {
  *(TVMValue *)ret = value;
  if (code == kTVMBytes) {
    const TVMByteArray *bytes = value.v_handle;
    CHECK(bytes->size <= sizeof(bytes_given));
    if (bytes->size) memcpy(bytes_given, bytes->data, bytes_size = bytes->size);
  }
  results = code;
  return MBLOB_OK;
}
static int return_strings(void *ret, const char *const *texts, size_t count) {
  (void)texts;
  ((TVMValue *)ret)->v_int64 = (int64_t)count;
  return MBLOB_OK;
}
static int no_function(const char *name, struct mblob_function **out) {
  (void)name;
  *out = NULL;
  return MBLOB_E_NOT_FOUND;
}
static int allocate(DLDevice device, uint64_t size, uint64_t alignment, void **out) {
  (void)device;
  if (size > (uint64_t)1 << 32) return host_set_error(MBLOB_E_MEMORY, "out of memory");
  *out = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  ++live;
  ++taken;
  return *out ? MBLOB_OK : MBLOB_E_MEMORY;
}
static int give_back(DLDevice device, void *data) {
  (void)device;
  if (data) --live;
  free(data);
  return MBLOB_OK;
}

/* The import with packed weights, if there is one. */
static void *packed;
static const mblob_runtime *packed_runtime(void) { return &__mblob_plugin_dnnl.runtimes[1]; }

static int module_function(struct mblob_module *module, const char *name, int query_imports,
                           struct mblob_function **out) {
  void *function = NULL;
  (void)module, (void)query_imports;
  if (packed) CHECK(packed_runtime()->function(packed, name, &function) == MBLOB_OK);
  *out = function;
  return function ? MBLOB_OK : MBLOB_E_NOT_FOUND;
}
static int function_call(struct mblob_function *function, const TVMValue *args, const int *codes,
                         int count, TVMValue *ret, int *code) {
  int status = packed_runtime()->call(packed, function, args, codes, count, ret);
  *code = results;
  return status;
}
static void release(struct mblob_function *function) { (void)function; }

static mblob_host host_with_memory(void) {
  mblob_host host = plugin_host;
  host.return_value = return_value;
  host.return_strings = return_strings;
  host.global_function = no_function;
  host.module_function = module_function;
  host.function_call = function_call;
  host.function_release = release;
  host.allocate = allocate;
  host.free = give_back;
  return host;
}
static mblob_host host;

/* ---- payloads ---- */

static struct bytes payload_of(const char *graph, int constants) {
  struct bytes p = {0};
  put_string(&p, "net");
  put_string(&p, graph);
  put_u64(&p, (uint64_t)constants);
  if (constants) put_string(&p, "w");
  return p;
}

/* relu(x w'): 2 by 3, 2 units */
static const char *const dense =
    "{\"nodes\": ["
    "{\"op\": \"input\", \"name\": \"x\", \"attrs\": {\"dtype\": [[\"float32\"]], \"shape\": [[[2, 3]]]}},"
    "{\"op\": \"const\", \"name\": \"w\", \"attrs\": {\"dtype\": [[\"float32\"]], \"shape\": [[[2, 3]]]}},"
    "{\"op\": \"kernel\", \"name\": \"dnnl.dense_relu\", \"inputs\": [[0, 0, 0], [1, 0, 0]], \"attrs\": "
    "{\"num_outputs\": \"1\", \"units\": [[\"2\"]], \"dtype\": [[\"float32\"]], \"shape\": [[[2, 2]]]}}],"
    "\"arg_nodes\": [0, 1], \"heads\": [[2, 0, 0]], \"node_row_ptr\": [0, 1, 2, 3]}";

/* The same for n rows. */
static const char *const open_dense =
    "{\"nodes\": ["
    "{\"op\": \"input\", \"name\": \"x\", \"attrs\": {\"dtype\": [[\"float32\"]], \"shape\": [[[\"n\", 3]]]}},"
    "{\"op\": \"const\", \"name\": \"w\", \"attrs\": {\"dtype\": [[\"float32\"]], \"shape\": [[[2, 3]]]}},"
    "{\"op\": \"kernel\", \"name\": \"dnnl.dense_relu\", \"inputs\": [[0, 0, 0], [1, 0, 0]], \"attrs\": "
    "{\"num_outputs\": \"1\", \"units\": [[\"2\"]], \"dtype\": [[\"float32\"]], \"shape\": [[[\"n\", 2]]]}}],"
    "\"arg_nodes\": [0, 1], \"heads\": [[2, 0, 0]], \"node_row_ptr\": [0, 1, 2, 3]}";

/* concatenate(relu(x), x) of which a reshape is the result */
static const char *const joined =
    "{\"nodes\": ["
    "{\"op\": \"input\", \"name\": \"x\", \"attrs\": {\"dtype\": [[\"float32\"]], \"shape\": [[[2, 3]]]}},"
    "{\"op\": \"kernel\", \"name\": \"nn.relu\", \"inputs\": [[0, 0, 0]], \"attrs\": "
    "{\"dtype\": [[\"float32\"]], \"shape\": [[[2, 3]]]}},"
    "{\"op\": \"kernel\", \"name\": \"concatenate\", \"inputs\": [[1, 0, 0], [0, 0, 0]], \"attrs\": "
    "{\"axis\": [[\"1\"]], \"dtype\": [[\"float32\"]], \"shape\": [[[2, 6]]]}},"
    "{\"op\": \"kernel\", \"name\": \"transpose\", \"inputs\": [[2, 0, 0]], \"attrs\": "
    "{\"axes\": [[\"1\", \"0\"]], \"dtype\": [[\"float32\"]], \"shape\": [[[6, 2]]]}},"
    "{\"op\": \"kernel\", \"name\": \"reshape\", \"inputs\": [[3, 0, 0]], \"attrs\": "
    "{\"dtype\": [[\"float32\"]], \"shape\": [[[2, 6]]]}}],"
    "\"arg_nodes\": [0], \"heads\": [[4, 0, 0]], \"node_row_ptr\": [0, 1, 2, 3, 4, 5]}";

static const mblob_runtime *runtime(void) { return &__mblob_plugin_dnnl.runtimes[0]; }

static int open_payload(const struct bytes *p, void **self) {
  unsigned char *exact = malloc(p->size + 1); /* so that a byte too far is seen */
  memcpy(exact, p->data, p->size);
  mblob_module_info info = {.struct_size = sizeof(info),
                            .type_key = "dnnl_json",
                            .path = "",
                            .payload = exact,
                            .payload_size = p->size};
  host_error[0] = '\0';
  int status = runtime()->open(&host, &info, self);
  free(exact); /* the plug-in has all that it needs, or none of it */
  return status;
}

static int call(void *self, const char *name, TVMValue *args, int *codes, int count,
                TVMValue *ret) {
  void *function = NULL;
  CHECK(runtime()->function(self, name, &function) == MBLOB_OK);
  return function ? runtime()->call(self, function, args, codes, count, ret) : MBLOB_E_NOT_FOUND;
}

static DLTensor matrix(float *data, int64_t *shape) {
  return (DLTensor){
      .data = data, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = shape};
}

/* ---- tests ---- */

static void refuse_damaged(const char *graph, int constants) {
  struct bytes whole = payload_of(graph, constants);
  void *self;
  for (size_t size = 0; size < whole.size; ++size) {
    struct bytes cut = whole;
    cut.size = size;
    CHECK(open_payload(&cut, &self) != MBLOB_OK);
    CHECK(host_error[0] && !strchr(host_error, '\n'));
  }
  /* Any other byte: it opens or it does not, and what opened is initialized or told why not. */
  float weights[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape[2] = {2, 3};
  DLTensor w = matrix(weights, shape);
  for (size_t at = 0; at < whole.size; ++at)
    for (int bit = 0; bit < 8; bit += 3) {
      struct bytes changed = whole;
      TVMValue arg = {.v_handle = &w}, ret;
      int code = kTVMDLTensorHandle;
      changed.data[at] ^= (unsigned char)(1 << bit);
      if (open_payload(&changed, &self)) {
        CHECK(host_error[0]);
        continue;
      }
      if (call(self, "__init_net", &arg, &code, constants, &ret)) CHECK(at < 11 || host_error[0]);
      runtime()->close(self);
      CHECK(live == 0);
    }
}

static void damaged_payloads_are_refused(void) {
  refuse_damaged(dense, 1);
  refuse_damaged(open_dense, 1);
  refuse_damaged(joined, 0);
}

static void functions_of_the_protocol(void) {
  struct bytes p = payload_of(dense, 1);
  void *self, *function;
  TVMValue ret;
  CHECK(open_payload(&p, &self) == MBLOB_OK);
  CHECK(call(self, "get_symbol", NULL, NULL, 0, &ret) == MBLOB_OK && results == kTVMStr);
  CHECK(!strcmp(ret.v_str, "net"));
  CHECK(call(self, "get_const_vars", NULL, NULL, 0, &ret) == MBLOB_OK && ret.v_int64 == 1);
  CHECK(runtime()->function(self, "other", &function) == MBLOB_OK && !function);
  CHECK(call(self, "net", NULL, NULL, 0, &ret) == MBLOB_E_KERNEL);
  CHECK(strstr(host_error, "The module has not been initialized"));
  runtime()->close(self);
}

static void a_network_runs(void) {
  struct bytes p = payload_of(dense, 1);
  float x[6] = {1, 0, 0, 0, 1, -1}, w[6] = {1, 2, 3, -4, 5, 6}, y[4] = {9, 9, 9, 9};
  int64_t shape[2] = {2, 3}, result[2] = {2, 2};
  DLTensor tensors[3] = {matrix(x, shape), matrix(w, shape), matrix(y, result)};
  TVMValue ret, args[2] = {{.v_handle = &tensors[1]}, {.v_handle = NULL}};
  int codes[2] = {kTVMDLTensorHandle, kTVMDLTensorHandle};
  void *self;
  CHECK(open_payload(&p, &self) == MBLOB_OK);
  CHECK(call(self, "__init_net", args, codes, 2, &ret) == MBLOB_E_ARGUMENT);
  CHECK(call(self, "__init_net", args, codes, 1, &ret) == MBLOB_OK && ret.v_int64 == 0);
  memset(w, 0, sizeof(w)); /* not needed any more */
  args[0].v_handle = &tensors[0];
  args[1].v_handle = &tensors[2];
  for (int i = 0; i < 3; ++i) {
    CHECK(call(self, "net", args, codes, 2, &ret) == MBLOB_OK);
    CHECK(y[0] == 1 && y[1] == 0 && y[2] == 0 && y[3] == 0);
    x[1] = 1;
    x[2] = (float)i;
    CHECK(call(self, "net", args, codes, 2, &ret) == MBLOB_OK);
    CHECK(y[0] == (float)(3 + 3 * i) && y[1] == (float)(1 + 6 * i));
    x[1] = x[2] = 0;
  }
  float others[6] = {2, 2, 2, 2, 2, 2};
  DLTensor again = matrix(others, shape);
  TVMValue arg = {.v_handle = &again};
  x[0] = x[1] = x[2] = 1;
  CHECK(call(self, "__init_net", &arg, codes, 1, &ret) == MBLOB_OK && ret.v_int64 == 0);
  CHECK(call(self, "net", args, codes, 2, &ret) == MBLOB_OK && y[0] == 6 && y[1] == 6);
  CHECK(call(self, "__init_net", &arg, codes, 0, &ret) ==
        MBLOB_E_ARGUMENT); /* and nothing changes */
  CHECK(call(self, "net", args, codes, 2, &ret) == MBLOB_OK && y[0] == 6 && y[1] == 6);
  args[1].v_handle = &tensors[0];
  CHECK(call(self, "net", args, codes, 2, &ret) == MBLOB_E_ARGUMENT &&
        strstr(host_error, "expected float32[2, 2]"));
  runtime()->close(self);
  CHECK(live == 0);
}

/* In float32, where the processor does not compute in float16. */
static void halves_run(void) {
  char text[4096];
  CHECK(strlen(dense) < sizeof(text));
  strcpy(text, dense);
  for (char *at = text; (at = strstr(at, "float32"));) memcpy(at, "float16", 7);
  struct bytes p = payload_of(text, 1);
  uint16_t x[6] = {0x3C00, 0, 0, 0, 0x3C00, 0xBC00}; /* 1, 0, 0; 0, 1, -1 */
  uint16_t w[6] = {0x3C00, 0x4000, 0x4200, 0xC400, 0x4500, 0x4600}, y[4] = {9, 9, 9, 9};
  int64_t shape[2] = {2, 3}, result[2] = {2, 2};
  DLTensor tensors[3] = {matrix((float *)x, shape), matrix((float *)w, shape),
                         matrix((float *)y, result)};
  for (int i = 0; i < 3; ++i) tensors[i].dtype.bits = 16;
  TVMValue ret, args[2] = {{.v_handle = &tensors[1]}, {.v_handle = &tensors[2]}};
  int codes[2] = {kTVMDLTensorHandle, kTVMDLTensorHandle};
  void *self;
  CHECK(open_payload(&p, &self) == MBLOB_OK);
  CHECK(call(self, "__init_net", args, codes, 1, &ret) == MBLOB_OK && ret.v_int64 == 0);
  memset(w, 0, sizeof(w));
  args[0].v_handle = &tensors[0];
  for (int i = 0; i < 2; ++i) CHECK(call(self, "net", args, codes, 2, &ret) == MBLOB_OK);
  CHECK(y[0] == 0x3C00 && y[1] == 0 && y[2] == 0 && y[3] == 0);
  x[1] = 0x3C00;
  CHECK(call(self, "net", args, codes, 2, &ret) == MBLOB_OK);
  CHECK(y[0] == 0x4200 && y[1] == 0x3C00); /* 1 + 2; -4 + 5 */
  tensors[2].dtype.bits = 32;
  CHECK(call(self, "net", args, codes, 2, &ret) == MBLOB_E_ARGUMENT &&
        strstr(host_error, "expected float16[2, 2]"));
  runtime()->close(self);
  CHECK(live == 0);
}

static int open_packed(const unsigned char *payload, size_t size, void **self) {
  mblob_module_info info = {.struct_size = sizeof(info),
                            .type_key = "dnnl_packed",
                            .path = "",
                            .payload = payload,
                            .payload_size = size};
  *self = NULL;
  host_error[0] = '\0';
  int status = packed_runtime()->open(&host, &info, self);
  CHECK(!status == !host_error[0]);
  return status;
}

/* Cut or changed, they are refused; whole ones give the same result as none. */
static void packed_weights(void) {
  struct bytes p = payload_of(dense, 1);
  float x[6] = {1, 2, 3, 4, 5, 6}, w[6] = {1, 2, 3, -4, 5, 6}, y[4] = {0}, first[4];
  int64_t shape[2] = {2, 3}, result[2] = {2, 2};
  DLTensor tensors[3] = {matrix(x, shape), matrix(w, shape), matrix(y, result)};
  TVMValue ret, weights = {.v_handle = &tensors[1]};
  TVMValue args[2] = {{.v_handle = &tensors[0]}, {.v_handle = &tensors[2]}};
  int codes[2] = {kTVMDLTensorHandle, kTVMDLTensorHandle};
  void *self;
  CHECK(open_payload(&p, &self) == MBLOB_OK);
  CHECK(call(self, "__init_net", &weights, codes, 1, &ret) == MBLOB_OK);
  CHECK(call(self, "net", args, codes, 2, &ret) == MBLOB_OK);
  memcpy(first, y, sizeof(y));
  CHECK(call(self, "prepack", &weights, codes, 1, &ret) == MBLOB_OK && results == kTVMBytes);
  size_t size = bytes_size;
  for (size_t cut = 0; cut <= size; ++cut) {
    unsigned char *exact = malloc(cut + 1);
    memcpy(exact, bytes_given, cut);
    bool opened = !open_packed(exact, cut, &packed);
    CHECK(opened == (cut == size) || size < 64);
    if (opened) packed_runtime()->close(packed);
    packed = NULL;
    free(exact);
  }
  uint64_t data;
  memcpy(&data, bytes_given + 16, 8);
  CHECK(data <= size);
  for (size_t at = 0; at < data; ++at)
    for (int bit = 0; bit < 8; ++bit) {
      bytes_given[at] ^= (unsigned char)(1 << bit);
      CHECK(open_packed(bytes_given, size, &packed) == MBLOB_E_FORMAT);
      bytes_given[at] ^= (unsigned char)(1 << bit);
    }
  CHECK(open_packed(bytes_given, size, &packed) == MBLOB_OK);
  memset(y, 0, sizeof(y));
  CHECK(call(self, "__init_net", &weights, codes, 1, &ret) == MBLOB_OK);
  CHECK(call(self, "net", args, codes, 2, &ret) == MBLOB_OK && !memcmp(first, y, sizeof(y)));
  runtime()->close(self);
  packed_runtime()->close(packed);
  packed = NULL;
  CHECK(live == 0);
}

/* x is [[1, 1, 1], [0, 0, 0]]: with weights of 1 and 2 the first row of the result is 3 or 6. */
struct caller {
  void *self;
  atomic_bool *done;
  int calls, wrong;
};

static void *call_until_done(void *data) {
  struct caller *c = data;
  float x[6] = {1, 1, 1, 0, 0, 0}, y[4];
  int64_t shape[2] = {2, 3}, result[2] = {2, 2};
  DLTensor tensors[2] = {matrix(x, shape), matrix(y, result)};
  TVMValue ret, args[2] = {{.v_handle = &tensors[0]}, {.v_handle = &tensors[1]}};
  int codes[2] = {kTVMDLTensorHandle, kTVMDLTensorHandle};
  void *function;
  if (runtime()->function(c->self, "net", &function)) c->wrong = 1;
  while (!c->wrong && (!atomic_load(c->done) || c->calls < 10)) {
    y[0] = y[1] = 0;
    if (runtime()->call(c->self, function, args, codes, 2, &ret) || y[0] != y[1] ||
        (y[0] != 3 && y[0] != 6))
      c->wrong = 1;
    ++c->calls;
  }
  return NULL;
}

static void initialize_with(void *self, float value) {
  float weights[6] = {value, value, value, value, value, value};
  int64_t shape[2] = {2, 3};
  DLTensor w = matrix(weights, shape);
  TVMValue ret, arg = {.v_handle = &w};
  int code = kTVMDLTensorHandle;
  CHECK(call(self, "__init_net", &arg, &code, 1, &ret) == MBLOB_OK);
}

static void constants_change_under(const char *graph) {
  struct bytes p = payload_of(graph, 1);
  void *self;
  atomic_bool done = false;
  pthread_t threads[3];
  struct caller callers[3], after;
  CHECK(open_payload(&p, &self) == MBLOB_OK);
  initialize_with(self, 1);
  for (int i = 0; i < 3; ++i) {
    callers[i] = (struct caller){.self = self, .done = &done};
    CHECK(!pthread_create(&threads[i], NULL, call_until_done, &callers[i]));
  }
  for (int i = 0; i < 200; ++i) initialize_with(self, (float)(1 + i % 2));
  atomic_store(&done, true);
  for (int i = 0; i < 3; ++i) {
    CHECK(!pthread_join(threads[i], NULL));
    CHECK(!callers[i].wrong && callers[i].calls >= 10);
  }
  int before = taken;
  after = (struct caller){.self = self, .done = &done};
  (void)call_until_done(&after);
  /* One context serves all; of open dimensions there is a plan more. */
  CHECK(!after.wrong && after.calls == 10 && taken <= before + (graph == dense ? 1 : 3));
  before = taken;
  after.calls = 0;
  (void)call_until_done(&after);
  CHECK(after.calls == 10 && taken == before);
  runtime()->close(self);
  CHECK(live == 0);
}

static void constants_change_under_calls(void) {
  constants_change_under(dense);
  constants_change_under(open_dense);
}

/* More sizes than are kept; a size that was there before takes no memory. */
static void sizes_come_and_go(void) {
  struct bytes p = payload_of(open_dense, 1);
  float x[3 * 24], y[2 * 24];
  int64_t shape[2] = {0, 3}, result[2] = {0, 2};
  DLTensor tensors[2] = {matrix(x, shape), matrix(y, result)};
  TVMValue ret, args[2] = {{.v_handle = &tensors[0]}, {.v_handle = &tensors[1]}};
  int codes[2] = {kTVMDLTensorHandle, kTVMDLTensorHandle}, before = 0;
  void *self;
  for (int i = 0; i < 3 * 24; ++i) x[i] = 1;
  CHECK(open_payload(&p, &self) == MBLOB_OK);
  CHECK(call(self, "net", args, codes, 2, &ret) != MBLOB_OK);
  initialize_with(self, 2);
  for (int round = 0; round < 2; ++round)
    for (int64_t n = 1; n <= 24; ++n) {
      shape[0] = result[0] = n;
      memset(y, 0, sizeof(y));
      CHECK(call(self, "net", args, codes, 2, &ret) == MBLOB_OK);
      CHECK(y[0] == 6 && y[2 * n - 1] == 6 && (n == 24 || y[2 * n] == 0));
    }
  for (int64_t n = 20; n <= 24; ++n, before = before ? before : taken) {
    shape[0] = result[0] = n;
    CHECK(call(self, "net", args, codes, 2, &ret) == MBLOB_OK);
  }
  CHECK(taken == before);
  runtime()->close(self);
  CHECK(live == 0);
}

static void what_computes_nothing(void) {
  struct bytes p = payload_of(joined, 0);
  float x[6] = {1, -2, 3, -4, 5, -6}, y[12] = {0};
  static const float wanted[12] = {1, 0, 0, 5, 3, 0, 1, -4, -2, 5, 3, -6};
  int64_t shape[2] = {2, 3}, result[2] = {2, 6};
  DLTensor tensors[2] = {matrix(x, shape), matrix(y, result)};
  TVMValue ret, args[2] = {{.v_handle = &tensors[0]}, {.v_handle = &tensors[1]}};
  int codes[2] = {kTVMDLTensorHandle, kTVMDLTensorHandle};
  void *self;
  CHECK(open_payload(&p, &self) == MBLOB_OK);
  CHECK(call(self, "__init_net", NULL, NULL, 0, &ret) == MBLOB_OK);
  CHECK(call(self, "net", args, codes, 2, &ret) == MBLOB_OK);
  CHECK(!memcmp(y, wanted, sizeof(y)));
  runtime()->close(self);
  CHECK(live == 0);
}

int main(void) {
  char text[256];
  (void)setenv("OMP_NUM_THREADS", "1",
               1); /* LeakSanitizer falls over the threads that OpenMP keeps */
  host = host_with_memory();
  CHECK(__mblob_plugin_dnnl.start(&host) == MBLOB_OK);
  RUN(functions_of_the_protocol);
  RUN(damaged_payloads_are_refused);
  if (__mblob_plugin_dnnl.describe(text, sizeof(text)) == MBLOB_OK) {
    printf("  %s\n", text);
    RUN(a_network_runs);
    RUN(halves_run);
    RUN(packed_weights);
    RUN(constants_change_under_calls);
    RUN(sizes_come_and_go);
    RUN(what_computes_nothing);
  } else {
    printf("  not run: %s\n", host_error);
    CHECK(strstr(host_error, "DNN"));
  }
  return 0;
}
