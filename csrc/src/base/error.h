/* error.h - the one place where failures are recorded: per thread, with text and parts. */
#ifndef MB_ERROR_H
#define MB_ERROR_H

#include <mblob.h>
#include <stdbool.h>

#define MB_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define MB_UNKNOWN (-1) /* offset or entry of an error that has none */

/* Codes of errors that are no broken rule of a file; mblob.h tells callers of them. The first is a
 * guess by the text, which is all that a kernel hands over (error.c). */
#define MB_CODE_ARGUMENTS "kernel_arguments"            /* with MBLOB_E_KERNEL */
#define MB_CODE_PLAIN_FUNCTION "plain_function"         /* with MBLOB_E_NOT_FOUND */
#define MB_CODE_UNKNOWN_CONVENTION "unknown_convention" /* with MBLOB_E_NOT_FOUND */
/* What is wrong with an argument, with MBLOB_E_ARGUMENT and MBLOB_E_KERNEL. The first is the code
 * of each MBLOB_E_ARGUMENT that has no other. */
#define MB_ARGUMENT_VALUE "argument_value"
#define MB_ARGUMENT_TYPE "argument_type"
#define MB_ARGUMENT_COUNT "argument_count"
#define MB_ARGUMENT_DTYPE "argument_dtype"
#define MB_ARGUMENT_INDEX "argument_index"
#define MB_ARGUMENT_NAME "argument_name"

/* Each records a failure on this thread and returns its status, so that callers write `return
 * mb_fail(...)`. */
int mb_fail(int status, const char *format, ...) MB_PRINTF(2, 3);
/* With a code. The status of the second is MBLOB_E_ARGUMENT. */
int mb_fail_coded(int status, const char *code, const char *format, ...) MB_PRINTF(3, 4);
int mb_fail_argument(const char *code, const char *format, ...) MB_PRINTF(2, 3);
int mb_fail_format(const char *code, int64_t offset, int64_t entry, const char *format, ...)
    MB_PRINTF(4, 5);
int mb_fail_digest(int64_t entry, const char *format, ...) MB_PRINTF(2, 3);
int mb_fail_memory(size_t size);
/* A failure if `struct_size` of what `who` was given is below `expected`. */
int mb_check_struct_size(const char *who, uint32_t struct_size, size_t expected);
/* With the text of `number` (an errno) behind the message. */
int mb_fail_errno(int number, const char *format, ...) MB_PRINTF(2, 3);
int mb_fail_loader(const char *type_key, int64_t entry, const char *available, const char *hint,
                   const char *format, ...) MB_PRINTF(5, 6);
/* The last error is about this type key; its status. */
int mb_error_key(const char *key, size_t size);
/* The function is there, and it is a plain one, or nothing says that it is a packed one. */
int mb_fail_plain_function(const char *name, bool is_plain, const char *why, size_t size);
/* The text exactly as a kernel set it. */
void mb_set_kernel_error(const char *text);
/* mblob_set_error with one of the codes MB_ARGUMENT_*; others, and NULL, are none. */
int mb_set_coded_error(int status, const char *code, const char *message);

/* Put `context` and ": " in front of the current message, as callers that know the file do. */
void mb_error_prefix(const char *context);
/* The same behind the kind that the message starts with ("ValueError: "), if it has one: callers read
 * kinds there. A place that the message already names, as in a recursion, is not named again. */
void mb_error_place(const char *context);
/* The place `from` that the message begins with, behind its kind, is called `to`. */
void mb_error_rename(const char *from, const char *to);
/* Give an error of a kernel that has no code the one of arguments, if its text says so. */
void mb_error_of_arguments(void);
/* Put "; " and a hint behind the current message. */
void mb_error_hint(const char *format, ...) MB_PRINTF(1, 2);
/* Rises with each failure on this thread: tells whether a callee recorded one. */
uint64_t mb_error_serial(void);
/* After code of others returned `rc`: whether an exception did, which is a failure of the kernel
 * then (exceptions.h). */
bool mb_fail_thrown(int rc, const char *what);
/* After code of others returned a status that is not MBLOB_OK: the failure that it recorded
 * since `before`, or else one that says "WHAT failed with status 70 (MBLOB_E_MEMORY) and gave no
 * reason", of that status, or of `unknown` if there is none of its number. The failure's status,
 * never MBLOB_OK. */
int mb_fail_returned(int returned, uint64_t before, int unknown, const char *what);
/* The same of something that starts or opens: MBLOB_E_NOT_FOUND would say that it was asked for
 * a name. */
int mb_fail_opening(int returned, uint64_t before, int unknown, const char *what);
/* Let the current failure count as another; the text stays. The status. */
int mb_error_restatus(int status);

/* A failure kept to be reported again, on any thread. */
struct mb_saved_error {
  int status;
  char *message, *type_key, *available, *hint;
  const char *code;
  int64_t offset, entry;
};
void mb_error_save(struct mb_saved_error *out);
int mb_error_restore(const struct mb_saved_error *saved);
void mb_saved_error_free(struct mb_saved_error *saved);

/* ---- the name that was meant, for an error about a name that does not exist --------------------- */

enum { MB_NEAR_LIMIT = 48 }; /* characters of a name; a longer one is never suggested */

/* Start with MB_NEAR, offer all names that exist, then print the text. */
struct mb_near {
  const char *given;
  size_t size, least;
  char text[MB_NEAR_LIMIT + 20]; /* "; did you mean 'vadd'?", "" if no offered name is near */
};
#define MB_NEAR(given_, size_) ((struct mb_near){.given = (given_), .size = (size_), .least = 3})

/* Keep `name` if it is at most two characters away from the given one, apart from case, and nearer
 * than the others. */
void mb_near_offer(struct mb_near *near, const char *name);

#endif
