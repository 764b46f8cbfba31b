/* argument.h - what the public functions check of the pointers they are given. Each of these is
 * true when the argument cannot be used, and records it as "FUNCTION: ARGUMENT is NULL" and the
 * like. */
#ifndef MB_ARGUMENT_H
#define MB_ARGUMENT_H

#include <stdbool.h>

/* In a public function, with the name of one of its parameters. */
#define MB_IS_NULL(argument) mb_is_null(__func__, #argument, argument)
/* A handle that is neither NULL nor what it should be: a module, a function. */
#define MB_NO_MODULE(argument) mb_no_module(__func__, #argument, argument)
#define MB_NO_FUNCTION(argument) mb_no_function(__func__, #argument, argument)

bool mb_is_null(const char *function, const char *argument, const void *given);
bool mb_no_module(const char *function, const char *argument, const void *given);
bool mb_no_function(const char *function, const char *argument, const void *given);
/* Of a handle that is not NULL; in words: "a module", "a function", "no object of this runtime". */
bool mb_handle_is_module(const void *handle);
const char *mb_handle_kind(const void *handle);
/* Put the function in front of the error if `status` is one; 0 or -1, as TVM's functions return
 * it. */
int mb_named_result(const char *function, int status);

#endif
