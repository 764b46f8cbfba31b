/* The layout of the payload of each type key (docs/format.md, section 3), declared as data.
 *
 * Payloads carry no length; without an index they are walked to find where they end. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "format/blob.h"
#include "format/ndarray.h"

enum field {
  STRING = 's',
  STRINGS = 'v', /* vector<string> */
  I32 = 'i',
  FUNCTIONS =
      'f', /* unordered_map<string, {string name, vector<DLDataType>, vector<string> tags}> */
  STRING_PAIRS = 'm',     /* map<string, string> */
  SHADERS = 'h',          /* map<string, {u32 flag, vector<u32> words}> */
  NAMED_ARRAYS = 'n',     /* u64 n, vector<string> names, n NDArray */
  CONSTANTS = 'c',        /* vector<string> names, u64 n, n NDArray */
  SYMBOL_CONSTANTS = 'y', /* vector<string> symbols, u64 n, n vector<string> */
  ETHOS_NETWORKS = 'e'
};

/* Texts of words (base/type_keys.h): type keys, and the fields of their payload, a letter each.
 * TVM releases wrote two forms under some keys: then the first strings that have these fields,
 * and the fields that any other has. */
static const char of_both_dialects[] = MB_GRAMMARS_OF_BOTH_DIALECTS,
                  of_classic[] = MB_GRAMMARS_OF_CLASSIC, of_ffi[] = MB_GRAMMARS_OF_FFI;

/* ---- fields ---------------------------------------------------------------------------------- */

static bool skip_string(struct mb_cursor *c, const char *what) {
  struct mb_slice ignored;
  return mb_read_string(c, &ignored, what);
}

/* A count and that many items of `item_size` bytes. */
static bool skip_items(struct mb_cursor *c, uint64_t item_size, const char *what) {
  uint64_t count = 0;
  return mb_read_count(c, &count, item_size, what) && mb_skip(c, count * item_size, what);
}

static bool skip_strings(struct mb_cursor *c, const char *what, uint64_t *count) {
  if (!mb_read_count(c, count, 8, what)) return false;
  for (uint64_t i = 0; i < *count; i++)
    if (!skip_string(c, what)) return false;
  return true;
}

/* The ffi dialect has a number for each parameter behind the launch tags. */
static bool skip_functions(struct mb_cursor *c, enum mb_dialect dialect) {
  uint64_t count = 0, tags = 0;
  if (!mb_read_count(c, &count, dialect == MB_CLASSIC ? 32 : 40, "functions")) return false;
  for (uint64_t i = 0; i < count; i++)
    if (!skip_string(c, "functions.name") || !skip_string(c, "functions.name") ||
        !skip_items(c, 4, "functions.arg_types") ||
        !skip_strings(c, "functions.launch_param_tags", &tags) ||
        (dialect != MB_CLASSIC && !skip_items(c, 4, "functions.arg_extra_tags")))
      return false;
  return true;
}

static bool skip_string_pairs(struct mb_cursor *c) {
  uint64_t count = 0;
  if (!mb_read_count(c, &count, 16, "sources")) return false;
  for (uint64_t i = 0; i < count; i++)
    if (!skip_string(c, "sources") || !skip_string(c, "sources")) return false;
  return true;
}

static bool skip_shaders(struct mb_cursor *c) {
  uint64_t count = 0;
  if (!mb_read_count(c, &count, 20, "shaders")) return false;
  for (uint64_t i = 0; i < count; i++)
    if (!skip_string(c, "shaders") || !mb_skip(c, 4, "shaders.flag") ||
        !skip_items(c, 4, "shaders.words"))
      return false;
  return true;
}

static bool payload_error(const struct mb_cursor *c, uint64_t at, const char *text) {
  (void)mb_fail_format("payload", (int64_t)at, c->entry, "%s", text);
  return false;
}

static bool skip_arrays(struct mb_cursor *c, uint64_t count) {
  for (uint64_t i = 0; i < count; i++)
    if (!mb_array_read(c, NULL)) return false;
  return true;
}

static bool skip_named_arrays(struct mb_cursor *c) {
  uint64_t start = c->pos, count = 0, names = 0;
  if (!mb_read_u64(c, &count, "params.count") || !skip_strings(c, "params.names", &names))
    return false;
  if (count != names)
    return payload_error(c, start, "params: counts of names and of arrays differ");
  return skip_arrays(c, count);
}

static bool skip_constants(struct mb_cursor *c) {
  uint64_t names = 0, count = 0;
  if (!skip_strings(c, "constants.names", &names)) return false;
  uint64_t start = c->pos;
  if (!mb_read_u64(c, &count, "constants.count")) return false;
  if (count != names)
    return payload_error(c, start, "constants: counts of names and of arrays differ");
  return skip_arrays(c, count);
}

static bool skip_symbol_constants(struct mb_cursor *c) {
  uint64_t symbols = 0, count = 0, ignored = 0;
  if (!skip_strings(c, "symbols", &symbols)) return false;
  uint64_t start = c->pos;
  if (!mb_read_u64(c, &count, "symbols.count")) return false;
  if (count != symbols)
    return payload_error(c, start, "symbols: counts of symbols and of lists differ");
  for (uint64_t i = 0; i < count; i++)
    if (!skip_strings(c, "symbols.constants", &ignored)) return false;
  return true;
}

/* u64 n, n * {name, command stream, then twice (inputs, outputs): u64 k, k u32 orders, k u32
 * sizes}. */
static bool skip_ethos_networks(struct mb_cursor *c) {
  uint64_t count = 0;
  if (!mb_read_count(c, &count, 32, "networks")) return false;
  for (uint64_t i = 0; i < count; i++)
    if (!skip_string(c, "networks.name") || !skip_string(c, "networks.command_stream") ||
        !skip_items(c, 8, "networks.inputs") || !skip_items(c, 8, "networks.outputs"))
      return false;
  return true;
}

/* `arrays`: those of the field that has some are kept there; NULL: they are passed over. */
static bool skip_field(struct mb_cursor *c, enum field field, enum mb_dialect dialect,
                       struct mb_tensors *arrays) {
  uint64_t ignored = 0;
  if (arrays && (field == NAMED_ARRAYS || field == CONSTANTS)) {
    /* the first count is the second again, which an executor compares */
    const bool is_first = field == NAMED_ARRAYS;
    return (!is_first || mb_skip(c, 8, "params.count")) &&
           mb_named_arrays_read(c, !is_first, arrays);
  }
  switch (field) {
    case STRING: return skip_string(c, "string");
    case STRINGS: return skip_strings(c, "strings", &ignored);
    case I32: return mb_skip(c, 4, "i32");
    case FUNCTIONS: return skip_functions(c, dialect);
    case STRING_PAIRS: return skip_string_pairs(c);
    case SHADERS: return skip_shaders(c);
    case NAMED_ARRAYS: return skip_named_arrays(c);
    case CONSTANTS: return skip_constants(c);
    case SYMBOL_CONSTANTS: return skip_symbol_constants(c);
    case ETHOS_NETWORKS: return skip_ethos_networks(c);
  }
  return payload_error(c, c->pos, "a field of an unknown type");
}

/* ---- keys ------------------------------------------------------------------------------------ */

static bool in_list(struct mb_slice s, const char *list) {
  for (;; list++) {
    size_t size = strcspn(list, ", ");
    if (s.size == size && memcmp(s.data, list, size) == 0) return true;
    if (*(list += size) != ',') return false;
  }
}

/* The first string of a payload, without an error if there is none. */
static struct mb_slice first_string(const struct mb_cursor *c) {
  struct mb_slice s = {c->data, 0};
  if (mb_left(c) < 8) return s;
  uint64_t size = mb_u64_at(c->data + c->pos);
  if (size <= mb_left(c) - 8) s = (struct mb_slice){c->data + c->pos + 8, size};
  return s;
}

/* What stands behind the key in such a text, NULL if it is not there. */
static const char *grammar_in(const char *text, struct mb_slice key) {
  for (; *text; text += strlen(text) + 1)
    if (in_list(key, text)) return strchr(text, ' ') + 1;
  return NULL;
}

static const char *grammar_of(struct mb_slice key, enum mb_dialect dialect) {
  const char *own = grammar_in(dialect == MB_CLASSIC ? of_classic : of_ffi, key);
  return own ? own : grammar_in(of_both_dialects, key);
}

bool mb_payload_is_known(struct mb_slice key, enum mb_dialect dialect) {
  return grammar_of(key, dialect) != NULL;
}

/* The key as an error says it. */
static const char *shown(struct mb_slice key, char text[65]) {
  (void)snprintf(text, 65, "%.*s", (int)(key.size < 64 ? key.size : 64), (const char *)key.data);
  return text;
}

int mb_fail_unknown_key(struct mb_slice key, const struct mb_cursor *c, const char *why) {
  char text[65];
  (void)mb_fail_format("unknown_key", (int64_t)c->pos, c->entry,
                       "type key '%s' has no known payload grammar and there is no index%s: what "
                       "follows cannot be read. Its loader can tell its layout "
                       "(mblob_loader.layout, register_loader(key, layout=...), --layout %s=FORM)",
                       shown(key, text), why, text);
  return mb_error_key((const char *)key.data, mb_size(key.size));
}

int mb_payload_walk(struct mb_slice key, struct mb_cursor *c, enum mb_dialect dialect,
                    struct mb_tensors *arrays) {
  const char *fields = grammar_of(key, dialect);
  char text[65];
  if (!fields) return arrays ? MBLOB_OK : mb_fail_unknown_key(key, c, "");
  const char *formats = strchr(fields, ' ');
  if (formats && !in_list(first_string(c), formats + 1)) fields = strchr(formats + 1, ' ') + 1;
  if (arrays && strchr(" ", fields[strcspn(fields, " nc")])) return MBLOB_OK; /* it has none */
  for (; *fields && *fields != ' '; fields++)
    if (!skip_field(c, (enum field) * fields, dialect, arrays)) {
      mb_error_prefix(shown(key, text));
      return mblob_last_error_info()->status;
    }
  return MBLOB_OK;
}

/* ---- layouts --------------------------------------------------------------------------------- */

/* The types of a layout, and the bytes that one has at least. Those of a fixed size come first. */
static const struct type {
  char name[7];
  uint8_t size;
} types[] = {{"byte", 1}, {"u8", 1},     {"i8", 1},    {"u16", 2}, {"i16", 2},
             {"u32", 4},  {"i32", 4},    {"f32", 4},   {"u64", 8}, {"i64", 8},
             {"f64", 8},  {"string", 8}, {"array", 40}};
enum { STRING_TYPE = 11, ARRAY_TYPE, TYPES };

/* Pass over one word of a layout; without a cursor only tell whether it is one. */
static bool skip_grammar_word(struct mb_cursor *c, const char *word, size_t size) {
  uint64_t count = 1;
  size_t t = 0, name = 0;
  while (t < TYPES && (name = strlen(types[t].name), size < name || size > name + 1 ||
                                                         memcmp(word, types[t].name, name) != 0 ||
                                                         (size > name && word[name] != 's')))
    t++;
  if (t == TYPES || !c) return t < TYPES;
  if (size > name && !mb_read_count(c, &count, types[t].size, types[t].name)) return false;
  if (t < STRING_TYPE) return mb_skip(c, count * types[t].size, types[t].name);
  if (t == ARRAY_TYPE) return skip_arrays(c, count);
  for (; count; count--)
    if (!skip_string(c, "string")) return false;
  return true;
}

/* The layout that a name stands for: symbol, graph and names of the JSON runtimes. */
static const char *named_layout(const char *layout) {
  return strcmp(layout, "json") == 0 ? "string,string,strings" : layout;
}

int mb_layout_check(const char *layout) {
  const char *word = named_layout(layout);
  if (strlen(layout) >= MB_LAYOUT_SIZE)
    return mb_fail(MBLOB_E_ARGUMENT, "layout of %zu characters, expected at most %d",
                   strlen(layout), MB_LAYOUT_SIZE - 1);
  for (size_t size;; word += size + 1) {
    size = strcspn(word, ",");
    bool is_last = !word[size];
    if (!skip_grammar_word(NULL, word, size) && !(is_last && strcmp(word, "rest") == 0)) break;
    if (is_last) return MBLOB_OK;
  }
  return mb_fail(
      MBLOB_E_ARGUMENT,
      "layout '%s': at '%s': expected string, byte, array, u8 to u64, i8 to i64, f32 or f64, with an s for a vector, or, alone, json, or, at the end, rest (docs/format.md, Layouts)",
      layout, word);
}

bool mb_layout_walk(const char *layout, struct mb_cursor *c, bool *rest) {
  *rest = false;
  for (layout = named_layout(layout);; layout++) {
    size_t size = strcspn(layout, ",");
    *rest = strcmp(layout, "rest") == 0;
    if (*rest || !skip_grammar_word(c, layout, size) || !*(layout += size)) break;
  }
  return *rest || !*layout;
}

int mblob_layout_measure(const char *layout, const void *bytes, size_t size, size_t *out,
                         int *rest) {
  if (!layout || !out || !rest || (size && !bytes))
    return mb_fail(MBLOB_E_ARGUMENT, MB_TEXT_IS_NULL, "mblob_layout_measure");
  struct mb_cursor c = {bytes, 0, size, MB_UNKNOWN};
  bool to_the_end = false;
  int status = mb_layout_check(layout);
  if (!status && !mb_layout_walk(layout, &c, &to_the_end)) status = mblob_last_error_info()->status;
  *out = (size_t)c.pos;
  *rest = to_the_end;
  return status;
}
