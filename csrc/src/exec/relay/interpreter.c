/* The loop of the virtual machine: calls and jumps. Calls of the program are frames on the heap,
 * not C recursion. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "base/base.h"
#include "exec/relay/machine.h"

/* ---- frames ---------------------------------------------------------------------------------- */

static struct vm_frame *top(struct vm_machine *m) { return &m->frames[m->frame_count - 1]; }

static struct vm_value *registers_of(struct vm_machine *m) {
  return m->registers + top(m)->registers;
}

static int reserve_registers(struct vm_machine *m, size_t count) {
  if (count > VM_REGISTER_TOTAL_LIMIT - m->register_count)
    return mb_fail(MBLOB_E_MEMORY, "more than %u registers: the program calls itself too deeply",
                   VM_REGISTER_TOTAL_LIMIT);
  size_t needed = m->register_count + count,
         capacity = m->register_capacity ? m->register_capacity : 64;
  while (capacity < needed) capacity *= 2;
  if (capacity == m->register_capacity) return MBLOB_OK;
  struct vm_value *grown = realloc(m->registers, capacity * sizeof(*grown));
  if (!grown) return mb_fail_memory(capacity * sizeof(*grown));
  m->registers = grown;
  m->register_capacity = capacity;
  return MBLOB_OK;
}

/* A frame with empty registers. */
static int push_frame(struct vm_machine *m, size_t function, size_t return_register) {
  const struct vm_function *f = &m->exec->functions[function];
  if (m->frame_count == VM_FRAME_LIMIT)
    return mb_fail(MBLOB_E_MEMORY, "more than %u calls inside each other", VM_FRAME_LIMIT);
  if (m->frame_count == m->frame_capacity) {
    size_t capacity = m->frame_capacity ? 2 * m->frame_capacity : 16;
    struct vm_frame *grown = realloc(m->frames, capacity * sizeof(*grown));
    if (!grown) return mb_fail_memory(capacity * sizeof(*grown));
    m->frames = grown;
    m->frame_capacity = capacity;
  }
  int status = reserve_registers(m, f->register_count);
  if (status) return status;
  m->frames[m->frame_count++] = (struct vm_frame){f, 0, m->register_count, return_register};
  for (size_t i = 0; i < f->register_count; i++)
    m->registers[m->register_count++] = (struct vm_value){.kind = VM_NOTHING};
  return MBLOB_OK;
}

static void pop_frame(struct vm_machine *m) {
  size_t first = top(m)->registers;
  while (m->register_count > first) vm_value_clear(&m->registers[--m->register_count]);
  m->frame_count--;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static struct vm_value shared(struct vm_value value) {
  vm_value_retain(value);
  return value;
}

/* The arguments are registers of the caller's frame. */
static int invoke(struct vm_machine *m, const int64_t *f) {
  size_t caller = top(m)->registers;
  int status = push_frame(m, (size_t)f[0], (size_t)f[2]);
  if (status) return status;
  struct vm_value *callee = registers_of(m), *from = m->registers + caller;
  for (int64_t i = 0; i < f[1]; i++) callee[i] = shared(from[f[3 + i]]);
  return MBLOB_OK;
}

/* The first arguments are what the closure captured. */
static int vm_invoke_closure(struct vm_machine *m, const int64_t *f) {
  size_t caller = top(m)->registers;
  const struct vm_value value = m->registers[caller + (size_t)f[0]];
  if (value.kind != VM_CLOSURE)
    return mb_fail(MBLOB_E_FORMAT, "register %lld has %s, expected a closure", (long long)f[0],
                   vm_kind_name(value.kind));
  const struct vm_compound *closure = value.u.compound; /* the caller's register keeps it */
  size_t given = closure->count + (size_t)f[1],
         expected = m->exec->functions[closure->tag].param_count;
  if (given != expected)
    return mb_fail(MBLOB_E_FORMAT, "closure of '%s': %zu arguments, expected %zu",
                   m->exec->functions[closure->tag].name, given, expected);
  int status = push_frame(m, (size_t)closure->tag, (size_t)f[2]);
  if (status) return status;
  struct vm_value *callee = registers_of(m), *from = m->registers + caller;
  for (size_t i = 0; i < closure->count; i++) callee[i] = shared(closure->fields[i]);
  for (int64_t i = 0; i < f[1]; i++) callee[closure->count + (size_t)i] = shared(from[f[3 + i]]);
  return MBLOB_OK;
}

static void vm_ret(struct vm_machine *m, const int64_t *f) {
  struct vm_value value = shared(registers_of(m)[f[0]]);
  size_t place = top(m)->return_register;
  pop_frame(m);
  if (!m->frame_count) {
    vm_register_set(&m->result, value);
    return;
  }
  vm_register_set(&registers_of(m)[place], value);
  top(m)->pc++;
}

static int vm_branch(struct vm_machine *m, const int64_t *f) {
  int64_t test = 0, target = 0;
  int status = vm_register_scalar(registers_of(m), f[0], &test);
  if (!status) status = vm_register_scalar(registers_of(m), f[1], &target);
  if (!status) top(m)->pc += (size_t)(test == target ? f[2] : f[3]);
  return status;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static int vm_step(struct vm_machine *m) {
  struct vm_frame *frame = top(m);
  const struct vm_instruction *instruction = &frame->function->code[frame->pc];
  const int64_t *fields = frame->function->fields + instruction->fields;
  int status = MBLOB_OK;
  if (m->instruction_limit && m->executed++ == m->instruction_limit)
    return mb_fail(MBLOB_E_KERNEL, "the limit of %llu instructions is reached",
                   (unsigned long long)m->instruction_limit);
  switch (instruction->opcode) {
    case VM_INVOKE: return invoke(m, fields);
    case VM_INVOKE_CLOSURE: return vm_invoke_closure(m, fields);
    case VM_RET: vm_ret(m, fields); return MBLOB_OK;
    case VM_IF: return vm_branch(m, fields);
    case VM_GOTO: frame->pc += (size_t)fields[0]; return MBLOB_OK;
    case VM_FATAL:
      return mb_fail(MBLOB_E_KERNEL, "the program reports a fatal error (no case matched)");
    default: status = vm_operations[instruction->opcode](m, registers_of(m), fields);
  }
  if (!status) frame->pc++;
  return status;
}

int vm_machine_run(struct vm_machine *m, size_t index, const struct vm_value *args) {
  int status = push_frame(m, index, 0);
  m->executed = 0;
  vm_value_clear(&m->result);
  for (size_t i = 0; !status && i < m->exec->functions[index].param_count; i++)
    m->registers[i] = shared(args[i]);
  while (!status && m->frame_count) {
    status = mb_interrupt_check(&m->steps);
    if (status) break;
    status = m->profile ? vm_profile_step(m, vm_step) : vm_step(m);
    if (status) status = vm_locate(m, index, args, status);
  }
  while (m->frame_count) pop_frame(m);
  return status;
}
