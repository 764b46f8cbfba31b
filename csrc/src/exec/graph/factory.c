/* Factories of graph executors: graph, parameters and a name in a payload, the kernels in what
 * it imports. The payload: string graph_json; u64 n; vector<string> names; n NDArray records;
 * string module_name. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "exec/common/common.h"
#include "exec/graph/graph_module.h"

struct graph_factory {
  mblob_module *module; /* itself, not counted */
  const char *json;     /* in the payload */
  size_t json_size;
  char *own;  /* the payload of one that was made here */
  char *name; /* of the function that makes an executor */
  struct mb_stored_arrays parameters;
};

static void close_graph_factory(void *object) {
  struct graph_factory *f = object;
  mb_stored_arrays_free(&f->parameters);
  free(f->own);
  free(f->name);
  free(f);
}

/* ---- reading ---- */

static bool read_graph_payload(struct mb_cursor *c, struct graph_factory *f) {
  struct mb_slice json, name;
  uint64_t count = 0, start;
  if (!mb_read_string(c, &json, "graph_json")) return false;
  start = c->pos;
  if (!mb_read_u64(c, &count, "parameter count") || !mb_stored_arrays_names(c, &f->parameters))
    return false;
  if (count != f->parameters.count) {
    (void)mb_fail_format("payload", (int64_t)start, c->entry,
                         "factory: %llu parameters, but %zu names", (unsigned long long)count,
                         f->parameters.count);
    return false;
  }
  if (!mb_stored_arrays_data(c, &f->parameters) || !mb_read_string(c, &name, "module_name"))
    return false;
  if (mb_left(c)) {
    (void)mb_fail_format("payload", (int64_t)c->pos, c->entry,
                         "factory: bytes follow the module name");
    return false;
  }
  while (json.size && json.data[json.size - 1] == ' ')
    json.size--; /* put there to align the parameters */
  f->json = (const char *)json.data;
  f->json_size = (size_t)json.size;
  f->name = strndup((const char *)name.data, (size_t)name.size);
  if (!f->name) (void)mb_fail_memory((size_t)name.size);
  return f->name != NULL;
}

static int open_graph_factory(const mblob_module_info *info, void **object) {
  struct mb_cursor c = {info->payload, 0, info->payload_size, (int64_t)info->index};
  struct graph_factory *f = calloc(1, sizeof(*f));
  if (!f) return mb_fail_memory(sizeof(*f));
  f->module = info->module;
  if (read_graph_payload(&c, f)) {
    *object = f;
    return MBLOB_OK;
  }
  close_graph_factory(f);
  return mblob_last_error_info()->status;
}

/* ---- making executors ---- */

static int check_graph_imports(const struct graph_factory *f) {
  if (f->module->import_count) return MBLOB_OK;
  return mb_fail(MBLOB_E_ARGUMENT,
                 "the factory imports no module; its kernels are looked for in its imports");
}

static int make_executor(struct graph_factory *f, struct mb_call *call, int first_device,
                         bool debug) {
  struct mb_graph_source source = {.json = f->json,
                                   .json_size = f->json_size,
                                   .kernels = f->module,
                                   .kernels_scope = MB_IMPORTS_ONLY,
                                   .parameters = &f->parameters,
                                   .parameters_module = f->module};
  int status = check_graph_imports(f);
  return status ? status : mb_graph_create_for(call, first_device, &source, debug);
}

/* (devices...) */
static int create_executor(void *object, struct mb_call *call) {
  return make_executor(object, call, 0, false);
}

/* (module name, devices...) */
static int debug_create(void *object, struct mb_call *call) {
  struct graph_factory *f = object;
  const char *name = NULL;
  int status = mb_call_text(call, 0, &name);
  if (status) return status;
  if (strcmp(name, f->name) != 0)
    return mb_fail(MBLOB_E_ARGUMENT, "the factory makes '%s', found '%s'", f->name, name);
  return make_executor(f, call, 1, true);
}

static int cuda_graph_create(void *object, struct mb_call *call) {
  const struct graph_factory *f = object;
  (void)call;
  return mb_fail(MBLOB_E_INCOMPATIBLE,
                 "no runtime for CUDA is in this process; '%s' makes an executor for the cpu",
                 f->name);
}

/* ---- what it holds ---- */

static int get_graph_json(void *object, struct mb_call *call) {
  const struct graph_factory *f = object;
  char *text = strndup(f->json, f->json_size);
  if (!text) return mb_fail_memory(f->json_size);
  int status = mb_call_return_text(call, text);
  free(text);
  return status;
}

static int get_graph_params(void *object, struct mb_call *call) {
  const struct graph_factory *f = object;
  return mb_parameters_return(&f->parameters, "parameter", call);
}

static int remove_graph_params(void *object, struct mb_call *call);

static const struct mb_method factory_methods[] = {
    {"debug_create", debug_create},         {"cuda_graph_create", cuda_graph_create},
    {"get_graph_json", get_graph_json},     {"get_graph_params", get_graph_params},
    {"remove_params", remove_graph_params}, {"", NULL}};

static const char *graph_extra_name(void *object, size_t i) {
  const struct graph_factory *f = object;
  return i ? NULL : f->name;
}

static int find_graph_function(void *object, const char *name, mblob_function **out) {
  static const struct mb_method creator = {"create", create_executor};
  const struct graph_factory *f = object;
  return strcmp(name, f->name) == 0 ? mb_method_bind(&creator, object, out) : MBLOB_OK;
}

#define FACTORY(key)                \
  {.type_key = (key),               \
   .methods = factory_methods,      \
   .open = open_graph_factory,      \
   .function = find_graph_function, \
   .extra_name = graph_extra_name,  \
   .close = close_graph_factory}
const struct mb_class mb_graph_factory_class = FACTORY(MB_KEY_GRAPH_FACTORY);
const struct mb_class mb_graph_runtime_factory_class = FACTORY(MB_KEY_GRAPH_RUNTIME_FACTORY);

/* The payload of a factory of the same graph without parameters; NULL when memory is out. */
static char *bare_payload(const struct graph_factory *f, size_t *size) {
  char *bytes = NULL;
  FILE *out = open_memstream(&bytes, size);
  if (!out) return NULL;
  mb_put_number(out, f->json_size, 8);
  (void)fwrite(f->json, 1, f->json_size, out);
  mb_put_number(out, 0, 8); /* parameters */
  mb_put_number(out, 0, 8); /* their names */
  mb_put_number(out, strlen(f->name), 8);
  (void)fputs(f->name, out);
  const bool failed = ferror(out) != 0;
  if (!fclose(out) && !failed) return bytes;
  free(bytes);
  return NULL;
}

/* A factory of the same graph and kernels, whose executors have to be given their parameters. */
static int remove_graph_params(void *object, struct mb_call *call) {
  const struct graph_factory *f = object;
  mblob_module *module = NULL;
  int status = mb_call_expect(call, 0, 0);
  if (!status) status = check_graph_imports(f);
  if (status) return status;
  struct graph_factory *bare = calloc(1, sizeof(*bare));
  if (!bare) return mb_fail_memory(sizeof(*bare));
  size_t size = 0;
  bare->own = bare_payload(f, &size);
  struct mb_cursor c = {(const uint8_t *)bare->own, 0, size, -1};
  if (!bare->own)
    status = mb_fail_memory(f->json_size);
  else if (!read_graph_payload(&c, bare))
    status = mblob_last_error_info()->status;
  else
    status = mb_builtin_create(&mb_graph_factory_class, bare, &module);
  if (status) {
    close_graph_factory(bare);
    return status;
  }
  bare->module = module;
  module->payload = (const uint8_t *)bare->own;
  module->payload_size = size;
  status = mb_module_import_all(module, f->module);
  if (status)
    mblob_module_release(module);
  else
    mb_call_return_module(call, module);
  return status;
}
