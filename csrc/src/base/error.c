/* Errors of the calling thread. Texts live on the heap, because kernels may report long ones; a
 * thread that never failed has none. */
#define _GNU_SOURCE
#include "base/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/locks.h"
#include "base/texts.h"
#include "base/exceptions.h"

struct error_state {
  mblob_error_info info; /* `message` is without place and code */
  char *message;
  char *full; /* message, place and code: what mblob_last_error gives */
  char *type_key, *available, *hint;
  uint64_t serial;
};

static __thread struct error_state error_state;
static const char out_of_memory[] = MB_TEXT_NO_MEMORY;

static void free_texts(struct error_state *s) {
  free(s->message);
  free(s->full);
  free(s->type_key);
  free(s->available);
  free(s->hint);
  s->message = s->full = s->type_key = s->available = s->hint = NULL;
}

static void free_thread_error(void *s) { free_texts(s); }

static struct mb_thread_end error_at_end = MB_THREAD_END(free_thread_error);

/* Of the thread that unloads this, or ends the process. */
MB_HANDLER(destructor) static void free_error(void) { free_texts(&error_state); }

static const char *or_empty(const char *text) { return text ? text : ""; }

/* What argument checks of compiled kernels say, whose ABI has a text alone (mblob/texts.py). */
static const char argument_texts[] = MB_TEXTS_OF_ARGUMENTS;

static const char *code_of_kernel_text(const char *text) {
  for (const char *part = argument_texts; *part; part += strlen(part) + 1)
    if (strstr(text, part)) return MB_CODE_ARGUMENTS;
  return "";
}

/* Forget the last failure and take `message` (heap, may be NULL for "out of memory"). */
static void record_error(int status, char *message) {
  mb_thread_end_set(&error_at_end, &error_state);
  free_texts(&error_state);
  error_state.message = message;
  error_state.serial++;
  error_state.info = (mblob_error_info){.status = status,
                                        .message = message ? message : out_of_memory,
                                        .code = status == MBLOB_E_ARGUMENT ? MB_ARGUMENT_VALUE : "",
                                        .offset = MB_UNKNOWN,
                                        .entry = MB_UNKNOWN,
                                        .type_key = "",
                                        .available = "",
                                        .hint = ""};
}

/* ---- one line -------------------------------------------------------------------------------- */

/* Bytes of a word that is shown whole, and what is shown of a longer one: no path needs more. */
#define WORD_LIMIT 1024u
#define WORD_HEAD 120u
#define WORD_TAIL 40u

/* The same of a line. */
#define LINE_LIMIT 8192u
#define LINE_HEAD 4096u
#define LINE_TAIL 1024u

/* Bytes of a message in which a place is looked for that is already named. */
#define PLACES 512

/* Bytes of the UTF-8 character at `p`, of `left` bytes; 0 for what is none, or what terminals
 * obey: controls, ends of lines and paragraphs, marks of direction. */
static size_t printable(const unsigned char *p, size_t left) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (*p < 0x80) return *p >= 0x20 && *p != 0x7f;
  size_t size = *p >= 0xf0 ? 4 : *p >= 0xe0 ? 3 : 2;
  uint32_t c = *p & (0x7fu >> size);
  if (*p < 0xc2 || *p > 0xf4 || size > left) return 0;
  for (size_t i = 1; i < size; i++) {
    if ((p[i] & 0xc0) != 0x80) return 0;
    c = c << 6 | (p[i] & 0x3fu);
  }
  bool obeyed = c < 0xa0 || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
  return obeyed || c < least[size] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : size;
}

static bool inside_character(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

/* A word as it is shown, behind `out` as far as that has room; the bytes that it needs. */
static size_t put_word(char *out, const unsigned char *word, size_t size) {
  size_t at = 0;
  for (size_t i = 0, step; i < size; i += step) {
    char shown[8] = "";
    if (size > WORD_LIMIT && i >= WORD_HEAD &&
        i < size - WORD_TAIL) { /* the middle, up to a character's end */
      (void)strcpy(shown, "...");
      step = size - WORD_TAIL - i;
      while (i + step < size && inside_character((char)word[i + step])) step++;
    } else if ((step = printable(word + i, size - i))) {
      (void)memcpy(shown, word + i, step);
    } else {
      char letter = word[i] == '\n' ? 'n' : word[i] == '\r' ? 'r' : word[i] == '\t' ? 't' : 'x';
      (void)snprintf(shown, sizeof(shown), "\\%c%02x", letter, word[i]);
      if (letter != 'x') shown[2] = 0;
      step = 1;
    }
    if (out) (void)memcpy(out + at, shown, strlen(shown));
    at += strlen(shown);
  }
  return at;
}

static size_t put_line(char *out, const char *text) {
  size_t at = 0;
  for (const char *word = text;; word++) {
    size_t size = strcspn(word, " ");
    at += put_word(out ? out + at : NULL, (const unsigned char *)word, size);
    word += size;
    if (out) out[at] = *word;
    if (!*word) return at;
    at++;
  }
}

static void shorten(char *line) {
  size_t size = strlen(line), head = LINE_HEAD, tail = size - LINE_TAIL;
  if (size <= LINE_LIMIT) return;
  while (inside_character(line[head])) head--;
  while (inside_character(line[tail])) tail++;
  (void)memcpy(line + head, "...", 3);
  (void)memmove(line + head + 3, line + tail, size - tail + 1);
}

/* `text` (heap, or NULL) in one line that any terminal can show: names from files may hold
 * anything. What is written as an escape stays as it is when this is done again. */
static char *one_line(char *text) {
  bool plain = text && strlen(text) <= WORD_LIMIT;
  for (const char *p = text; plain && *p; p++) plain = *p >= 0x20 && *p < 0x7f;
  if (!text || plain) return text;
  char *made = malloc(put_line(NULL, text) + 1);
  if (made) {
    (void)put_line(made, text);
    shorten(made);
  }
  free(text);
  return made;
}

static char *copy_line(const char *text) { return one_line(strdup(text)); }

static char *format_text(const char *format, va_list args) MB_PRINTF(1, 0);
static char *format_text(const char *format, va_list args) {
  char *text = NULL;
  return vasprintf(&text, format, args) < 0 ? NULL : one_line(text);
}

#define RECORD(status, format)              \
  do {                                      \
    va_list args;                           \
    va_start(args, format);                 \
    char *text = format_text(format, args); \
    va_end(args);                           \
    record_error(status, text);             \
  } while (0)

int mb_fail(int status, const char *format, ...) {
  RECORD(status, format);
  return status;
}

int mb_fail_coded(int status, const char *code, const char *format, ...) {
  RECORD(status, format);
  error_state.info.code = code;
  return status;
}

int mb_fail_argument(const char *code, const char *format, ...) {
  RECORD(MBLOB_E_ARGUMENT, format);
  error_state.info.code = code;
  return MBLOB_E_ARGUMENT;
}

int mb_fail_format(const char *code, int64_t offset, int64_t entry, const char *format, ...) {
  RECORD(MBLOB_E_FORMAT, format);
  error_state.info.code = code;
  error_state.info.offset = offset;
  error_state.info.entry = entry;
  return MBLOB_E_FORMAT;
}

int mb_fail_digest(int64_t entry, const char *format, ...) {
  RECORD(MBLOB_E_DIGEST, format);
  error_state.info.entry = entry;
  return MBLOB_E_DIGEST;
}

int mb_check_struct_size(const char *who, uint32_t struct_size, size_t expected) {
  if (struct_size >= expected) return MBLOB_OK;
  return mb_fail(MBLOB_E_ARGUMENT, "%s: struct_size is %u, expected %zu", who, struct_size,
                 expected);
}

int mb_fail_memory(size_t size) {
  char *text = NULL;
  /* A small text may still be had where much was asked for. */
  if (size && asprintf(&text, "%s: %zu bytes", out_of_memory, size) < 0) text = NULL;
  record_error(MBLOB_E_MEMORY, text);
  return MBLOB_E_MEMORY;
}

int mb_fail_errno(int number, const char *format, ...) {
  RECORD(MBLOB_E_IO, format);
  char reason[128] = "";
  char *text = NULL;
#ifdef __GLIBC__
  const char *name = strerror_r(number, reason, sizeof(reason)); /* GNU: may ignore the buffer */
#else
  const char *name = strerror_r(number, reason, sizeof(reason)) ? "unknown error" : reason;
#endif
  if (asprintf(&text, "%s: %s", error_state.info.message, name) >= 0) {
    free(error_state.message);
    error_state.info.message = error_state.message = text;
  }
  return MBLOB_E_IO;
}

int mb_fail_loader(const char *type_key, int64_t entry, const char *available, const char *hint,
                   const char *format, ...) {
  RECORD(MBLOB_E_LOADER, format);
  error_state.info.entry = entry;
  error_state.info.type_key = or_empty(error_state.type_key = strdup(type_key));
  error_state.info.available = or_empty(error_state.available = copy_line(available));
  error_state.info.hint = or_empty(error_state.hint = copy_line(hint));
  return MBLOB_E_LOADER;
}

int mb_error_key(const char *key, size_t size) {
  free(error_state.type_key);
  error_state.type_key = strndup(key, size);
  error_state.info.type_key = or_empty(error_state.type_key);
  return error_state.info.status;
}

int mb_fail_plain_function(const char *name, bool is_plain, const char *why, size_t size) {
  if (size) {
    int status = mb_fail_coded(MBLOB_E_NOT_FOUND, MB_CODE_PLAIN_FUNCTION,
                               "'%s' is a plain C function, without a packed function "
                               "(mblob_module_symbol has its address)",
                               name);
    mb_error_hint("%.*s", (int)size, why);
    return status;
  }
  static const char remedy[] =
      "pack it again with its prototype, or get its address with mblob_module_symbol";
  return is_plain ? mb_fail_coded(MBLOB_E_NOT_FOUND, MB_CODE_PLAIN_FUNCTION,
                                  "'%s' is a plain C function, without a packed function: %s", name,
                                  remedy)
                  : mb_fail_coded(
                        MBLOB_E_NOT_FOUND, MB_CODE_UNKNOWN_CONVENTION,
                        "nothing says how '%s' is called: %s; if it is a packed function, open "
                        "the library with assume = MBLOB_ASSUME_PACKED",
                        name, remedy);
}

void mb_set_kernel_error(const char *text) {
  text = or_empty(text);
  const char *code = code_of_kernel_text(text); /* first: it may be the text of `error_state` */
  record_error(MBLOB_E_KERNEL, strdup(text));
  error_state.info.code = code;
}

/* Characters of "ValueError: " in front of a text, 0 if it names no kind of error. */
static size_t size_of_kind(const char *text) {
  size_t size = 0, start = 0;
  for (; text[size] && (isalnum((unsigned char)text[size]) || strchr("._", text[size])); size++)
    if (text[size] == '.') start = size + 1;
  return isupper((unsigned char)text[start]) && strncmp(text + size, ": ", 2) == 0 ? size + 2 : 0;
}

/* `context` behind the first `kept` bytes of the message, in place of the next `dropped` ones. */
static void insert_context(const char *context, size_t kept, size_t dropped) {
  char *text = NULL, *line = *context ? copy_line(context) : NULL;
  if (!line) return;
  int n = asprintf(&text, "%.*s%s: %s", (int)kept, error_state.info.message, line,
                   error_state.info.message + kept + dropped);
  free(line);
  if (n < 0) return;
  free(error_state.message);
  free(error_state.full);
  error_state.full = NULL;
  error_state.info.message = error_state.message = text;
}

void mb_error_prefix(const char *context) {
  if (error_state.info.message) insert_context(context, 0, 0);
}

/* True if `text` has "CONTEXT: " among the places in front. */
static bool is_placed(const char *text, const char *context) {
  const size_t size = strlen(context);
  for (const char *at = text; (at = strstr(at, context)) && at - text < (ptrdiff_t)PLACES; at++)
    if ((at == text || (at - text >= 2 && memcmp(at - 2, ": ", 2) == 0)) &&
        memcmp(at + size, ": ", 2) == 0)
      return true;
  return false;
}

void mb_error_place(const char *context) {
  if (!error_state.info.message) return;
  const size_t kept = size_of_kind(error_state.info.message);
  if (!is_placed(error_state.info.message + kept, context)) insert_context(context, kept, 0);
}

void mb_error_rename(const char *from, const char *to) {
  if (!error_state.info.message) return;
  const size_t kept = size_of_kind(error_state.info.message), size = strlen(from);
  const char *at = error_state.info.message + kept;
  if (strncmp(at, from, size) == 0 && at[size] == ':') insert_context(to, kept, size + 2);
}

void mb_error_of_arguments(void) {
  if (error_state.info.status == MBLOB_E_KERNEL && error_state.info.message &&
      !*error_state.info.code)
    error_state.info.code = code_of_kernel_text(error_state.info.message);
}

void mb_error_hint(const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *text = NULL, *hint = format_text(format, args);
  va_end(args);
  size_t size = error_state.message ? strlen(error_state.message) : 0;
  if (size > 1 && error_state.message[size - 1] == '.' && error_state.message[size - 2] != '.')
    size--;
  if (!hint || !size || asprintf(&text, "%.*s; %s", (int)size, error_state.message, hint) < 0) {
    free(hint);
    return;
  }
  free(error_state.message);
  free(error_state.full);
  free(error_state.hint);
  error_state.full = NULL;
  error_state.info.message = error_state.message = text;
  error_state.info.hint = error_state.hint = hint;
}

int mb_error_restatus(int status) {
  if (status == MBLOB_E_ARGUMENT) error_state.info.code = MB_ARGUMENT_VALUE;
  return error_state.info.status = status;
}

const char *mblob_status_name(int status) {
  switch (status) {
#define NAME(name) \
  case name: return #name;
    NAME(MBLOB_OK)
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

bool mb_fail_thrown(int rc, const char *what) {
  char *text = mb_thrown(rc, what);
  if (text) mb_set_kernel_error(text);
  free(text);
  return text != NULL;
}

int mb_fail_returned(int returned, uint64_t before, int unknown, const char *what) {
  if (mb_fail_thrown(returned, what)) return mb_error_restatus(unknown);
  if (error_state.serial != before) return error_state.info.status;
  const char *name = mblob_status_name(returned);
  return mb_fail(*name ? returned : unknown, "%s failed with status %d%s%s%s and gave no reason",
                 what, returned, *name ? " (" : "", name, *name ? ")" : "");
}

int mb_fail_opening(int returned, uint64_t before, int unknown, const char *what) {
  int status = mb_fail_returned(returned, before, unknown, what);
  if (status == MBLOB_E_NOT_FOUND) status = error_state.info.status = unknown;
  return status;
}

uint64_t mb_error_serial(void) { return error_state.serial; }

uint32_t mblob_abi_version(void) { return MBLOB_ABI_VERSION; }
const char *mblob_version(void) { return MBLOB_VERSION; }

const mblob_error_info *mblob_last_error_info(void) {
  if (!error_state.info.message) record_error(MBLOB_OK, strdup("")), error_state.serial--;
  return &error_state.info;
}

const char *mblob_last_error(void) {
  const mblob_error_info *info = mblob_last_error_info();
  if (!*info->code || info->status != MBLOB_E_FORMAT || info->offset < 0 ||
      strcmp(info->code, "not_elf") == 0)
    return info->message; /* of no place in a file */
  if (!error_state.full &&
      asprintf(&error_state.full, "%s (at byte %lld)", info->message, (long long)info->offset) < 0)
    error_state.full = NULL;
  return error_state.full ? error_state.full : info->message;
}

int mblob_set_error(int status, const char *message) {
  if (status == MBLOB_OK || status == MBLOB_E_KERNEL) /* a kernel's text stays as it is */
    mb_set_kernel_error(message);
  else
    record_error(status, copy_line(or_empty(message)));
  return error_state.info.status;
}

int mb_set_coded_error(int status, const char *code, const char *message) {
  static const char codes[][16] = {MB_ARGUMENT_VALUE, MB_ARGUMENT_TYPE,  MB_ARGUMENT_COUNT,
                                   MB_ARGUMENT_DTYPE, MB_ARGUMENT_INDEX, MB_ARGUMENT_NAME};
  status = mblob_set_error(status, message);
  for (size_t i = 0; code && i < sizeof(codes) / sizeof(*codes); i++)
    if (strcmp(codes[i], code) == 0) error_state.info.code = codes[i];
  return status;
}

/* ---- keeping an error ------------------------------------------------------------------------ */

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
  record_error(saved->status, saved->message ? strdup(saved->message) : NULL);
  error_state.info.code = saved->code;
  error_state.info.offset = saved->offset;
  error_state.info.entry = saved->entry;
  if (saved->type_key)
    error_state.info.type_key = or_empty(error_state.type_key = strdup(saved->type_key));
  if (saved->available)
    error_state.info.available = or_empty(error_state.available = strdup(saved->available));
  if (saved->hint) error_state.info.hint = or_empty(error_state.hint = strdup(saved->hint));
  return saved->status;
}

void mb_saved_error_free(struct mb_saved_error *saved) {
  free(saved->message);
  free(saved->type_key);
  free(saved->available);
  free(saved->hint);
  *saved = (struct mb_saved_error){0};
}

/* ---- the name that was meant ------------------------------------------------------------------- */

enum { CASE = 'a' ^ 'A' }; /* the bit in which letters of ASCII differ by case */

/* How many characters to change, insert or remove make `word` of the first `size` of `text`; their
 * case is no difference. */
static size_t distance(const char *text, size_t size, const char *word, size_t length) {
  size_t row[MB_NEAR_LIMIT];
  for (size_t k = 0; k <= length; k++) row[k] = k;
  for (size_t i = 0; i < size; i++) {
    size_t before = row[0];
    row[0] = i + 1;
    for (size_t k = 0; k < length; k++) {
      size_t best = before + ((text[i] ^ word[k]) & ~CASE ? 1 : 0);
      before = row[k + 1];
      if (before + 1 < best) best = before + 1;
      if (row[k] + 1 < best) best = row[k] + 1;
      row[k + 1] = best;
    }
  }
  return row[length];
}

void mb_near_offer(struct mb_near *near, const char *name) {
  const size_t length = strlen(name);
  if (near->size >= MB_NEAR_LIMIT || length >= MB_NEAR_LIMIT) return;
  if (near->size + near->least <= length || length + near->least <= near->size) return;
  const size_t away = distance(near->given, near->size, name, length);
  if (away >= near->least || 2 * away >= length) return;
  near->least = away;
  (void)snprintf(near->text, sizeof(near->text), "; did you mean '%s'?", name);
}
