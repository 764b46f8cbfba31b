/* convert_text.c - str, bytes and bytearray as an argument. */
#include "call.h"

#include <string.h>

/* What to do about a str that is no C string. Functions with a recorded signature take no bytes. */
static const char *instead_of(const call_parameter *p) {
  return p == NULL ? "pass bytes" : "pass a str without";
}

bool call_convert_str(call_frame *frame, int i, PyObject *arg) {
  const call_parameter *p = frame->parameters ? &frame->parameters[i] : NULL;
  if (p != NULL && p->kind == PARAM_POINTER && p->dtype.bits != 0) {
    PyObject *advice = call_function_tensor_of(frame->function, arg);
    if (advice != NULL)
      call_frame_error(frame, i, PyExc_TypeError, "expected an array, found the str %R%U", arg,
                       advice);
    Py_XDECREF(advice);
    return false;
  }
  Py_ssize_t size;
  const char *text = PyUnicode_AsUTF8AndSize(arg, &size);
  if (text == NULL) {
    if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return false;
    PyErr_Clear();
    return call_frame_error(frame, i, PyExc_ValueError, MB_TEXT_SURROGATES, instead_of(p));
  }
  if (strlen(text) != (size_t)size) {
    if (frame->ffi) return call_convert_string(frame, i, text, (size_t)size);
    return call_frame_error(frame, i, PyExc_ValueError,
                            "the str has a NUL inside, functions see it end there; %s",
                            instead_of(p));
  }
  frame->values[i].v_str = text;
  frame->codes[i] = kTVMStr;
  return true;
}

bool call_convert_bytes(call_frame *frame, int i, const char *data, Py_ssize_t size) {
  TVMByteArray *bytes = &frame->slots[i].u.bytes;
  bytes->data = data;
  bytes->size = (size_t)size;
  return call_frame_handle(frame, i, bytes, kTVMBytes);
}

bool call_convert_bytearray(call_frame *frame, int i, PyObject *arg) {
  _Static_assert(sizeof(TVMByteArray) <= sizeof(DLTensor),
                 "the unused tensor of the slot has room for it");
  call_slot *slot = &frame->slots[i];
  PyObject *copy = PyBytes_FromObject(arg);
  if (copy == NULL) return false;
  int failed = PyObject_GetBuffer(copy, &slot->u.view, PyBUF_SIMPLE);
  Py_DECREF(copy); /* the view holds it */
  if (failed) return false;
  slot->kind = SLOT_BUFFER;
  TVMByteArray bytes = {slot->u.view.buf, (size_t)slot->u.view.len};
  memcpy(&slot->tensor, &bytes, sizeof bytes);
  return call_frame_handle(frame, i, &slot->tensor, kTVMBytes);
}
