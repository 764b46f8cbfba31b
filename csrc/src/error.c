/* Errors of the calling thread. Texts live on the heap, because kernels may report long ones; a thread that
 * never failed has none. */
#define _GNU_SOURCE
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "locks.h"

struct error_state {
  mblob_error_info info; /* `message` is without place and code */
  char *message;
  char *full; /* message, place and code: what mblob_last_error gives */
  char *type_key, *available, *hint;
  uint64_t serial;
};

static __thread struct error_state state;
static const char out_of_memory[] = "out of memory";

static void free_texts(struct error_state *s) {
  free(s->message);
  free(s->full);
  free(s->type_key);
  free(s->available);
  free(s->hint);
  s->message = s->full = s->type_key = s->available = s->hint = NULL;
}

static void thread_exit(void *s) { free_texts(s); }

static struct mb_thread_end at_end = MB_THREAD_END(thread_exit);

/* Of the thread that unloads this, or ends the process. */
__attribute__((destructor)) static void process_exit(void) { free_texts(&state); }

static const char *or_empty(const char *text) { return text ? text : ""; }

/* Forget the last failure and take `message` (heap, may be NULL for "out of memory"). */
static void record(int status, char *message) {
  mb_thread_end_set(&at_end, &state);
  free_texts(&state);
  state.message = message;
  state.serial++;
  state.info = (mblob_error_info){.status = status,
                                  .message = message ? message : out_of_memory,
                                  .code = "",
                                  .offset = MB_UNKNOWN,
                                  .entry = MB_UNKNOWN,
                                  .type_key = "",
                                  .available = "",
                                  .hint = ""};
}

static char *format_text(const char *format, va_list args) MB_PRINTF(1, 0);
static char *format_text(const char *format, va_list args) {
  char *text = NULL;
  return vasprintf(&text, format, args) < 0 ? NULL : text;
}

#define RECORD(status, format)              \
  do {                                      \
    va_list args;                           \
    va_start(args, format);                 \
    char *text = format_text(format, args); \
    va_end(args);                           \
    record(status, text);                   \
  } while (0)

int mb_fail(int status, const char *format, ...) {
  RECORD(status, format);
  return status;
}

int mb_fail_format(const char *code, int64_t offset, int64_t entry, const char *format, ...) {
  RECORD(MBLOB_E_FORMAT, format);
  state.info.code = code;
  state.info.offset = offset;
  state.info.entry = entry;
  return MBLOB_E_FORMAT;
}

int mb_fail_digest(int64_t entry, const char *format, ...) {
  RECORD(MBLOB_E_DIGEST, format);
  state.info.entry = entry;
  return MBLOB_E_DIGEST;
}

int mb_fail_memory(size_t size) {
  char *text = NULL;
  /* A small text may still be had where much was asked for. */
  if (size && asprintf(&text, "%s: %zu bytes", out_of_memory, size) < 0) text = NULL;
  record(MBLOB_E_MEMORY, text);
  return MBLOB_E_MEMORY;
}

int mb_fail_errno(int number, const char *format, ...) {
  RECORD(MBLOB_E_IO, format);
  char reason[128] = "";
  char *text = NULL;
  const char *name = strerror_r(number, reason, sizeof(reason)); /* GNU: may ignore the buffer */
  if (asprintf(&text, "%s: %s", state.info.message, name) >= 0) {
    free(state.message);
    state.info.message = state.message = text;
  }
  return MBLOB_E_IO;
}

int mb_fail_loader(const char *type_key, int64_t entry, const char *available, const char *hint,
                   const char *format, ...) {
  RECORD(MBLOB_E_LOADER, format);
  state.info.entry = entry;
  state.info.type_key = or_empty(state.type_key = strdup(type_key));
  state.info.available = or_empty(state.available = strdup(available));
  state.info.hint = or_empty(state.hint = strdup(hint));
  return MBLOB_E_LOADER;
}

void mb_set_kernel_error(const char *text) { record(MBLOB_E_KERNEL, strdup(text ? text : "")); }

void mb_error_prefix(const char *context) {
  char *text = NULL;
  if (!*context || !state.info.message || asprintf(&text, "%s: %s", context, state.info.message) < 0) return;
  free(state.message);
  free(state.full);
  state.full = NULL;
  state.info.message = state.message = text;
}

int mb_error_restatus(int status) { return state.info.status = status; }

static const char *name_of(int status) {
  switch (status) {
#define NAME(name) \
  case name: return " (" #name ")";
    NAME(MBLOB_E_ARGUMENT)
    NAME(MBLOB_E_NOT_FOUND)
    NAME(MBLOB_E_FORMAT)
    NAME(MBLOB_E_DIGEST)
    NAME(MBLOB_E_INCOMPATIBLE)
    NAME(MBLOB_E_LOADER)
    NAME(MBLOB_E_KERNEL)
    NAME(MBLOB_E_IO)
    NAME(MBLOB_E_MEMORY)
#undef NAME
    default: return "";
  }
}

int mb_fail_returned(int returned, uint64_t before, int unknown, const char *what) {
  if (state.serial != before) return state.info.status;
  const char *name = name_of(returned);
  return mb_fail(*name ? returned : unknown, "%s failed with status %d%s and gave no reason", what, returned, name);
}

int mb_fail_opening(int returned, uint64_t before, int unknown, const char *what) {
  int status = mb_fail_returned(returned, before, unknown, what);
  if (status == MBLOB_E_NOT_FOUND) status = state.info.status = unknown;
  return status;
}

uint64_t mb_error_serial(void) { return state.serial; }

uint32_t mblob_abi_version(void) { return MBLOB_ABI_VERSION; }

const mblob_error_info *mblob_last_error_info(void) {
  if (!state.info.message) record(MBLOB_OK, strdup("")), state.serial--;
  return &state.info;
}

const char *mblob_last_error(void) {
  const mblob_error_info *info = mblob_last_error_info();
  if (!*info->code) return info->message;
  if (!state.full) {
    int n = info->offset >= 0 ? asprintf(&state.full, "%s (at byte %lld) [%s]", info->message,
                                         (long long)info->offset, info->code)
                              : asprintf(&state.full, "%s [%s]", info->message, info->code);
    if (n < 0) state.full = NULL;
  }
  return state.full ? state.full : info->message;
}

int mblob_set_error(int status, const char *message) {
  record(status == MBLOB_OK ? MBLOB_E_KERNEL : status, strdup(message ? message : ""));
  return state.info.status;
}

/* ---- keeping an error -------------------------------------------------------------------------- */

void mb_error_save(struct mb_saved_error *out) {
  const mblob_error_info *info = mblob_last_error_info();
  *out = (struct mb_saved_error){.status = info->status,
                                 .message = strdup(info->message),
                                 .type_key = strdup(info->type_key),
                                 .available = strdup(info->available),
                                 .hint = strdup(info->hint),
                                 .code = info->code,
                                 .offset = info->offset,
                                 .entry = info->entry};
}

int mb_error_restore(const struct mb_saved_error *saved) {
  record(saved->status, saved->message ? strdup(saved->message) : NULL);
  state.info.code = saved->code;
  state.info.offset = saved->offset;
  state.info.entry = saved->entry;
  if (saved->type_key) state.info.type_key = or_empty(state.type_key = strdup(saved->type_key));
  if (saved->available) state.info.available = or_empty(state.available = strdup(saved->available));
  if (saved->hint) state.info.hint = or_empty(state.hint = strdup(saved->hint));
  return saved->status;
}

void mb_saved_error_free(struct mb_saved_error *saved) {
  free(saved->message);
  free(saved->type_key);
  free(saved->available);
  free(saved->hint);
  *saved = (struct mb_saved_error){0};
}
