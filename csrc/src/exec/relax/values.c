/* Values of the machine: from callers, and to them. */
#include <string.h>

#include "exec/relax/machine.h"

struct mb_object *relax_object(TVMValue value, int code, enum mb_object_type type) {
  struct mb_object *object = code == kTVMObjectHandle ? value.v_handle : NULL;
  return object && mb_handle_is_object(object) && mb_object_type(object) == type ? object : NULL;
}

static const char *object_key(const struct mb_object *object) {
  if (!object || !mb_handle_is_object(object)) return "ffi.Object";
  switch (mb_object_type(object)) {
    case MB_STRING_TYPE:
      return mb_object_item(object, 0)->bytes.size <= 7 ? "ffi.SmallStr" : "ffi.String";
    case MB_ARRAY_TYPE: return "ffi.Array";
    case MB_SHAPE_TYPE: return "ffi.Shape";
    default: return "ffi.Map";
  }
}

const char *relax_key(TVMValue value, int code) {
  switch (code) {
    case kTVMArgInt: return "int";
    case kTVMArgBool: return "bool";
    case kTVMArgFloat: return "float";
    case kTVMDataType: return "DataType";
    case kDLDevice: return "Device";
    case kTVMOpaqueHandle: return "void*";
    case kTVMDLTensorHandle: return "DLTensor*";
    case kTVMNDArrayHandle: return "ffi.Tensor";
    case kTVMModuleHandle: return "ffi.Module";
    case kTVMPackedFuncHandle:
      return relax_closure_of(value.v_handle) ? "relax.vm.Closure" : "ffi.Function";
    case kTVMObjectHandle: return object_key(value.v_handle);
    case kTVMStr: return strlen(value.v_str) <= 7 ? "ffi.SmallStr" : "ffi.String";
    case kTVMBytes: return "ffi.Bytes";
    default: return "None";
  }
}

static int take_text(const char *data, size_t size, struct relax_value *out) {
  struct mb_object *string = NULL;
  int status = mb_object_new_string(data, size, &string);
  if (!status) *out = (struct relax_value){{.v_handle = string}, kTVMObjectHandle};
  return status;
}

static DLDataType own_dtype(const struct relax_machine *m, DLDataType dtype) {
  return m->exec->dialect == MB_CLASSIC ? dtype : mb_dtype_stored_in_ffi(dtype);
}

static int take_tensor(const struct relax_machine *m, const DLTensor *given,
                       struct relax_value *out, DLTensor **borrowed) {
  DLTensor *array = NULL, like = *given;
  size_t size = 0;
  like.dtype = own_dtype(m, given->dtype);
  int status = mb_tensor_check(&like, &size);
  if (!status)
    status = borrowed ? mb_array_view(&like, NULL, mb_array_release_owner, &array)
                      : mb_array_new(like.device, like.ndim, like.shape, like.dtype, &array);
  if (!status && !borrowed) status = mb_array_copy(&like, array, NULL);
  if (status) {
    if (array) mb_array_release(array);
    return status;
  }
  if (borrowed) *borrowed = array;
  *out = (struct relax_value){{.v_handle = array}, kTVMNDArrayHandle};
  return MBLOB_OK;
}

int relax_take(const struct relax_machine *m, TVMValue value, int code, struct relax_value *out,
               DLTensor **borrowed) {
  *out = (struct relax_value){.code = kTVMNullptr};
  const bool is_pointer = code >= kTVMDLTensorHandle && code <= kTVMNDArrayHandle;
  if (is_pointer && !value.v_handle) return MBLOB_OK;
  if (code == kTVMStr) return take_text(value.v_str, strlen(value.v_str), out);
  if (code == kTVMBytes) {
    const TVMByteArray *bytes = value.v_handle;
    return take_text(bytes->data, bytes->size, out);
  }
  if (code == kTVMDLTensorHandle) return take_tensor(m, value.v_handle, out, borrowed);
  int status = mb_return_check_value(value, code);
  if (status) return status;
  *out = (struct relax_value){value, code};
  if (relax_is_counted(code)) mb_value_retain(value, code);
  status = borrowed ? MBLOB_OK : mb_value_keep_aligned(&out->value, code);
  if (status) out->code = kTVMNullptr;
  return status;
}

int relax_take_result(TVMValue value, int code, struct relax_value *out) {
  *out = (struct relax_value){.code = kTVMNullptr};
  if (code == kTVMStr) return take_text(value.v_str, strlen(value.v_str), out);
  if (code == kTVMBytes) {
    const TVMByteArray *bytes = value.v_handle;
    return take_text(bytes->data, bytes->size, out);
  }
  if (relax_is_counted(code) && !value.v_handle) return MBLOB_OK;
  int status = mb_value_keep_aligned(&value, code);
  if (!status) *out = (struct relax_value){value, code};
  return status;
}

int relax_give(struct relax_value value, struct mb_return *out) {
  TVMByteArray bytes;
  mb_return_drop(out);
  const bool is_text = mb_value_text(value.value, value.code, &bytes) &&
                       !memchr(bytes.data ? bytes.data : "", 0, bytes.size);
  if (!is_text) {
    out->value = value.value;
    out->code = value.code;
    return MBLOB_OK;
  }
  int status = mb_return_set(out, (TVMValue){.v_str = bytes.data}, kTVMStr);
  relax_clear(&value);
  return status;
}
