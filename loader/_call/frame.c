/* frame.c - the arguments of one call: their storage, and the checks that every tensor among
 * them passes. */
#include "call.h"

#include <stdarg.h>
#include <string.h>

bool call_frame_init(call_frame *frame, PyObject *name, Py_ssize_t count) {
  frame->name = name;
  frame->function = NULL;
  frame->parameters = NULL;
  frame->alignment = 0;
  frame->ffi = frame->items = frame->pairs = frame->gaps = frame->dlpack = frame->opaque = false;
  frame->misaligned = false;
  frame->nesting = 0;
  frame->outer = NULL;
  frame->heap = NULL;
  frame->count = 0;
  frame->values = frame->inline_values;
  frame->codes = frame->inline_codes;
  frame->slots = frame->inline_slots;
  if (count > CALL_INLINE_ARGS) {
    if (count > 65536) {
      call_raise(call_type_and_value, "%U: %zd arguments, at most 65536 can be passed", name,
                 count);
      return false;
    }
    size_t n = (size_t)count;
    size_t each = sizeof(call_slot) + sizeof(TVMValue) + sizeof(int);
    char *heap = PyMem_Malloc(n * each);
    if (heap == NULL) {
      PyErr_NoMemory();
      return false;
    }
    frame->heap = heap;
    frame->slots = (call_slot *)(void *)heap;
    frame->values = (TVMValue *)(void *)(heap + n * sizeof(call_slot));
    frame->codes = (int *)(void *)(heap + n * (sizeof(call_slot) + sizeof(TVMValue)));
  }
  return true;
}

static void slot_release(call_slot *slot) {
  if (slot->counted != NULL) (void)call_tvm.array_free(slot->counted);
  if (slot->copy != NULL && !slot->shared) {
    if (slot->copy_owner != NULL)
      Py_DECREF(slot->copy_owner);
    else
      free((char *)slot->copy - slot->pad);
  }
  free(slot->snapshot);
  switch (slot->kind) {
    case SLOT_ARRAY: Py_DECREF(slot->u.array.object); break;
    case SLOT_OWNED: Py_DECREF(slot->u.owner); break;
    case SLOT_BUFFER: PyBuffer_Release(&slot->u.view); break;
    case SLOT_DLPACK: call_dlpack_delete(slot->u.managed, NULL); break;
    case SLOT_DLPACK_VERSIONED: call_dlpack_delete(NULL, slot->u.versioned); break;
    case SLOT_FUNCTION: {
      mblob_function *function = slot->u.function;
      Py_BEGIN_ALLOW_THREADS mblob_function_release(function);
      Py_END_ALLOW_THREADS break;
    }
    case SLOT_MODULE: {
      mblob_module *module = slot->u.module;
      Py_BEGIN_ALLOW_THREADS mblob_module_release(module);
      Py_END_ALLOW_THREADS break;
    }
    case SLOT_OBJECT: {
      TVMObjectHandle container = slot->u.container;
      Py_BEGIN_ALLOW_THREADS call_tvm.object_free(container);
      Py_END_ALLOW_THREADS break;
    }
    default: break;
  }
}

void call_frame_release(call_frame *frame) {
  PyObject *type = NULL, *value = NULL, *traceback = NULL;
  bool failed = PyErr_Occurred() != NULL;
  if (failed) PyErr_Fetch(&type, &value, &traceback); /* a deleter may run Python code */
  for (int i = 0; i < frame->count; ++i) {
    call_slot *slot = &frame->slots[i];
    if (slot->kind != SLOT_NONE || slot->copy != NULL || slot->counted != NULL) slot_release(slot);
  }
  frame->count = 0;
  if (frame->heap != NULL) PyMem_Free(frame->heap);
  frame->heap = NULL;
  if (failed) PyErr_Restore(type, value, traceback);
}

void call_frame_borrow(call_frame *frame, const call_frame *from) {
  frame->parameters = from->parameters;
  frame->alignment = from->alignment;
  frame->misaligned = from->misaligned;
  frame->count = from->count;
  for (int i = 0; i < from->count; ++i) {
    frame->slots[i] = from->slots[i];
    frame->slots[i].kind = SLOT_NONE;
    frame->values[i] = from->values[i];
    frame->codes[i] = from->codes[i];
    frame->slots[i].counted = NULL;
    frame->slots[i].origin = (call_slot *)(uintptr_t)&from->slots[i];
    if (from->codes[i] == kTVMDLTensorHandle || from->codes[i] == MBLOB_LENT_TENSOR)
      frame->values[i].v_handle = &frame->slots[i].tensor;
  }
}

int call_frame_traverse(const call_frame *frame, visitproc visit, void *arg) {
  for (int i = 0; i < frame->count; ++i) {
    const call_slot *slot = &frame->slots[i];
    if (slot->kind == SLOT_ARRAY) Py_VISIT(slot->u.array.object);
    if (slot->kind == SLOT_BUFFER) Py_VISIT(slot->u.view.obj);
  }
  return 0;
}

/* `text` with the name of a parameter, " (NAME)" or "" or NULL, in place of CALL_ARGUMENT_NAME. */
static PyObject *with_name(PyObject *text, PyObject *parameter) {
  Py_ssize_t size = parameter ? PyUnicode_GET_LENGTH(parameter) : 0;
  PyObject *name = size > 3 ? PyUnicode_Substring(parameter, 2, size - 1) : NULL;
  PyObject *mark = PyUnicode_FromString(CALL_ARGUMENT_NAME);
  if (name == NULL) name = PyUnicode_FromString("x");
  PyObject *made = text && mark && name ? PyUnicode_Replace(text, mark, name, -1) : NULL;
  Py_XDECREF(mark);
  Py_XDECREF(name);
  Py_XDECREF(text);
  return made;
}

PyObject *call_frame_place(const call_frame *frame, int i) {
  if (frame->pairs)
    return PyUnicode_FromFormat("%U: %s %d", frame->name, i % 2 ? "value" : "key", i / 2);
  return PyUnicode_FromFormat(frame->items ? "%U: item %d" : "%U: argument %d", frame->name, i);
}

bool call_frame_error(const call_frame *frame, int i, PyObject *type, const char *format, ...) {
  va_list args;
  va_start(args, format);
  PyObject *text = PyUnicode_FromFormatV(format, args);
  va_end(args);
  PyObject *parameter = text && !frame->items ? call_function_parameter(frame->function, i) : NULL;
  text = with_name(text, parameter);
  PyObject *place = text && frame->items ? call_frame_place(frame, i) : NULL;
  if (place != NULL)
    call_raise(type, "%U: %U", place, text);
  else if (parameter != NULL)
    call_raise(type, "%U" MB_TEXT_ARGUMENT "%d%U: %U", frame->name, i, parameter, text);
  Py_XDECREF(place);
  Py_XDECREF(parameter);
  Py_XDECREF(text);
  return false;
}

/* True if data of type `found` may go where the signature says `expected`. */
static bool dtype_fits(DLDataType found, DLDataType expected) {
  if (expected.bits == 0 || call_dtype_equal(found, expected)) return true;
  /* bool arrays are bytes in memory; C code takes them as uint8_t too, and no bytes as bool */
  bool found_byte =
      found.code == kDLUInt && (found.bits == 1 || found.bits == 8) && found.lanes == 1;
  bool expected_byte = expected.code == kDLUInt && expected.bits == 8;
  return found_byte && expected_byte;
}

bool call_frame_parameter(call_frame *frame, int i) {
  const call_parameter *p = &frame->parameters[i];
  const call_slot *slot = &frame->slots[i];
  if (p->kind == PARAM_INT || p->kind == PARAM_FLOAT) {
    return call_frame_error(frame, i, PyExc_TypeError, "expected %s, found an array; pass a number",
                            p->kind == PARAM_INT ? "int" : "float");
  }
  if (p->kind != PARAM_POINTER) return true;
  if (p->function) return call_no_function(frame, i);
  if (!dtype_fits(slot->tensor.dtype, p->dtype)) {
    char found[48], expected[48];
    call_dtype_text(slot->tensor.dtype, found);
    call_dtype_text(p->dtype, expected);
    /* C has no type for most small floats: kernels take their bits */
    if (slot->tensor.dtype.bits == p->dtype.bits && slot->tensor.dtype.lanes == 1 &&
        call_dtype_is_small_float(slot->tensor.dtype) && p->dtype.code == kDLUInt)
      return call_frame_error(frame, i, call_type_and_value, MB_TEXT_DTYPE_OF_BITS, expected, found,
                              CALL_ARGUMENT_NAME, expected);
    return call_frame_error(frame, i, call_type_and_value, MB_TEXT_DTYPE_OF_ARRAY, expected, found,
                            expected);
  }
  if (slot->readonly && !p->is_const) {
    if (slot->kind == SLOT_BUFFER && slot->u.view.obj && PyBytes_Check(slot->u.view.obj))
      return call_frame_error(frame, i, PyExc_ValueError,
                              "bytes are read-only, and the function writes to it; pass "
                              "bytearray(%s)",
                              CALL_ARGUMENT_NAME);
    PyObject *declared = call_function_declared(frame->function, i);
    if (declared != NULL)
      call_frame_error(frame, i, PyExc_ValueError,
                       "the array is read-only, as tensors of a library are, and the function "
                       "writes to %U; pass a writable one, or check the order of the arguments",
                       declared);
    Py_XDECREF(declared);
    return false;
  }
  return true;
}

bool call_frame_writable(const call_frame *frame, int first, PyObject *of) {
  for (int i = first; i < frame->count; ++i) {
    if (!frame->slots[i].is_tensor || !frame->slots[i].readonly) continue;
    call_raise(PyExc_ValueError,
               "%U(%R, ...): argument %d: the array is read-only; pass a writable one", frame->name,
               of, i);
    return false;
  }
  return true;
}

bool call_frame_takes_gaps(const call_frame *frame, int i) {
  return frame->gaps || (frame->parameters != NULL && frame->parameters[i].columns);
}

bool call_frame_tensor(call_frame *frame, int i, const char *kind) {
  call_slot *slot = &frame->slots[i];
  DLTensor *t = &slot->tensor;
  const bool gaps = t->strides != NULL && !call_tensor_compact(t);
  if (gaps && !call_frame_takes_gaps(frame, i)) {
    return call_frame_error(
        frame, i, PyExc_ValueError,
        "the %s is not contiguous; pass numpy.ascontiguousarray(" CALL_ARGUMENT_NAME
        "), and for an output copy it back",
        kind);
  }
  if (!gaps) t->strides = NULL;
  if (call_device_is_host(t->device)) {
    if (t->byte_offset != 0) {
      t->data = (char *)t->data + t->byte_offset;
      t->byte_offset = 0;
    }
    size_t itemsize = call_dtype_size(t->dtype);
    if (t->dtype.code == kDLComplex) itemsize /= 2;
    size_t alignment = frame->alignment != 0 ? frame->alignment : itemsize & (~itemsize + 1);
    if (frame->parameters != NULL && frame->parameters[i].alignment > alignment)
      alignment = frame->parameters[i].alignment;
    const bool misaligned = ((uintptr_t)t->data & (alignment - 1)) != 0;
    if (misaligned) {
      slot->misaligned = true;
      frame->misaligned = true;
    }
  }
  if (frame->dlpack) t->dtype = call_dtype_for_dlpack(t->dtype);
  frame->values[i].v_handle = t;
  frame->codes[i] = kTVMDLTensorHandle;
  return frame->parameters == NULL || call_frame_parameter(frame, i);
}
