/* executable.h - a program of Relax's virtual machine: what the payload of the keys
 * relax.VMExecutable and relax.Executable holds, read and checked. After reading, nothing in it can
 * make the interpreter step outside of registers, code, constants or functions; what depends on
 * values is checked when it runs. */
#ifndef MB_RELAX_EXECUTABLE_H
#define MB_RELAX_EXECUTABLE_H

#include <mblob.h>

#include "base/base.h"
#include "core/loaded/loaded.h"
#include "exec/common/common.h"

#define RELAX_VERSION "0.14"             /* of programs of all releases since 0.16 */
#define RELAX_REGISTER_LIMIT (1 << 20)   /* of one function */
#define RELAX_VOID ((int64_t)1 << 54)    /* the register that is always None */
#define RELAX_CONTEXT (RELAX_VOID + 1)   /* the register that holds the machine */
#define RELAX_NO_ARGUMENTS ((int64_t)-2) /* of functions that are not defined here */

enum relax_kind { RELAX_PACKED, RELAX_CODE, RELAX_COMPILED };
enum relax_opcode { RELAX_CALL = 1, RELAX_RET, RELAX_GOTO, RELAX_IF };
enum relax_operand { RELAX_REGISTER, RELAX_IMMEDIATE, RELAX_CONSTANT, RELAX_FUNCTION };

static inline enum relax_operand relax_operand_kind(int64_t word) {
  return (enum relax_operand)((uint64_t)word >> 56);
}
static inline int64_t relax_operand_value(int64_t word) {
  return (int64_t)((uint64_t)word << 8) >> 8;
}

struct relax_instruction {
  enum relax_opcode opcode;
  uint32_t count; /* of operands */
  int64_t target; /* Call: function; Ret, If: register; Goto: offset */
  int64_t other;  /* Call: register of the result; If: offset where it is false */
  const int64_t *operands;
};

struct relax_function {
  enum relax_kind kind;
  char *name;
  size_t start, end;     /* RELAX_CODE: instructions */
  int64_t num_args;      /* RELAX_NO_ARGUMENTS: not defined here */
  int64_t register_file; /* as the file says */
  size_t registers;      /* RELAX_CODE: as many as are used */
  size_t operands;       /* of its longest call */
  char **params;
  size_t param_count;
};

enum relax_constant_kind {
  RELAX_TENSOR,
  RELAX_DTYPE,
  RELAX_SHAPE,
  RELAX_STRING,
  RELAX_INT,
  RELAX_FLOAT
};

struct relax_constant {
  enum relax_constant_kind kind;
  struct mb_stored_array array; /* RELAX_TENSOR */
  uint64_t end;                 /* of that: where it ends in the code */
  int64_t *extents;             /* RELAX_SHAPE */
  size_t extent_count;
  struct mb_slice text; /* RELAX_STRING: in the code */
  TVMValue value;       /* numbers and types */
};

struct relax_scope { /* of the memory that a constant is for */
  int64_t constant;
  struct mb_slice name; /* in the code */
};

struct relax_executable {
  mblob_module *module; /* its own, not counted; its imports have the kernels */
  void *owned;          /* the code, if it is no payload */
  enum mb_dialect dialect;
  bool has_scopes; /* of the two forms the one that has a list of them, which may be empty */
  struct relax_scope *scopes;
  size_t scope_count;
  struct relax_function *functions;
  size_t function_count;
  struct mb_map by_name; /* to functions; of a name that comes twice, the last */
  struct relax_constant *constants;
  size_t constant_count;
  struct relax_instruction *code;
  size_t code_count;
  int64_t *words;
  size_t word_count;
};

/* Read and check `size` bytes of that dialect, which stay; a mblob_status. `out` is to be freed
 * anyway. Arrays are views of the code, however it is aligned, and element types have the
 * dialect's numbers. */
int relax_executable_read(struct relax_executable *out, const void *code, uint64_t size,
                          int64_t entry);
/* Free what was read; nothing of it is to be used again. */
void relax_executable_free(struct relax_executable *exec);
/* (executable.c) The constant as a value, with a reference; tensors keep `exec->module`. */
int relax_constant_value(const struct relax_executable *exec, size_t i, TVMValue *value, int *code);

/* (executable.c) Names of the functions that the program defines; `out->names` is to be freed. */
int relax_function_names(const struct relax_executable *exec, struct mb_names *out);

/* The instruction's name in listings (listing.c). */
const char *relax_opcode_name(enum relax_opcode opcode);
/* Texts for people, TVM's own (listing.c); on the heap, NULL after an error. */
char *relax_list_text(const struct relax_executable *exec);
char *relax_list_python(const struct relax_executable *exec);
char *relax_list_stats(const struct relax_executable *exec);
/* Names of functions that no import has and nobody has registered, each between the two texts.
 * The caller's to free; NULL without memory. */
char *relax_list_missing(const struct relax_executable *exec, const char *before,
                         const char *after);

#endif
