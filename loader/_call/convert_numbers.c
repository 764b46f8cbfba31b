/* convert_numbers.c - numbers that are no int or float of Python as arguments. */
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

PyObject *call_int128(const call_frame *frame, int i, PyObject *number) {
  PyObject *declared = call_function_declared(frame->function, i);
  PyObject *place = declared ? call_frame_place(frame, i) : NULL;
  PyObject *made = place ? call_uncommon("int128", number, declared, place) : NULL;
  Py_XDECREF(place);
  Py_XDECREF(declared);
  return made;
}

bool call_is_number_of_ctypes(const call_frame *frame, int i, PyObject *arg) {
  const call_slot *slot = &frame->slots[i];
  return slot->u.view.ndim == 0 &&
         call_dtype_equal(slot->tensor.dtype, frame->parameters[i].dtype) &&
         PyObject_HasAttrString(arg, "value");
}

bool call_convert_number(call_frame *frame, int i, PyObject *arg) {
  const PyNumberMethods *as = PyComplex_Check(arg) ? NULL : Py_TYPE(arg)->tp_as_number;
  const bool is_int = frame->parameters[i].kind == PARAM_INT;
  if (as == NULL || !(as->nb_index != NULL || (!is_int && as->nb_float != NULL)))
    return call_no_number(frame, i, arg);
  PyObject *number = is_int ? PyNumber_Index(arg) : PyNumber_Float(arg);
  const bool ok = number != NULL && call_convert_argument(frame, i, number);
  Py_XDECREF(number);
  return ok;
}
