/* tensor.c - TensorBase: a compact n-dimensional array that owns its memory or views another's.
 *
 * loader/tensor.py adds what needs no C (numpy(), copyfrom(), ...). */
#include "call.h"

#include <stdio.h>

#include <stdlib.h>
#include <string.h>
#include <structmember.h>

#define SELF(object) ((call_tensor *)(object))

/* ---- sizes ----------------------------------------------------------------------------------- */

bool call_tensor_compact(const DLTensor *dl) {
  int64_t expected = 1;
  for (int d = 0; d < dl->ndim; ++d) {
    if (dl->shape[d] == 0) return true;
  }
  for (int d = dl->ndim - 1; d >= 0; --d) {
    if (dl->shape[d] != 1 && dl->strides[d] != expected) return false;
    if (__builtin_mul_overflow(expected, dl->shape[d], &expected)) return false;
  }
  return true;
}

bool call_tensor_size(const DLTensor *dl, size_t *nbytes) {
  size_t size = call_dtype_size(dl->dtype);
  bool overflow = false, empty = false;
  for (int d = 0; d < dl->ndim; ++d) {
    if (dl->shape[d] < 0) return false;
    empty |= dl->shape[d] == 0;
    overflow |= __builtin_mul_overflow(size, (size_t)dl->shape[d], &size);
  }
  *nbytes = empty ? 0 : size;
  return empty || (!overflow && size <= PY_SSIZE_T_MAX);
}

bool call_tensor_described(const DLTensor *dl, bool has_data) {
  size_t size;
  if (dl->ndim < 0 || dl->ndim > CALL_TENSOR_NDIM_MAX) {
    call_raise(PyExc_ValueError, "tensor: " MB_TEXT_NDIM, (int)dl->ndim, CALL_TENSOR_NDIM_MAX);
  } else if (dl->ndim > 0 && dl->shape == NULL) {
    call_raise(PyExc_ValueError, "tensor: " MB_TEXT_SHAPE_IS_NULL, (int)dl->ndim);
  } else if (!call_tensor_size(dl, &size)) {
    call_raise(
        PyExc_ValueError,
        "tensor: a dimension is negative, or the tensor has more bytes than an address can count");
  } else if (has_data && size != 0 && dl->data == NULL) {
    call_raise(PyExc_ValueError, "tensor: " MB_TEXT_DATA_IS_NULL, size);
  } else if (dl->byte_offset > PY_SSIZE_T_MAX) {
    call_raise(PyExc_ValueError, "tensor: byte_offset is %llu, more than memory has addresses",
               (unsigned long long)dl->byte_offset);
  } else {
    return true;
  }
  return false;
}

/* ---- making one ------------------------------------------------------------------------------ */

static bool set_layout(call_tensor *self, const DLTensor *dl) {
  int ndim = dl->ndim;
  if (ndim < 0 || ndim > CALL_TENSOR_NDIM_MAX) {
    call_raise(PyExc_ValueError, "tensor: " MB_TEXT_NDIM, ndim, CALL_TENSOR_NDIM_MAX);
    return false;
  }
  if (dl->strides != NULL && !call_tensor_compact(dl)) {
    call_raise(PyExc_ValueError, "tensor: not contiguous; make a contiguous copy first");
    return false;
  }
  if (!call_tensor_size(dl, &self->nbytes)) {
    call_raise(
        PyExc_ValueError,
        "tensor: a dimension is negative, or the tensor has more bytes than an address can count");
    return false;
  }
  const size_t count = 2 * ((size_t)ndim + 1);
  self->shape =
      count <= CALL_TENSOR_EXTENTS ? self->extents : PyMem_Calloc(count, sizeof *self->shape);
  if (self->shape == NULL) {
    PyErr_NoMemory();
    return false;
  }
  self->strides = self->shape + ndim + 1;
  if (ndim > 0) memcpy(self->shape, dl->shape, (size_t)ndim * sizeof *self->shape);
  self->shape[ndim] = dl->dtype.lanes;
  int64_t stride = (dl->dtype.bits + 7) / 8;
  for (int d = ndim; d >= 0; --d) {
    self->strides[d] = stride;
    if (self->nbytes != 0) stride *= self->shape[d]; /* cannot overflow: nbytes did not */
  }
  return true;
}

/* The tensor whose memory it is. */
static call_tensor *source_of(call_tensor *tensor) {
  return tensor->source != NULL ? tensor->source : tensor;
}

PyObject *call_tensor_over(const DLTensor *dl, PyObject *owner, void (*release)(void *), void *arg,
                           bool readonly) {
  if (!call_hook_classes()) return NULL;
  PyTypeObject *type = (PyTypeObject *)call_hook.tensor_class;
  call_tensor *self = SELF(type->tp_alloc(type, 0));
  if (self == NULL) return NULL;
  if (!set_layout(self, dl)) {
    Py_DECREF(self);
    return NULL;
  }
  self->dl = *dl;
  self->dl.shape = self->shape;
  self->dl.strides = NULL;
  if (call_device_is_host(dl->device)) {
    self->dl.data = (char *)dl->data + dl->byte_offset;
    self->dl.byte_offset = 0;
  }
  self->readonly = readonly;
  self->release = release;
  self->release_arg = arg;
  self->owner = owner ? Py_NewRef(owner) : NULL;
  if (owner != NULL && PyObject_TypeCheck(owner, &call_tensor_type))
    self->source = source_of(SELF(owner));
  return (PyObject *)self;
}

PyObject *call_tensor_empty(const DLTensor *like) {
  DLTensor dl = *like;
  dl.data = NULL;
  dl.strides = NULL;
  dl.byte_offset = 0;
  if (dl.device.device_type != kDLCPU) dl.device = (DLDevice){kDLCPU, 0};
  PyObject *object = call_tensor_over(&dl, NULL, NULL, NULL, false);
  if (object == NULL) return NULL;
  call_tensor *self = SELF(object);
  if (posix_memalign(&self->memory, CALL_TENSOR_ALIGNMENT, self->nbytes ? self->nbytes : 1) != 0) {
    self->memory = NULL;
    PyErr_Format(PyExc_MemoryError, "tensor: no memory for %zu bytes", self->nbytes);
    Py_DECREF(object);
    return NULL;
  }
  self->dl.data = self->memory;
  return object;
}

void call_array_release(void *array) { call_tvm.array_free(array); }

/* What keeps memory of a tensor that became a counted array. */
typedef struct own_memory {
  DLManagedTensor managed;
  void *memory;
} own_memory;

static void free_own_memory(DLManagedTensor *managed) {
  own_memory *own = managed->manager_ctx;
  free(own->memory);
  free(own);
}

static bool count_memory(call_tensor *self) {
  TVMArrayHandle array = NULL;
  int64_t strides[CALL_TENSOR_NDIM_MAX], stride = 1;
  own_memory *own = malloc(sizeof *own);
  if (own == NULL) return false;
  *own = (own_memory){{self->dl, own, free_own_memory}, self->memory};
  for (int d = self->dl.ndim; d-- > 0 && self->nbytes != 0; stride *= self->dl.shape[d])
    strides[d] = stride;
  /* with strides: kernels of the ffi dialect take such an array as it is */
  own->managed.dl_tensor.strides = self->nbytes != 0 ? strides : NULL;
  const bool ok = call_tvm.from_dlpack(&own->managed, &array) == 0;
  own->managed.dl_tensor.strides = NULL;
  if (!ok) {
    free(own);
    return false;
  }
  self->memory = NULL;
  self->release = call_array_release;
  self->release_arg = array;
  return true;
}

TVMArrayHandle call_tensor_counted(PyObject *tensor) {
  call_tensor *self = SELF(tensor);
  if (self->readonly || (self->memory != NULL && !count_memory(self)) ||
      self->release != call_array_release)
    return NULL;
  const DLTensor *array = self->release_arg;
  const bool same = array->data == self->dl.data && array->byte_offset == 0 &&
                    array->ndim == self->dl.ndim && call_dtype_equal(array->dtype, self->dl.dtype);
  for (int d = 0; same && d < array->ndim; ++d)
    if (array->shape[d] != self->dl.shape[d]) return NULL;
  return same ? self->release_arg : NULL;
}

bool call_tensor_valid(const call_tensor *tensor) {
  if (tensor->dl.ndim >= 0 && tensor->shape != NULL &&
      (tensor->source == NULL || tensor->source->dl.ndim >= 0))
    return true;
  call_raise(PyExc_ValueError,
             tensor->shape == NULL
                 ? "tensor: not initialised; use mblob.empty or mblob.array"
                 : "tensor: it was valid only during the call that passed it; copy what you keep");
  return false;
}

/* ---- arguments of Python functions --------------------------------------------------------- */

void call_tensor_exported(call_tensor *tensor) { source_of(tensor)->exports++; }

void call_tensor_returned(call_tensor *tensor) { source_of(tensor)->exports--; }

PyObject *call_tensor_owner(PyObject *array) {
  const bool lent =
      PyObject_TypeCheck(array, &call_tensor_type) && source_of(SELF(array))->borrowed;
  return lent ? call_dlpack_capsule(array) : Py_NewRef(array);
}

void call_tensor_lend(PyObject *tensor) { SELF(tensor)->borrowed = true; }

void call_tensor_own(PyObject *tensor, void (*release)(void *), void *arg) {
  SELF(tensor)->borrowed = false;
  SELF(tensor)->release = release;
  SELF(tensor)->release_arg = arg;
}

bool call_tensor_detach(PyObject *tensor) {
  SELF(tensor)->dl.ndim = -1;
  SELF(tensor)->dl.data = NULL;
  return SELF(tensor)->exports == 0;
}

/* ---- the object ------------------------------------------------------------------------------ */

static int tensor_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(SELF(self)->owner);
  return 0;
}

/* No tp_clear: views of the memory must stay valid until the last one goes. */
static void tensor_dealloc(PyObject *object) {
  call_tensor *self = SELF(object);
  PyObject_GC_UnTrack(object);
  if (self->weakrefs != NULL) PyObject_ClearWeakRefs(object);
  if (self->release != NULL) self->release(self->release_arg);
  free(self->memory);
  if (self->shape != self->extents) PyMem_Free(self->shape);
  Py_XDECREF(self->owner);
  Py_TYPE(object)->tp_free(object);
}

static int tensor_getbuffer(PyObject *object, Py_buffer *view, int flags) {
  call_tensor *self = SELF(object);
  view->obj = NULL;
  if (!call_tensor_valid(self)) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    call_raise(PyExc_BufferError, "%S", value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return -1;
  }
  char text[48];
  call_dtype_text(self->dl.dtype, text);
  const char *format = call_dtype_format(self->dl.dtype);
  if (format == NULL) {
    char lanes[16] = "";
    if (self->dl.dtype.lanes > 1)
      snprintf(lanes, sizeof lanes, "x%u", (unsigned)self->dl.dtype.lanes);
    if (self->dl.dtype.bits == 0)
      call_raise(PyExc_BufferError, "elements of type %s have no bytes", text);
    else
      call_raise(PyExc_BufferError,
                 "elements of type %s have no buffer format; use Tensor.view(\"uint%d%s\")", text,
                 (self->dl.dtype.bits + 7) / 8 * 8, lanes);
    return -1;
  }
  if (!call_device_is_host(self->dl.device)) {
    call_raise(PyExc_BufferError,
               "the tensor is in the memory of device type %d; copy it to the processor first",
               (int)self->dl.device.device_type);
    return -1;
  }
  if ((flags & PyBUF_WRITABLE) && self->readonly) {
    call_raise(PyExc_BufferError, MB_TEXT_READ_ONLY);
    return -1;
  }
  static char nothing;
  view->obj = Py_NewRef(object);
  view->buf = self->dl.data ? self->dl.data : &nothing;
  view->len = (Py_ssize_t)self->nbytes;
  view->itemsize = (self->dl.dtype.bits + 7) / 8;
  view->readonly = self->readonly;
  view->format = (flags & PyBUF_FORMAT) ? (char *)(uintptr_t)format : NULL;
  view->ndim = self->dl.ndim + (self->dl.dtype.lanes != 1);
  view->shape = (flags & PyBUF_ND) ? (Py_ssize_t *)self->shape : NULL;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? (Py_ssize_t *)self->strides : NULL;
  view->suboffsets = NULL;
  view->internal = NULL;
  call_tensor_exported(self);
  return 0;
}

static void tensor_releasebuffer(PyObject *object, Py_buffer *view) {
  (void)view;
  call_tensor_returned(SELF(object));
}

static PyObject *get_shape(PyObject *object, void *closure) {
  (void)closure;
  call_tensor *self = SELF(object);
  if (!call_tensor_valid(self)) return NULL;
  PyObject *shape = PyTuple_New(self->dl.ndim);
  for (int d = 0; shape != NULL && d < self->dl.ndim; ++d) {
    PyObject *extent = PyLong_FromLongLong(self->shape[d]);
    if (extent == NULL)
      Py_CLEAR(shape);
    else
      PyTuple_SET_ITEM(shape, d, extent);
  }
  return shape;
}

static PyObject *get_ndim(PyObject *object, void *closure) {
  (void)closure;
  return call_tensor_valid(SELF(object)) ? PyLong_FromLong(SELF(object)->dl.ndim) : NULL;
}

static PyObject *get_nbytes(PyObject *object, void *closure) {
  (void)closure;
  return call_tensor_valid(SELF(object)) ? PyLong_FromSize_t(SELF(object)->nbytes) : NULL;
}

static PyObject *get_dtype(PyObject *object, void *closure) {
  (void)closure;
  if (!call_tensor_valid(SELF(object))) return NULL;
  char text[48];
  call_dtype_text(SELF(object)->dl.dtype, text);
  return PyUnicode_FromString(text);
}

static PyObject *get_device(PyObject *object, void *closure) {
  (void)closure;
  if (!call_tensor_valid(SELF(object))) return NULL;
  return call_device_object(SELF(object)->dl.device);
}

static PyObject *get_address(PyObject *object, void *closure) {
  (void)closure;
  return call_tensor_valid(SELF(object)) ? PyLong_FromVoidPtr(SELF(object)->dl.data) : NULL;
}

static PyObject *tensor_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                               PyObject *kwnames) {
  return call_tensor_valid(SELF(self)) ? call_dlpack_export(self, args, nargs, kwnames) : NULL;
}

static PyObject *tensor_dlpack_device(PyObject *self, PyObject *unused) {
  (void)unused;
  if (!call_tensor_valid(SELF(self))) return NULL;
  return Py_BuildValue("(ii)", (int)SELF(self)->dl.device.device_type,
                       (int)SELF(self)->dl.device.device_id);
}

static PyObject *tensor_copy_bytes(PyObject *object, PyObject *source) {
  call_tensor *self = SELF(object);
  if (!PyObject_TypeCheck(source, &call_tensor_type)) {
    return call_raise(PyExc_TypeError, "expected a Tensor, found %s", Py_TYPE(source)->tp_name);
  }
  if (!call_tensor_valid(self) || !call_tensor_valid(SELF(source))) return NULL;
  if (self->readonly) return call_raise(PyExc_ValueError, MB_TEXT_READ_ONLY);
  if (self->nbytes != SELF(source)->nbytes) {
    return call_raise(PyExc_ValueError, "%zu bytes do not fit a tensor of %zu",
                      SELF(source)->nbytes, self->nbytes);
  }
  if (!call_device_is_host(self->dl.device) || !call_device_is_host(SELF(source)->dl.device)) {
    if (!call_device_copy(&SELF(source)->dl, &self->dl)) return NULL;
    Py_RETURN_NONE;
  }
  void *to = self->dl.data, *from = SELF(source)->dl.data;
  size_t size = self->nbytes;
  Py_BEGIN_ALLOW_THREADS if (size != 0) memmove(to, from, size);
  Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyBufferProcs tensor_buffer = {tensor_getbuffer, tensor_releasebuffer};

static PyMethodDef tensor_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_FASTCALL | METH_KEYWORDS,
     PyDoc_STR(
         "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None): a DLPack capsule, "
         "no copy.")},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, PyDoc_STR("(device_type, device_id)")},
    {"_copy_bytes", tensor_copy_bytes, METH_O,
     PyDoc_STR("Copy all bytes of a tensor of the same size.")},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef tensor_members[] = {
    {"readonly", T_BOOL, offsetof(call_tensor, readonly), READONLY,
     PyDoc_STR("whether the memory must not be written")},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef tensor_getset[] = {
    {"shape", get_shape, NULL, PyDoc_STR("elements per dimension"), NULL},
    {"ndim", get_ndim, NULL, PyDoc_STR("number of dimensions"), NULL},
    {"nbytes", get_nbytes, NULL, PyDoc_STR("bytes of data"), NULL},
    {"dtype", get_dtype, NULL, PyDoc_STR("element type as text: \"float32\", \"bool\", \"int8x4\""),
     NULL},
    {"device", get_device, NULL, PyDoc_STR("where the memory is"), NULL},
    {"address", get_address, NULL, PyDoc_STR("address of the first element"), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject call_tensor_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mblob.loader._call.TensorBase",
    .tp_basicsize = sizeof(call_tensor),
    .tp_dealloc = tensor_dealloc,
    .tp_as_buffer = &tensor_buffer,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = PyDoc_STR("A compact n-dimensional array; see mblob.loader.tensor.Tensor."),
    .tp_traverse = tensor_traverse,
    .tp_weaklistoffset = offsetof(call_tensor, weakrefs),
    .tp_methods = tensor_methods,
    .tp_members = tensor_members,
    .tp_getset = tensor_getset,
};
