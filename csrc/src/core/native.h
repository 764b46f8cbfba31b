/* native.h - modules that are written in C here (executors and their factories): a class with
 * methods, made from a payload or in code. */
#ifndef MB_NATIVE_H
#define MB_NATIVE_H

#include <mblob.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/return_value.h"

/* One call of a method. Arguments are the caller's and borrowed. */
struct mb_call {
  const char *method;
  const TVMValue *args;
  const int *codes;
  int count;
  struct mb_return *result; /* nothing, until a method sets it */
};

struct mb_method {
  char name[40]; /* in place: a pointer would need a relocation, which is larger */
  /* Returns a mblob_status; the error is recorded, the method's name is put in front. */
  int (*call)(void *object, struct mb_call *call);
};

/* An input or output of an executor. */
struct mb_end {
  const char *name;
  const DLTensor *tensor; /* NULL: nothing but the name is known */
  uint32_t flags;         /* MBLOB_TENSOR_* */
};
/* How many there are, and what number `i` is if there are as many; what is unknown is left. */
typedef int (*mb_describer)(void *object, bool outputs, size_t i, size_t *count,
                            struct mb_end *out);

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
  bool
      keeps; /* its functions take all kinds of values, and keep tensors (mblob_function_is_ffi 2) */
};

/* A module of that class; it owns `object` unless this fails. */
int mb_native_create(const struct mb_class *class, void *object, mblob_module **out);
/* The object of a module that mb_native_create made with that class; NULL of any other module. */
void *mb_native_object(const mblob_module *module, const struct mb_class *class);
/* What the class of a module tells of an input or output, `end` is a mblob_end. MBLOB_E_ARGUMENT if
 * it is no executor, or `end` is another number. */
int mb_native_describe(const mblob_module *module, int end, size_t i, size_t *count,
                       struct mb_end *out);
/* Visit the names of the functions of a module that is open: of a class here, the most wanted
 * first, or as its plug-in told them. */
void mb_known_names(const mblob_module *module, void (*visit)(void *context, const char *name),
                    void *context);
/* The loader for the class's key. */
mblob_loader mb_native_loader(const struct mb_class *class);
/* A function that calls `method` with `object`, which must outlive it: for `function` of a
 * class. */
int mb_method_bind(const struct mb_method *method, void *object, mblob_function **out);
/* The method of such a function, NULL of any other. */
const struct mb_method *mb_method_of(const mblob_function *function);

/* ---- arguments: MBLOB_E_ARGUMENT with what was expected and found ---------------------------- */

int mb_call_expect(const struct mb_call *call, int at_least, int at_most);
int mb_call_int(const struct mb_call *call, int i, int64_t *out);
/* The same; an error says that `expected` ("a device") was expected. */
int mb_call_expected_int(const struct mb_call *call, int i, const char *expected, int64_t *out);
int mb_call_text(const struct mb_call *call, int i, const char **out);
/* Text or bytes, not copied. */
int mb_call_bytes(const struct mb_call *call, int i, const void **data, size_t *size);
/* A DLTensor or an array. */
int mb_call_tensor(const struct mb_call *call, int i, DLTensor **out);
int mb_call_module(const struct mb_call *call, int i, mblob_module **out);
/* Devices from argument `i` to the last: each is one kTVMDevice, or two integers (type, id), as
 * TVM passes them. At most `limit` are stored. */
int mb_call_devices(const struct mb_call *call, int i, DLDevice *out, size_t limit, size_t *count);
bool mb_call_is_text(const struct mb_call *call, int i);

/* ---- results --------------------------------------------------------------------------------- */

void mb_call_return_int(struct mb_call *call, int64_t value);
int mb_call_return_text(struct mb_call *call, const char *text);
/* What was written to `out`, of open_memstream(text, size): closes it and frees the text, also
 * when that fails. */
int mb_call_return_stream(struct mb_call *call, FILE *out, char **text, const size_t *size);
/* Both take the reference over. */
void mb_call_return_module(struct mb_call *call, mblob_module *module);
void mb_call_return_array(struct mb_call *call, DLTensor *array);
void mb_call_return_function(struct mb_call *call, mblob_function *function);

#endif
