/* Modules of the keys relax.VMExecutable and relax.Executable: a program of Relax's virtual
 * machine. */
#include "exec/relax/executable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/relax/machine.h"
#include "exec/relax/relax.h"

#define MAGIC_PREFIX UINT64_C(0xD225DE2F42141500) /* of both forms, but for the lowest byte */

/* Constants as kernels take them: aligned, with the runtime's numbers of element types. */
static int prepare_constants(struct relax_executable *exec) {
  int status = MBLOB_OK;
  for (size_t i = 0; !status && i < exec->constant_count; i++) {
    struct relax_constant *constant = &exec->constants[i];
    DLTensor *view = &constant->array.view;
    if (constant->kind == RELAX_TENSOR) status = mb_stored_array_align(&constant->array);
    if (exec->dialect == MB_CLASSIC) continue;
    if (constant->kind == RELAX_TENSOR) view->dtype = mb_dtype_stored_in_ffi(view->dtype);
    if (constant->kind == RELAX_DTYPE)
      constant->value.v_type = mb_dtype_stored_in_ffi(constant->value.v_type);
  }
  return status;
}

int relax_constant_value(const struct relax_executable *exec, size_t i, TVMValue *value,
                         int *code) {
  static const uint8_t codes[] = {
      [RELAX_TENSOR] = kTVMNDArrayHandle, [RELAX_DTYPE] = kTVMDataType,
      [RELAX_SHAPE] = kTVMObjectHandle,   [RELAX_STRING] = kTVMObjectHandle,
      [RELAX_INT] = kTVMArgInt,           [RELAX_FLOAT] = kTVMArgFloat};
  const struct relax_constant *constant = &exec->constants[i];
  const struct mb_slice text = constant->text;
  DLTensor *array = NULL;
  struct mb_object *object = NULL;
  int status = MBLOB_OK;
  if (constant->kind == RELAX_TENSOR)
    status = mb_stored_array_share(&constant->array, exec->module, &array);
  else if (constant->kind == RELAX_SHAPE)
    status = mb_object_new_shape(constant->extents, constant->extent_count, &object);
  else if (constant->kind == RELAX_STRING)
    status = mb_object_new_string((const char *)text.data, (size_t)text.size, &object);
  *value = constant->value;
  if (array) value->v_handle = array;
  if (object) value->v_handle = object;
  *code = status ? kTVMNullptr : codes[constant->kind];
  return status;
}

static void close_relax_executable(void *object) {
  struct relax_executable *exec = object;
  for (size_t i = 0; i < exec->constant_count; i++)
    mb_stored_array_clear(&exec->constants[i].array);
  relax_executable_free(exec);
  free(exec->owned);
  free(exec);
}

/* Up to TVM 0.21 the payload is one string; later it is the code itself. */
static int open_relax_executable(const mblob_module_info *info, void **object) {
  struct mb_cursor c = {info->payload, 0, info->payload_size, (int64_t)info->index};
  struct mb_slice code = {info->payload, info->payload_size};
  struct relax_executable *exec = calloc(1, sizeof(*exec));
  if (!exec) return mb_fail_memory(sizeof(*exec));
  const bool bare = code.size >= 8 && (mb_u64_at(code.data) & ~UINT64_C(0xff)) == MAGIC_PREFIX;
  const struct mb_library *library = info->module->library;
  exec->module = info->module;
  exec->dialect = library->has_blob ? library->blob_dialect : library->dialect;
  if (strcmp(info->dialect, "classic") == 0) exec->dialect = MB_CLASSIC;
  int status =
      bare || mb_read_string(&c, &code, "code") ? MBLOB_OK : mblob_last_error_info()->status;
  if (!status) status = relax_executable_read(exec, code.data, code.size, (int64_t)info->index);
  if (!status) status = prepare_constants(exec);
  if (!status) {
    *object = exec;
    return MBLOB_OK;
  }
  close_relax_executable(exec);
  mb_error_prefix(info->type_key);
  return status;
}

/* ---- code that is in no library -------------------------------------------------------------- */

/* A program does not say which dialect it is of: all are tried, the latest first. */
static int read_any(struct relax_executable *exec, const void *code, uint64_t size) {
  static const enum mb_dialect dialects[] = {MB_FFI, MB_FFI_OF_0_21, MB_CLASSIC};
  struct mb_saved_error first = {0};
  int status = MBLOB_OK;
  for (int i = 0; i < 3; i++) {
    exec->dialect = dialects[i];
    status = relax_executable_read(exec, code, size, MB_UNKNOWN);
    if (!status) break;
    if (!i) mb_error_save(&first);
    relax_executable_free(exec);
    *exec = (struct relax_executable){.owned = exec->owned};
  }
  if (status) status = mb_error_restore(&first);
  mb_saved_error_free(&first);
  return status;
}

/* Takes `code` over, which may start with its length (TVM up to 0.21). */
static int open_code(char *code, size_t size, mblob_module **out) {
  const bool framed = size >= 16 && mb_u64_at((const uint8_t *)code) == size - 8;
  struct relax_executable *exec = calloc(1, sizeof(*exec));
  *out = NULL;
  if (!exec) {
    free(code);
    return mb_fail_memory(sizeof(*exec));
  }
  exec->owned = code;
  int status = read_any(exec, code + (framed ? 8 : 0), size - (framed ? 8 : 0));
  if (!status) status = prepare_constants(exec);
  if (!status) status = mb_builtin_create(&mb_relax_executable_class, exec, out);
  if (status)
    close_relax_executable(exec);
  else
    exec->module = *out;
  return status;
}

/* (path): the program in a file that was saved alone; what it calls is to be imported. */
static int load_executable_file(void *unused, struct mb_call *call) {
  (void)unused;
  const char *path = NULL;
  struct mb_source source;
  char *code = NULL;
  mblob_module *module = NULL;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_call_text(call, 0, &path);
  if (!status) status = mb_source_open(path, &source);
  if (status) return status;
  code = malloc(source.size ? source.size : 1);
  if (code) memcpy(code, source.bytes, source.size);
  status = code ? open_code(code, source.size, &module) : mb_fail_memory(source.size);
  mb_source_close(&source);
  if (!status) mb_call_return_module(call, module);
  return status;
}

/* (bytes [, module that it imports]) */
static int load_from_bytes(void *unused, struct mb_call *call) {
  (void)unused;
  const void *bytes = NULL;
  size_t size = 0;
  mblob_module *module = NULL, *library = NULL;
  int status = mb_call_expect(call, 1, 2);
  if (!status) status = mb_call_bytes(call, 0, &bytes, &size);
  if (!status && call->count == 2) status = mb_call_module(call, 1, &library);
  if (status) return status;
  char *copy = malloc(size ? size : 1);
  if (!copy) return mb_fail_memory(size);
  if (size) memcpy(copy, bytes, size);
  status = open_code(copy, size, &module);
  if (!status && library) status = mblob_module_import(module, library);
  if (!status)
    mb_call_return_module(call, module);
  else
    mblob_module_release(module);
  return status;
}

const struct mb_method relax_executable_functions[] = {
    {"relax.ExecutableLoadFromFile", load_executable_file},
    {"mblob.RelaxExecutable", load_from_bytes},
    {"", NULL}};

/* ---- methods --------------------------------------------------------------------------------- */

static int return_relax_list(struct mb_call *call, char *text) {
  int status = text ? mb_call_return_text(call, text) : mblob_last_error_info()->status;
  free(text);
  return status;
}

static int as_text(void *object, struct mb_call *call) {
  return return_relax_list(call, relax_list_text(object));
}

static int as_python(void *object, struct mb_call *call) {
  return return_relax_list(call, relax_list_python(object));
}

static int stats(void *object, struct mb_call *call) {
  return return_relax_list(call, relax_list_stats(object));
}

int relax_function_names(const struct relax_executable *exec, struct mb_names *out) {
  const char **names = calloc(exec->function_count + 1, sizeof(*names));
  *out = (struct mb_names){"function", names, 0};
  if (!names) return mb_fail_memory(exec->function_count * sizeof(*names));
  for (size_t i = 0; i < exec->function_count; i++)
    if (exec->functions[i].kind != RELAX_PACKED) names[out->count++] = exec->functions[i].name;
  return MBLOB_OK;
}

/* `main`, or the only function that there is; else NULL. */
static const struct relax_function *unnamed_model(const struct relax_executable *exec) {
  const struct relax_function *found = mb_map_get(&exec->by_name, RELAX_MODEL);
  size_t count = 0;
  if (found) return found;
  for (const struct relax_function *f = exec->functions; f < exec->functions + exec->function_count;
       f++)
    if (f->kind != RELAX_PACKED) found = count++ ? NULL : f;
  return found;
}

/* The function that argument 0 names. Hosts of all kinds of models call one without a name "default". */
static int find_model(const struct relax_executable *exec, const struct mb_call *call,
                      const struct relax_function **out) {
  struct mb_names names;
  size_t i = 0;
  const char *name = "default";
  *out = unnamed_model(exec);
  int status = call->count ? mb_call_text(call, 0, &name) : MBLOB_OK;
  if (status || (strcmp(name, "default") == 0 && !mb_map_get(&exec->by_name, name))) return status;
  status = relax_function_names(exec, &names);
  if (!status) status = mb_names_argument(&names, call, 0, &i);
  if (!status) *out = mb_map_get(&exec->by_name, names.names[i]);
  free((void *)(uintptr_t)names.names);
  return status;
}

/* ([function]) */
static int relax_load_executable(void *object, struct mb_call *call) {
  mblob_module *machine = NULL;
  const struct relax_function *model = NULL;
  int status = mb_call_expect(call, 0, 1);
  if (!status) status = find_model(object, call, &model);
  if (!status) status = relax_machine_create(object, model, &machine);
  if (!status) mb_call_return_module(call, machine);
  return status;
}

static int has_function(void *object, struct mb_call *call) {
  const struct relax_executable *exec = object;
  const char *name = NULL;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_call_text(call, 0, &name);
  const TVMValue found = {.v_int64 = !status && mb_map_get(&exec->by_name, name) != NULL};
  if (!status) relax_return(call, found, kTVMArgBool);
  return status;
}

/* One per line. */
static int get_missing_functions(void *object, struct mb_call *call) {
  char *text = relax_list_missing(object, "", "\n");
  return text ? return_relax_list(call, text) : mb_fail_memory(0);
}

static int relax_get_function_names(void *object, struct mb_call *call) {
  struct mb_names names;
  char *text = NULL;
  size_t size = 0;
  int status = relax_function_names(object, &names);
  FILE *out = status ? NULL : open_memstream(&text, &size);
  if (!status && !out) status = mb_fail_memory(0);
  for (size_t i = 0; !status && i < names.count; i++) (void)fprintf(out, "%s\n", names.names[i]);
  free((void *)(uintptr_t)names.names);
  return status ? status : mb_call_return_stream(call, out, &text, &size);
}

static const struct mb_method relax_methods[] = {
    {"vm_load_executable", relax_load_executable},
    {"vm_profiler_load_executable", relax_load_executable},
    {"as_text", as_text},
    {"as_python", as_python},
    {"stats", stats},
    {"has_function", has_function},
    {"get_function_names", relax_get_function_names},
    {"get_missing_functions", get_missing_functions},
    {"", NULL}};

const struct mb_class mb_relax_executable_class = {.type_key = MB_KEY_RELAX_EXECUTABLE,
                                                   .methods = relax_methods,
                                                   .open = open_relax_executable,
                                                   .close = close_relax_executable};

const struct mb_class mb_relax_executable_of_0_16_class = {
    .type_key = MB_KEY_RELAX_EXECUTABLE_OF_0_16,
    .methods = relax_methods,
    .open = open_relax_executable,
    .close = close_relax_executable};
