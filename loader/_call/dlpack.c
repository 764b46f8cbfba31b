/* dlpack.c - tensors in and out through DLPack capsules (dlpack.h; the Python protocol of the
 * array API). */
#include "call.h"

#include <stdlib.h>
#include <string.h>

static const char plain_name[] = "dltensor";
static const char plain_used[] = "used_dltensor";
static const char versioned_name[] = "dltensor_versioned";
static const char versioned_used[] = "used_dltensor_versioned";

/* TVM writes bool as {uint, 1 bit}; DLPack 1.0 has a code of its own for one-byte bool, which is
 * that of one of TVM's 8-bit floats, as its float8_e3m4 is the other one's. */
static DLDataType from_dlpack_dtype(DLDataType dtype) {
  if (dtype.code == kDLFloat8_e3m4) dtype.code = MBLOB_FLOAT8_E3M4;
  if (dtype.code == kDLBool && dtype.bits == 8) {
    dtype.code = kDLUInt;
    dtype.bits = 1;
  }
  return dtype;
}

static DLDataType to_dlpack_dtype(DLDataType dtype) {
  if (dtype.code == kDLUInt && dtype.bits == 1) return (DLDataType){kDLBool, 8, dtype.lanes};
  if (dtype.code == MBLOB_FLOAT8_E3M4) return (DLDataType){kDLFloat8_e3m4, 8, dtype.lanes};
  return call_dtype_for_dlpack(dtype);
}

/* ---- import -------------------------------------------------------------------------------- */

/* True if it is a capsule of DLPack, used or not. */
static bool is_capsule(PyObject *obj) {
  static const char *const names[] = {plain_name, plain_used, versioned_name, versioned_used};
  if (!PyCapsule_CheckExact(obj)) return false;
  const char *name = PyCapsule_GetName(obj);
  for (size_t k = 0; name != NULL && k < sizeof names / sizeof *names; ++k)
    if (strcmp(name, names[k]) == 0) return true;
  return false;
}

/* A tensor taken out of a capsule: ours to delete. */
typedef struct taken {
  DLManagedTensor *plain; /* one of the two is set */
  DLManagedTensorVersioned *versioned;
  DLTensor tensor;
  bool readonly;
} taken;

/* A deleter may run Python code, which must neither see the error that is on its way nor replace
 * it. */
void call_dlpack_delete(DLManagedTensor *plain, DLManagedTensorVersioned *versioned) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (plain != NULL && plain->deleter != NULL) plain->deleter(plain);
  if (versioned != NULL && versioned->deleter != NULL) versioned->deleter(versioned);
  PyErr_Restore(type, value, traceback);
}

static void taken_release(const taken *t) { call_dlpack_delete(t->plain, t->versioned); }

static bool take_capsule(PyObject *capsule, taken *out) {
  bool padded = false;
  memset(out, 0, sizeof *out);
  if (PyCapsule_IsValid(capsule, versioned_name)) {
    DLManagedTensorVersioned *managed = PyCapsule_GetPointer(capsule, versioned_name);
    if (managed->version.major != DLPACK_MAJOR_VERSION) {
      call_raise(PyExc_BufferError, MB_TEXT_DLPACK_VERSION, (unsigned)managed->version.major,
                 DLPACK_MAJOR_VERSION);
      return false;
    }
    if (PyCapsule_SetName(capsule, versioned_used) != 0) return false;
    out->versioned = managed;
    out->tensor = managed->dl_tensor;
    out->readonly = (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
    padded = (managed->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) != 0;
  } else if (PyCapsule_IsValid(capsule, plain_name)) {
    DLManagedTensor *managed = PyCapsule_GetPointer(capsule, plain_name);
    if (PyCapsule_SetName(capsule, plain_used) != 0) return false;
    out->plain = managed;
    out->tensor = managed->dl_tensor;
  } else {
    const bool used = is_capsule(capsule);
    call_raise(PyExc_TypeError, "expected a DLPack capsule nobody has used, found %R%s", capsule,
               used ? "; ask the array for a new one, __dlpack__()" : "");
    return false;
  }
  out->tensor.dtype = from_dlpack_dtype(out->tensor.dtype);
  if (padded)
    call_raise(PyExc_BufferError, "DLPack: " MB_TEXT_DLPACK_PADDED);
  else if (!call_device_has_addresses(out->tensor.device))
    call_raise(PyExc_BufferError,
               "DLPack: memory of device type %d has no addresses; copy it to the host first",
               (int)out->tensor.device.device_type);
  else if (call_tensor_described(&out->tensor, true))
    return true;
  taken_release(out);
  return false;
}

/* The names and the version of a request, made once: a call builds nothing but the capsule. */
static PyObject *dlpack_name, *dlpack_keywords, *dlpack_version;

bool call_dlpack_init(void) {
  if (dlpack_name == NULL) dlpack_name = PyUnicode_InternFromString("__dlpack__");
  if (dlpack_keywords == NULL) dlpack_keywords = Py_BuildValue("(s)", "max_version");
  if (dlpack_version == NULL) dlpack_version = Py_BuildValue("(ii)", DLPACK_MAJOR_VERSION, 0);
  return dlpack_name != NULL && dlpack_keywords != NULL && dlpack_version != NULL;
}

/* An exporter that refuses does not say which elements it was asked for: name them. */
static void name_elements(PyObject *obj, const char *who) {
  PyObject *type, *value, *traceback;
  if (!PyErr_ExceptionMatches(PyExc_BufferError)) return;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject *dtype = PyObject_GetAttrString(obj, "dtype");
  if (dtype == NULL) {
    PyErr_Restore(type, value, traceback);
    return;
  }
  call_raise(PyExc_BufferError, "%s%s of dtype %S has no DLPack capsule: %S", who,
             Py_TYPE(obj)->tp_name, dtype, value);
  Py_DECREF(dtype);
  Py_DECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
}

/* obj.__dlpack__(). Ask for the versioned form first; producers from before DLPack 1.0 do not
 * know the keyword. */
static PyObject *ask_capsule(PyObject *obj, const char *who) {
  PyObject *args[] = {obj, dlpack_version};
  PyObject *capsule = PyObject_VectorcallMethod(dlpack_name, args, 1, dlpack_keywords);
  if (capsule == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    capsule = PyObject_VectorcallMethod(dlpack_name, args, 1, NULL);
  }
  if (capsule == NULL) name_elements(obj, who);
  return capsule;
}

/* A capsule that was refused is deleted by its producer's destructor, for which the same holds. */
static void drop(PyObject *capsule) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Py_DECREF(capsule);
  PyErr_Restore(type, value, traceback);
}

/* Put function and argument in front of the current error. */
static bool say_which(const call_frame *frame, int i) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject *text = value ? PyObject_Str(value) : NULL;
  PyErr_Clear();
  if (text != NULL)
    call_frame_error(frame, i, type, "%U", text);
  else
    call_frame_error(frame, i, type ? type : PyExc_TypeError, "no DLPack capsule");
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return false;
}

/* The capsule of `obj`, or that `obj` is: a Python function gets it as it is. */
static PyObject *capsule_of(const call_frame *frame, PyObject *obj, bool *absent) {
  *absent = false;
  if (!frame->opaque && is_capsule(obj)) return Py_NewRef(obj);
  PyObject *method = PyObject_GetAttr((PyObject *)Py_TYPE(obj), dlpack_name);
  *absent = method == NULL && PyErr_ExceptionMatches(PyExc_AttributeError);
  if (method == NULL) {
    if (*absent) PyErr_Clear();
    return NULL;
  }
  Py_DECREF(method);
  return ask_capsule(obj, "");
}

bool call_dlpack_argument(call_frame *frame, int i, PyObject *obj, bool *absent) {
  PyObject *capsule = capsule_of(frame, obj, absent);
  if (capsule == NULL && *absent) return false;
  if (capsule == NULL)
    return PyErr_ExceptionMatches(PyExc_BufferError) ? say_which(frame, i) : false;
  taken t;
  bool ok = take_capsule(capsule, &t);
  drop(capsule);
  if (!ok) return say_which(frame, i);
  call_slot *slot = &frame->slots[i];
  if (t.versioned != NULL) {
    slot->kind = SLOT_DLPACK_VERSIONED;
    slot->u.versioned = t.versioned;
  } else {
    slot->kind = SLOT_DLPACK;
    slot->u.managed = t.plain;
  }
  slot->tensor = t.tensor;
  slot->is_tensor = true;
  slot->readonly = t.readonly;
  return call_frame_tensor(frame, i, "tensor");
}

static void release_taken(void *arg) {
  taken_release(arg);
  PyMem_Free(arg);
}

PyObject *call_dlpack_import(PyObject *obj) {
  PyObject *capsule;
  if (PyCapsule_CheckExact(obj)) {
    capsule = Py_NewRef(obj);
  } else {
    if (!PyObject_HasAttr(obj, dlpack_name)) {
      return call_raise(PyExc_TypeError,
                        "from_dlpack: expected an object with __dlpack__, found %s",
                        Py_TYPE(obj)->tp_name);
    }
    if (call_ndarray_masked(obj))
      return call_raise(PyExc_TypeError, "from_dlpack: %s", MB_TEXT_MASKED);
    capsule = ask_capsule(obj, "from_dlpack: ");
    if (capsule == NULL) return NULL;
  }
  taken *t = PyMem_Malloc(sizeof *t);
  if (t == NULL) {
    Py_DECREF(capsule);
    return PyErr_NoMemory();
  }
  bool ok = take_capsule(capsule, t);
  drop(capsule);
  if (!ok) {
    PyMem_Free(t);
    return NULL;
  }
  const bool gaps = t->tensor.strides != NULL && !call_tensor_compact(&t->tensor);
  if (gaps) call_raise(PyExc_ValueError, "from_dlpack: " MB_TEXT_DLPACK_GAPS);
  PyObject *tensor =
      gaps ? NULL : call_tensor_over(&t->tensor, NULL, release_taken, t, t->readonly);
  if (tensor == NULL) release_taken(t);
  return tensor;
}

/* ---- export -------------------------------------------------------------------------------- */

/* What a capsule holds: the managed tensor, its strides, and the Tensor that owns the memory. */
typedef struct exported {
  union {
    DLManagedTensor plain;
    DLManagedTensorVersioned versioned;
  } u;
  PyObject *tensor;
  int64_t strides[CALL_TENSOR_NDIM_MAX];
} exported;

static void exported_free(exported *e) {
  /* The consumer may be any thread, and the last one after Python has ended. */
  if (Py_IsInitialized()) {
    PyGILState_STATE state = PyGILState_Ensure();
    call_tensor_returned((call_tensor *)e->tensor);
    Py_DECREF(e->tensor);
    PyGILState_Release(state);
  }
  free(e);
}

static void delete_plain(DLManagedTensor *self) { exported_free(self->manager_ctx); }
static void delete_versioned(DLManagedTensorVersioned *self) { exported_free(self->manager_ctx); }

/* Runs the deleter of a capsule that nobody used. */
static void capsule_end(PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, plain_name)) {
    call_dlpack_delete(PyCapsule_GetPointer(capsule, plain_name), NULL);
  } else if (PyCapsule_IsValid(capsule, versioned_name)) {
    call_dlpack_delete(NULL, PyCapsule_GetPointer(capsule, versioned_name));
  }
}

static PyObject *make_capsule(PyObject *object, bool versioned, bool copied) {
  call_tensor *tensor = (call_tensor *)object;
  exported *e = calloc(1, sizeof *e);
  if (e == NULL) return PyErr_NoMemory();
  DLTensor dl = tensor->dl;
  dl.dtype = to_dlpack_dtype(dl.dtype);
  int64_t stride = 1;
  for (int d = dl.ndim - 1; d >= 0; --d) {
    e->strides[d] = stride;
    if (tensor->nbytes != 0) stride *= dl.shape[d];
  }
  dl.strides = dl.ndim > 0 ? e->strides : NULL; /* DLPack 1.2 wants them spelled out */
  e->tensor = Py_NewRef(object);
  call_tensor_exported(tensor);
  PyObject *capsule;
  if (versioned) {
    e->u.versioned.version.major = DLPACK_MAJOR_VERSION;
    e->u.versioned.version.minor = 0;
    e->u.versioned.manager_ctx = e;
    e->u.versioned.deleter = delete_versioned;
    e->u.versioned.flags = (tensor->readonly ? DLPACK_FLAG_BITMASK_READ_ONLY : 0) |
                           (copied ? DLPACK_FLAG_BITMASK_IS_COPIED : 0);
    e->u.versioned.dl_tensor = dl;
    capsule = PyCapsule_New(&e->u.versioned, versioned_name, capsule_end);
  } else {
    e->u.plain.dl_tensor = dl;
    e->u.plain.manager_ctx = e;
    e->u.plain.deleter = delete_plain;
    capsule = PyCapsule_New(&e->u.plain, plain_name, capsule_end);
  }
  if (capsule == NULL) exported_free(e);
  return capsule;
}

PyObject *call_dlpack_capsule(PyObject *tensor) { return make_capsule(tensor, true, false); }

typedef struct export_options {
  PyObject *stream, *max_version, *dl_device, *copy;
} export_options;

static bool parse_options(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                          export_options *o) {
  o->stream = o->max_version = o->dl_device = o->copy = Py_None;
  if (nargs > 1) {
    call_raise(
        PyExc_TypeError,
        "__dlpack__: takes stream, max_version, dl_device, copy as keywords, found %zd values",
        nargs);
    return false;
  }
  if (nargs == 1) o->stream = args[0];
  for (Py_ssize_t k = 0; kwnames != NULL && k < PyTuple_GET_SIZE(kwnames); ++k) {
    PyObject *name = PyTuple_GET_ITEM(kwnames, k);
    PyObject *value = args[nargs + k];
    if (PyUnicode_CompareWithASCIIString(name, "stream") == 0)
      o->stream = value;
    else if (PyUnicode_CompareWithASCIIString(name, "max_version") == 0)
      o->max_version = value;
    else if (PyUnicode_CompareWithASCIIString(name, "dl_device") == 0)
      o->dl_device = value;
    else if (PyUnicode_CompareWithASCIIString(name, "copy") == 0)
      o->copy = value;
    else {
      call_raise(PyExc_TypeError, "__dlpack__: unknown keyword %R", name);
      return false;
    }
  }
  return true;
}

/* 1 if the consumer understands version 1; its (major, minor), or None for what came before. */
static int wants_versioned(PyObject *max_version) {
  if (max_version == Py_None) return 0;
  int major, minor;
  if (!PyTuple_Check(max_version) || !PyArg_ParseTuple(max_version, "ii", &major, &minor)) {
    call_raise(PyExc_TypeError, "__dlpack__: max_version: expected (major, minor), found %R",
               max_version);
    return -1;
  }
  return major >= DLPACK_MAJOR_VERSION;
}

static bool check_device(const call_tensor *tensor, PyObject *wanted) {
  if (wanted == Py_None) return true;
  int type, id;
  if (!PyTuple_Check(wanted) || !PyArg_ParseTuple(wanted, "ii", &type, &id)) {
    call_raise(PyExc_TypeError,
               "__dlpack__: dl_device: expected (device_type, device_id), found %R", wanted);
    return false;
  }
  if (type == (int)tensor->dl.device.device_type && id == tensor->dl.device.device_id) return true;
  call_raise(PyExc_BufferError,
             "__dlpack__: the tensor is on device (%d, %d) and is not moved to (%d, %d)",
             (int)tensor->dl.device.device_type, (int)tensor->dl.device.device_id, type, id);
  return false;
}

static PyObject *copy_of(call_tensor *tensor) {
  bool host = call_device_is_host(tensor->dl.device);
  PyObject *copy = host ? call_tensor_empty(&tensor->dl) : call_device_empty(&tensor->dl);
  if (copy == NULL || tensor->nbytes == 0) return copy;
  if (host) {
    memcpy(((call_tensor *)copy)->dl.data, tensor->dl.data, tensor->nbytes);
  } else if (!call_device_copy(&tensor->dl, &((call_tensor *)copy)->dl)) {
    Py_CLEAR(copy);
  }
  return copy;
}

/* Streams as the array API numbers them. Those of CUDA: 1 is the legacy default one, 2 the
 * per-thread one, others are addresses; 0 could mean either, so it means nothing. */
static bool check_stream(DLDevice device, PyObject *stream) {
  if (stream == Py_None) return true;
  long long number = PyLong_Check(stream) ? PyLong_AsLongLong(stream) : -2;
  if (number == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    number = -2;
  }
  if (number == -1) return true;
  if (device.device_type == kDLCPU) {
    call_raise(PyExc_BufferError, "__dlpack__: a cpu tensor has no stream, found %R", stream);
    return false;
  }
  bool cuda = device.device_type == kDLCUDA || device.device_type == kDLCUDAManaged;
  if (!cuda || number > 0) return true;
  call_raise(
      PyExc_ValueError,
      "__dlpack__: stream: expected None, -1, 1 (legacy default), 2 (per thread) or a stream's "
      "address, found %R",
      stream);
  return false;
}

PyObject *call_dlpack_export(PyObject *object, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames) {
  call_tensor *tensor = (call_tensor *)object;
  export_options options;
  if (!parse_options(args, nargs, kwnames, &options)) return NULL;
  int versioned = wants_versioned(options.max_version);
  if (versioned < 0 || !check_device(tensor, options.dl_device)) return NULL;
  if (!check_stream(tensor->dl.device, options.stream)) return NULL;
  if (!call_device_has_addresses(tensor->dl.device)) {
    return call_raise(
        PyExc_BufferError,
        "__dlpack__: memory of device type %d is known to this runtime only; use numpy()",
        (int)tensor->dl.device.device_type);
  }
  /* -1: the consumer orders its work itself. */
  bool unordered = PyLong_Check(options.stream) && PyLong_AsLong(options.stream) == -1;
  int copy = options.copy == Py_None ? 0 : PyObject_IsTrue(options.copy);
  if (copy < 0) return NULL;
  if (!copy && !versioned && tensor->readonly) {
    return call_raise(
        PyExc_BufferError,
        "__dlpack__: a read-only tensor needs a consumer of DLPack 1.0 (max_version=(1, 0)), or copy=True");
  }
  PyObject *source = copy ? copy_of(tensor) : Py_NewRef(object);
  if (source == NULL) return NULL;
  /* What was given to this thread's stream, a copy included, is done before the consumer's
   * stream starts. */
  if (!unordered && !call_device_wait(tensor->dl.device)) {
    Py_DECREF(source);
    return NULL;
  }
  PyObject *capsule = make_capsule(source, versioned != 0, copy != 0);
  Py_DECREF(source);
  return capsule;
}
