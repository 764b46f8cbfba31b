/* memory.c - read-only bytes of a mapping as a buffer that keeps the owner of the mapping alive. */
#include "call.h"

typedef struct memory_object {
  PyObject_HEAD void *data;
  Py_ssize_t size;
  PyObject *owner;
} memory_object;

static PyObject *memory_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"address", "size", "owner", NULL};
  PyObject *address, *owner;
  Py_ssize_t size;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OnO", names, &address, &size, &owner))
    return NULL;
  void *data = PyLong_AsVoidPtr(address);
  if (data == NULL && PyErr_Occurred()) return NULL;
  if (size < 0) return call_raise(PyExc_ValueError, "Memory: size %zd, expected at least 0", size);
  memory_object *self = (memory_object *)type->tp_alloc(type, 0);
  if (self == NULL) return NULL;
  self->data = data;
  self->size = size;
  self->owner = Py_NewRef(owner);
  return (PyObject *)self;
}

static int memory_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(((memory_object *)self)->owner);
  return 0;
}

/* No tp_clear: views must stay valid until the last one goes. */
static void memory_dealloc(PyObject *self) {
  PyObject_GC_UnTrack(self);
  Py_XDECREF(((memory_object *)self)->owner);
  Py_TYPE(self)->tp_free(self);
}

static int memory_getbuffer(PyObject *self, Py_buffer *view, int flags) {
  memory_object *memory = (memory_object *)self;
  static char nothing;
  return PyBuffer_FillInfo(view, self, memory->size ? memory->data : &nothing, memory->size, 1,
                           flags);
}

static PyBufferProcs memory_buffer = {memory_getbuffer, NULL};

PyTypeObject call_memory_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mblob.loader._call.Memory",
    .tp_basicsize = sizeof(memory_object),
    .tp_dealloc = memory_dealloc,
    .tp_as_buffer = &memory_buffer,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = PyDoc_STR(
        "Memory(address, size, owner)\n\n`size` read-only bytes at `address`, alive as long as `owner`."),
    .tp_traverse = memory_traverse,
    .tp_new = memory_new,
};
