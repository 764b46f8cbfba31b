/* convert_made.c - arguments in whose place a function of Python makes another: lists, and texts of numpy and
 * ctypes. */
#include "call.h"

#include <string.h>

/* What a function of Python makes of an argument, which is converted instead; it takes over the
 * reference. */
bool call_convert_instead(call_frame *frame, int i, PyObject *made) {
  if (made == NULL) return false;
  call_slot *slot = &frame->slots[i];
  if (slot->kind == SLOT_BUFFER) PyBuffer_Release(&slot->u.view);
  slot->kind = SLOT_NONE;
  const bool ok = call_convert_argument(frame, i, made); /* its buffer keeps it */
  Py_DECREF(made);
  return ok;
}

/* What gives no buffer: structs of numpy with fields that overlap, as bytes, or an error; Python's own is set. */
bool call_convert_overlapping(call_frame *frame, int i, PyObject *arg) {
  const call_parameter *p = frame->parameters ? &frame->parameters[i] : NULL;
  if (p == NULL || !p->opaque || p->indirect || p->function ||
      !PyErr_ExceptionMatches(PyExc_ValueError))
    return call_no_buffer(frame, i, arg);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject *made = call_uncommon("without_overlaps", arg, NULL, NULL);
  if (made == arg) {
    Py_DECREF(made);
    PyErr_Restore(type, value, traceback);
    return call_no_buffer(frame, i, arg);
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  if (made != NULL && !call_function_check_record(frame->items ? NULL : frame->function, i, arg))
    Py_CLEAR(made);
  return call_convert_instead(frame, i, made);
}

/* A list of arrays, or of such lists, for a parameter that is a pointer to pointers: their addresses. */
bool call_convert_list_of_arrays(call_frame *frame, int i, PyObject *arg) {
  PyObject *place = call_frame_place(frame, i);
  PyObject *pointed = call_pointed(&frame->parameters[i]);
  PyObject *made = place && pointed ? call_uncommon("addresses", arg, pointed, place) : NULL;
  Py_XDECREF(place);
  Py_XDECREF(pointed);
  return call_convert_instead(frame, i, made);
}

/* True if a buffer of a format has characters for a parameter that takes some, which are no numbers: texts of
 * numpy ("8s"), and, where blanks end a text of Fortran, those that end with NUL, of ctypes ("c"). */
bool call_takes_characters(const call_frame *frame, int i, const char *format) {
  const call_parameter *p = frame->parameters ? &frame->parameters[i] : NULL;
  if (p == NULL || !(p->chars || p->padded) || format == NULL || *format == '\0') return false;
  const char last = format[strlen(format) - 1];
  return *format != 'T' && (last == 's' || (last == 'c' && p->padded));
}

bool call_convert_characters(call_frame *frame, int i, PyObject *arg) {
  const call_parameter *p = &frame->parameters[i];
  PyObject *place = call_frame_place(frame, i);
  PyObject *how = place ? Py_BuildValue("(OO)", p->is_const ? Py_True : Py_False,
                                        p->padded ? Py_True : Py_False)
                        : NULL;
  PyObject *made = how ? call_uncommon("characters", arg, how, place) : NULL;
  Py_XDECREF(how);
  Py_XDECREF(place);
  return call_convert_instead(frame, i, made);
}
