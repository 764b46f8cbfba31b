#include "convention.h"

#include "c_api.h"
#include "calls.h"
#include "common.h"
#include "values.h"

static int object_of_function(mblob_function *function, void **out) {
  *out = mb_foreign_object(function);
  if (*out)
    mb_ffi_object_retain(MB_RELEASES_0_22, *out);
  else
    *out = mb_object_function(MB_RELEASES_0_22, function, true);
  return *out ? MBLOB_OK : MBLOB_E_MEMORY;
}

static int function_of_object(void *object, mblob_function **out) {
  *out = NULL;
  mblob_function *own = mb_object_own_function(MB_RELEASES_0_22, object);
  if (!own) return mb_foreign_function(MB_RELEASES_0_22, object, out);
  *out = own;
  mb_plugin_host()->value_retain((TVMValue){.v_handle = own}, kTVMPackedFuncHandle);
  return MBLOB_OK;
}

static int to_any(int releases, TVMValue value, int code, void *item) {
  return mb_any_of_value((enum mb_releases)releases, value, code, false, item);
}

static int from_any(int releases, const void *item, void *ret) {
  struct mb_place place;
  TVMValue value;
  int code = kTVMNullptr;
  int status = mb_value_of_any((enum mb_releases)releases, item, &value, &code, &place);
  if (!status && code == kTVMDLTensorHandle)
    status = mb_fail(MBLOB_E_KERNEL,
                     "a tensor that is borrowed, or has gaps between its rows, is no result");
  if (!status && code != kTVMNullptr) status = mb_plugin_host()->return_value(ret, value, code);
  mb_place_release(&place);
  return status;
}

static void any_release(int releases, void *item) {
  mb_any_release((enum mb_releases)releases, item);
}

const mblob_convention mb_ffi_convention = {.struct_size = sizeof(mblob_convention),
                                            .symbol = mb_ffi_symbol,
                                            .call = mb_ffi_call,
                                            .object_of_function = object_of_function,
                                            .function_of_object = function_of_object,
                                            .to_any = to_any,
                                            .from_any = from_any,
                                            .any_release = any_release,
                                            .call_row = mb_ffi_call_row};
