/* Names that a program calls and nobody provides. */
#define _GNU_SOURCE
#include <stdio.h>

#include "core/call/call.h"
#include "core/library/library.h"
#include "core/link/link.h"
#include "exec/relax/executable.h"

struct missing {
  const struct relax_executable *exec;
  const char *before, *after;
  struct mb_map seen;
  FILE *out;
};

static void list_if_missing(const char *name, void *context) {
  struct missing *m = context;
  mblob_function *function = NULL, *global = NULL;
  if (mb_map_get(&m->seen, name) || !mb_map_put(&m->seen, name, m)) return;
  (void)mb_module_find_if_open(m->exec->module, name, MB_IMPORTS_ONLY, &function);
  if (!function) (void)mb_global_get(name, &global);
  if (!function && !global) (void)fprintf(m->out, "%s%s%s", m->before, name, m->after);
  mblob_function_release(global);
}

static int list_of_code(mblob_module *module, void *context) {
  if (module->is_library) mb_library_code_names(module->library, list_if_missing, context);
  return 0;
}

char *relax_list_missing(const struct relax_executable *exec, const char *before,
                         const char *after) {
  char *text = NULL;
  size_t size = 0;
  struct missing m = {.exec = exec, .before = before, .after = after};
  m.out = open_memstream(&text, &size);
  if (!m.out) return NULL;
  for (size_t i = 0; i < exec->function_count; i++)
    if (exec->functions[i].kind == RELAX_PACKED) list_if_missing(exec->functions[i].name, &m);
  (void)mb_module_walk(exec->module, true, list_of_code, &m);
  mb_map_free(&m.seen);
  (void)fclose(m.out);
  return text;
}
