/* The routine that ends exceptions, and what it can tell of one without C++: by the layouts of the
 * Itanium C++ ABI, which all compilers of Linux share. */
#define _GNU_SOURCE
#include "base/exceptions.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __thread char *thrown;

char *mb_thrown(int rc, const char *what) {
  char *text = NULL;
  if (rc != MB_THROWN || !thrown) return NULL;
  if (asprintf(&text, "%s%sthe code threw %s", what, *what ? ": " : "", thrown) < 0) text = NULL;
  free(thrown);
  thrown = NULL;
  return text;
}

#if MB_CAN_CATCH
#include <unwind.h>

typedef struct _Unwind_Exception exception;
typedef struct _Unwind_Context context;

static const void *file_of(const void *code, const char **name) {
  Dl_info at;
  if (!dladdr(code, &at)) return NULL;
  if (name) *name = at.dli_fname;
  return at.dli_fbase;
}

/* A function of the file that has `code`, or else of another one in `handle`. */
static void *function_beside(const void *code, const char *name) {
  const char *file = NULL;
  const void *base = file_of(code, &file);
  void *handle = base ? dlopen(file, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  void *found = dlsym(handle ? handle : RTLD_DEFAULT, name);
  if (handle) (void)dlclose(handle);
  return found && file_of(found, NULL) == base ? found : NULL;
}

/* ---- what was thrown ------------------------------------------------------------------------- */

/* std::type_info, and what is behind it in the classes that have one base, or several. */
struct class_type {
  const struct class_type *const *vtable; /* [-1]: the type of this structure */
  const char *name;
  union {
    const struct class_type *base;
    struct {
      unsigned flags, count;
      struct {
        const struct class_type *type;
        long offset_flags; /* the offset times 256; 1: virtual, 2: public */
      } bases[];
    } several;
  } u;
};

/* __cxa_exception, which ends with what the unwinder sees; the object that was thrown is behind it.
 * One that std::rethrow_exception threw again has the object's address in place of the type
 * (libstdc++) or in front of it (libc++). */
struct cxx {
  const struct class_type *type;
  void *functions[3], *next;
  int counts[2];
  const void *places[3];
  void *adjusted;
  exception unwound;
};

static bool is_of(const struct class_type *type, const char *class) {
  return strcmp(type->vtable[-1]->name, class) == 0;
}

/* The std::exception in an object, NULL if there is none that is public. */
static const void *standard(const struct class_type *type, const char *object, int depth) {
  if (strcmp(type->name, "St9exception") == 0) return object;
  if (depth == 0) return NULL;
  if (is_of(type, "N10__cxxabiv120__si_class_type_infoE"))
    return standard(type->u.base, object, depth - 1);
  if (!is_of(type, "N10__cxxabiv121__vmi_class_type_infoE")) return NULL;
  const void *found = NULL;
  for (unsigned i = 0; !found && i < type->u.several.count; i++) {
    const long flags = type->u.several.bases[i].offset_flags;
    long offset = flags >> 8;
    if (flags & 1)
      memcpy(&offset, *(const char *const *)(const void *)object + offset, sizeof(offset));
    if (flags & 2) found = standard(type->u.several.bases[i].type, object + offset, depth - 1);
  }
  return found;
}

static char *describe_exception(const struct class_type *type, const void *object,
                                const void *runtime) {
  union {
    void *address;
    char *(*call)(const char *name, char *buffer, size_t *size, int *status);
  } demangle = {function_beside(runtime, "__cxa_demangle")};
  const char *name = type->name + (*type->name == '*'); /* compared by address */
  char *readable = demangle.address ? demangle.call(name, NULL, NULL, NULL) : NULL;
  const void *error = standard(type, object, 32);
  const char *what = strcmp(name, "PKc") == 0 ? *(const char *const *)object : NULL;
  if (error) {
    typedef const char *(*method)(const void *self);
    const method *const *vtable = error; /* two destructors, then what() */
    what = (*vtable)[2](error);
  }
  if (readable) name = readable;
  if (what && (!*what || strcmp(what, name) == 0)) what = NULL;
  char *text = NULL;
  if (asprintf(&text, what ? "%s: %s" : "%s", name, what) < 0) text = NULL;
  free(readable);
  return text;
}

/* Take note of an exception, and end it. */
static void end_exception(_Unwind_Exception_Class class, exception *unwound) {
  static const char other[] = "an exception of another language than C++";
  const bool is_gnu = class >> 8 == 0x474E5543432B2B /* GNUCC++ */;
  free(thrown);
  thrown = NULL;
  if (!is_gnu && class >> 8 != 0x434C4E47432B2B /* CLNGC++ */) {
    thrown = strdup(other); /* nobody else may free it */
    return;
  }
  const struct cxx *one = (const void *)((const char *)unwound - offsetof(struct cxx, unwound));
  const void *object = unwound + 1;
  if (class & 0xFF) {
    object = is_gnu ? (const void *)one->type : ((const void *const *)one)[-1];
    one = (const struct cxx *)object - 1;
  }
  const void *runtime = (const void *)(uintptr_t)unwound->exception_cleanup;
  thrown = describe_exception(one->type, object, runtime);
  union {
    void *address;
    void *(*begin)(void *exception);
    void (*end)(void);
  } begin = {function_beside(runtime, "__cxa_begin_catch")},
    finish = {function_beside(runtime, "__cxa_end_catch")};
  if (begin.address && finish.address) {
    (void)begin.begin(unwound);
    finish.end();
  } else if (unwound->exception_cleanup) { /* not counted as caught: std::uncaught_exceptions() */
    unwound->exception_cleanup(_URC_FOREIGN_EXCEPTION_CAUGHT, unwound);
  }
}

/* ---- the routine ----------------------------------------------------------------------------- */

#pragma weak _Unwind_SetGR
#pragma weak _Unwind_Backtrace

static _Unwind_Reason_Code stop(context *frame, void *none) {
  (void)frame, (void)none;
  return _URC_NORMAL_STOP;
}

/* The function of the unwinder that asks. One that is hidden, linked into a library, has the layout
 * of the public one, which knows the sizes of registers once it has unwound something. */
static void (*setter(const void *unwinder))(context *, int, uintptr_t) {
  union {
    void *address;
    void (*set)(context *, int, uintptr_t);
    _Unwind_Reason_Code (*walk)(_Unwind_Trace_Fn, void *);
  } set = {function_beside(unwinder, "_Unwind_SetGR")}, walk;
  if (set.address) return set.set;
  void *handle = dlopen("libgcc_s.so.1", RTLD_LAZY);
  set.address = handle ? dlsym(handle, "_Unwind_SetGR") : (void *)(uintptr_t)_Unwind_SetGR;
  walk.address = handle ? dlsym(handle, "_Unwind_Backtrace") : (void *)(uintptr_t)_Unwind_Backtrace;
  if (set.address && walk.address) (void)walk.walk(stop, NULL);
  return set.set;
}

/* Unwinding by pthread_exit() and cancellation goes on. */
__attribute__((used, visibility("hidden"))) _Unwind_Reason_Code
mb_catch(int version, _Unwind_Action actions, _Unwind_Exception_Class class, exception *unwound,
         context *frame) {
  void (*set)(context *, int, uintptr_t) = setter(__builtin_return_address(0));
  if (version != 1 || !set) return _URC_CONTINUE_UNWIND;
  if (actions & _UA_SEARCH_PHASE) return _URC_HANDLER_FOUND;
  if (!(actions & _UA_HANDLER_FRAME)) return _URC_CONTINUE_UNWIND;
  end_exception(class, unwound);
  set(frame, __builtin_eh_return_data_regno(0), (uintptr_t)(intptr_t)MB_THROWN);
  return _URC_INSTALL_CONTEXT;
}
#endif
