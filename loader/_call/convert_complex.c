/* convert_complex.c - a number as an argument of a function that reads one complex number. */
#include "call.h"

bool call_takes_complex(const call_frame *frame, int i) {
  return frame->parameters != NULL && frame->parameters[i].kind == PARAM_POINTER &&
         frame->parameters[i].dtype.code == kDLComplex;
}

PyObject *call_complex_array(const call_frame *frame, int i, PyObject *number) {
  const call_parameter *p = &frame->parameters[i];
  if (!p->is_const || !call_takes_complex(frame, i)) return Py_NewRef(Py_None);
  char dtype[48];
  call_dtype_text(p->dtype, dtype);
  PyObject *declared = call_function_declared(frame->function, i);
  PyObject *told = declared ? Py_BuildValue("(sO)", dtype, declared) : NULL;
  PyObject *place = told ? call_frame_place(frame, i) : NULL;
  PyObject *made = place ? call_uncommon("one_complex", number, told, place) : NULL;
  Py_XDECREF(place);
  Py_XDECREF(told);
  Py_XDECREF(declared);
  return made;
}
