/* result.c - what functions return, and what they pass to Python callbacks, as Python objects. */
#include "call.h"

#include <string.h>

static PyObject *text_object(const char *text, size_t size) {
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)size, "surrogateescape");
}

static PyObject *dtype_object(DLDataType dtype) {
  char text[48];
  call_dtype_text(dtype, text);
  return PyObject_CallFunction(call_hook.result_value, "is", kTVMDataType, text);
}

static PyObject *handle_object(void *handle) {
  return PyObject_CallFunction(call_hook.result_value, "iN", kTVMOpaqueHandle,
                               PyLong_FromVoidPtr(handle));
}

static PyObject *array_object(void *handle) {
  PyObject *tensor = call_tensor_over(handle, NULL, call_array_release, handle, false);
  if (tensor == NULL) call_tvm.array_free(handle);
  return tensor;
}

/* Over what a function of somebody else describes; memory may come later
 * (__lookup_linked_param). */
static PyObject *tensor_object(const DLTensor *dl, PyObject *owner) {
  return call_tensor_described(dl, false) ? call_tensor_over(dl, owner, NULL, NULL, false) : NULL;
}

static PyObject *module_object(mblob_module *module) {
  PyObject *wrapped = PyObject_CallFunction(call_hook.wrap_module, "N", PyLong_FromVoidPtr(module));
  if (wrapped == NULL) mblob_module_release(module);
  return wrapped;
}

static PyObject *function_object(mblob_function *function, PyObject *owner) {
  PyObject *object = call_callback_callable(function);
  if (object != NULL && !PyCallable_Check(object)) {
    Py_INCREF(object);
    mblob_function_release(function);
    return object;
  }
  PyObject *name = PyUnicode_FromString("function");
  if (name == NULL) {
    mblob_function_release(function);
    return NULL;
  }
  PyObject *wrapped = call_function_wrap(function, name, owner);
  Py_DECREF(name);
  return wrapped;
}

PyObject *call_convert_plain(TVMValue value, int code) {
  switch (code) {
    case kTVMArgInt: return PyLong_FromLongLong(value.v_int64);
    case 1: /* kDLUInt */ return PyLong_FromUnsignedLongLong((unsigned long long)value.v_int64);
    case kTVMArgFloat: return PyFloat_FromDouble(value.v_float64);
    case kTVMOpaqueHandle: return handle_object(value.v_handle);
    case kTVMNullptr: Py_RETURN_NONE;
    case kTVMDataType: return dtype_object(value.v_type);
    case kDLDevice: return call_device_object(value.v_device);
    case kTVMStr: return text_object(value.v_str, strlen(value.v_str));
    case kTVMBytes: {
      const TVMByteArray *bytes = value.v_handle;
      return PyBytes_FromStringAndSize(bytes->data, (Py_ssize_t)bytes->size);
    }
    case kTVMArgBool: return PyBool_FromLong(value.v_int64 != 0);
    default: return NULL;
  }
}

static PyObject *unknown_code(int code) {
  call_raise(
      PyExc_TypeError,
      "a value of type code %d has no meaning in Python (classic TVM objects are not supported)",
      code);
  return NULL;
}

PyObject *call_convert_result(TVMValue value, int code, PyObject *owner) {
  switch (code) {
    case kTVMModuleHandle: return module_object(value.v_handle);
    case kTVMPackedFuncHandle: return function_object(value.v_handle, owner);
    case kTVMNDArrayHandle: return array_object(value.v_handle);
    case kTVMObjectHandle: {
      PyObject *object = call_container_object(value.v_handle);
      call_tvm.object_free(value.v_handle);
      return object;
    }
    case kTVMDLTensorHandle: return tensor_object(value.v_handle, owner);
    default: {
      PyObject *plain = call_convert_plain(value, code);
      return plain != NULL || PyErr_Occurred() ? plain : unknown_code(code);
    }
  }
}

PyObject *call_convert_borrowed(TVMValue value, int code) {
  switch (code) {
    case kTVMModuleHandle: return module_object(mblob_module_retain(value.v_handle));
    case kTVMPackedFuncHandle: return function_object(mblob_function_retain(value.v_handle), NULL);
    case kTVMNDArrayHandle:
    case kTVMDLTensorHandle:
    case MBLOB_LENT_TENSOR: return tensor_object(value.v_handle, NULL);
    case kTVMObjectHandle: return call_container_object(value.v_handle);
    default: {
      PyObject *plain = call_convert_plain(value, code);
      return plain != NULL || PyErr_Occurred() ? plain : unknown_code(code);
    }
  }
}
