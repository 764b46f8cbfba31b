/* Programs of the virtual machine as text, for people. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "exec/common/common.h"
#include "exec/relay/executable.h"

static char *finish_vm_listing(FILE *out, char **text, size_t size) {
  (void)fclose(out);
  if (!*text) (void)mb_fail_memory(size);
  return *text;
}

static void write_field(FILE *out, const struct vm_executable *exec, enum vm_field kind,
                        const int64_t *f) {
  char dtype[MB_DTYPE_TEXT];
  switch (kind) {
    case VM_REGISTER: (void)fprintf(out, " $%lld", (long long)*f); break;
    case VM_TARGET: (void)fprintf(out, " -> $%lld", (long long)*f); break;
    case VM_FUNCTION: (void)fprintf(out, " %s", exec->functions[*f].name); break;
    case VM_PRIMITIVE: (void)fprintf(out, " %s", exec->primitives.names[*f]); break;
    case VM_CONSTANT: (void)fprintf(out, " const[%lld]", (long long)*f); break;
    case VM_DEVICE: (void)fprintf(out, " device %lld", (long long)*f); break;
    case VM_JUMP: (void)fprintf(out, " %+lld", (long long)*f); break;
    case VM_DTYPE:
      (void)fprintf(
          out, " %s",
          mb_dtype_text((DLDataType){(uint8_t)f[0], (uint8_t)f[1], (uint16_t)f[2]}, dtype));
      break;
    case VM_INDEX:
    case VM_NUMBER:
    case VM_ALIGNMENT:
    case VM_COUNT: (void)fprintf(out, " %lld", (long long)*f); break;
    case VM_SIZE:
    case VM_REGISTERS:
    case VM_SHAPE: break;
  }
}

static void write_instruction(FILE *out, const struct vm_executable *exec,
                              const struct vm_function *function,
                              const struct vm_instruction *instruction) {
  const char *form = vm_opcodes[instruction->opcode].fields;
  const int64_t *fields = function->fields + instruction->fields, *next = fields;
  size_t count_place = vm_form_place(form, VM_COUNT);
  (void)fputs(vm_opcodes[instruction->opcode].name, out);
  for (; *form && *form != VM_REGISTERS && *form != VM_SHAPE; form++) {
    if (*form == VM_SIZE && fields[count_place] == 0) write_field(out, exec, VM_REGISTER, next);
    if (*form != VM_COUNT) write_field(out, exec, (enum vm_field) * form, next);
    next += *form == VM_DTYPE ? 3 : 1;
  }
  if (*form) {
    (void)fputs(*form == VM_SHAPE ? " [" : " (", out);
    for (int64_t i = 0; i < fields[count_place]; i++)
      (void)fprintf(out, *form == VM_SHAPE ? "%s%lld" : "%s$%lld", i ? ", " : "",
                    (long long)next[i]);
    (void)fputs(*form == VM_SHAPE ? "]" : ")", out);
  }
  (void)fputc('\n', out);
}

char *vm_list_bytecode(const struct vm_executable *exec) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return (void)mb_fail_memory(0), NULL;
  for (size_t i = 0; i < exec->function_count; i++) {
    const struct vm_function *f = &exec->functions[i];
    (void)fprintf(out, "%sVM Function[%zu]: %s(", i ? "\n" : "", i, f->name);
    for (size_t p = 0; p < f->param_count; p++)
      (void)fprintf(out, "%s%s", p ? ", " : "", f->params[p]);
    (void)fprintf(out, ")\n# reg file size = %zu\n# instruction count = %zu\n", f->register_count,
                  f->code_count);
    for (size_t pc = 0; pc < f->code_count; pc++) {
      (void)fprintf(out, "%4zu: ", pc);
      write_instruction(out, exec, f, &f->code[pc]);
    }
  }
  return finish_vm_listing(out, &text, size);
}

static void write_names(FILE *out, const char *title, const struct vm_names *names) {
  (void)fprintf(out, "  %s (#%zu): [", title, names->count);
  for (size_t i = 0; i < names->count; i++)
    (void)fprintf(out, "%s%s", i ? ", " : "", names->names[i]);
  (void)fputs("]\n", out);
}

char *vm_list_stats(const struct vm_executable *exec) {
  char *text = NULL, shape[MB_SHAPE_TEXT];
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return (void)mb_fail_memory(0), NULL;
  (void)fprintf(out, "Relay VM executable statistics:\n  Written by TVM %s, bytecode of %s\n",
                exec->version, exec->written_as);
  (void)fprintf(out, "  Constant shapes (#%zu): [", exec->constant_count);
  for (size_t i = 0; i < exec->constant_count; i++) {
    const struct mb_stored_array *c = &exec->constants[i];
    const char *what = !c->view.data && c->name ? "late bound"
                       : c->view.ndim           ? mb_shape_text(&c->view, shape)
                                                : "scalar";
    (void)fprintf(out, "%s%s", i ? ", " : "", what);
  }
  (void)fputs("]\n", out);
  write_names(out, "Globals", &exec->globals);
  write_names(out, "Primitive ops", &exec->primitives);
  return finish_vm_listing(out, &text, size);
}

char *vm_list_constants(const struct vm_executable *exec) {
  char *text = NULL, shape[MB_SHAPE_TEXT], dtype[MB_DTYPE_TEXT];
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return (void)mb_fail_memory(0), NULL;
  for (size_t i = 0; i < exec->constant_count; i++) {
    const struct mb_stored_array *c = &exec->constants[i];
    (void)fprintf(out, "VM Const[%zu]: ", i);
    if (c->name) (void)fprintf(out, "late bound '%s'%s", c->name, c->view.data ? ", " : "\n");
    if (c->view.data || !c->name)
      (void)fprintf(out, "%s%s\n", mb_dtype_text(c->view.dtype, dtype),
                    mb_shape_text(&c->view, shape));
  }
  return finish_vm_listing(out, &text, size);
}

char *vm_list_devices(const struct vm_executable *exec) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return (void)mb_fail_memory(0), NULL;
  for (size_t i = 0; i < exec->device_count; i++)
    (void)fprintf(out, "VM VirtualDevice[%zu]: device type %d, id %d\n", i,
                  (int)exec->devices[i].device_type, exec->devices[i].device_id);
  return finish_vm_listing(out, &text, size);
}

char *vm_list_primitives(const struct vm_executable *exec) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return (void)mb_fail_memory(0), NULL;
  for (size_t i = 0; i < exec->primitives.count; i++)
    (void)fprintf(out, "VM PackedFunc[%zu]: %s\n", i, exec->primitives.names[i]);
  return finish_vm_listing(out, &text, size);
}
