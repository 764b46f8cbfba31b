#include "core/call/aligned_call.h"

#include <string.h>

#include "base/base.h"
#include "core/call/aligned.h"

int mb_call_aligned(const mblob_function *function, const TVMValue *args, const int *codes,
                    int count, struct mb_return *result) {
  struct mb_aligned copies = {.count = 0};
  const size_t size = (size_t)count * sizeof(*args);
  TVMValue *aligned = mb_block_take_unset(size);
  if (!aligned) return mb_fail_memory(size);
  int status = MBLOB_OK, i = 0;
  memcpy(aligned, args, size);
  for (; !status && i < count; i++)
    if (codes[i] == kTVMObjectHandle && !mb_value_is_aligned(args[i], codes[i]))
      status = mb_value_align(&copies, &aligned[i], codes[i]);
  if (!status) status = mb_call_as_they_are(function, aligned, codes, count, result);
  while (i-- > 0)
    if (aligned[i].v_handle != args[i].v_handle) mblob_value_release(aligned[i], codes[i]);
  mb_block_give(aligned, size);
  mb_aligned_end(&copies, !status);
  return status;
}
