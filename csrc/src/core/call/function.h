/* function.h - functions as the runtime holds them. */
#ifndef MB_FUNCTION_H
#define MB_FUNCTION_H

#include "core/loaded/loaded.h"

enum mb_function_kind {
  MB_KERNEL,      /* compiled code of a library */
  MB_SAFE_CALL,   /* the same, of the ffi dialect */
  MB_CALLBACK,    /* mblob_function_create */
  MB_FORWARD,     /* what a module's loader gave, bound to the module's library */
  MB_ENVIRONMENT, /* what TVMBackendGetFuncFromEnv gave, see environment.c */
};

/* The function that one stands for. */
typedef int mb_resolver(mblob_function *function, mblob_function **out);

struct mblob_function {
  uint32_t tag; /* MB_TAG_FUNCTION */
  enum mb_function_kind kind;
  struct mb_library
      *library;             /* whose reference counts for this function; NULL: `references` does */
  atomic_size_t references; /* of a function without a library */
  bool counted;             /* MB_ENVIRONMENT: a reference to its target was added */
  char *name;
  struct mb_destruction ending;
  uint32_t alignment;
  uint8_t first_output; /* mblob_function_first_output() */
  mblob_argument_mode takes;
  bool is_assumed; /* nothing says that it is packed, but an opening (mblob_assume) */
  const char *signature, *prototype; /* "" when unknown */
  union {
    void *address; /* MB_KERNEL: a TVMBackendPackedCFunc; MB_SAFE_CALL: one of that convention */
    struct {
      TVMPackedCFunc call;
      TVMPackedCFuncFinalizer finalize;
      void *resource;
    } callback;
    mblob_function *target; /* MB_FORWARD: owned unless it is of the same library */
    struct {
      _Atomic(mblob_function *) target; /* NULL until it is (again) resolved */
      _Atomic(uint64_t)
          generation; /* of the registry that the target is from; 0: it is an import */
      struct mb_replaced *replaced; /* targets of before */
      mb_resolver *resolve;         /* finds the target */
    } environment;                  /* MB_ENVIRONMENT */
  } u;
};

/* A function owned by `library` (no reference counted yet); NULL when memory is out (recorded). */
mblob_function *mb_function_new(enum mb_function_kind kind, struct mb_library *library,
                                const char *name);
void mb_function_free(mblob_function *function);
struct mb_return;
/* `mblob_function_call` of what was checked; the caller hands the result over, or drops it. */
int mb_function_run(mblob_function *function, const TVMValue *args, const int *codes, int count,
                    struct mb_return *result);

#endif
