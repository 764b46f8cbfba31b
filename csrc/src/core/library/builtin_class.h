/* builtin_class.h - modules that are written in C here (executors and their factories): a class with
 * methods, made from a payload or in code. */
#ifndef MB_BUILTIN_CLASS_H
#define MB_BUILTIN_CLASS_H

#include "core/call/call.h"
#include "core/loaded/loaded.h"

/* An input or output of an executor. */
struct mb_executor_io {
  const char *name;
  const DLTensor *tensor; /* NULL: nothing but the name is known */
  uint32_t flags;         /* MBLOB_TENSOR_* */
};
/* How many there are, and what number `i` is if there are as many; what is unknown is left. */
typedef int (*mb_describer)(void *object, bool outputs, size_t i, size_t *count,
                            struct mb_executor_io *out);

struct mb_class {
  const char *type_key;
  const struct mb_method *methods; /* ends with one without a call */
  /* Make the object of a module that a file holds; NULL if files hold none. `info` lives as long
   * as it. */
  int (*open)(const mblob_module_info *info, void **object);
  /* A function whose name is not in `methods`: MBLOB_OK with *out NULL if there is none. May be
   * NULL. */
  int (*function)(void *object, const char *name, mblob_function **out);
  void (*close)(void *object); /* may be NULL */
  /* Of an executor; NULL of others. */
  mb_describer describe;
  /* Name number `i` of those that `function` knows beside the methods, for errors; "" where there is
   * none, NULL behind the last. May be NULL. */
  const char *(*extra_name)(void *object, size_t i);
  mblob_argument_mode takes; /* of its functions */
};

/* The object of a module that mb_builtin_create made with that class; NULL of any other module. */
void *mb_builtin_object(const mblob_module *module, const struct mb_class *class);
/* What the class of a module tells of an input or output, `end` is a mblob_end. MBLOB_E_ARGUMENT if
 * it is no executor, or `end` is another number. */
int mb_builtin_describe(const mblob_module *module, int end, size_t i, size_t *count,
                        struct mb_executor_io *out);
/* Visit the names of the functions of a module that is open: of a class here, the most wanted
 * first, or as its plug-in told them. */
void mb_known_names(const mblob_module *module, void (*visit)(void *context, const char *name),
                    void *context);
/* The loader for the class's key, and what it opens, for free(), with that object. */
mblob_loader mb_builtin_loader(const struct mb_class *class);
int mb_builtin_new(const struct mb_class *class, void *object, void **out);

#endif
