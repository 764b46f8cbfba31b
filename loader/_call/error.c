/* error.c - exceptions: what Python calls such a failure, as a class of mblob.errors. */
#include "call.h"

#include <stdarg.h>

PyObject *call_type_and_value;

bool call_error_init(void) {
  if (call_type_and_value == NULL)
    call_type_and_value = PyTuple_Pack(2, PyExc_TypeError, PyExc_ValueError);
  return call_type_and_value != NULL;
}

PyObject *call_error_class(PyObject *type) {
  PyObject *found = NULL;
  if (call_hook.error_class != NULL)
    found = PyObject_CallFunctionObjArgs(call_hook.error_class, type, NULL);
  if (found != NULL) return found;
  PyErr_Clear();
  return Py_NewRef(PyTuple_Check(type) ? PyTuple_GET_ITEM(type, 0) : type);
}

PyObject *call_raise(PyObject *type, const char *format, ...) {
  PyObject *class = call_error_class(type);
  va_list args;
  va_start(args, format);
  PyErr_FormatV(class, format, args);
  va_end(args);
  Py_DECREF(class);
  return NULL;
}
