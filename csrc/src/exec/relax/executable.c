/* Modules of the keys relax.VMExecutable and relax.Executable: a program of Relax's virtual
 * machine. */
#include "exec/relax/executable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/relax/machine.h"
#include "exec/relax/relax.h"

#define MAGIC_PREFIX UINT64_C(0xD225DE2F42141500) /* of both forms, but for the lowest byte */

static void close_executable(void *object) {
  relax_executable_reset(object);
  free(object);
}

/* Up to TVM 0.21 the payload is one string; later it is the code itself. */
static int open_executable(const mblob_module_info *info, void **object) {
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
  if (!status) {
    *object = exec;
    return MBLOB_OK;
  }
  close_executable(exec);
  mb_error_prefix(info->type_key);
  return status;
}

/* ---- methods --------------------------------------------------------------------------------- */

static int return_list(struct mb_call *call, char *text) {
  int status = text ? mb_call_return_text(call, text) : mblob_last_error_info()->status;
  free(text);
  return status;
}

static int as_text(void *object, struct mb_call *call) {
  return return_list(call, relax_list_text(object));
}

static int as_python(void *object, struct mb_call *call) {
  return return_list(call, relax_list_python(object));
}

static int stats(void *object, struct mb_call *call) {
  return return_list(call, relax_list_stats(object));
}

static int vm_load_executable(void *object, struct mb_call *call) {
  mblob_module *machine = NULL;
  int status = mb_call_expect(call, 0, 0);
  if (!status) status = relax_machine_create(object, &machine);
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

/* Names of functions that no import has and nobody has registered, one per line. */
static int get_missing_functions(void *object, struct mb_call *call) {
  const struct relax_executable *exec = object;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return mb_fail_memory(0);
  for (size_t i = 0; i < exec->function_count; i++) {
    const struct relax_function *f = &exec->functions[i];
    mblob_function *function = NULL, *global = NULL;
    if (f->kind != RELAX_PACKED) continue;
    (void)mb_module_find_if_open(exec->module, f->name, MB_IMPORTS_ONLY, &function);
    if (!function) (void)mb_global_get(f->name, &global);
    if (!function && !global) (void)fprintf(out, "%s\n", f->name);
    mblob_function_release(global);
  }
  return mb_call_return_stream(call, out, &text, &size);
}

static int get_function_names(void *object, struct mb_call *call) {
  const struct relax_executable *exec = object;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return mb_fail_memory(0);
  for (size_t i = 0; i < exec->function_count; i++)
    if (exec->functions[i].kind != RELAX_PACKED)
      (void)fprintf(out, "%s\n", exec->functions[i].name);
  return mb_call_return_stream(call, out, &text, &size);
}

static const struct mb_method methods[] = {{"vm_load_executable", vm_load_executable},
                                           {"vm_profiler_load_executable", vm_load_executable},
                                           {"as_text", as_text},
                                           {"as_python", as_python},
                                           {"stats", stats},
                                           {"has_function", has_function},
                                           {"get_function_names", get_function_names},
                                           {"get_missing_functions", get_missing_functions},
                                           {"", NULL}};

const struct mb_class mb_relax_executable_class = {.type_key = MB_KEY_RELAX_EXECUTABLE,
                                                   .methods = methods,
                                                   .open = open_executable,
                                                   .close = close_executable};

const struct mb_class mb_relax_executable_of_0_16_class = {
    .type_key = MB_KEY_RELAX_EXECUTABLE_OF_0_16,
    .methods = methods,
    .open = open_executable,
    .close = close_executable};
