/* Adds to an error its place in the program, and the caller's value that it is about. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "exec/common/common.h"
#include "exec/relay/machine.h"

/* True if a value is what the caller gave, or has its memory. */
static bool is_same_value(struct vm_value given, struct vm_value value) {
  if (given.kind != value.kind) return false;
  if (given.kind != VM_ARRAY) return given.u.compound == value.u.compound;
  return given.u.array == value.u.array ||
         (given.u.array->data && given.u.array->data == value.u.array->data);
}

static bool is_from(struct vm_value given, struct vm_value value) {
  bool found = is_same_value(given, value);
  for (size_t i = 0; !found && given.kind == VM_ADT && i < given.u.compound->count; i++)
    found = is_same_value(given.u.compound->fields[i], value);
  return found;
}

/* The first register that the instruction reads and that is from `given`; NULL if none is. */
static const struct vm_value *find_read(const struct vm_machine *m, const struct vm_frame *frame,
                                        const struct vm_instruction *instruction,
                                        struct vm_value given) {
  const char *form = vm_opcodes[instruction->opcode].fields;
  const int64_t *fields = frame->function->fields + instruction->fields;
  const struct vm_value *registers = m->registers + frame->registers;
  size_t counted = vm_form_place(form, VM_COUNT);
  for (size_t place = 0; *form; place += *form++ == VM_DTYPE ? 3 : 1) {
    int64_t count = *form == VM_REGISTER ? 1 : *form == VM_REGISTERS ? fields[counted] : 0;
    for (int64_t i = 0; i < count; i++)
      if (is_from(given, registers[fields[place + (size_t)i]]))
        return &registers[fields[place + (size_t)i]];
  }
  return NULL;
}

/* " of input 'data' (float64[1,64])" in `text`, for all inputs of the call that the instruction
 * reads, as it finds them. Whether there are any. */
static bool put_inputs(const struct vm_machine *m, const struct vm_instruction *instruction,
                       const struct vm_function *called, const struct vm_value *args, char *text,
                       size_t room) {
  char dtype[MB_DTYPE_TEXT], shape[MB_SHAPE_TEXT];
  size_t used = 0;
  for (size_t i = 0; i < called->param_count && used < room; i++) {
    const struct vm_value *found =
        find_read(m, &m->frames[m->frame_count - 1], instruction, args[i]);
    if (!found) continue;
    bool is_array = found->kind == VM_ARRAY;
    used += (size_t)snprintf(
        text + used, room - used, "%s input '%.64s' (%s%s)", used ? "," : " of", called->params[i],
        is_array ? mb_dtype_text(found->u.array->dtype, dtype) : vm_kind_name(found->kind),
        is_array ? mb_shape_text(found->u.array, shape) : "");
  }
  return used > 0;
}

int vm_locate(const struct vm_machine *m, size_t called, const struct vm_value *args, int status) {
  const struct vm_frame *frame = &m->frames[m->frame_count - 1];
  const struct vm_instruction *instruction = &frame->function->code[frame->pc];
  char text[768], primitive[128] = "", inputs[512] = "";
  if (instruction->opcode == VM_INVOKE_PACKED)
    (void)snprintf(primitive, sizeof(primitive), " '%.100s'",
                   m->exec->primitives.names[frame->function->fields[instruction->fields]]);
  bool found =
      put_inputs(m, instruction, &m->exec->functions[called], args, inputs, sizeof(inputs));
  (void)snprintf(text, sizeof(text), "function '%.64s', instruction %zu (%s%s%s)",
                 frame->function->name, frame->pc, vm_opcodes[instruction->opcode].name, primitive,
                 inputs);
  mb_error_prefix(text);
  /* The program was checked; what it makes of other values than it takes is not its fault. */
  return found && status == MBLOB_E_FORMAT ? mb_error_restatus(MBLOB_E_ARGUMENT) : status;
}
