/* Modules of classes that libmblob itself has: executors and their factories. */
#define _GNU_SOURCE
#include "core/library/builtin_class.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/call/call.h"
#include "core/loaded/loaded.h"

/* What the loader's callbacks get: an object and what it is. */
struct builtin {
  const struct mb_class *class;
  void *object;
};

int mb_builtin_new(const struct mb_class *class, void *object, void **out) {
  struct builtin *builtin = malloc(sizeof(*builtin));
  *out = builtin;
  if (!builtin) return mb_fail_memory(sizeof(*builtin));
  *builtin = (struct builtin){class, object};
  return MBLOB_OK;
}

static int open_builtin(void *context, const mblob_module_info *info, void **self) {
  const struct mb_class *class = context;
  void *builtin = NULL;
  int status = mb_builtin_new(class, NULL, &builtin);
  if (!status) status = class->open(info, &((struct builtin *)builtin)->object);
  if (status)
    free(builtin);
  else
    *self = builtin;
  return status;
}

static int find_builtin_function(void *self, const char *name, mblob_function **out) {
  const struct builtin *builtin = self;
  *out = NULL;
  for (const struct mb_method *m = builtin->class->methods; m->call; m++)
    if (strcmp(m->name, name) == 0) {
      int status = mb_method_bind(m, builtin->object, out);
      if (!status) (*out)->takes = builtin->class->takes;
      return status;
    }
  return builtin->class->function ? builtin->class->function(builtin->object, name, out) : MBLOB_OK;
}

static void close_builtin(void *self) {
  struct builtin *builtin = self;
  if (builtin->class->close) builtin->class->close(builtin->object);
  free(builtin);
}

mblob_loader mb_builtin_loader(const struct mb_class *class) {
  return (mblob_loader){.struct_size = sizeof(mblob_loader),
                        .type_key = class->type_key,
                        .context = (void *)(uintptr_t)class,
                        .open = open_builtin,
                        .function = find_builtin_function,
                        .close = close_builtin};
}

void *mb_builtin_object(const mblob_module *module, const struct mb_class *class) {
  /* One from a file may be just being opened by another thread. */
  bool is_one = module->is_created && module->use->loader.function == find_builtin_function &&
                module->use->loader.context == class;
  return is_one ? ((struct builtin *)module->use->self)->object : NULL;
}

int mb_builtin_describe(const mblob_module *module, int end, size_t i, size_t *count,
                        struct mb_executor_io *out) {
  if (end != MBLOB_INPUTS && end != MBLOB_OUTPUTS)
    return mb_fail(MBLOB_E_ARGUMENT, "end is %d, expected a mblob_end", end);
  const bool is_one = module->is_created && module->use->loader.function == find_builtin_function;
  const struct builtin *builtin = is_one ? module->use->self : NULL;
  if (builtin && builtin->class->describe)
    return builtin->class->describe(builtin->object, end == MBLOB_OUTPUTS, i, count, out);
  return mb_fail(MBLOB_E_ARGUMENT, "module '%s' is no executor", module->type_key);
}

void mb_known_names(const mblob_module *module, void (*visit)(void *context, const char *name),
                    void *context) {
  mb_lock(&module->library->lock);
  const struct mb_module_use *use = module->use;
  bool is_open = module->is_created || use->opening == MB_OPENED;
  mb_unlock(&module->library->lock);
  if (!is_open) return;
  for (size_t i = 0; i < use->name_count; i++) visit(context, use->names[i]);
  if (use->loader.function != find_builtin_function) return;
  const struct builtin *builtin = use->self;
  const char *extra = NULL;
  for (size_t i = 0;
       builtin->class->extra_name && (extra = builtin->class->extra_name(builtin->object, i)); i++)
    if (*extra) visit(context, extra);
  for (const struct mb_method *m = builtin->class->methods; m->call; m++) visit(context, m->name);
}
