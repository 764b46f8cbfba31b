/* The functions of a program: read, brought into the latest form, checked. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "base/base.h"
#include "exec/common/common.h"
#include "exec/relay/executable.h"

#define INSTRUCTION_BYTES 24 /* of the smallest: count, hash, opcode */
#define STORAGE_ALIGNMENT_LIMIT 65536

/* What is being read, for errors. */
struct code_place {
  struct mb_cursor *cursor;
  struct vm_executable *exec;
  struct vm_function *function;
  size_t pc;
};

static bool bad_code(const struct code_place *p, const char *text) {
  const char *name = p->function->name;
  int64_t at = (int64_t)p->cursor->pos, entry = p->cursor->entry;
  if (name && p->function->code)
    (void)mb_fail_format("payload", at, entry, "bytecode: function '%.64s', instruction %zu: %s",
                         name, p->pc, text);
  else if (name)
    (void)mb_fail_format("payload", at, entry, "bytecode: function '%.64s': %s", name, text);
  else
    (void)mb_fail_format("payload", at, entry, "bytecode: function %zu: %s",
                         (size_t)(p->function - p->exec->functions), text);
  return false;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* A decimal number, as TVM writes counts here. */
static bool read_decimal(const struct code_place *p, const char *text, uint64_t limit,
                         size_t *out) {
  uint64_t value = 0;
  const char *c = text;
  for (; *c >= '0' && *c <= '9' && value <= limit; c++) value = value * 10 + (uint64_t)(*c - '0');
  *out = (size_t)value;
  return (c != text && !*c && value <= limit) || bad_code(p, "its header has an impossible count");
}

static bool read_function_header(struct code_place *p, bool param_devices) {
  struct mb_cursor *c = p->cursor;
  struct vm_function *f = p->function;
  struct vm_names header = {0}, params = {0};
  uint64_t devices = 0, device = 0;
  bool ok = vm_names_read(c, &header, "function");
  if (ok && header.count != 3) ok = bad_code(p, "its header has not three texts");
  if (ok) {
    f->name = header.names[0];
    header.names[0] = NULL;
    ok = read_decimal(p, header.names[1], VM_REGISTER_LIMIT, &f->register_count) &&
         read_decimal(p, header.names[2], mb_left(c) / INSTRUCTION_BYTES, &f->code_count);
  }
  vm_names_free(&header);
  ok = ok && vm_names_read(c, &params, "function.params");
  f->params = params.names;
  f->param_count = params.count;
  if (!ok) return false;
  if (f->param_count > f->register_count)
    return bad_code(p, "it has more parameters than registers");
  if (!f->code_count) return bad_code(p, "it has no instructions");
  if (!param_devices) return true;
  if (!mb_read_count(c, &devices, 8, "function.devices")) return false;
  if (devices != f->param_count)
    return bad_code(p, "counts of parameters and of their devices differ");
  for (uint64_t i = 0; i < devices; i++)
    if (!mb_read_u64(c, &device, "function.devices") ||
        !vm_device_check(c, p->exec, (int64_t)device))
      return false;
  return true;
}

/* ---- one instruction ------------------------------------------------------------------------- */

static bool grow_code(struct vm_function *f, size_t count, size_t *capacity) {
  if (count <= *capacity - f->field_count) return true;
  size_t larger = *capacity + count > 2 * *capacity ? *capacity + count + 64 : 2 * *capacity;
  int64_t *grown = realloc(f->fields, larger * sizeof(*grown));
  if (!grown) return !mb_fail_memory(larger * sizeof(*grown));
  f->fields = grown;
  *capacity = larger;
  return true;
}

/* The form of `opcode` with that many numbers. */
static const char *form_of(enum vm_opcode opcode, const int64_t *numbers, size_t count) {
  const struct vm_opcode_info *info = &vm_opcodes[opcode];
  const char *forms[] = {info->fields, info->older[0], info->older[1]};
  for (size_t i = 0; i < 3; i++) {
    if (i && !*forms[i]) continue;
    size_t size = vm_form_size(forms[i]);
    if (count < size) continue;
    if (vm_form_has_list(forms[i])
            ? numbers[vm_form_place(forms[i], VM_COUNT)] == (int64_t)(count - size)
            : count == size)
      return forms[i];
  }
  return NULL;
}

/* Add the numbers of an instruction to the fields of the function, in the latest form. Forms
 * differ by fields that are left out, never by their order. */
static void add_fields(struct vm_function *f, enum vm_opcode opcode, const char *form,
                       const int64_t *numbers, size_t count) {
  const char *latest = vm_opcodes[opcode].fields;
  size_t taken = 0;
  for (; *latest && *latest != VM_REGISTERS && *latest != VM_SHAPE; latest++) {
    bool has = *form == *latest;
    for (size_t i = *latest == VM_DTYPE ? 3 : 1; i; i--)
      f->fields[f->field_count++] = has ? numbers[taken++] : 0;
    form += has;
  }
  while (taken < count) f->fields[f->field_count++] = numbers[taken++];
}

static uint64_t fold(uint64_t hash, uint64_t value) {
  return hash ^ (value + UINT64_C(0x9e3779b9) + (hash << 6) + (hash >> 2));
}

static bool read_instruction(struct code_place *p, size_t *capacity) {
  struct mb_cursor *c = p->cursor;
  struct vm_function *f = p->function;
  uint64_t count = 0, hash = 0, opcode = 0;
  if (!mb_read_count(c, &count, 8, "instruction")) return false;
  if (count < 2) return bad_code(p, "it has no opcode");
  if (!mb_read_u64(c, &hash, "instruction.hash") || !mb_read_u64(c, &opcode, "instruction.opcode"))
    return false;
  if (opcode >= VM_OPCODE_COUNT) return bad_code(p, "unknown opcode");
  count -= 2;
  int64_t *numbers = mb_new_items(count, sizeof(*numbers));
  if (!numbers) return false;
  uint64_t folded = opcode, number = 0;
  bool ok = true;
  for (uint64_t i = 0; ok && i < count; i++) {
    ok = mb_read_u64(c, &number, "instruction.fields");
    numbers[i] = (int64_t)number;
    folded = fold(folded, number);
  }
  if (ok && folded != hash) ok = bad_code(p, "its hash differs from what it says");
  const char *form = ok ? form_of((enum vm_opcode)opcode, numbers, mb_size(count)) : NULL;
  if (ok && !form) ok = bad_code(p, "a wrong number of fields for its opcode");
  ok = ok && grow_code(f, mb_size(count + vm_form_size(vm_opcodes[opcode].fields)), capacity);
  if (ok) {
    f->code[p->pc] = (struct vm_instruction){(enum vm_opcode)opcode, f->field_count};
    add_fields(f, (enum vm_opcode)opcode, form, numbers, mb_size(count));
  }
  free(numbers);
  return ok;
}

static bool read_vm_function(struct code_place *p, bool param_devices) {
  struct vm_function *f = p->function;
  size_t capacity = 0;
  if (!read_function_header(p, param_devices)) return false;
  f->code = mb_new_items(f->code_count, sizeof(*f->code));
  if (!f->code) return false;
  for (p->pc = 0; p->pc < f->code_count; p->pc++)
    if (!read_instruction(p, &capacity)) return false;
  return true;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static bool check_code_dtype(const struct code_place *p, const int64_t *t) {
  bool ok = t[0] >= 0 && t[0] <= UINT8_MAX && t[1] > 0 && t[1] <= UINT8_MAX && t[2] > 0 &&
            t[2] <= UINT16_MAX;
  return ok || bad_code(p, "an impossible data type");
}

static bool below(int64_t value, size_t limit) { return value >= 0 && (uint64_t)value < limit; }

static bool check_field(const struct code_place *p, enum vm_field kind, const int64_t *value) {
  const struct vm_executable *exec = p->exec;
  switch (kind) {
    case VM_REGISTER:
    case VM_TARGET:
      return below(*value, p->function->register_count) || bad_code(p, "no such register");
    case VM_FUNCTION: return below(*value, exec->function_count) || bad_code(p, "no such function");
    case VM_PRIMITIVE:
      return below(*value, exec->primitives.count) || bad_code(p, "no such primitive");
    case VM_CONSTANT: return below(*value, exec->constant_count) || bad_code(p, "no such constant");
    case VM_DEVICE: return vm_device_check(p->cursor, p->exec, *value);
    case VM_JUMP:
      /* 0 would stay for ever. */
      return (*value && *value >= -(int64_t)p->pc &&
              *value < (int64_t)(p->function->code_count - p->pc)) ||
             bad_code(p, "a jump to outside of the function, or to itself");
    case VM_INDEX: return *value >= 0 || bad_code(p, "a negative index");
    case VM_ALIGNMENT:
      return (*value > 0 && *value <= STORAGE_ALIGNMENT_LIMIT && !(*value & (*value - 1))) ||
             bad_code(p, "an impossible alignment");
    case VM_DTYPE: return check_code_dtype(p, value);
    case VM_COUNT:
      return below(*value, (size_t)INT32_MAX) || bad_code(p, "a list that is too long");
    case VM_SIZE: /* check_call */
    case VM_NUMBER:
    case VM_REGISTERS:
    case VM_SHAPE: break;
  }
  return true;
}

static bool check_list(const struct code_place *p, enum vm_field kind, const int64_t *list,
                       int64_t count) {
  if (kind == VM_SHAPE && count > MB_NDIM_LIMIT) return bad_code(p, "too many dimensions");
  for (int64_t i = 0; i < count; i++) {
    if (kind == VM_REGISTERS && !check_field(p, VM_REGISTER, &list[i])) return false;
    if (kind == VM_SHAPE && list[i] < 0) return bad_code(p, "a negative dimension");
  }
  return true;
}

/* What several fields together must fulfil. */
static bool check_invocation(const struct code_place *p, enum vm_opcode opcode, const int64_t *f) {
  switch (opcode) {
    case VM_INVOKE:
      return (size_t)f[1] == p->exec->functions[f[0]].param_count ||
             bad_code(p, "a wrong number of arguments");
    case VM_ALLOC_CLOSURE:
      return (size_t)f[1] <= p->exec->functions[f[0]].param_count ||
             bad_code(p, "more captures than parameters");
    case VM_ALLOC_STORAGE: return f[6] > 0 || check_field(p, VM_REGISTER, &f[0]);
    case VM_INVOKE_PACKED: return f[2] <= f[1] || bad_code(p, "more outputs than arguments");
    default: return true;
  }
}

static bool check_vm_function(struct code_place *p) {
  const struct vm_function *f = p->function;
  for (p->pc = 0; p->pc < f->code_count; p->pc++) {
    const struct vm_instruction *instruction = &f->code[p->pc];
    const char *form = vm_opcodes[instruction->opcode].fields;
    const int64_t *fields = f->fields + instruction->fields, *next = fields;
    for (; *form && *form != VM_REGISTERS && *form != VM_SHAPE; form++) {
      if (!check_field(p, (enum vm_field) * form, next)) return false;
      next += *form == VM_DTYPE ? 3 : 1;
    }
    if (*form) {
      int64_t count = fields[vm_form_place(vm_opcodes[instruction->opcode].fields, VM_COUNT)];
      if (!check_list(p, (enum vm_field) * form, next, count)) return false;
    }
    if (!check_invocation(p, instruction->opcode, fields)) return false;
  }
  enum vm_opcode last = f->code[--p->pc].opcode;
  return last == VM_RET || last == VM_GOTO || last == VM_FATAL || last == VM_IF ||
         bad_code(p, "the function does not end in Ret, Goto, If or Fatal");
}

/* ---- all functions --------------------------------------------------------------------------- */

/* Functions stand where their names stand among the globals. */
static bool place_functions(struct mb_cursor *c, struct vm_executable *exec) {
  struct vm_function *placed = mb_new_items(exec->function_count + 1, sizeof(*placed));
  if (!placed) return false;
  bool ok = exec->globals.count == exec->function_count;
  for (size_t i = 0; ok && i < exec->function_count; i++)
    ok = !mb_map_get(&exec->by_name, exec->globals.names[i]) &&
         mb_map_put(&exec->by_name, exec->globals.names[i], &placed[i]);
  size_t done = 0;
  for (; ok && done < exec->function_count; done += ok) {
    struct vm_function *place = mb_map_get(&exec->by_name, exec->functions[done].name);
    ok = place && !place->name;
    if (ok) *place = exec->functions[done];
  }
  if (!ok) {
    free(placed);
    mb_map_free(&exec->by_name);
    (void)mb_fail_format("payload", (int64_t)c->pos, c->entry,
                         "bytecode: functions and globals differ");
    return false;
  }
  free(exec->functions);
  exec->functions = placed;
  return true;
}

bool vm_code_read(struct mb_cursor *c, struct vm_executable *exec, bool param_devices) {
  uint64_t count = 0;
  if (!mb_read_count(c, &count, 16 + INSTRUCTION_BYTES, "functions")) return false;
  exec->functions = mb_new_items(count + 1, sizeof(*exec->functions));
  if (!exec->functions) return false;
  while (exec->function_count < count) {
    struct code_place p = {c, exec, &exec->functions[exec->function_count++], 0};
    if (!read_vm_function(&p, param_devices)) return false;
  }
  if (!place_functions(c, exec)) return false;
  for (size_t i = 0; i < exec->function_count; i++) {
    struct code_place p = {c, exec, &exec->functions[i], 0};
    if (!check_vm_function(&p)) return false;
  }
  return true;
}
