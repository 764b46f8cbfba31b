/* convert_errors.c - the errors for Python arguments that a parameter does not take. */
#include "call.h"

#include <string.h>

/* The error for what is no struct, where the parameter points at one; it takes over the reference. */
bool call_no_struct(call_frame *frame, int i, PyObject *found) {
  PyObject *declared = found ? call_function_declared(frame->function, i) : NULL;
  const char *text = declared ? PyUnicode_AsUTF8(declared) : NULL;
  const char *shown = text ? PyUnicode_AsUTF8(found) : NULL;
  if (shown != NULL)
    call_frame_error(frame, i, PyExc_TypeError,
                     MB_TEXT_BYTES "; pass ctypes.byref(" CALL_ARGUMENT_NAME
                                   ") of a ctypes.Structure of that size, or a structured array",
                     (long long)frame->parameters[i].size, text, shown);
  Py_XDECREF(declared);
  Py_XDECREF(found);
  return false;
}

/* What a pointer to pointers leads to: the fields of `Pointed` of loader/c_memory.py. */
PyObject *call_pointed(const call_parameter *p) {
  char dtype[48] = "";
  if (p->pointed_char) strcpy(dtype, "char");
  if (p->pointed.bits != 0) call_dtype_text(p->pointed, dtype);
  const char *text = p->functions ? p->text : dtype;
  const Py_ssize_t size = (Py_ssize_t)(p->functions ? p->text_size : strlen(dtype));
  return Py_BuildValue("(s#Oi)", text, size, p->pointed_const ? Py_True : Py_False, p->depth);
}

/* The error for what a pointer to pointers is given in place of addresses; it takes over the reference. */
bool call_no_addresses(call_frame *frame, int i, PyObject *found) {
  PyObject *declared = found ? call_function_declared(frame->function, i) : NULL;
  PyObject *shown = declared ? PyObject_Str(found) : NULL;
  PyObject *pointed = shown ? call_pointed(&frame->parameters[i]) : NULL;
  PyObject *text = pointed ? call_uncommon("no_addresses", shown, pointed, declared) : NULL;
  if (text != NULL) call_frame_error(frame, i, call_type_and_value, "%U", text);
  Py_XDECREF(text);
  Py_XDECREF(pointed);
  Py_XDECREF(declared);
  Py_XDECREF(shown);
  Py_XDECREF(found);
  return false;
}

/* `format`: NULL where the buffer protocol has none for the elements. */
bool call_bad_elements(call_frame *frame, int i, PyObject *arg, const char *format) {
  PyObject *dtype = PyObject_GetAttrString(arg, "dtype");
  if (dtype == NULL) {
    PyErr_Clear();
    const bool is_indirect = frame->parameters && frame->parameters[i].indirect;
    dtype = format && (is_indirect || strcmp(format, "X{}") == 0)
                ? PyUnicode_FromString(Py_TYPE(arg)->tp_name) /* of ctypes */
                : PyUnicode_FromFormat("format '%s'", format ? format : "");
    if (dtype == NULL) return false;
  }
  const call_parameter *p = frame->parameters ? &frame->parameters[i] : NULL;
  if (p != NULL && p->indirect) return call_no_addresses(frame, i, dtype);
  if (p != NULL && (p->chars || p->padded))
    call_frame_error(
        frame, i, call_type_and_value,
        "expected an array of int8 or of texts, found %S; convert it with astype(\"S\")", dtype);
  else
    call_frame_error(frame, i, call_type_and_value, MB_TEXT_NO_NUMBERS, dtype);
  Py_DECREF(dtype);
  return false;
}

/* The error for an object that gives no buffer; Python's own is set. */
bool call_no_buffer(call_frame *frame, int i, PyObject *arg) {
  if (PyErr_ExceptionMatches(PyExc_MemoryError)) return false;
  const bool is_value = PyErr_ExceptionMatches(PyExc_ValueError);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (is_value && PyObject_HasAttrString(arg, "dtype")) /* numpy's */
    (void)call_bad_elements(frame, i, arg, NULL);
  else
    call_frame_error(frame, i, PyExc_TypeError,
                     MB_TEXT_GIVES_NO_NUMBERS "; convert it to a native number type",
                     Py_TYPE(arg)->tp_name, value ? value : Py_None);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return false;
}

/* The error for what is no number, where the signature says one. */
bool call_no_number(call_frame *frame, int i, PyObject *arg) {
  const bool is_int = frame->parameters[i].kind == PARAM_INT;
  const PyNumberMethods *as = Py_TYPE(arg)->tp_as_number;
  const bool converts = is_int && as != NULL && as->nb_int != NULL;
  return call_frame_error(frame, i, PyExc_TypeError, MB_TEXT_EXPECTED "%s",
                          is_int ? "int" : "float", Py_TYPE(arg)->tp_name,
                          converts ? "; pass int(" CALL_ARGUMENT_NAME ")" : "");
}

/* The error for data where the parameter is a pointer to one function. */
bool call_no_function(call_frame *frame, int i) {
  PyObject *declared = call_function_declared(frame->function, i);
  const char *text = declared ? PyUnicode_AsUTF8(declared) : NULL;
  if (text != NULL) call_frame_error(frame, i, PyExc_TypeError, MB_TEXT_NO_FUNCTION, text);
  Py_XDECREF(declared);
  return false;
}

/* About an argument for a pointer to a function that is no function of ctypes. */
bool call_no_ctypes_function(call_frame *frame, int i, PyObject *arg) {
  const call_parameter *p = &frame->parameters[i];
  PyObject *text = PyUnicode_FromStringAndSize(p->text, (Py_ssize_t)p->text_size);
  PyObject *told = text ? call_uncommon("not_of_ctypes", text, arg, NULL) : NULL;
  if (told != NULL) call_frame_error(frame, i, PyExc_TypeError, "%U", told);
  Py_XDECREF(text);
  Py_XDECREF(told);
  return false;
}

/* True if an argument is a list or tuple that begins with a function. */
bool call_lists_functions(PyObject *arg) {
  if (!(PyList_Check(arg) || PyTuple_Check(arg)) || PySequence_Size(arg) == 0) return false;
  PyObject *first = PySequence_GetItem(arg, 0);
  const bool found = first != NULL && PyCallable_Check(first);
  Py_XDECREF(first);
  return found;
}
