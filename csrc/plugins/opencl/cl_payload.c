#define _GNU_SOURCE
#include "cl_payload.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/base.h"

static const char delimiter[] = "// Function: ";
enum { DELIMITER = sizeof(delimiter) - 1 };
#define NO_PART UINT64_MAX

static bool is_word(uint8_t c) { return isalnum(c) || c == '_'; }

static bool is_binary(struct mb_slice format) {
  static const char *const formats[] = {"clbin", "xclbin", "awsxclbin", "aocx"};
  for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
    if (mb_slice_is(format, formats[i])) return true;
  return false;
}

/* ---- source ---------------------------------------------------------------------------------- */

/* The next line that begins with the delimiter, from `at` on, which begins a line; the end if
 * there is none. */
static uint64_t next_delimiter(struct mb_slice text, uint64_t at) {
  while (at < text.size) {
    if (text.size - at >= DELIMITER && memcmp(text.data + at, delimiter, DELIMITER) == 0) return at;
    const uint8_t *line = memchr(text.data + at, '\n', (size_t)(text.size - at));
    if (!line) break;
    at = (uint64_t)(line - text.data) + 1;
  }
  return text.size;
}

static uint64_t end_of_line(struct mb_slice text, uint64_t at) {
  const uint8_t *end = memchr(text.data + at, '\n', (size_t)(text.size - at));
  return end ? (uint64_t)(end - text.data) : text.size;
}

/* Add a part for the kernel of that name, which must be declared and have none yet. */
static int add_part(struct mb_cl_payload *p, struct mb_slice name, struct mb_slice head,
                    struct mb_slice code) {
  char *text = strndup((const char *)name.data, (size_t)name.size);
  if (!text) return mb_fail_memory((size_t)name.size);
  const struct mb_kernel *kernel =
      strlen(text) == name.size ? mb_map_get(&p->kernels.by_name, text) : NULL;
  free(text);
  if (!kernel)
    return mb_fail_format("payload", -1, MB_UNKNOWN,
                          "opencl: there is a program for kernel '%.*s', which is not declared",
                          (int)(name.size < 128 ? name.size : 128), (const char *)name.data);
  uint64_t *part = &p->part_of[kernel - p->kernels.items];
  if (*part != NO_PART)
    return mb_fail_format("payload", -1, MB_UNKNOWN,
                          "opencl: there are two programs for kernel '%s'", kernel->name);
  *part = p->part_count;
  p->parts[p->part_count++] = (struct mb_cl_part){kernel->name, head, code};
  return MBLOB_OK;
}

/* One part for all kernels. */
static int add_whole(struct mb_cl_payload *p, struct mb_slice code) {
  p->parts[p->part_count++] = (struct mb_cl_part){NULL, {code.data, 0}, code};
  for (uint64_t i = 0; i < p->kernels.count; i++) p->part_of[i] = 0;
  return MBLOB_OK;
}

static struct mb_slice part_of(struct mb_slice text, uint64_t from, uint64_t to) {
  return (struct mb_slice){text.data + from, to - from};
}

static struct mb_slice trimmed(struct mb_slice s) {
  while (s.size && isspace(s.data[s.size - 1])) s.size--;
  return s;
}

static int split_source(struct mb_cl_payload *p, struct mb_slice text, uint64_t first) {
  const struct mb_slice head = part_of(text, 0, first);
  for (uint64_t at = first; at < text.size;) {
    const uint64_t line = end_of_line(text, at), body = line < text.size ? line + 1 : line;
    const uint64_t next = next_delimiter(text, body);
    int status =
        add_part(p, trimmed(part_of(text, at + DELIMITER, line)), head, part_of(text, body, next));
    if (status) return status;
    at = next;
  }
  return MBLOB_OK;
}

static int read_source(struct mb_cl_payload *p, struct mb_slice text) {
  const uint64_t first = next_delimiter(text, 0);
  if (memchr(text.data, 0, (size_t)text.size))
    return mb_fail_format("payload", -1, MB_UNKNOWN, "opencl: the source has a NUL byte");
  if (first < text.size) return split_source(p, text, first);
  return add_whole(p, text);
}

/* ---- SPIR-V ---------------------------------------------------------------------------------- */

static int read_shader(struct mb_cl_payload *p, struct mb_cursor *c) {
  enum { MAGIC = 0x07230203 };
  struct mb_slice name;
  uint32_t flag;
  uint64_t words = 0;
  if (!mb_read_string(c, &name, "shaders") || !mb_read_u32(c, &flag, "shaders.flag") ||
      !mb_read_count(c, &words, 4, "shaders.words"))
    return MBLOB_E_FORMAT;
  const struct mb_slice code = {c->data + c->pos, 4 * words};
  if (words < 5 || mb_u32_at(code.data) != MAGIC)
    return mb_fail_format("payload", (int64_t)c->pos, MB_UNKNOWN,
                          "opencl: the program of kernel '%.*s' is no SPIR-V",
                          (int)(name.size < 128 ? name.size : 128), (const char *)name.data);
  c->pos += code.size;
  return add_part(p, name, (struct mb_slice){code.data, 0}, code);
}

static int read_spirv(struct mb_cl_payload *p, struct mb_cursor *c) {
  uint64_t count = 0;
  if (!mb_read_count(c, &count, 20, "shaders")) return MBLOB_E_FORMAT;
  for (uint64_t i = 0; i < count; i++) {
    int status = read_shader(p, c);
    if (status) return status;
  }
  return MBLOB_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int read_kernels(struct mb_cl_payload *p, bool ffi, struct mb_cursor *c) {
  int status = mb_kernel_list_read(c, ffi, &p->kernels);
  if (status) return status;
  const size_t count = (size_t)p->kernels.count;
  p->parts = calloc(count + 1, sizeof(*p->parts));
  p->part_of = malloc((count + 1) * sizeof(*p->part_of));
  if (!p->parts || !p->part_of) return mb_fail_memory(count * sizeof(*p->parts));
  for (size_t i = 0; i < count; i++) p->part_of[i] = NO_PART;
  return MBLOB_OK;
}

static int read_data(struct mb_cl_payload *p, struct mb_cursor *c) {
  struct mb_slice code;
  if (!mb_read_string(c, &code, "data")) return MBLOB_E_FORMAT;
  if (!code.size)
    return mb_fail_format("payload", (int64_t)c->pos, MB_UNKNOWN, "opencl: there is no program");
  return p->form == MB_CL_SOURCE ? read_source(p, code) : add_whole(p, code);
}

/* The first string, if it looks like the name of a format: else the payload begins with the
 * count of a `fmap`. */
static bool has_format(const struct mb_cursor *c, struct mb_slice *format) {
  if (mb_left(c) < 8 || mb_u64_at(c->data) > mb_left(c) - 8) return false;
  *format = (struct mb_slice){c->data + 8, mb_u64_at(c->data)};
  for (uint64_t i = 0; i < format->size; i++)
    if (!is_word(format->data[i])) return false;
  return format->size && format->size <= 32;
}

int mb_cl_payload_read(const void *data, uint64_t size, bool ffi, struct mb_cl_payload *out) {
  struct mb_cursor c = {.data = data, .pos = 0, .end = size, .entry = MB_UNKNOWN};
  struct mb_slice format = {NULL, 0};
  *out = (struct mb_cl_payload){0};
  const bool formatted = has_format(&c, &format);
  if (formatted) {
    if (!mb_slice_is(format, "cl") && !is_binary(format))
      return mb_fail_format("payload", 8, MB_UNKNOWN,
                            "opencl: unknown format '%.*s'; known are cl, clbin, xclbin, "
                            "awsxclbin and aocx",
                            (int)format.size, (const char *)format.data);
    c.pos = 8 + format.size;
  }
  out->form = !formatted ? MB_CL_SPIRV : is_binary(format) ? MB_CL_BINARY : MB_CL_SOURCE;
  int status = read_kernels(out, ffi, &c);
  if (!status) status = formatted ? read_data(out, &c) : read_spirv(out, &c);
  if (status || c.pos == size) return status;
  return mb_fail_format("payload", (int64_t)c.pos, MB_UNKNOWN, "opencl: %llu bytes are left over",
                        (unsigned long long)(size - c.pos));
}

/* True if the name stands in the text as a word, or the preprocessor could make it. */
static bool mentions(struct mb_slice text, const char *name) {
  const size_t size = strlen(name);
  const uint8_t *at = text.data, *end = text.data + text.size;
  while ((at = memmem(at, (size_t)(end - at), name, size))) {
    if ((at == text.data || !is_word(at[-1])) && (at + size == end || !is_word(at[size])))
      return true;
    at++;
  }
  return memmem(text.data, (size_t)text.size, "##", 2) ||
         memmem(text.data, (size_t)text.size, "#include", 8);
}

int mb_cl_payload_check(const struct mb_cl_payload *p, const struct mb_kernel *kernel) {
  const uint64_t part = p->part_of[kernel->index];
  int status = mb_kernel_check(kernel);
  if (status) return status;
  if (part == NO_PART)
    return mb_fail_format("payload", -1, MB_UNKNOWN,
                          "opencl: kernel '%s' is declared and has no program", kernel->name);
  if (p->form == MB_CL_SOURCE && !p->parts[part].kernel &&
      !mentions(p->parts[part].code, kernel->name))
    return mb_fail_format("payload", -1, MB_UNKNOWN,
                          "opencl: kernel '%s' is declared and not in the source", kernel->name);
  return MBLOB_OK;
}

void mb_cl_payload_free(struct mb_cl_payload *p) {
  mb_kernel_list_free(&p->kernels);
  free(p->parts);
  free(p->part_of);
  *p = (struct mb_cl_payload){0};
}
