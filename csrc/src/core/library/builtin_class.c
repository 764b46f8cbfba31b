/* Modules whose classes are written in C here (executors and their factories). */
#define _GNU_SOURCE
#include "core/library/builtin_class.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/call/call.h"
#include "core/loaded/loaded.h"

/* What the loader's callbacks get: an object and what it is. */
struct native {
  const struct mb_class *class;
  void *object;
};

int mb_builtin_new(const struct mb_class *class, void *object, void **out) {
  struct native *native = malloc(sizeof(*native));
  *out = native;
  if (!native) return mb_fail_memory(sizeof(*native));
  *native = (struct native){class, object};
  return MBLOB_OK;
}

static int open_native(void *context, const mblob_module_info *info, void **self) {
  const struct mb_class *class = context;
  void *native = NULL;
  int status = mb_builtin_new(class, NULL, &native);
  if (!status) status = class->open(info, &((struct native *)native)->object);
  if (status)
    free(native);
  else
    *self = native;
  return status;
}

static int find_native(void *self, const char *name, mblob_function **out) {
  const struct native *native = self;
  *out = NULL;
  for (const struct mb_method *m = native->class->methods; m->call; m++)
    if (strcmp(m->name, name) == 0) {
      int status = mb_method_bind(m, native->object, out);
      if (!status) (*out)->takes = native->class->takes;
      return status;
    }
  return native->class->function ? native->class->function(native->object, name, out) : MBLOB_OK;
}

static void close_native(void *self) {
  struct native *native = self;
  if (native->class->close) native->class->close(native->object);
  free(native);
}

mblob_loader mb_builtin_loader(const struct mb_class *class) {
  return (mblob_loader){.struct_size = sizeof(mblob_loader),
                        .type_key = class->type_key,
                        .context = (void *)(uintptr_t)class,
                        .open = open_native,
                        .function = find_native,
                        .close = close_native};
}

void *mb_builtin_object(const mblob_module *module, const struct mb_class *class) {
  /* One from a file may be just being opened by another thread. */
  bool is_one = module->is_created && module->use->loader.function == find_native &&
                module->use->loader.context == class;
  return is_one ? ((struct native *)module->use->self)->object : NULL;
}

int mb_builtin_describe(const mblob_module *module, int end, size_t i, size_t *count,
                        struct mb_executor_io *out) {
  if (end != MBLOB_INPUTS && end != MBLOB_OUTPUTS)
    return mb_fail(MBLOB_E_ARGUMENT, "end is %d, expected a mblob_end", end);
  const bool is_one = module->is_created && module->use->loader.function == find_native;
  const struct native *native = is_one ? module->use->self : NULL;
  if (native && native->class->describe)
    return native->class->describe(native->object, end == MBLOB_OUTPUTS, i, count, out);
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
  if (use->loader.function != find_native) return;
  const struct native *native = use->self;
  const char *extra = NULL;
  for (size_t i = 0;
       native->class->extra_name && (extra = native->class->extra_name(native->object, i)); i++)
    if (*extra) visit(context, extra);
  for (const struct mb_method *m = native->class->methods; m->call; m++) visit(context, m->name);
}
