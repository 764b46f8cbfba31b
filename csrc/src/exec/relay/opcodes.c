#include "exec/relay/opcodes.h"

#include <string.h>

const struct vm_opcode_info vm_opcodes[VM_OPCODE_COUNT] = {
    [VM_MOVE] = {"Move", "rd", {""}},
    [VM_RET] = {"Ret", "r", {""}},
    [VM_INVOKE] = {"Invoke", "fndR", {""}},
    [VM_INVOKE_CLOSURE] = {"InvokeClosure", "rndR", {""}},
    [VM_INVOKE_PACKED] = {"InvokePacked", "pnxR", {""}},
    [VM_ALLOC_TENSOR] = {"AllocTensor", "rrtndS", {""}},
    [VM_ALLOC_TENSOR_REG] = {"AllocTensorReg", "rrrtd", {""}},
    [VM_ALLOC_ADT] = {"AllocADT", "indR", {""}},
    [VM_ALLOC_CLOSURE] = {"AllocClosure", "fndR", {""}},
    [VM_GET_FIELD] = {"GetField", "rxd", {""}},
    [VM_IF] = {"If", "rrjj", {""}},
    [VM_LOAD_CONST] = {"LoadConst", "kvd", {"kd"}},
    [VM_GOTO] = {"Goto", "j", {""}},
    [VM_GET_TAG] = {"GetTag", "rd", {""}},
    [VM_LOAD_CONSTI] = {"LoadConsti", "id", {""}},
    [VM_FATAL] = {"Fatal", "", {""}},
    [VM_ALLOC_STORAGE] = {"AllocStorage", "satvndS", {"satvd", "satd"}},
    [VM_SHAPE_OF] = {"ShapeOf", "rd", {""}},
    [VM_RESHAPE_TENSOR] = {"ReshapeTensor", "rrd", {""}},
    [VM_DEVICE_COPY] = {"DeviceCopy", "rvvd", {""}},
    [VM_KILL_REGISTER] = {"KillRegister", "d", {""}},
};

bool vm_form_has_list(const char *form) { return strpbrk(form, "RS") != NULL; }

size_t vm_form_size(const char *form) {
  size_t size = 0;
  for (; *form; form++)
    if (*form != VM_REGISTERS && *form != VM_SHAPE) size += *form == VM_DTYPE ? 3 : 1;
  return size;
}

size_t vm_form_place(const char *form, enum vm_field kind) {
  for (size_t place = 0; *form; form++) {
    if ((enum vm_field) * form == kind) return place;
    place += *form == VM_DTYPE ? 3 : 1;
  }
  return SIZE_MAX;
}
