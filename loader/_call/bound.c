/* bound.c - BoundFunction: a function and its arguments, converted and checked once, for calls
 * in a loop. */
#include "call.h"

#include <structmember.h>

typedef struct bound_object {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *function; /* PackedFunction; NULL after tp_clear */
  PyObject *args;     /* tuple: text and tensors have no other owner here */
  bool has_tensors;   /* objects of ours among the arguments, which may become invalid */
  call_frame frame;
} bound_object;

#define SELF(object) ((bound_object *)(object))

/* A tensor that a kernel passed to a callback is valid during that call only. */
static bool check_tensors(const bound_object *self) {
  for (int i = 0; i < self->frame.count; ++i) {
    PyObject *arg = PyTuple_GET_ITEM(self->args, i);
    if (PyObject_TypeCheck(arg, &call_tensor_type) && !call_tensor_valid((const call_tensor *)arg))
      return false;
  }
  return true;
}

/* Copies are made for one call: several threads may be in here at the same time. */
static PyObject *call_with_copies(bound_object *self) {
  call_frame frame;
  if (!call_frame_init(&frame, self->frame.name, self->frame.count)) return NULL;
  call_frame_borrow(&frame, &self->frame);
  PyObject *result = call_function_invoke(self->function, &frame);
  call_frame_release(&frame);
  return result;
}

static PyObject *bound_vectorcall(PyObject *object, PyObject *const *args, size_t nargsf,
                                  PyObject *kwnames) {
  bound_object *self = SELF(object);
  (void)args;
  if (self->function == NULL) {
    return call_raise(PyExc_RuntimeError,
                      "a bound function was called after the garbage collector took its arguments");
  }
  if (PyVectorcall_NARGS(nargsf) != 0 || (kwnames != NULL && PyTuple_GET_SIZE(kwnames) != 0)) {
    return call_raise(call_type_and_value, "%U: its arguments are bound, call it without any",
                      self->frame.name);
  }
  if (self->has_tensors && !check_tensors(self)) return NULL;
  Py_INCREF(self); /* a callback may drop the last other reference */
  PyObject *result = self->frame.misaligned ? call_with_copies(self)
                                            : call_function_invoke(self->function, &self->frame);
  Py_DECREF(self);
  return result;
}

PyObject *call_bound_new(PyObject *function, PyObject *const *args, Py_ssize_t count,
                         PyObject *kwnames) {
  bound_object *self = PyObject_GC_New(bound_object, &call_bound_type);
  if (self == NULL) return NULL;
  self->vectorcall = bound_vectorcall;
  self->function = Py_NewRef(function);
  self->has_tensors = false;
  self->frame.count = 0;
  self->frame.heap = NULL;
  self->args = PyTuple_New(count);
  for (Py_ssize_t i = 0; self->args != NULL && i < count; ++i) {
    self->has_tensors |= PyObject_TypeCheck(args[i], &call_tensor_type) != 0;
    PyTuple_SET_ITEM(self->args, i, Py_NewRef(args[i]));
  }
  if (self->args == NULL || !call_function_prepare(function, &self->frame, args, count, kwnames) ||
      !call_function_check_bound(&self->frame, self->args)) {
    Py_DECREF(self);
    return NULL;
  }
  PyObject_GC_Track(self);
  return (PyObject *)self;
}

static int bound_traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(SELF(object)->function);
  Py_VISIT(SELF(object)->args);
  return call_frame_traverse(&SELF(object)->frame, visit, arg);
}

static int bound_clear(PyObject *object) {
  Py_CLEAR(SELF(object)->function);
  call_frame_release(&SELF(object)->frame);
  Py_CLEAR(SELF(object)->args);
  return 0;
}

static void bound_dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  (void)bound_clear(object);
  PyObject_GC_Del(object);
}

static PyObject *bound_repr(PyObject *object) {
  return PyUnicode_FromFormat("<mblob.BoundFunction of %R>",
                              SELF(object)->function ? SELF(object)->function : Py_None);
}

static PyObject *bound_reduce(PyObject *object, PyObject *unused) {
  const bound_object *self = SELF(object);
  (void)unused;
  PyObject *bind = call_pickled("bound");
  if (bind == NULL || self->function == NULL) return bind;
  return Py_BuildValue("N(OO)", bind, self->function, self->args);
}

static PyMethodDef bound_methods[] = {
    {"__reduce__", bound_reduce, METH_NOARGS,
     PyDoc_STR("For pickles: the function, and the arguments, whose elements are copied.")},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef bound_members[] = {
    {"function", T_OBJECT, offsetof(bound_object, function), READONLY,
     PyDoc_STR("the PackedFunction")},
    {"args", T_OBJECT, offsetof(bound_object, args), READONLY,
     PyDoc_STR("the arguments, as they were given")},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject call_bound_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mblob.BoundFunction",
    .tp_basicsize = sizeof(bound_object),
    .tp_dealloc = bound_dealloc,
    .tp_vectorcall_offset = offsetof(bound_object, vectorcall),
    .tp_repr = bound_repr,
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = PyDoc_STR(
        "A function with its arguments, from PackedFunction.bind. Call it without arguments."),
    .tp_traverse = bound_traverse,
    .tp_clear = bound_clear,
    .tp_methods = bound_methods,
    .tp_members = bound_members,
};
