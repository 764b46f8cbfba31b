/* Programs as text, as TVM lists them: in words, as calls of a builder, and in short. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "exec/relax/executable.h"

static char *finish_relax_listing(FILE *out, char **text, size_t size) {
  bool failed = ferror(out) != 0;
  if (!fclose(out) && !failed && *text) return *text;
  free(*text);
  (void)mb_fail_memory(size);
  return NULL;
}

static void put_register(FILE *out, int64_t i) {
  if (i == RELAX_CONTEXT)
    (void)fputs("%vm", out);
  else if (i >= RELAX_VOID)
    (void)fputs("%void", out);
  else
    (void)fprintf(out, "%%%lld", (long long)i);
}

static void put_operand(FILE *out, const struct relax_executable *exec, int64_t word) {
  const int64_t value = relax_operand_value(word);
  switch (relax_operand_kind(word)) {
    case RELAX_REGISTER: put_register(out, value); break;
    case RELAX_IMMEDIATE: (void)fprintf(out, "i%lld", (long long)value); break;
    case RELAX_CONSTANT: (void)fprintf(out, "c[%lld]", (long long)value); break;
    case RELAX_FUNCTION: (void)fprintf(out, "f[%s]", exec->functions[value].name);
  }
}

/* All operands with commas, and blanks up to `width`. */
static void put_operands(FILE *out, const struct relax_executable *exec,
                         const struct relax_instruction *in, int width) {
  char *text = NULL;
  size_t size = 0;
  FILE *list = open_memstream(&text, &size);
  if (!list) return;
  for (uint32_t i = 0; i < in->count; i++) {
    if (i) (void)fputs(", ", list);
    put_operand(list, exec, in->operands[i]);
  }
  if (!fclose(list) && text) (void)fprintf(out, "%-*s", width, text);
  free(text);
}

const char *relax_opcode_name(enum relax_opcode opcode) {
  static const char names[][8] = {[RELAX_CALL] = "call", "ret", "goto", "If"};
  return names[opcode];
}

static void put_instruction(FILE *out, const struct relax_executable *exec,
                            const struct relax_instruction *in) {
  (void)fprintf(out, "  %-6s", relax_opcode_name(in->opcode));
  switch (in->opcode) {
    case RELAX_CALL:
      (void)fprintf(out, "%-16s in: ", exec->functions[in->target].name);
      put_operands(out, exec, in, 12);
      (void)fputs(" dst: ", out);
      put_register(out, in->other);
      break;
    case RELAX_RET: put_register(out, in->target); break;
    case RELAX_GOTO: (void)fprintf(out, "%lld", (long long)in->target); break;
    case RELAX_IF:
      put_register(out, in->target);
      (void)fprintf(out, ", %lld", (long long)in->other);
  }
  (void)fputc('\n', out);
}

char *relax_list_text(const struct relax_executable *exec) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return (void)mb_fail_memory(0), NULL;
  for (size_t i = 0; i < exec->function_count; i++) {
    const struct relax_function *f = &exec->functions[i];
    if (f->kind == RELAX_PACKED)
      (void)fprintf(out, "@%s packed_func;\n", f->name);
    else if (f->kind == RELAX_COMPILED)
      (void)fprintf(out, "@%s num_inputs=%lld vm_tir_func;\n", f->name, (long long)f->num_args);
    else
      (void)fprintf(out, "@%s:\n", f->name);
    for (size_t k = f->start; k < f->end; k++) put_instruction(out, exec, &exec->code[k]);
    (void)fputc('\n', out);
  }
  return finish_relax_listing(out, &text, size);
}

/* ---- as calls of a builder ------------------------------------------------------------------- */

static void put_python_register(FILE *out, int64_t i) {
  if (i == RELAX_CONTEXT)
    (void)fputs("ib.r(vm)", out);
  else if (i >= RELAX_VOID)
    (void)fputs("ib.r(void)", out);
  else
    (void)fprintf(out, "ib.r(%lld)", (long long)i);
}

static void put_python_operand(FILE *out, const struct relax_executable *exec, int64_t word) {
  const int64_t value = relax_operand_value(word);
  switch (relax_operand_kind(word)) {
    case RELAX_REGISTER: put_python_register(out, value); break;
    case RELAX_IMMEDIATE: (void)fprintf(out, "ib.imm(%lld)", (long long)value); break;
    case RELAX_CONSTANT: (void)fprintf(out, "ib.c(%lld)", (long long)value); break;
    case RELAX_FUNCTION: (void)fprintf(out, "ib.f(%s)", exec->functions[value].name);
  }
}

static void put_python(FILE *out, const struct relax_executable *exec,
                       const struct relax_instruction *in) {
  switch (in->opcode) {
    case RELAX_CALL:
      (void)fprintf(out, "    ib.emit_call(\"%s\", args=[", exec->functions[in->target].name);
      for (uint32_t i = 0; i < in->count; i++) {
        if (i) (void)fputs(", ", out);
        put_python_operand(out, exec, in->operands[i]);
      }
      (void)fputc(']', out);
      if (in->other < RELAX_VOID) {
        (void)fputs(", dst=", out);
        put_python_register(out, in->other);
      }
      break;
    case RELAX_RET:
      (void)fputs("    ib.emit_ret(", out);
      put_python_register(out, in->target);
      break;
    case RELAX_GOTO: (void)fprintf(out, "    ib.emit_goto(%lld", (long long)in->target); break;
    case RELAX_IF:
      (void)fputs("    ib.emit_if(", out);
      put_python_register(out, in->target);
      (void)fprintf(out, ", %lld", (long long)in->other);
  }
  (void)fputs(")\n", out);
}

char *relax_list_python(const struct relax_executable *exec) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return (void)mb_fail_memory(0), NULL;
  (void)fputs("ib = rx.Builder()\n", out);
  for (size_t i = 0; i < exec->function_count; i++) {
    const struct relax_function *f = &exec->functions[i];
    if (f->kind != RELAX_CODE) continue;
    (void)fprintf(out, "with ib.function(\"%s\", num_inputs=%lld):\n", f->name,
                  (long long)f->num_args);
    for (size_t k = f->start; k < f->end; k++) put_python(out, exec, &exec->code[k]);
  }
  return finish_relax_listing(out, &text, size);
}

/* ---- in short -------------------------------------------------------------------------------- */

static void put_listed_shape(FILE *out, const int64_t *extents, size_t count) {
  (void)fputc('[', out);
  for (size_t i = 0; i < count; i++)
    (void)fprintf(out, "%s%lld", i ? ", " : "", (long long)extents[i]);
  (void)fputc(']', out);
}

static void put_constant(FILE *out, const struct relax_constant *constant) {
  char dtype[MB_DTYPE_TEXT];
  switch (constant->kind) {
    case RELAX_TENSOR:
      put_listed_shape(out, constant->array.view.shape, (size_t)constant->array.view.ndim);
      break;
    case RELAX_SHAPE:
      (void)fputs("shapetuple", out);
      put_listed_shape(out, constant->extents, constant->extent_count);
      break;
    case RELAX_STRING:
      (void)fprintf(out, "\"%.*s\"", (int)constant->text.size, (const char *)constant->text.data);
      break;
    case RELAX_DTYPE: (void)fputs(mb_dtype_text(constant->value.v_type, dtype), out); break;
    case RELAX_INT: (void)fprintf(out, "%lld", (long long)constant->value.v_int64); break;
    case RELAX_FLOAT: (void)fprintf(out, "%g", constant->value.v_float64);
  }
}

char *relax_list_stats(const struct relax_executable *exec) {
  char *text = NULL;
  size_t size = 0, counts[3] = {0};
  FILE *out = open_memstream(&text, &size);
  if (!out) return (void)mb_fail_memory(0), NULL;
  for (size_t i = 0; i < exec->function_count; i++) counts[exec->functions[i].kind]++;
  (void)fprintf(out, "Relax VM executable statistics:\n  Constant pool (# %zu): [",
                exec->constant_count);
  for (size_t i = 0; i < exec->constant_count; i++) {
    if (i) (void)fputs(", ", out);
    put_constant(out, &exec->constants[i]);
  }
  (void)fprintf(out, "]\n  Globals (#%zu): [", exec->function_count);
  for (size_t i = 0; i < exec->function_count; i++)
    (void)fprintf(out, "%s\"%s\"", i ? ", " : "", exec->functions[i].name);
  (void)fputs("]\n", out);
  (void)fprintf(out, "  Functions: %zu of bytecode, %zu compiled, %zu of libraries\n",
                counts[RELAX_CODE], counts[RELAX_COMPILED], counts[RELAX_PACKED]);
  return finish_relax_listing(out, &text, size);
}
