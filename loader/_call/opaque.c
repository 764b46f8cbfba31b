/* opaque.c - Python objects that no other language knows, among Python functions. The runtime sees
 * each as a function that nobody can call, and that turns back into the object. */
#include "call.h"

#include <stdlib.h>

/* The object behind each such function, by the function's address; with the interpreter's lock. */
static PyObject *objects;

typedef struct opaque {
  PyObject *key; /* of `objects`, NULL until it is there */
  char class_name[64];
} opaque;

static int refuse(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource) {
  (void)args, (void)codes, (void)count, (void)ret;
  char text[160];
  (void)PyOS_snprintf(text, sizeof text,
                      "TypeError: an object of the Python class %s is no function",
                      ((opaque *)resource)->class_name);
  mblob_set_error(MBLOB_E_KERNEL, text);
  return -1;
}

static void finalize(void *resource) {
  opaque *self = resource;
  if (Py_IsInitialized() && self->key != NULL) {
    PyGILState_STATE state = PyGILState_Ensure();
    if (PyDict_DelItem(objects, self->key) != 0) PyErr_Clear();
    Py_DECREF(self->key);
    PyGILState_Release(state);
  }
  free(self);
}

mblob_function *call_opaque_new(PyObject *object) {
  opaque *self = calloc(1, sizeof *self);
  mblob_function *function = NULL;
  if (self == NULL || (objects == NULL && (objects = PyDict_New()) == NULL)) {
    free(self);
    if (!PyErr_Occurred()) PyErr_NoMemory();
    return NULL;
  }
  (void)PyOS_snprintf(self->class_name, sizeof self->class_name, "%.60s", Py_TYPE(object)->tp_name);
  if (mblob_function_create(refuse, self, finalize, &function) != MBLOB_OK) {
    free(self);
    call_raise(PyExc_MemoryError, "%s", mblob_last_error());
    return NULL;
  }
  PyObject *key = PyLong_FromVoidPtr(function);
  if (key == NULL || PyDict_SetItem(objects, key, object) != 0) {
    Py_XDECREF(key);
    mblob_function_release(function);
    return NULL;
  }
  self->key = key;
  return function;
}

PyObject *call_opaque_object(const mblob_function *function) {
  if (objects == NULL || PyDict_GET_SIZE(objects) == 0) return NULL;
  PyObject *key = PyLong_FromVoidPtr((void *)(uintptr_t)function);
  PyObject *object = key ? PyDict_GetItemWithError(objects, key) : NULL;
  Py_XDECREF(key);
  Py_XINCREF(object);
  return object;
}
