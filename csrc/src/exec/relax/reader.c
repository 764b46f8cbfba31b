/* Sections of a program: functions, memory scopes, constants, instructions (TVM 0.16 and later).
 *
 * Two magics tell whether memory scopes are there. Numbers of kinds of constants are those of the
 * dialect. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "exec/relax/executable.h"
#include "format/format.h"

#define MAGIC_1 UINT64_C(0xD225DE2F4214151D)
#define MAGIC_2 UINT64_C(0xD225DE2F4214151E)
#define SMALLEST_FUNCTION 52

static bool bad_program(const struct mb_cursor *c, uint64_t at, const char *text) {
  (void)mb_fail_format("payload", (int64_t)at, c->entry, "bytecode: %s", text);
  return false;
}

static bool read_i64(struct mb_cursor *c, int64_t *out, const char *what) {
  uint64_t number = 0;
  bool ok = mb_read_u64(c, &number, what);
  *out = (int64_t)number;
  return ok;
}

static bool read_function_name(struct mb_cursor *c, char **out, const char *what) {
  struct mb_slice name;
  if (!mb_read_string(c, &name, what)) return false;
  if (memchr(name.data, 0, mb_size(name.size)))
    return bad_program(c, c->pos - name.size, "a name has a NUL byte");
  *out = strndup((const char *)name.data, mb_size(name.size));
  return *out || !mb_fail_memory(mb_size(name.size));
}

static bool read_words(struct mb_cursor *c, int64_t **out, size_t *count, const char *what) {
  uint64_t found = 0;
  if (!mb_read_count(c, &found, 8, what)) return false;
  *out = mb_new_items(found, sizeof(**out));
  if (!*out) return false;
  for (*count = 0; *count < found; (*count)++)
    if (!read_i64(c, &(*out)[*count], what)) return false;
  return true;
}

/* ---- functions ------------------------------------------------------------------------------- */

static bool read_parameter_names(struct mb_cursor *c, struct relax_function *f) {
  uint64_t count = 0;
  if (!mb_read_count(c, &count, 8, "function.params")) return false;
  f->params = mb_new_items(count, sizeof(*f->params));
  if (!f->params) return false;
  while (f->param_count < count)
    if (!read_function_name(c, &f->params[f->param_count++], "function.params")) return false;
  return true;
}

static bool check_relax_function(const struct mb_cursor *c, uint64_t at,
                                 const struct relax_function *f, int64_t start, int64_t end) {
  const bool undefined = f->num_args == RELAX_NO_ARGUMENTS;
  if (start < 0 || end < start) return bad_program(c, at, "a function ends before it starts");
  if (f->kind != RELAX_CODE && (start || end))
    return bad_program(c, at, "a function without instructions has a place in them");
  if (f->num_args < 0 && !undefined)
    return bad_program(c, at, "a function has a negative number of arguments");
  if (f->kind == RELAX_COMPILED && undefined)
    return bad_program(c, at, "a compiled function has no number of arguments");
  if (f->register_file < 0 || f->register_file > RELAX_REGISTER_LIMIT)
    return bad_program(c, at, "a function has an impossible number of registers");
  if (f->kind != RELAX_PACKED && f->num_args > f->register_file)
    return bad_program(c, at, "a function has more arguments than registers");
  if (f->kind != RELAX_PACKED && f->param_count && (int64_t)f->param_count != f->num_args)
    return bad_program(c, at, "a function has names for more or fewer arguments than it has");
  if (f->kind == RELAX_COMPILED && f->num_args == f->register_file)
    return bad_program(c, at, "a compiled function has no register for its result");
  return true;
}

static bool read_relax_function(struct mb_cursor *c, struct relax_executable *exec) {
  struct relax_function *f = &exec->functions[exec->function_count++];
  uint64_t at = c->pos;
  uint32_t kind = 0;
  int64_t start = 0, end = 0;
  if (!mb_read_u32(c, &kind, "function.kind")) return false;
  if (kind > RELAX_COMPILED) return bad_program(c, at, "a function is of a kind that is not known");
  f->kind = (enum relax_kind)kind;
  if (!read_function_name(c, &f->name, "function.name") || !read_i64(c, &start, "function.start") ||
      !read_i64(c, &end, "function.end") || !read_i64(c, &f->num_args, "function.num_args") ||
      !read_i64(c, &f->register_file, "function.registers") || !read_parameter_names(c, f) ||
      !check_relax_function(c, at, f, start, end))
    return false;
  f->start = (size_t)start;
  f->end = (size_t)end;
  f->registers = f->num_args > 0 ? (size_t)f->num_args : 0;
  return mb_map_put(&exec->by_name, f->name, f);
}

static bool read_functions(struct mb_cursor *c, struct relax_executable *exec) {
  uint64_t count = 0;
  if (!mb_read_count(c, &count, SMALLEST_FUNCTION, "functions")) return false;
  exec->functions = mb_new_items(count, sizeof(*exec->functions));
  if (!exec->functions) return false;
  while (exec->function_count < count)
    if (!read_relax_function(c, exec)) return false;
  return true;
}

/* ---- constants ------------------------------------------------------------------------------- */

static bool argument_kind_of(const struct relax_executable *exec, uint32_t tag,
                             enum relax_constant_kind *out) {
  static const struct {
    uint8_t classic, of_0_21, ffi;
  } tags[] = {[RELAX_TENSOR] = {0, 72, 70}, [RELAX_DTYPE] = {1, 5, 5}, [RELAX_SHAPE] = {2, 71, 69},
              [RELAX_STRING] = {3, 65, 65}, [RELAX_INT] = {4, 1, 1},   [RELAX_FLOAT] = {5, 3, 3}};
  for (size_t i = 0; i < sizeof(tags) / sizeof(*tags); i++) {
    uint8_t known = exec->dialect == MB_CLASSIC       ? tags[i].classic
                    : exec->dialect == MB_FFI_OF_0_21 ? tags[i].of_0_21
                                                      : tags[i].ffi;
    if (known != tag) continue;
    *out = (enum relax_constant_kind)i;
    return true;
  }
  return false;
}

static bool read_constant_type(struct mb_cursor *c, struct relax_constant *out) {
  uint32_t word = 0;
  if (!mb_read_u32(c, &word, "constant.dtype")) return false;
  out->value.v_type = (DLDataType){(uint8_t)word, (uint8_t)(word >> 8), (uint16_t)(word >> 16)};
  return true;
}

static bool read_relax_constant(struct mb_cursor *c, struct relax_executable *exec) {
  struct relax_constant *out = &exec->constants[exec->constant_count++];
  uint64_t at = c->pos;
  uint32_t tag = 0;
  if (!mb_read_u32(c, &tag, "constant.kind")) return false;
  if (!argument_kind_of(exec, tag, &out->kind))
    return bad_program(c, at, "a constant is of a kind that this dialect does not have");
  switch (out->kind) {
    case RELAX_TENSOR:
      if (!mb_array_read(c, &out->array.view)) return false;
      out->end = c->pos;
      return true;
    case RELAX_DTYPE: return read_constant_type(c, out);
    case RELAX_SHAPE: return read_words(c, &out->extents, &out->extent_count, "constant.shape");
    case RELAX_STRING: return mb_read_string(c, &out->text, "constant.string");
    default: return read_i64(c, &out->value.v_int64, "constant.number");
  }
}

static bool read_relax_constants(struct mb_cursor *c, struct relax_executable *exec) {
  uint64_t count = 0;
  if (!mb_read_count(c, &count, 8, "constants")) return false;
  exec->constants = mb_new_items(count, sizeof(*exec->constants));
  if (!exec->constants) return false;
  while (exec->constant_count < count)
    if (!read_relax_constant(c, exec)) return false;
  return true;
}

/* Scopes of memory that devices have: the host has one, whatever they say. */
static bool read_scopes(struct mb_cursor *c, struct relax_executable *exec) {
  uint64_t count = 0;
  if (!mb_read_count(c, &count, 16, "scopes")) return false;
  exec->scopes = mb_new_items(count, sizeof(*exec->scopes));
  if (!exec->scopes) return false;
  for (; exec->scope_count < count; exec->scope_count++) {
    struct relax_scope *scope = &exec->scopes[exec->scope_count];
    if (!read_i64(c, &scope->constant, "scopes.constant") ||
        !mb_read_string(c, &scope->name, "scopes.scope"))
      return false;
  }
  return true;
}

static bool check_scopes(const struct mb_cursor *c, uint64_t at,
                         const struct relax_executable *exec) {
  for (size_t i = 0; i < exec->scope_count; i++)
    if ((uint64_t)exec->scopes[i].constant >= exec->constant_count)
      return bad_program(c, at, "a memory scope is of a constant that is not there");
  return true;
}

/* ---- instructions ---------------------------------------------------------------------------- */

static const char UNKNOWN_OPCODE[] = "an opcode is not known";

/* The instruction whose words are from `at` to `end`. */
static const char *decode(const struct relax_executable *exec, size_t at, size_t end,
                          struct relax_instruction *out) {
  static const uint8_t sizes[] = {
      [RELAX_CALL] = 4, [RELAX_RET] = 2, [RELAX_GOTO] = 2, [RELAX_IF] = 3};
  const int64_t *words = exec->words + at;
  const size_t left = end - at;
  if (!left || words[0] < RELAX_CALL || words[0] > RELAX_IF) return UNKNOWN_OPCODE;
  out->opcode = (enum relax_opcode)words[0];
  if (left < sizes[out->opcode]) return "an instruction is cut off";
  out->target = words[1];
  if (out->opcode == RELAX_IF) out->other = words[2];
  if (out->opcode != RELAX_CALL) return NULL;
  out->other = words[1];
  out->target = words[2];
  if (words[3] < 0 || (uint64_t)words[3] > left - 4) return "a call has more operands than words";
  if (words[3] > INT16_MAX) return "a call has more than 32767 operands";
  out->count = (uint32_t)words[3];
  out->operands = words + 4;
  return NULL;
}

/* Each instruction has its own words, in order, as TVM writes them: so none is looked at twice. */
static bool read_instructions(struct mb_cursor *c, struct relax_executable *exec) {
  int64_t *offsets = NULL;
  uint64_t at = c->pos;
  const char *problem = NULL;
  bool ok = read_words(c, &offsets, &exec->code_count, "instructions.offsets") &&
            read_words(c, &exec->words, &exec->word_count, "instructions");
  if (ok) exec->code = mb_new_items(exec->code_count, sizeof(*exec->code));
  ok = ok && exec->code;
  for (size_t i = 0; ok && !problem && i < exec->code_count; i++) {
    const bool last = i + 1 == exec->code_count;
    int64_t end = last ? (int64_t)exec->word_count : offsets[i + 1];
    if (offsets[i] < 0 || end < offsets[i] || (uint64_t)end > exec->word_count)
      problem = "places of instructions are not in order, or outside of the code";
    else
      problem = decode(exec, (size_t)offsets[i], (size_t)end, &exec->code[i]);
  }
  free(offsets);
  return ok && (!problem || bad_program(c, at, problem));
}

/* ---- what instructions of a function refer to ------------------------------------------------ */

/* A register that is read: one of the function's, or, where `special`, one of the two others. */
static bool is_register(const struct relax_function *f, int64_t i, bool special) {
  return (i >= 0 && i < f->register_file) || i == RELAX_VOID || (special && i == RELAX_CONTEXT);
}

static void count_register(struct relax_function *f, int64_t i) {
  if (i < RELAX_VOID && (size_t)i >= f->registers) f->registers = (size_t)i + 1;
}

static const char *check_operand(const struct relax_executable *exec, struct relax_function *f,
                                 int64_t word) {
  const int64_t value = relax_operand_value(word);
  switch (relax_operand_kind(word)) {
    case RELAX_REGISTER:
      if (!is_register(f, value, true)) return "a register that the function does not have";
      count_register(f, value);
      return NULL;
    case RELAX_IMMEDIATE: return NULL;
    case RELAX_CONSTANT:
      return value >= 0 && (uint64_t)value < exec->constant_count ? NULL
                                                                  : "a constant that is not there";
    case RELAX_FUNCTION:
      return value >= 0 && (uint64_t)value < exec->function_count ? NULL
                                                                  : "a function that is not there";
  }
  return "an operand of a kind that is not known";
}

static const char *check_jump(const struct relax_function *f, size_t at, int64_t offset) {
  const int64_t least = (int64_t)f->start - (int64_t)at, most = (int64_t)f->end - (int64_t)at;
  return offset >= least && offset < most ? NULL : "a jump out of the function";
}

static const char *check_call_instruction(const struct relax_executable *exec,
                                          struct relax_function *f,
                                          const struct relax_instruction *in) {
  const char *problem = NULL;
  if (in->target < 0 || (uint64_t)in->target >= exec->function_count)
    return "a call of a function that is not there";
  if (in->other < 0 || (in->other < RELAX_VOID && in->other >= f->register_file))
    return "a result goes to a register that the function does not have";
  count_register(f, in->other);
  if (in->count > f->operands) f->operands = in->count;
  for (uint32_t i = 0; !problem && i < in->count; i++)
    problem = check_operand(exec, f, in->operands[i]);
  return problem;
}

static const char *check_read(struct relax_function *f, int64_t i) {
  if (!is_register(f, i, false)) return "a register that the function does not have";
  count_register(f, i);
  return NULL;
}

static const char *check_if(struct relax_function *f, size_t at,
                            const struct relax_instruction *in) {
  const char *problem = check_read(f, in->target);
  if (problem) return problem;
  if (in->other <= 1) return "an If whose other way is not ahead of it";
  return check_jump(f, at, in->other);
}

static const char *check_instruction(const struct relax_executable *exec, struct relax_function *f,
                                     size_t at) {
  const struct relax_instruction *in = &exec->code[at];
  switch (in->opcode) {
    case RELAX_CALL: return check_call_instruction(exec, f, in);
    case RELAX_RET: return check_read(f, in->target);
    case RELAX_GOTO: return check_jump(f, at, in->target);
    case RELAX_IF: return check_if(f, at, in);
  }
  return UNKNOWN_OPCODE;
}

static bool check_code(const struct mb_cursor *c, struct relax_executable *exec,
                       struct relax_function *f) {
  const char *problem = NULL;
  size_t i = f->start;
  for (; !problem && i < f->end; i++) problem = check_instruction(exec, f, i);
  const enum relax_opcode last = f->end > f->start ? exec->code[f->end - 1].opcode : RELAX_CALL;
  if (!problem && f->num_args >= 0 && last != RELAX_RET && last != RELAX_GOTO)
    problem = "the function does not end with Ret or Goto";
  if (!problem) return true;
  (void)mb_fail_format("payload", (int64_t)c->pos, c->entry,
                       "bytecode: function '%.64s', instruction %zu: %s", f->name,
                       i - f->start - (i > f->start), problem);
  return false;
}

/* Functions share no instructions, so each of these is checked once. */
static bool check_relax_functions(const struct mb_cursor *c, struct relax_executable *exec) {
  size_t sum = 0;
  for (size_t i = 0; i < exec->function_count; i++) {
    struct relax_function *f = &exec->functions[i];
    if (f->kind != RELAX_CODE) continue;
    if (f->end > exec->code_count)
      return bad_program(c, c->pos, "a function has instructions behind the last one");
    sum += f->end - f->start;
    if (sum > exec->code_count) return bad_program(c, c->pos, "functions share instructions");
    if (!check_code(c, exec, f)) return false;
  }
  return true;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool read_relax_header(struct mb_cursor *c, bool *has_scopes) {
  uint64_t magic = 0;
  struct mb_slice version;
  if (!mb_read_u64(c, &magic, "bytecode.magic")) return false;
  if (magic != MAGIC_1 && magic != MAGIC_2)
    return bad_program(c, c->pos - 8, "it does not start as a program of the virtual machine");
  *has_scopes = magic == MAGIC_2;
  if (!mb_read_string(c, &version, "bytecode.version")) return false;
  return mb_slice_is(version, RELAX_VERSION) ||
         bad_program(c, c->pos - version.size,
                     "its version is not " RELAX_VERSION ", which TVM 0.16 to " MB_TVM_LAST
                     " write");
}

static bool read_all(struct mb_cursor *c, struct relax_executable *exec) {
  if (!read_relax_header(c, &exec->has_scopes) || !read_functions(c, exec)) return false;
  const uint64_t scopes = c->pos;
  if ((exec->has_scopes && !read_scopes(c, exec)) || !read_relax_constants(c, exec) ||
      !check_scopes(c, scopes, exec) || !read_instructions(c, exec) ||
      !check_relax_functions(c, exec))
    return false;
  return !mb_left(c) || bad_program(c, c->pos, "bytes follow the last instruction");
}

int relax_executable_read(struct relax_executable *out, const void *code, uint64_t size,
                          int64_t entry) {
  struct mb_cursor c = {code, 0, size, entry};
  return read_all(&c, out) ? MBLOB_OK : mblob_last_error_info()->status;
}

void relax_executable_free(struct relax_executable *exec) {
  mb_map_free(&exec->by_name);
  for (size_t i = 0; i < exec->function_count; i++) {
    struct relax_function *f = &exec->functions[i];
    for (size_t k = 0; k < f->param_count; k++) free(f->params[k]);
    free(f->params);
    free(f->name);
  }
  for (size_t i = 0; i < exec->constant_count; i++) {
    free(exec->constants[i].array.view.shape);
    free(exec->constants[i].extents);
  }
  free(exec->functions);
  free(exec->scopes);
  free(exec->constants);
  free(exec->code);
  free(exec->words);
}
