/* ffi_values.c - arguments that only functions of the ffi dialect take: texts with a NUL, lists,
 * and what loader/ffi_values.py knows. They are containers of the runtime, which libmblob-ffi.so
 * turns into objects of the ffi. */
#include "call.h"

#include <string.h>

/* The container that the runtime's global function `make` makes of those values, for as long as
 * the slot. */
static bool make_container(call_frame *frame, int i, const char *make, const TVMValue *values,
                           const int *codes, int count) {
  mblob_function *function = NULL;
  TVMValue made = {.v_handle = NULL};
  int code = kTVMNullptr;
  int status = mblob_get_global(make, &function);
  if (status == MBLOB_OK)
    status = mblob_function_call(function, values, codes, count, &made, &code);
  mblob_function_release(function);
  if (status != MBLOB_OK)
    return call_frame_error(frame, i, PyExc_RuntimeError, "%s", mblob_last_error());
  frame->slots[i].kind = SLOT_OBJECT;
  frame->slots[i].u.container = made.v_handle;
  frame->values[i] = made;
  frame->codes[i] = kTVMObjectHandle;
  return true;
}

bool call_convert_string(call_frame *frame, int i, const char *text, size_t size) {
  TVMByteArray bytes = {text, size};
  const TVMValue value = {.v_handle = &bytes};
  const int code = kTVMBytes;
  return make_container(frame, i, "runtime.String", &value, &code, 1);
}

bool call_convert_shape(call_frame *frame, int i, PyObject *arg) {
  const Py_ssize_t count = PyTuple_GET_SIZE(arg);
  TVMValue *values = PyMem_Calloc((size_t)count + 1, sizeof *values);
  int *codes = PyMem_Calloc((size_t)count + 1, sizeof *codes); /* kTVMArgInt is 0 */
  bool ok = values != NULL && codes != NULL;
  if (!ok) PyErr_NoMemory();
  for (Py_ssize_t k = 0; ok && k < count; ++k) {
    values[k].v_int64 = PyLong_AsLongLong(PyTuple_GET_ITEM(arg, k));
    ok = values[k].v_int64 != -1 || !PyErr_Occurred();
  }
  ok = ok && make_container(frame, i, "runtime.ShapeTuple", values, codes, (int)count);
  PyMem_Free(values);
  PyMem_Free(codes);
  return ok;
}

/* ---- lists and dicts ------------------------------------------------------------------------- */

/* A tensor among the items, counted: over the same memory where its owner can be kept, of others
 * a copy. */
static bool count_tensor(call_frame *items, int k, PyObject *item, TVMArrayHandle *out) {
  call_slot *slot = &items->slots[k];
  bool kept = false;
  if (!slot->readonly && (slot->kind == SLOT_ARRAY || slot->kind == SLOT_BUFFER) &&
      PyObject_HasAttrString(item, "__dlpack__")) {
    PyObject *tensor = call_dlpack_import(item);
    if (tensor == NULL) return false;
    kept = call_keep_array(tensor, slot, out);
    Py_DECREF(tensor);
  } else {
    kept = call_keep_array(item, slot, out);
  }
  if (!kept && !call_copy_array(&slot->tensor, out)) return false;
  items->values[k].v_handle = *out;
  items->codes[k] = kTVMNDArrayHandle;
  return true;
}

static bool convert_items(call_frame *frame, int i, call_frame *items, PyObject *tuple,
                          const char *make, TVMArrayHandle *arrays) {
  const Py_ssize_t count = PyTuple_GET_SIZE(tuple);
  for (Py_ssize_t k = 0; k < count; ++k) {
    PyObject *item = PyTuple_GET_ITEM(tuple, k);
    if (!call_convert_argument(items, (int)k, item)) return false;
    if (items->slots[k].is_tensor && !count_tensor(items, (int)k, item, &arrays[k])) return false;
  }
  return make_container(frame, i, make, items->values, items->codes, (int)count);
}

/* Also where values stand for values. Python's own limit counts no bytes, and threads have
 * stacks of any size. */
static bool check_nesting(const call_frame *frame, int i) {
  if (frame->nesting < MB_NESTING_LIMIT) return true;
  for (; frame->outer != NULL; frame = frame->outer) i = frame->place;
  return call_frame_error(frame, i, PyExc_ValueError, MB_TEXT_NESTED);
}

/* On the heap, as a frame is large. */
static call_frame *new_items(const call_frame *frame, int i, Py_ssize_t count, PyObject *name) {
  call_frame *items = PyMem_Malloc(sizeof *items);
  if (items == NULL) {
    PyErr_NoMemory();
  } else if (!call_frame_init(items, name, count)) {
    PyMem_Free(items);
    items = NULL;
  } else {
    items->ffi = items->items = true;
    items->opaque = frame->opaque;
    items->nesting = frame->nesting + 1;
    items->outer = frame;
    items->place = i;
  }
  return items;
}

/* The container of the items of a tuple, which it takes over; of keys and values in turn if
 * `pairs`. */
static bool convert_row(call_frame *frame, int i, PyObject *tuple, bool pairs) {
  if (tuple == NULL) return false;
  const Py_ssize_t count = PyTuple_GET_SIZE(tuple);
  PyObject *name = call_frame_place(frame, i);
  TVMArrayHandle *arrays = PyMem_Calloc((size_t)count + 1, sizeof *arrays);
  call_frame *items = name != NULL && arrays != NULL ? new_items(frame, i, count, name) : NULL;
  bool ok = false;
  if (arrays == NULL) PyErr_NoMemory();
  if (items != NULL) {
    items->pairs = pairs;
    ok = convert_items(frame, i, items, tuple, pairs ? "runtime.Map" : "runtime.Array", arrays);
    call_frame_release(items);
    PyMem_Free(items);
  }
  for (Py_ssize_t k = 0; arrays != NULL && k < count; ++k)
    if (arrays[k] != NULL)
      call_tvm.array_free(arrays[k]); /* the container has a reference of its own */
  PyMem_Free(arrays);
  Py_XDECREF(name);
  Py_DECREF(tuple);
  return ok;
}

bool call_convert_sequence(call_frame *frame, int i, PyObject *arg) {
  /* a tuple: others may change a list meanwhile */
  return check_nesting(frame, i) && convert_row(frame, i, PySequence_Tuple(arg), false);
}

bool call_convert_dict(call_frame *frame, int i, PyObject *arg) {
  if (!check_nesting(frame, i)) return false;
  PyObject *row = PyTuple_New(2 * PyDict_GET_SIZE(arg)), *key, *value;
  Py_ssize_t at = 0, k = 0;
  while (row != NULL && PyDict_Next(arg, &at, &key, &value)) {
    PyTuple_SET_ITEM(row, k++, Py_NewRef(key));
    PyTuple_SET_ITEM(row, k++, Py_NewRef(value));
  }
  return convert_row(frame, i, row, true);
}

bool call_count_tensors(call_frame *frame, PyObject *const *args) {
  for (int i = 0; i < frame->count; ++i) {
    call_slot *slot = &frame->slots[i];
    if (!slot->is_tensor) continue;
    const bool is_own = !slot->misaligned && PyObject_TypeCheck(args[i], &call_tensor_type);
    TVMArrayHandle array = is_own ? call_tensor_counted(args[i]) : NULL;
    if (array != NULL) { /* which the caller keeps during the call */
      frame->values[i].v_handle = array;
      frame->codes[i] = kTVMNDArrayHandle;
      continue;
    }
    /* The function would copy it to align it: one copy does for both. */
    const bool kept = !slot->misaligned && call_keep_argument(args[i], slot, &slot->counted);
    if (!kept && !call_copy_array(&slot->tensor, &slot->counted)) return false;
    slot->misaligned = !kept; /* what the function writes is copied back */
    frame->values[i].v_handle = slot->counted;
    frame->codes[i] = kTVMNDArrayHandle;
  }
  frame->misaligned = false; /* what the function has is aligned */
  return true;
}

void call_count_back(call_frame *frame) {
  for (int i = 0; i < frame->count; ++i) {
    call_slot *slot = &frame->slots[i];
    size_t size;
    if (!slot->counted || !slot->misaligned || slot->readonly ||
        !call_tensor_size(&slot->tensor, &size))
      continue;
    char *given = (char *)slot->tensor.data + slot->tensor.byte_offset;
    const char *copy = ((const DLTensor *)slot->counted)->data;
    if (size && memcmp(given, copy, size) != 0) memcpy(given, copy, size);
  }
}

/* ---- what Python code knows ------------------------------------------------------------------ */

static bool convert_dtype(call_frame *frame, int i, PyObject *fields) {
  unsigned char code, bits;
  unsigned short lanes;
  if (!PyArg_ParseTuple(fields, "bbH", &code, &bits, &lanes)) return false;
  frame->values[i].v_int64 = 0;
  frame->values[i].v_type = (DLDataType){code, bits, lanes};
  frame->codes[i] = kTVMDataType;
  return true;
}

/* An exception of the hook, with the argument that it is about. */
static bool hook_failed(const call_frame *frame, int i) {
  PyObject *type, *value, *traceback;
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) return false;
  PyErr_Fetch(&type, &value, &traceback);
  call_frame_error(frame, i, PyExc_TypeError, "%S", value ? value : Py_None);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return false;
}

bool call_convert_stand_in(call_frame *frame, int i, PyObject *arg, bool *absent) {
  *absent = false;
  if (!check_nesting(frame, i)) return false;
  PyObject *other = PyObject_CallFunctionObjArgs(call_hook.ffi_stand_in, arg, NULL);
  *absent = other == Py_None;
  bool ok = false;
  if (other == NULL) return hook_failed(frame, i);
  if (PyTuple_CheckExact(other))
    ok = convert_dtype(frame, i, other);
  else if (other == arg)
    call_frame_error(frame, i, PyExc_RuntimeError, "%R stands for itself", arg);
  else if (!*absent) {
    frame->nesting++;
    ok = call_convert_argument(frame, i, other);
    frame->nesting--;
  }
  Py_DECREF(other);
  return ok;
}
