/* calls.h - calls over the border between the runtime's packed convention and the safe-call
 * convention of the ffi. */
#ifndef MB_FFI_CALLS_H
#define MB_FFI_CALLS_H

#include "objects.h"

/* mblob_convention (mblob/plugin.h). */
int mb_ffi_call(int releases, int external, void *address, const char *name, const TVMValue *args,
                const int *codes, int count, void *ret);

int mb_ffi_call_row(int releases, void *address, const char *name, const mblob_any *row, int count,
                    void *ret);

/* Call an object from the ffi's side: 0, or -1 with the error left for the caller. */
int mb_object_call(enum mb_releases releases, void *object, const struct mb_any *args,
                   int32_t count, struct mb_any *result);
/* A function over one of the runtime; a reference is taken if `counted`. */
void *mb_object_function(enum mb_releases releases, mblob_function *function, bool counted);
/* The object of a function that C code of others brings along: `call` gets `self`. */
void *mb_object_of_callback(void *self, mb_safe_call call, void (*release)(void *self));

/* A function of the runtime over an object that is not ours; a reference to it is kept. Objects
 * that are no functions have one too, whose call fails: so they pass through. */
int mb_foreign_function(enum mb_releases releases, void *object, mblob_function **out);
/* The object (of 0.22) behind such a function, NULL of others. */
void *mb_foreign_object(const mblob_function *function);

#endif
