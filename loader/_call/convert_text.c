/* convert_text.c - str, bytes and bytearray as an argument. */
#include "call.h"

#include <string.h>
#include <wchar.h>

/* What to do about a str that is no C string. Functions with a recorded signature take no bytes. */
static const char *instead_of(const call_parameter *p) {
  return p == NULL ? "pass bytes" : "pass a str without";
}

/* The error for a str where an array of numbers or of bytes is expected. */
static bool no_array(call_frame *frame, int i, PyObject *arg) {
  const call_parameter *p = &frame->parameters[i];
  PyObject *of_tensor = call_function_tensor_of(frame->function, arg);
  if (of_tensor == NULL) return false;
  char advice[64] = "";
  if ((p->bytes || p->opaque) && PyUnicode_GET_LENGTH(of_tensor) == 0)
    snprintf(advice, sizeof advice,
             p->is_const ? "; " MB_TEXT_ENCODED : "; " MB_TEXT_ENCODED_TO_WRITE,
             CALL_ARGUMENT_NAME);
  else if (p->dtype.code <= kDLUInt && p->dtype.bits == 8 * sizeof(wchar_t))
    snprintf(advice, sizeof advice, "; " MB_TEXT_WIDE, CALL_ARGUMENT_NAME);
  call_frame_error(frame, i, PyExc_TypeError, "expected an array, found the str %R%U%s", arg,
                   of_tensor, advice);
  Py_DECREF(of_tensor);
  return false;
}

bool call_convert_str(call_frame *frame, int i, PyObject *arg) {
  const call_parameter *p = frame->parameters ? &frame->parameters[i] : NULL;
  const bool is_array = p != NULL && p->kind == PARAM_POINTER && !p->function &&
                        (p->dtype.bits != 0 || p->bytes || p->opaque);
  const bool is_read = is_array && p->chars && p->is_const;
  if (is_array && !is_read) return no_array(frame, i, arg);
  Py_ssize_t size;
  const char *text = PyUnicode_AsUTF8AndSize(arg, &size);
  if (text == NULL) {
    if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return false;
    PyErr_Clear();
    return call_frame_error(frame, i, PyExc_ValueError, MB_TEXT_SURROGATES, instead_of(p));
  }
  if (is_read) { /* the characters of an array */
    PyObject *bytes = PyBytes_FromStringAndSize(text, size);
    const bool ok = bytes != NULL && call_convert_opaque_bytes(frame, i, bytes);
    Py_XDECREF(bytes); /* the view holds it */
    return ok;
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

/* bytes or a bytearray for a pointer that takes none as they are: a text, or an array of numbers. */
bool call_convert_bytes_of_pointer(call_frame *frame, int i, PyObject *arg) {
  const call_parameter *p = &frame->parameters[i];
  if (p->is_text && PyBytes_Check(arg)) {
    const char *text = PyBytes_AS_STRING(arg);
    if (strlen(text) != (size_t)PyBytes_GET_SIZE(arg))
      return call_frame_error(
          frame, i, PyExc_ValueError,
          "the bytes have a NUL inside, functions see them end there; pass bytes "
          "without, or pack it with a prototype that has an array, such as x[n]");
    frame->values[i].v_str = text;
    frame->codes[i] = kTVMStr;
    return true;
  }
  const char *type = Py_TYPE(arg)->tp_name;
  if (p->is_text)
    return call_frame_error(frame, i, PyExc_TypeError,
                            MB_TEXT_EXPECTED "; pass bytes(" CALL_ARGUMENT_NAME ")", "str", type);
  char dtype[48] = "";
  if (p->dtype.bits == 0)
    return call_frame_error(frame, i, PyExc_TypeError, MB_TEXT_EXPECTED "; pass an array",
                            "an array", type);
  call_dtype_text(p->dtype, dtype);
  const bool copies = !p->is_const && PyBytes_Check(arg);
  return call_frame_error(frame, i, PyExc_TypeError, MB_TEXT_DTYPE_OF_BYTES, dtype, type,
                          copies ? "bytearray(" CALL_ARGUMENT_NAME ")" : CALL_ARGUMENT_NAME, dtype);
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
