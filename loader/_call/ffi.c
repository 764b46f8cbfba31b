/* ffi.c - objects of tvm_ffi (the Python package of TVM 0.22 and later) as arguments, and our
 * functions as theirs.
 *
 * tvm_ffi is never imported here: what a program hands over brings it along. */
#include "call.h"

#include <string.h>

/* A value as the ffi passes it; only what is needed to hand an object over. */
typedef struct ffi_value {
  int32_t type;
  uint32_t zero;
  void *object;
} ffi_value;

#define FFI_INT 1
#define FFI_OPAQUE_POINTER 4
#define TYPE_OFFSET 8 /* of the type in the header of an object */

static PyObject *handle_name, *cached_name;

/* obj.__chandle__(); of a tvm_ffi.Shape, which is a tuple, that of the object behind it. */
static PyObject *ask_handle(PyObject *obj) {
  PyObject *address = PyObject_CallMethodNoArgs(obj, handle_name);
  if (address != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError)) return address;
  PyErr_Clear();
  PyObject *behind = PyObject_GetAttr(obj, cached_name);
  if (behind == NULL) return NULL;
  address = PyObject_CallMethodNoArgs(behind, handle_name);
  Py_DECREF(behind);
  return address;
}

/* The handle of an object of tvm_ffi; NULL without an exception if `obj` is none. */
static void *object_handle(PyObject *obj) {
  if (handle_name == NULL) handle_name = PyUnicode_InternFromString("__chandle__");
  if (cached_name == NULL) cached_name = PyUnicode_InternFromString("_tvm_ffi_cached_object");
  if (handle_name == NULL || cached_name == NULL) return NULL;
  PyObject *address = ask_handle(obj);
  if (address == NULL) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError) || PyErr_ExceptionMatches(PyExc_TypeError))
      PyErr_Clear();
    return NULL;
  }
  void *handle = PyLong_AsVoidPtr(address);
  Py_DECREF(address);
  return handle;
}

bool call_ffi_is_shape(PyObject *obj) {
  return PyTuple_Check(obj) && strcmp(Py_TYPE(obj)->tp_name, "Shape") == 0 &&
         PyObject_HasAttrString(obj, "_tvm_ffi_cached_object");
}

bool call_ffi_argument(call_frame *frame, int i, PyObject *obj, bool *absent) {
  void *handle = object_handle(obj);
  *absent = handle == NULL && !PyErr_Occurred();
  if (handle == NULL) return false;
  mblob_function *function = NULL;
  if (mblob_function_from_ffi(handle, &function) != MBLOB_OK)
    return call_frame_error(frame, i, PyExc_TypeError, "%s: %s", Py_TYPE(obj)->tp_name,
                            mblob_last_error());
  frame->slots[i].kind = SLOT_FUNCTION;
  frame->slots[i].u.function = function;
  frame->values[i].v_handle = function;
  frame->codes[i] = kTVMPackedFuncHandle;
  return true;
}

/* A function of tvm_ffi's convention that gives the object at the address that it is passed,
 * with its reference. */
static int hand_over(void *unused, const ffi_value *args, int32_t count, ffi_value *result) {
  (void)unused;
  if (count != 1 || (args[0].type != FFI_INT && args[0].type != FFI_OPAQUE_POINTER)) return -1;
  result->object = args[0].object;
  result->zero = 0;
  result->type = *(const int32_t *)(const void *)((const char *)result->object + TYPE_OFFSET);
  return 0;
}

PyObject *call_ffi_hand_over(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  union {
    int (*call)(void *unused, const ffi_value *args, int32_t count, ffi_value *result);
    void *address;
  } function = {hand_over};
  return PyLong_FromVoidPtr(function.address);
}
