/* What the payload of each type key looks like (docs/format.md, section 3), declared as data.
 *
 * Payloads carry no length; without an index they are walked to find where they end. */
#include "blob.h"
#include "error.h"
#include "ndarray.h"

#define MAX_FIELDS 7

enum field {
  END,
  STRING,
  STRINGS, /* vector<string> */
  I32,
  FUNCTIONS,        /* unordered_map<string, {string name, vector<DLDataType>, vector<string> tags}> */
  STRING_PAIRS,     /* map<string, string> */
  SHADERS,          /* map<string, {u32 flag, vector<u32> words}> */
  NAMED_ARRAYS,     /* u64 n, vector<string> names, n NDArray */
  CONSTANTS,        /* vector<string> names, u64 n, n NDArray */
  SYMBOL_CONSTANTS, /* vector<string> symbols, u64 n, n vector<string> */
  ETHOS_NETWORKS
};

struct payload_grammar {
  enum field fields[MAX_FIELDS + 1];
};

static const struct payload_grammar source = {{STRING, FUNCTIONS, STRING}};
static const struct payload_grammar metal_kernels = {{STRING, STRING_PAIRS, FUNCTIONS, STRING}};
static const struct payload_grammar spirv = {{FUNCTIONS, SHADERS}};
static const struct payload_grammar vulkan = {{STRING, FUNCTIONS, SHADERS}};
static const struct payload_grammar webgpu = {{FUNCTIONS, STRING_PAIRS}};
static const struct payload_grammar json = {{STRING, STRING, STRINGS}};
static const struct payload_grammar constants = {{CONSTANTS, SYMBOL_CONSTANTS}};
static const struct payload_grammar graph = {{STRING, NAMED_ARRAYS, STRING}};
static const struct payload_grammar aot = {{NAMED_ARRAYS, STRING}};
static const struct payload_grammar one_string = {{STRING}};
static const struct payload_grammar two_strings = {{STRING, STRING}};
static const struct payload_grammar three_strings = {{STRING, STRING, STRING}};
static const struct payload_grammar mrvl_hw = {{STRING, STRING, STRING, I32, I32, I32}};
static const struct payload_grammar vitis_ai = {{STRING, STRING, STRING, STRINGS}};
static const struct payload_grammar c_source = {{STRING, STRING, STRINGS, STRINGS}};
static const struct payload_grammar static_library = {{STRING, STRINGS}};
static const struct payload_grammar ethos_n = {{ETHOS_NETWORKS}};
static const struct payload_grammar nothing = {{END}};
static const struct payload_grammar shaders = {{STRING, FUNCTIONS, STRING_PAIRS}};

/* A key has one grammar, or two that TVM releases wrote under the same key: then `formats`, a comma separated
 * list, holds the first strings that select `grammar`; any other selects `otherwise`. */
static const struct key_grammar {
  const char *key;
  const struct payload_grammar *grammar;
  const char *formats;
  const struct payload_grammar *otherwise;
} key_grammars[] = {
    /* of both dialects */
    {"cuda", &source, NULL, NULL},
    {"hip", &source, NULL, NULL},
    {"hsaco", &source, NULL, NULL},
    {"hexagon", &source, NULL, NULL},
    {"webgpu", &source, "wgsl,webgpu", &webgpu},
    {"dnnl_json", &json, NULL, NULL},
    {"tensorrt", &json, NULL, NULL},
    {"arm_compute_lib", &json, NULL, NULL},
    {"bnns_json", &json, NULL, NULL},
    {"clml", &json, NULL, NULL},
    {"cublas_json", &json, NULL, NULL},
    {"cudnn_json", &json, NULL, NULL},
    {"hipblas_json", &json, NULL, NULL},
    {"nnapi", &json, NULL, NULL},
    {"msc_tensorrt", &json, NULL, NULL},
    {"const_loader", &constants, NULL, NULL},
    {"relax.VMExecutable", &one_string, NULL, NULL},
    {"coreml", &two_strings, NULL, NULL},
    {"c", &c_source, NULL, NULL},
    {"static_library", &static_library, NULL, NULL},
    /* of the classic one */
    {"opengl", &source, NULL, NULL},
    {"opencl", &source, "cl,clbin,xclbin,awsxclbin,aocx", &spirv},
    {"metal", &source, "metal,metallib", &metal_kernels},
    {"vulkan", &vulkan, "vulkan", &source},
    {"metadata", &constants, NULL, NULL},
    {"metadata_module", &nothing, NULL, NULL},
    {"GraphExecutorFactory", &graph, NULL, NULL},
    {"GraphRuntimeFactory", &graph, NULL, NULL},
    {"AotExecutorFactory", &aot, NULL, NULL},
    {"VMExecutable", &one_string, NULL, NULL},
    {"relax.Executable", &one_string, NULL, NULL},
    {"torch", &two_strings, NULL, NULL},
    {"VitisAIRuntime", &vitis_ai, NULL, NULL},
    {"mrvl_sim", &three_strings, NULL, NULL},
    {"mrvl_hw", &mrvl_hw, NULL, NULL},
    {"ethos-n", &ethos_n, NULL, NULL},
    {"examplejson", &one_string, NULL, NULL},
};

/* In the ffi dialect these are otherwise, and of the others only those of both exist. */
static const struct key_grammar ffi_grammars[] = {
    {"opencl", &source, NULL, NULL},
    {"metal", &shaders, "metal,metallib", &metal_kernels},
    {"vulkan", &shaders, NULL, NULL},
};
#define KEYS_OF_BOTH 20

/* ---- fields ------------------------------------------------------------------------------------- */

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
static bool skip_functions(struct mb_cursor *c, enum mb_form form) {
  uint64_t count = 0, tags = 0;
  if (!mb_read_count(c, &count, form == MB_CLASSIC ? 32 : 40, "functions")) return false;
  for (uint64_t i = 0; i < count; i++)
    if (!skip_string(c, "functions.name") || !skip_string(c, "functions.name") ||
        !skip_items(c, 4, "functions.arg_types") || !skip_strings(c, "functions.launch_param_tags", &tags) ||
        (form != MB_CLASSIC && !skip_items(c, 4, "functions.arg_extra_tags")))
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
    if (!skip_string(c, "shaders") || !mb_skip(c, 4, "shaders.flag") || !skip_items(c, 4, "shaders.words"))
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
  if (!mb_read_u64(c, &count, "params.count") || !skip_strings(c, "params.names", &names)) return false;
  if (count != names) return payload_error(c, start, "params: counts of arrays and of names differ");
  return skip_arrays(c, count);
}

static bool skip_constants(struct mb_cursor *c) {
  uint64_t names = 0, count = 0;
  if (!skip_strings(c, "constants.names", &names)) return false;
  uint64_t start = c->pos;
  if (!mb_read_u64(c, &count, "constants.count")) return false;
  if (count != names) return payload_error(c, start, "constants: counts of names and of arrays differ");
  return skip_arrays(c, count);
}

static bool skip_symbol_constants(struct mb_cursor *c) {
  uint64_t symbols = 0, count = 0, ignored = 0;
  if (!skip_strings(c, "symbols", &symbols)) return false;
  uint64_t start = c->pos;
  if (!mb_read_u64(c, &count, "symbols.count")) return false;
  if (count != symbols) return payload_error(c, start, "symbols: counts of symbols and of lists differ");
  for (uint64_t i = 0; i < count; i++)
    if (!skip_strings(c, "symbols.constants", &ignored)) return false;
  return true;
}

/* u64 n, n * {name, command stream, then twice (inputs, outputs): u64 k, k u32 orders, k u32 sizes}. */
static bool skip_ethos_networks(struct mb_cursor *c) {
  uint64_t count = 0;
  if (!mb_read_count(c, &count, 32, "networks")) return false;
  for (uint64_t i = 0; i < count; i++)
    if (!skip_string(c, "networks.name") || !skip_string(c, "networks.command_stream") ||
        !skip_items(c, 8, "networks.inputs") || !skip_items(c, 8, "networks.outputs"))
      return false;
  return true;
}

static bool skip_field(struct mb_cursor *c, enum field field, enum mb_form form) {
  uint64_t ignored = 0;
  switch (field) {
    case STRING: return skip_string(c, "string");
    case STRINGS: return skip_strings(c, "strings", &ignored);
    case I32: return mb_skip(c, 4, "i32");
    case FUNCTIONS: return skip_functions(c, form);
    case STRING_PAIRS: return skip_string_pairs(c);
    case SHADERS: return skip_shaders(c);
    case NAMED_ARRAYS: return skip_named_arrays(c);
    case CONSTANTS: return skip_constants(c);
    case SYMBOL_CONSTANTS: return skip_symbol_constants(c);
    case ETHOS_NETWORKS: return skip_ethos_networks(c);
    case END: break;
  }
  return true;
}

/* ---- keys --------------------------------------------------------------------------------------- */

static bool in_list(struct mb_slice s, const char *list) {
  while (*list) {
    size_t size = strcspn(list, ",");
    if (s.size == size && memcmp(s.data, list, size) == 0) return true;
    list += size + (list[size] == ',');
  }
  return false;
}

/* The first string of a payload, without an error if there is none. */
static struct mb_slice first_string(const struct mb_cursor *c) {
  struct mb_slice s = {c->data, 0};
  if (mb_left(c) < 8) return s;
  uint64_t size = mb_u64_at(c->data + c->pos);
  if (size <= mb_left(c) - 8) s = (struct mb_slice){c->data + c->pos + 8, size};
  return s;
}

static const struct key_grammar *grammar_in(const struct key_grammar *keys, size_t count, struct mb_slice key) {
  for (size_t k = 0; k < count; k++)
    if (mb_slice_is(key, keys[k].key)) return &keys[k];
  return NULL;
}

static const struct key_grammar *grammar_of(struct mb_slice key, enum mb_form form) {
  if (form == MB_CLASSIC) return grammar_in(key_grammars, sizeof(key_grammars) / sizeof(*key_grammars), key);
  const struct key_grammar *own = grammar_in(ffi_grammars, sizeof(ffi_grammars) / sizeof(*ffi_grammars), key);
  return own ? own : grammar_in(key_grammars, KEYS_OF_BOTH, key);
}

bool mb_payload_is_known(struct mb_slice key, enum mb_form form) { return grammar_of(key, form) != NULL; }

int mb_payload_walk(struct mb_slice key, struct mb_cursor *c, enum mb_form form) {
  const struct key_grammar *known = grammar_of(key, form);
  if (!known)
    return mb_fail_format("unknown_key", (int64_t)c->pos, c->entry,
                          "type key '%.*s' has no known payload grammar and there is no index: "
                          "what follows cannot be read",
                          (int)(key.size < 64 ? key.size : 64), (const char *)key.data);
  const struct payload_grammar *grammar = known->grammar;
  if (known->formats && !in_list(first_string(c), known->formats)) grammar = known->otherwise;
  for (size_t i = 0; grammar->fields[i] != END; i++)
    if (!skip_field(c, grammar->fields[i], form)) {
      mb_error_prefix(known->key);
      return mblob_last_error_info()->status;
    }
  return MBLOB_OK;
}
