#define _GNU_SOURCE
#include "errors.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "common.h"

/* Errors as objects are only of 0.22 and later: libraries of 0.21 know them by their texts. */
#define RELEASES MB_RELEASES_0_22

static __thread void *raised;
static atomic_size_t raised_in_all; /* threads that have one */

/* ---- objects --------------------------------------------------------------------------------- */

static void keep_backtrace(void *self, const struct mb_text *backtrace, int32_t mode) {
  (void)self; /* it tells where in TVM's own code an error came about; here the text is all */
  (void)backtrace;
  (void)mode;
}

static char *put_text(char *at, struct mb_text *cell, struct mb_text text) {
  if (text.size) memcpy(at, text.data, text.size);
  *cell = (struct mb_text){at, text.size};
  return at + text.size + 1;
}

void *mb_error_new(struct mb_text kind, struct mb_text message, struct mb_text backtrace) {
  size_t room;
  if (__builtin_add_overflow(kind.size, message.size, &room) ||
      __builtin_add_overflow(room, backtrace.size, &room) ||
      __builtin_add_overflow(room, sizeof(struct mb_error_cell) + 3, &room)) {
    (void)mb_fail_memory(message.size);
    return NULL;
  }
  void *object = mb_object_new(RELEASES, MB_ANY_ERROR, room);
  if (!object) return NULL;
  struct mb_error_cell *cell = mb_object_cell(RELEASES, object);
  char *at = put_text((char *)(cell + 1), &cell->kind, kind);
  at = put_text(at, &cell->message, message);
  (void)put_text(at, &cell->backtrace, backtrace);
  cell->update_backtrace = keep_backtrace;
  return object;
}

static void release_shared(void *owner) {
  struct mb_error_cell *cell = owner;
  mb_ffi_object_release(RELEASES, cell->cause);
  mb_ffi_object_release(RELEASES, cell->context);
  cell->cause = cell->context = NULL;
}

void mb_error_share(void *error, void *cause, void *context) {
  struct mb_error_cell *cell = mb_object_cell(RELEASES, error);
  struct mb_record *record = mb_object_record(error);
  cell->cause = cause;
  cell->context = context;
  if (cause) mb_ffi_object_retain(RELEASES, cause);
  if (context) mb_ffi_object_retain(RELEASES, context);
  record->owner = cell;
  record->release = release_shared;
}

/* ---- one per thread -------------------------------------------------------------------------- */

static void drop(void *unused) {
  (void)unused;
  mb_error_raise(NULL);
}

static struct mb_thread_end at_thread_end = MB_THREAD_END(drop);

void mb_error_raise(void *error) {
  void *before = raised;
  raised = error;
  if (!before != !error) {
    if (error)
      atomic_fetch_add_explicit(&raised_in_all, 1, memory_order_relaxed);
    else
      atomic_fetch_sub_explicit(&raised_in_all, 1, memory_order_relaxed);
  }
  if (error) mb_thread_end_set(&at_thread_end, &raised);
  mb_ffi_object_release(RELEASES, before);
}

void mb_error_forget(void) {
  if (atomic_load_explicit(&raised_in_all, memory_order_relaxed)) mb_error_raise(NULL);
}

void *mb_error_take(void) {
  void *error = raised;
  if (error) atomic_fetch_sub_explicit(&raised_in_all, 1, memory_order_relaxed);
  raised = NULL;
  return error;
}

/* ---- from and to the runtime's error --------------------------------------------------------- */

/* The part in front of ": " if it names a kind of error ("ValueError", "my.Error2") and no
 * function of TVM's, else nothing. */
static struct mb_text kind_in(const char *text) {
  size_t size = 0, last = 0; /* where the last of its words begins */
  for (; isalnum((unsigned char)text[size]) || text[size] == '_' || text[size] == '.'; size++)
    if (text[size] == '.') last = size + 1;
  bool is_kind =
      size && isupper((unsigned char)text[last]) && text[size] == ':' && text[size + 1] == ' ' &&
      (strncmp(text, "TVM", 3) != 0 || (size > 5 && memcmp(text + size - 5, "Error", 5) == 0));
  return (struct mb_text){text, is_kind ? size : 0};
}

static const char *kind_of_status(int status) {
  switch ((mblob_status)status) {
    case MBLOB_E_ARGUMENT: return "ValueError";
    case MBLOB_E_NOT_FOUND: return "AttributeError";
    case MBLOB_E_IO: return "OSError";
    case MBLOB_E_MEMORY: return "MemoryError";
    case MBLOB_OK:
    case MBLOB_E_FORMAT:
    case MBLOB_E_DIGEST:
    case MBLOB_E_INCOMPATIBLE:
    case MBLOB_E_LOADER:
    case MBLOB_E_KERNEL: break;
  }
  return "RuntimeError"; /* also of a number that is no mblob_status */
}

int mb_error_raise_last(void) {
  const mblob_host *host = mb_plugin_host();
  const char *text = host->last_error();
  struct mb_text kind = kind_in(text), none = {"", 0};
  bool bare = !kind.size;
  if (bare) {
    kind.data = kind_of_status(host->last_status());
    kind.size = strlen(kind.data);
  } else {
    text += kind.size + 2;
  }
  void *error = mb_error_new(kind, (struct mb_text){text, strlen(text)}, none);
  if (error) {
    mb_object_record(error)->status = host->last_status();
    mb_object_record(error)->wrong = host->last_code();
    mb_object_record(error)->bare = bare;
  }
  mb_error_raise(error);
  return -1;
}

int mb_error_null(const char *function) {
  (void)mb_fail(MBLOB_E_ARGUMENT, MB_TEXT_IS_NULL, function);
  return mb_error_raise_last();
}

static int record_object(void *object) {
  const struct mb_error_cell *cell = mb_object_cell(RELEASES, object);
  const struct mb_record *record =
      mb_object_is_own(RELEASES, object) ? mb_object_record(object) : NULL;
  int status = record && record->status ? record->status : MBLOB_E_KERNEL;
  bool bare = (record && record->bare) || !cell->kind.size;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return mb_fail_memory(cell->message.size);
  if (!bare) {
    (void)fwrite(cell->kind.data, 1, cell->kind.size, out);
    (void)fputs(": ", out);
  }
  if (cell->message.size) (void)fwrite(cell->message.data, 1, cell->message.size, out);
  (void)fclose(out);
  status = text ? mb_plugin_host()->set_coded_error(status, record ? record->wrong : NULL, text)
                : mb_fail_memory(size);
  free(text);
  return status;
}

void mb_error_tell_runtime(void) {
  if (raised) (void)record_object(raised);
}

int mb_error_record(const char *what, int rc, uint64_t before) {
  char *thrown = mb_thrown(rc, what);
  if (thrown) {
    mb_error_forget(); /* what was thrown says more, or the same */
    (void)mb_plugin_host()->set_error(MBLOB_E_KERNEL, thrown);
    free(thrown);
    return MBLOB_E_KERNEL;
  }
  if (!raised) mb_error_fetch_process();
  void *error = mb_error_take();
  const mblob_host *host = mb_plugin_host();
  int status = MBLOB_E_KERNEL;
  if (error)
    status = record_object(error);
  else if (host->error_count() != before)
    status = host->last_status();
  else
    status = mb_fail(MBLOB_E_KERNEL, MB_TEXT_RETURNED, what, rc);
  mb_ffi_object_release(RELEASES, error);
  return status;
}

/* ---- the tvm_ffi of the process -------------------------------------------------------------- */

/* A function of libtvm_ffi where the process has one, loaded for all or for some; its errors are
 * per thread as ours are. */
static bool is_own(const void *address) {
  static const char here;
  Dl_info own, its;
  return dladdr(&here, &own) && dladdr(address, &its) && own.dli_fbase == its.dli_fbase;
}

void *mb_process_function(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  if (found && !is_own(found)) return found; /* exported.c has the same names */
  void *library = dlopen("libtvm_ffi.so", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  if (!library) return NULL;
  found = dlsym(library, name);
  (void)dlclose(library);
  return found;
}

void mb_error_fetch_process(void) {
  union {
    void *address;
    void (*call)(void **out);
  } move = {mb_process_function("TVMFFIErrorMoveFromRaised")};
  void *error = NULL;
  if (move.address) move.call(&error);
  if (error) mb_error_raise(error);
}

void mb_error_tell_process(void) {
  union {
    void *address;
    void (*call)(void *error);
  } set = {mb_process_function("TVMFFIErrorSetRaised")};
  if (set.address && raised) set.call(raised); /* which takes a reference of its own */
}
