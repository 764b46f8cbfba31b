#define _GNU_SOURCE
#include "ptx.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/base.h"

/* ---- what every PTX begins with -------------------------------------------------------------- */

static const char *find(struct mb_slice code, const char *word) {
  return memmem(code.data, (size_t)code.size, word, strlen(word));
}

bool ptx_is(struct mb_slice code) { return find(code, ".version") && find(code, ".target"); }

int ptx_check(struct mb_slice code) {
  while (code.size && !code.data[code.size - 1])
    code.size--; /* TVM's writer leaves one NUL at times, or none */
  const uint8_t *nul = code.size ? memchr(code.data, 0, (size_t)code.size) : NULL;
  if (nul || !ptx_is(code))
    return mb_fail_format(
        "payload", -1, -1, "cuda: the code (%llu bytes) is no PTX%s, nor a cubin or a fatbin",
        (unsigned long long)code.size, nul ? " (it has NUL bytes)" : " (no .version and .target)");
  return MBLOB_OK;
}

void ptx_word(struct mb_slice code, const char *directive, char *text, size_t size) {
  const char *end = (const char *)code.data + code.size, *at = find(code, directive);
  size_t used = 0;
  if (at) at += strlen(directive);
  while (at && at < end && isspace((unsigned char)*at)) at++;
  while (at && at < end && *at && !isspace((unsigned char)*at) && *at != ',' && used + 1 < size)
    text[used++] = *at++;
  text[used] = 0;
}

/* ---- tokens: words with their dots, or one other character; comments and strings are left out- */

static bool is_word(uint8_t c) {
  return isalnum(c) || c == '_' || c == '$' || c == '%' || c == '.';
}

/* How many bytes of white space, comment or string are at the begin. */
static uint64_t unread(struct mb_slice rest) {
  const char *end = "\n";
  uint64_t head = 2;
  if (isspace(rest.data[0]) || !rest.data[0]) return 1;
  if (rest.data[0] == '"')
    end = "\"", head = 1;
  else if (rest.size < 2 || rest.data[0] != '/' || (rest.data[1] != '/' && rest.data[1] != '*'))
    return 0;
  else if (rest.data[1] == '*')
    end = "*/";
  const uint8_t *at = memmem(rest.data + head, (size_t)(rest.size - head), end, strlen(end));
  return at ? (uint64_t)(at - rest.data) + strlen(end) : rest.size;
}

/* The next token, taken from *rest; empty at the end. */
static struct mb_slice next(struct mb_slice *rest) {
  uint64_t size = 0;
  while (rest->size && (size = unread(*rest))) rest->data += size, rest->size -= size;
  struct mb_slice token = {rest->data, 0};
  while (token.size < rest->size && is_word(token.data[token.size])) token.size++;
  if (!token.size && rest->size) token.size = 1;
  rest->data += token.size, rest->size -= token.size;
  return token;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* ".u32", ".f64", ".b8": bytes, 0 if it is no type. */
static uint32_t type_of(struct mb_slice token, enum cuda_class *is) {
  char digits[4] = "";
  if (token.size < 3 || token.size > 5 || !memchr("usfb", token.data[1], 4)) return 0;
  memcpy(digits, token.data + 2, (size_t)token.size - 2);
  const int bits = atoi(digits);
  *is = token.data[1] == 'f' ? CUDA_FLOAT : token.data[1] == 'b' ? CUDA_ANY : CUDA_WHOLE;
  return bits > 0 ? (uint32_t)bits / 8 : 0;
}

/* At most UINT32_MAX. */
static uint64_t number_of(struct mb_slice token) {
  uint64_t number = 0;
  for (uint64_t i = 0; i < token.size && isdigit(token.data[i]) && number < UINT32_MAX; i++)
    number = 10 * number + (uint64_t)(token.data[i] - '0');
  return number < UINT32_MAX ? number : UINT32_MAX;
}

/* Up to the bracket that ends the list: ".param .u64 .ptr .global .align 4 NAME, .param .align 8
 * .b8 NAME[16]". */
static void read_parameters(struct mb_slice *rest, struct cuda_code_kernel *found) {
  enum cuda_class is = CUDA_ANY;
  bool any = false;
  uint64_t size = 0;
  size_t index = 0;
  for (struct mb_slice token = next(rest); token.size; token = next(rest)) {
    const bool last = mb_slice_is(token, ")");
    if (last || mb_slice_is(token, ",")) {
      if (any) cuda_add_parameter(found, index++, (uint32_t)size, is);
      if (last) return;
      any = false, size = 0, is = CUDA_ANY;
    } else if (mb_slice_is(token, "[")) {
      is = CUDA_ANY;                 /* bytes of any meaning */
      size *= number_of(next(rest)); /* both below 2 ^ 32 */
      if (size > UINT32_MAX) size = UINT32_MAX;
    } else if (!size) {
      any = any || mb_slice_is(token, ".param");
      size = type_of(token, &is);
    }
  }
}

void ptx_read_kernels(struct mb_slice code, struct cuda_code_kernel *found) {
  for (struct mb_slice rest = code, token = next(&rest); token.size; token = next(&rest)) {
    if (!mb_slice_is(token, ".entry")) continue;
    if (!cuda_add_kernel(found, next(&rest))) continue;
    struct mb_slice behind = rest;
    found->has_parameters = true;
    if (mb_slice_is(next(&behind), "(")) read_parameters(&behind, found);
  }
}
