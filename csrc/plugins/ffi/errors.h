/* errors.h - the error that a function left for its caller, per thread: an object with a kind
 * ("ValueError") and a text. */
#ifndef MB_FFI_ERRORS_H
#define MB_FFI_ERRORS_H

#include "objects.h"

/* An error object; NULL when memory is out (recorded). */
void *mb_error_new(struct mb_text kind, struct mb_text message, struct mb_text backtrace);
/* Give an error made here, which has none yet, a cause (an error) and a context (an object): it
 * takes references of its own. Each may be NULL. */
void mb_error_share(void *error, void *cause, void *context);
/* Leave an error for the caller; the reference is taken over. NULL takes back what was left. */
void mb_error_raise(void *error);
/* As of NULL, at no cost where no thread has left one. */
void mb_error_forget(void);
/* What was left, with its reference, or NULL. */
void *mb_error_take(void);
/* Leave the runtime's last error for a caller that speaks the ffi. Returns -1. */
int mb_error_raise_last(void);
/* Leave the error that an argument of `function` is NULL. Returns -1. */
int mb_error_null(const char *function);
/* Make what a function left (here, or in the tvm_ffi of the process) the runtime's error. The
 * status; if nothing was left, and nothing recorded since `before`, an error that says so. */
int mb_error_record(const char *what, int rc, uint64_t before);
/* Make what is left here the runtime's error without taking it; nothing is left, nothing
 * happens. */
void mb_error_tell_runtime(void);
/* The same error for callers inside the tvm_ffi of the process, if there is one. */
void mb_error_tell_process(void);
/* Take what the process's tvm_ffi was left with, as ours. */
void mb_error_fetch_process(void);
/* A function of libtvm_ffi; NULL if the process has none. */
void *mb_process_function(const char *name);

#endif
