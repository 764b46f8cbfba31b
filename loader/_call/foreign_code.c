/* foreign_code.c - functions of C code at an address: of the convention of the ffi, and that which
 * engines of MLIR wrap around it. Each is an object of the ffi made here, laid out as tvm/ffi/c_api.h
 * says. */
#include "call.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef int (*safe_call)(void *handle, const void *args, int32_t count, void *result);

typedef struct code_object {
  _Atomic uint64_t references; /* strong ones in the low half, weak ones in the high one */
  int32_t type;
  uint32_t padding;
  void (*deleter)(void *self, int flags);
  safe_call call; /* called with this object */
  void *cpp_call;
  union {
    void *address;
    safe_call call;
    void (*mlir)(void **arguments);
  } code;
  PyObject *kept; /* or NULL */
} code_object;

#define FFI_FUNCTION 68
#define BOTH_ONE ((UINT64_C(1) << 32) | 1)
enum { STRONG = 1, WEAK = 2 };

static int call_c(void *handle, const void *args, int32_t count, void *result) {
  return ((code_object *)handle)->code.call(NULL, args, count, result);
}

/* Such an engine gets the addresses of all arguments and of the result. */
static int call_mlir(void *handle, const void *args, int32_t count, void *result) {
  void *none = NULL;
  int rc = 0;
  void *arguments[] = {&none, &args, &count, &result, &rc};
  ((code_object *)handle)->code.mlir(arguments);
  return rc;
}

static void delete_code(void *self, int flags) {
  code_object *object = self;
  if (flags & STRONG && object->kept != NULL && Py_IsInitialized()) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(object->kept);
    PyGILState_Release(state);
  }
  if (flags & WEAK) free(object);
}

static PyObject *function_of(PyObject *args, PyObject *kwargs, safe_call call) {
  static char *names[] = {"c_symbol", "keep_alive_object", NULL};
  PyObject *address, *kept = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$O", names, &address, &kept)) return NULL;
  void *code = PyLong_AsVoidPtr(address);
  if (code == NULL) {
    if (!PyErr_Occurred()) call_raise(call_type_and_value, "c_symbol: the address is 0");
    return NULL;
  }
  code_object *object = calloc(1, sizeof *object);
  if (object == NULL) return PyErr_NoMemory();
  atomic_init(&object->references, BOTH_ONE);
  object->type = FFI_FUNCTION;
  object->deleter = delete_code;
  object->call = call;
  object->code.address = code;
  object->kept = kept == Py_None ? NULL : Py_NewRef(kept);
  mblob_function *function = NULL;
  if (mblob_function_from_ffi(object, &function) != MBLOB_OK) {
    delete_code(object, STRONG | WEAK);
    return call_raise(PyExc_RuntimeError, "%s", mblob_last_error());
  }
  atomic_fetch_sub(&object->references, 1); /* the function has one of its own */
  PyObject *name = PyUnicode_FromString("function");
  PyObject *made = name ? call_function_wrap(function, name, NULL) : NULL;
  if (name == NULL) mblob_function_release(function);
  Py_XDECREF(name);
  return made;
}

PyObject *call_function_from_c(PyObject *unused, PyObject *args, PyObject *kwargs) {
  (void)unused;
  return function_of(args, kwargs, call_c);
}

PyObject *call_function_from_mlir(PyObject *unused, PyObject *args, PyObject *kwargs) {
  (void)unused;
  return function_of(args, kwargs, call_mlir);
}
