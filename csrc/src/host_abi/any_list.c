/* Registers of compiled virtual machines (TVM 0.16 and later): an array of cells {TVMValue, int
 * code}, which own what they hold. Texts in cells are on the heap: a kTVMStr is a copy, a
 * kTVMBytes a TVMByteArray with its bytes behind it. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

#include "base/base.h"
#include "core/call/call.h"

struct cell {
  _Alignas(8) TVMValue value; /* 16 bytes in a row, on i686, too */
  int code;
};

static void clear_cell(struct cell *cell) {
  if (cell->code == kTVMStr || cell->code == kTVMBytes)
    free(cell->value.v_handle);
  else
    mblob_value_release(cell->value, cell->code);
  *cell = (struct cell){.code = kTVMNullptr};
}

/* Replace a text, which belongs to whoever passed it, by a copy. */
static bool copy_cell_text(struct cell *cell) {
  void *copy = NULL;
  if (cell->code == kTVMStr) {
    copy = strdup(cell->value.v_str);
  } else {
    const TVMByteArray *bytes = cell->value.v_handle;
    TVMByteArray *owned = malloc(sizeof(*owned) + bytes->size);
    if (owned) {
      owned->data = (char *)(owned + 1);
      owned->size = bytes->size;
      if (bytes->size) memcpy(owned + 1, bytes->data, bytes->size);
    }
    copy = owned;
  }
  if (!copy) (void)mb_fail_memory(0);
  cell->value.v_handle = copy;
  return copy != NULL;
}

int TVMBackendAnyListSetPackedArg(void *anylist, int index, TVMValue *args, int *type_codes,
                                  int arg_offset) {
  if (MB_IS_NULL(anylist) || MB_IS_NULL(args) || MB_IS_NULL(type_codes)) return -1;
  const struct cell *cell = (const struct cell *)anylist + index;
  args[arg_offset] = cell->value;
  type_codes[arg_offset] = cell->code;
  return 0;
}

int TVMBackendAnyListResetItem(void *anylist, int index) {
  if (MB_IS_NULL(anylist)) return -1;
  clear_cell((struct cell *)anylist + index);
  return 0;
}

int TVMBackendAnyListMoveFromPackedReturn(void *anylist, int index, TVMValue *args, int *type_codes,
                                          int ret_offset) {
  if (MB_IS_NULL(anylist) || MB_IS_NULL(args) || MB_IS_NULL(type_codes)) return -1;
  struct cell *cell = (struct cell *)anylist + index;
  struct cell moved = {args[ret_offset], type_codes[ret_offset]};
  int status = mb_return_check_value(moved.value, moved.code);
  if (status) return mb_named_result(__func__, status);
  if ((moved.code == kTVMStr || moved.code == kTVMBytes) && !copy_cell_text(&moved)) return -1;
  clear_cell(cell);
  args[ret_offset].v_handle = NULL;
  type_codes[ret_offset] = kTVMNullptr;
  status = mb_value_keep_aligned(&moved.value, moved.code);
  if (!status) *cell = moved;
  return mb_named_result(__func__, status);
}
