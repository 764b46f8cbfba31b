/* module.c - the extension module `mblob.loader._call`: its types and functions. */
#include "call.h"

#include <string.h>

call_hooks call_hook;

static bool set_hook(PyObject **hook, PyObject *value) {
  PyObject *old = *hook;
  *hook = Py_NewRef(value);
  Py_XDECREF(old);
  return true;
}

bool call_hook_classes(void) {
  PyObject *device_class, *tensor_class, *shape_class;
  if (call_hook.device_class) return true;
  if (!call_hook.classes) {
    call_raise(PyExc_RuntimeError, "loader is not imported");
    return false;
  }
  PyObject *both = PyObject_CallNoArgs(call_hook.classes);
  if (both == NULL) return false;
  const bool fits =
      PyArg_ParseTuple(both, "O!O!O!;classes", &PyType_Type, &device_class, &PyType_Type,
                       &tensor_class, &PyType_Type, &shape_class) &&
      (PyType_IsSubtype((PyTypeObject *)tensor_class, &call_tensor_type) ||
       call_raise(PyExc_TypeError, "classes: the second must derive from TensorBase"));
  if (fits) {
    set_hook(&call_hook.tensor_class, tensor_class);
    set_hook(&call_hook.shape_class, shape_class);
    set_hook(&call_hook.device_class, device_class);
  }
  Py_DECREF(both);
  return fits;
}

PyObject *call_device_object(DLDevice device) {
  if (!call_hook_classes()) return NULL;
  return PyObject_CallFunction(call_hook.device_class, "ii", (int)device.device_type,
                               (int)device.device_id);
}

static PyObject *set_hooks(PyObject *module, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"module_class", "module_handle", "wrap_module",   "classes",
                          "raise_status", "ffi_function",  "ffi_stand_in",  "error_class",
                          "declared",     "prototype",     "tensor_advice", "check_bound",
                          "check_shape",  "remember",      "result_value",  NULL};
  PyObject *module_class, *module_handle, *wrap_module, *classes, *raise_status, *ffi_function,
      *ffi_stand_in, *error_class, *declared, *prototype, *tensor_advice, *check_bound,
      *check_shape, *remember, *result_value;
  (void)module;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OOOOOOOOOOOOOO", names, &PyType_Type,
                                   &module_class, &module_handle, &wrap_module, &classes,
                                   &raise_status, &ffi_function, &ffi_stand_in, &error_class,
                                   &declared, &prototype, &tensor_advice, &check_bound,
                                   &check_shape, &remember, &result_value)) {
    return NULL;
  }
  set_hook(&call_hook.module_class, module_class);
  set_hook(&call_hook.module_handle, module_handle);
  set_hook(&call_hook.wrap_module, wrap_module);
  set_hook(&call_hook.classes, classes);
  Py_CLEAR(call_hook.device_class); /* those of an earlier import of the loader */
  Py_CLEAR(call_hook.tensor_class);
  Py_CLEAR(call_hook.shape_class);
  set_hook(&call_hook.raise_status, raise_status);
  set_hook(&call_hook.ffi_function, ffi_function);
  set_hook(&call_hook.ffi_stand_in, ffi_stand_in);
  set_hook(&call_hook.error_class, error_class);
  set_hook(&call_hook.declared, declared);
  set_hook(&call_hook.prototype, prototype);
  set_hook(&call_hook.tensor_advice, tensor_advice);
  set_hook(&call_hook.check_bound, check_bound);
  set_hook(&call_hook.check_shape, check_shape);
  set_hook(&call_hook.remember, remember);
  set_hook(&call_hook.result_value, result_value);
  Py_RETURN_NONE;
}

static PyObject *callback(PyObject *module, PyObject *callable) {
  (void)module;
  if (!PyCallable_Check(callable)) {
    return call_raise(PyExc_TypeError, "expected a callable, found %s", Py_TYPE(callable)->tp_name);
  }
  mblob_function *function = call_callback_new(callable);
  return function ? PyLong_FromVoidPtr(function) : NULL;
}

static PyObject *keep_exception(PyObject *module, PyObject *exception) {
  (void)module;
  if (!PyExceptionInstance_Check(exception)) {
    return call_raise(PyExc_TypeError, "expected an exception, found %s",
                      Py_TYPE(exception)->tp_name);
  }
  PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
  call_callback_keep();
  Py_RETURN_NONE;
}

static PyObject *python_function(PyObject *module, PyObject *function) {
  (void)module;
  PyObject *callable = NULL;
  if (PyObject_TypeCheck(function, &call_function_type)) callable = call_function_python(function);
  return Py_NewRef(callable ? callable : Py_None);
}

/* shape (a sequence of ints) and dtype (code, bits, lanes) to a DLTensor on the processor. */
static bool parse_layout(PyObject *shape, PyObject *dtype, DLTensor *dl,
                         int64_t extents[CALL_TENSOR_NDIM_MAX]) {
  unsigned char code, bits;
  unsigned short lanes;
  if (!PyArg_ParseTuple(dtype, "bbH", &code, &bits, &lanes)) return false;
  if (bits == 0 || lanes == 0) {
    call_raise(PyExc_ValueError, "tensor: a data type has at least 1 bit and 1 lane");
    return false;
  }
  Py_ssize_t ndim = PyTuple_GET_SIZE(shape);
  if (ndim > CALL_TENSOR_NDIM_MAX) {
    call_raise(PyExc_ValueError, "tensor: %zd dimensions, expected at most %d", ndim,
               CALL_TENSOR_NDIM_MAX);
    return false;
  }
  for (Py_ssize_t d = 0; d < ndim; ++d) {
    extents[d] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, d));
    if (extents[d] == -1 && PyErr_Occurred()) return false;
  }
  memset(dl, 0, sizeof *dl);
  dl->device.device_type = kDLCPU;
  dl->ndim = (int32_t)ndim;
  dl->dtype.code = code;
  dl->dtype.bits = bits;
  dl->dtype.lanes = lanes;
  dl->shape = extents;
  return true;
}

static PyObject *tensor_empty(PyObject *module, PyObject *args) {
  PyObject *shape, *dtype;
  DLTensor dl;
  int64_t extents[CALL_TENSOR_NDIM_MAX];
  (void)module;
  int device_type = kDLCPU, device_id = 0;
  if (!PyArg_ParseTuple(args, "O!O!|ii", &PyTuple_Type, &shape, &PyTuple_Type, &dtype, &device_type,
                        &device_id))
    return NULL;
  if (!parse_layout(shape, dtype, &dl, extents)) return NULL;
  dl.device.device_type = (DLDeviceType)device_type;
  dl.device.device_id = device_id;
  return device_type == kDLCPU ? call_tensor_empty(&dl) : call_device_empty(&dl);
}

static PyObject *tensor_view(PyObject *module, PyObject *args) {
  PyObject *source, *shape, *dtype;
  DLTensor dl;
  int64_t extents[CALL_TENSOR_NDIM_MAX];
  (void)module;
  if (!PyArg_ParseTuple(args, "OO!O!", &source, &PyTuple_Type, &shape, &PyTuple_Type, &dtype))
    return NULL;
  if (!parse_layout(shape, dtype, &dl, extents)) return NULL;
  PyObject *view = PyMemoryView_FromObject(source);
  if (view == NULL) return NULL;
  const Py_buffer *buffer = PyMemoryView_GET_BUFFER(view);
  size_t nbytes;
  PyObject *tensor = NULL;
  if (!PyBuffer_IsContiguous(buffer, 'C')) {
    call_raise(PyExc_ValueError, "tensor: the buffer is not contiguous");
  } else if (!call_tensor_size(&dl, &nbytes) || nbytes != (size_t)buffer->len) {
    call_raise(PyExc_ValueError, "tensor: a buffer of %zd bytes does not match dtype and shape %R",
               buffer->len, shape);
  } else {
    dl.data = buffer->buf;
    tensor = call_tensor_over(&dl, view, NULL, NULL, buffer->readonly != 0);
  }
  Py_DECREF(view);
  return tensor;
}

static PyObject *tensor_retype(PyObject *module, PyObject *args) {
  PyObject *source, *dtype;
  DLTensor dl;
  int64_t extents[CALL_TENSOR_NDIM_MAX];
  (void)module;
  if (!PyArg_ParseTuple(args, "O!O!", &call_tensor_type, &source, &PyTuple_Type, &dtype))
    return NULL;
  call_tensor *tensor = (call_tensor *)source;
  if (!call_tensor_valid(tensor)) return NULL;
  PyObject *no_shape = PyTuple_New(0);
  bool ok = no_shape != NULL && parse_layout(no_shape, dtype, &dl, extents);
  Py_XDECREF(no_shape);
  if (!ok) return NULL;
  DLDataType wanted = dl.dtype;
  dl = tensor->dl;
  dl.dtype = wanted;
  return call_tensor_over(&dl, source, NULL, NULL, tensor->readonly);
}

static PyObject *tensor_part(PyObject *module, PyObject *args) {
  PyObject *source, *shape, *dtype;
  unsigned long long offset;
  DLTensor dl;
  int64_t extents[CALL_TENSOR_NDIM_MAX];
  size_t nbytes;
  (void)module;
  if (!PyArg_ParseTuple(args, "O!O!O!K", &call_tensor_type, &source, &PyTuple_Type, &shape,
                        &PyTuple_Type, &dtype, &offset))
    return NULL;
  const call_tensor *tensor = (const call_tensor *)source;
  if (!call_tensor_valid(tensor) || !parse_layout(shape, dtype, &dl, extents)) return NULL;
  if (!call_tensor_size(&dl, &nbytes) || offset > tensor->nbytes ||
      nbytes > tensor->nbytes - offset)
    return call_raise(PyExc_ValueError, "tensor: the part is not inside the tensor");
  dl.data = tensor->dl.data;
  dl.device = tensor->dl.device;
  dl.byte_offset = tensor->dl.byte_offset + offset;
  return call_tensor_over(&dl, source, NULL, NULL, tensor->readonly);
}

static PyObject *tensor_from_dlpack(PyObject *module, PyObject *source) {
  (void)module;
  return call_dlpack_import(source);
}

static PyObject *dtype_of_format(PyObject *module, PyObject *args) {
  const char *format;
  Py_ssize_t itemsize;
  DLDataType dtype;
  (void)module;
  if (!PyArg_ParseTuple(args, "sn", &format, &itemsize)) return NULL;
  if (!call_dtype_from_format(format, itemsize, &dtype)) Py_RETURN_NONE;
  return Py_BuildValue("(iii)", dtype.code, dtype.bits, dtype.lanes);
}

static PyMethodDef methods[] = {
    {"set_hooks", (PyCFunction)(void (*)(void))set_hooks, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("Give the module the Python classes and functions it needs.")},
    {"callback", callback, METH_O,
     PyDoc_STR(
         "callback(callable) -> address of a new mblob_function that calls it; the caller owns the "
         "reference.")},
    {"python_function", python_function, METH_O,
     PyDoc_STR(
         "python_function(function) -> the callable that a PackedFunction calls, None if it calls none.")},
    {"keep_exception", keep_exception, METH_O,
     PyDoc_STR(
         "keep_exception(exc): make it this thread's error of the runtime, to be raised again by the "
         "caller.")},
    {"tensor_empty", tensor_empty, METH_VARARGS,
     PyDoc_STR("tensor_empty(shape, (code, bits, lanes), device_type=1, device_id=0) -> Tensor")},
    {"tensor_view", tensor_view, METH_VARARGS,
     PyDoc_STR(
         "tensor_view(buffer, shape, (code, bits, lanes)) -> Tensor over the buffer's memory")},
    {"tensor_retype", tensor_retype, METH_VARARGS,
     PyDoc_STR(
         "tensor_retype(tensor, (code, bits, lanes)) -> Tensor over the same memory, elements of that type")},
    {"tensor_part", tensor_part, METH_VARARGS,
     PyDoc_STR(
         "tensor_part(tensor, shape, (code, bits, lanes), offset) -> Tensor over part of the same memory")},
    {"tensor_from_dlpack", tensor_from_dlpack, METH_O,
     PyDoc_STR("tensor_from_dlpack(obj or capsule) -> Tensor, no copy")},
    {"ffi_hand_over", call_ffi_hand_over, METH_NOARGS,
     PyDoc_STR(
         "ffi_hand_over() -> address of a function of tvm_ffi's convention that gives the object at the address "
         "that it is passed")},
    {"dtype_of_format", dtype_of_format, METH_VARARGS,
     PyDoc_STR("dtype_of_format(format, itemsize) -> (code, bits, lanes) or None")},
    {NULL, NULL, 0, NULL},
};

static int execute(PyObject *module) {
  static const struct {
    const char *name;
    PyTypeObject *type;
  } types[] = {{"PackedFunction", &call_function_type},
               {"BoundFunction", &call_bound_type},
               {"TensorBase", &call_tensor_type},
               {"Memory", &call_memory_type}};
  if (!call_runtime_bind() || !call_error_init() || !call_dlpack_init()) return -1;
  call_callback_offer_signals();
  for (size_t i = 0; i < sizeof types / sizeof types[0]; ++i) {
    if (PyType_Ready(types[i].type) != 0) return -1;
    if (PyModule_AddObject(module, types[i].name, Py_NewRef((PyObject *)types[i].type)) != 0)
      return -1;
  }
  return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)(uintptr_t)execute},
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "mblob.loader._call",
    .m_doc = PyDoc_STR(
        "Calling functions of libraries, tensors, callbacks: the part of the run side that must be fast."),
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__call(void);
PyMODINIT_FUNC PyInit__call(void) { return PyModuleDef_Init(&definition); }
