/* opcodes.h - the instructions of the Relay virtual machine (include/tvm/runtime/vm/bytecode.h
 * of TVM 0.7 to 0.19), as data: reader, checks, listing and interpreter all go by this table. */
#ifndef MB_VM_OPCODES_H
#define MB_VM_OPCODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vm_opcode {
  VM_MOVE,
  VM_RET,
  VM_INVOKE,
  VM_INVOKE_CLOSURE,
  VM_INVOKE_PACKED,
  VM_ALLOC_TENSOR,
  VM_ALLOC_TENSOR_REG,
  VM_ALLOC_ADT,
  VM_ALLOC_CLOSURE,
  VM_GET_FIELD,
  VM_IF,
  VM_LOAD_CONST,
  VM_GOTO,
  VM_GET_TAG,
  VM_LOAD_CONSTI,
  VM_FATAL,
  VM_ALLOC_STORAGE,
  VM_SHAPE_OF,
  VM_RESHAPE_TENSOR,
  VM_DEVICE_COPY,
  VM_KILL_REGISTER,
  VM_OPCODE_COUNT
};

/* What a field means; an instruction's fields are a string of these. */
enum vm_field {
  VM_REGISTER = 'r', /* read */
  VM_SIZE = 's', /* register that is read, unless the list (a shape) says the size: then anything */
  VM_TARGET = 'd',    /* register that is written */
  VM_FUNCTION = 'f',  /* index */
  VM_PRIMITIVE = 'p', /* index */
  VM_CONSTANT = 'k',  /* index */
  VM_DEVICE = 'v', /* index into the devices; in bytecode without a list of them a DLDeviceType */
  VM_JUMP = 'j',   /* instructions, relative to this one */
  VM_INDEX = 'x',  /* at least 0 */
  VM_NUMBER = 'i', /* anything */
  VM_ALIGNMENT = 'a', /* bytes, a power of two */
  VM_DTYPE = 't',     /* three numbers: code, bits, lanes */
  VM_COUNT = 'n',     /* of the list at the end */
  VM_REGISTERS = 'R', /* the list: registers that are read */
  VM_SHAPE = 'S'      /* the list: elements per dimension */
};

struct vm_opcode_info {
  char name[16];
  char fields[8];   /* of the latest form, in which the interpreter gets them */
  char older[2][6]; /* earlier forms, told apart by their number of fields; a field that a form
                       lacks is 0 */
};

extern const struct vm_opcode_info vm_opcodes[VM_OPCODE_COUNT];

/* Numbers in the fields of a form, its list not counted. */
size_t vm_form_size(const char *form);
bool vm_form_has_list(const char *form);
/* Position of the first field of that kind among the numbers of `form`; SIZE_MAX if there is
 * none. */
size_t vm_form_place(const char *form, enum vm_field kind);

#endif
