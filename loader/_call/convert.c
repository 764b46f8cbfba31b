/* convert.c - one Python argument to a TVMValue and its type code. */
#include "call.h"

#include <stdio.h>
#include <string.h>

/* ---- numbers ----------------------------------------------------------------------------- */

#define UINT64_RANGE "expected an int from 0 to 2**64 - 1"

/* 2**63 to 2**64 - 1 for a uint64_t: TVMValue has no unsigned member, the bits go into v_int64. */
static bool convert_large_int(call_frame *frame, int i, PyObject *arg) {
  unsigned long long value = PyLong_AsUnsignedLongLong(arg);
  if (value == (unsigned long long)-1 && PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return false;
    PyErr_Clear();
    return call_frame_error(frame, i, PyExc_OverflowError, UINT64_RANGE);
  }
  memcpy(&frame->values[i].v_int64, &value, sizeof value);
  frame->codes[i] = kTVMArgInt;
  return true;
}

static bool is_struct(const call_parameter *p) {
  return p != NULL && p->kind == PARAM_POINTER && p->size != 0;
}

#define TEXT_OR_ARRAY "a str, bytes or an array"
#define OPAQUE "an array, bytes, or ctypes.c_void_p(address)"

static bool number_for_array(call_frame *frame, int i, PyObject *number) {
  if (frame->parameters[i].indirect)
    return call_no_addresses(frame, i,
                             number ? PyUnicode_FromFormat("the number %R", number) : NULL);
  if (is_struct(&frame->parameters[i])) {
    PyObject *bytes = number ? call_int128(frame, i, number) : NULL;
    if (bytes != Py_None && number != NULL) return call_convert_instead(frame, i, bytes);
    Py_XDECREF(bytes);
    return call_no_struct(frame, i, number ? PyUnicode_FromFormat("the number %R", number) : NULL);
  }
  if (number == NULL) return false;
  PyObject *made = call_complex_array(frame, i, number);
  if (made != Py_None) return call_convert_instead(frame, i, made);
  Py_DECREF(made);
  const call_parameter *p = &frame->parameters[i];
  if (p->function) return call_no_ctypes_function(frame, i, number);
  const char *others = p->is_text || p->padded ? TEXT_OR_ARRAY : p->opaque ? OPAQUE : NULL;
  PyObject *shown = PyObject_Repr(number);
  const char *text = shown ? PyUnicode_AsUTF8(shown) : NULL;
  if (text && others != NULL)
    call_frame_error(frame, i, PyExc_TypeError, MB_TEXT_EXPECTED, others, text);
  else if (text)
    call_frame_error(frame, i, PyExc_TypeError, MB_TEXT_NUMBER_FOR_ARRAY, "an array", text);
  Py_XDECREF(shown);
  return false;
}

static bool convert_int(call_frame *frame, int i, PyObject *arg) {
  const call_parameter *p = frame->parameters ? &frame->parameters[i] : NULL;
  if (p != NULL && p->kind == PARAM_FLOAT) {
    double value = PyLong_AsDouble(arg);
    if (value == -1.0 && PyErr_Occurred()) {
      if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return false;
      PyErr_Clear();
      return call_frame_error(frame, i, PyExc_OverflowError, MB_TEXT_INT_TOO_LARGE);
    }
    frame->values[i].v_float64 = value;
    frame->codes[i] = kTVMArgFloat;
    return true;
  }
  if (p != NULL && p->function) {
    void *address = PyLong_AsVoidPtr(arg);
    if (address != NULL || !PyErr_Occurred())
      return call_frame_handle(frame, i, address, kTVMOpaqueHandle);
    if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return false;
    PyErr_Clear();
    return call_frame_error(frame, i, PyExc_OverflowError, MB_TEXT_ADDRESS_RANGE);
  }
  if (p != NULL && p->kind == PARAM_POINTER) {
    return number_for_array(frame, i, arg);
  }
  bool is_uint64 =
      p != NULL && p->kind == PARAM_INT && p->dtype.code == kDLUInt && p->dtype.bits == 64;
  int overflow;
  long long value = PyLong_AsLongLongAndOverflow(arg, &overflow);
  if (overflow > 0 && is_uint64) return convert_large_int(frame, i, arg);
  if (overflow != 0) {
    return call_frame_error(frame, i, PyExc_OverflowError,
                            is_uint64 ? UINT64_RANGE : "expected an int from -2**63 to 2**63 - 1");
  }
  if (value == -1 && PyErr_Occurred()) return false;
  /* The function sees 64 bits and cannot tell -1 from 2**64 - 1. */
  if (value < 0 && is_uint64)
    return call_frame_error(frame, i, PyExc_OverflowError, UINT64_RANGE ", found %R", arg);
  frame->values[i].v_int64 = value;
  frame->codes[i] = kTVMArgInt;
  return true;
}

/* A number; functions of the ffi dialect get it as the flag that it is. */
static bool convert_bool(call_frame *frame, int i, PyObject *arg) {
  if (!convert_int(frame, i, arg)) return false;
  if (frame->ffi && frame->codes[i] == kTVMArgInt) frame->codes[i] = kTVMArgBool;
  return true;
}

static bool convert_float(call_frame *frame, int i, double value) {
  const call_parameter *p = frame->parameters ? &frame->parameters[i] : NULL;
  if (p != NULL && p->kind == PARAM_INT)
    return call_frame_error(frame, i, PyExc_TypeError, MB_TEXT_EXPECTED, "int", "float");
  if (p != NULL && p->kind == PARAM_POINTER) {
    PyObject *number = PyFloat_FromDouble(value);
    const bool ok = number_for_array(frame, i, number);
    Py_XDECREF(number);
    return ok;
  }
  frame->values[i].v_float64 = value;
  frame->codes[i] = kTVMArgFloat;
  return true;
}

/* ---- buffers ----------------------------------------------------------------------------- */

/* The bytes of the buffer that the slot holds, or the addresses in it, as a tensor of as many elements. */
static bool convert_memory(call_frame *frame, int i, bool is_addresses) {
  static int64_t one = 1; /* of a single pointer */
  call_slot *slot = &frame->slots[i];
  Py_buffer *view = &slot->u.view;
  _Static_assert(sizeof view->len == sizeof(int64_t), "the length is the extent");
  slot->is_tensor = true;
  slot->readonly = view->readonly != 0;
  slot->tensor = (DLTensor){.data = view->buf, .device = {kDLCPU, 0}, .ndim = 1};
  const call_parameter *p = frame->parameters ? &frame->parameters[i] : NULL;
  const uint8_t code = p != NULL && p->bytes && p->is_signed ? kDLInt : kDLUInt;
  slot->tensor.dtype = (DLDataType){code, is_addresses ? 8 * sizeof(void *) : 8, 1};
  slot->tensor.shape = (int64_t *)(!is_addresses ? &view->len : view->ndim ? view->shape : &one);
  return call_frame_tensor(frame, i, "array");
}

/* Bytes for a parameter that takes those of any kind, such as a pointer to a struct. */
bool call_convert_opaque_bytes(call_frame *frame, int i, PyObject *arg) {
  call_slot *slot = &frame->slots[i];
  if (PyObject_GetBuffer(arg, &slot->u.view, PyBUF_FULL_RO) != 0) return false;
  slot->kind = SLOT_BUFFER;
  return convert_memory(frame, i, false);
}

/* numpy's scalars have the buffer protocol as 0-d arrays do; unlike arrays they are hashable
 * values. */
static bool is_scalar_value(PyObject *arg, const Py_buffer *view) {
  return view->readonly && Py_TYPE(arg)->tp_hash != PyObject_HashNotImplemented;
}

/* A 0-d array is the number in it where the signature says number. */
static bool takes_number(const call_frame *frame, int i, PyObject *arg) {
  if (frame->parameters == NULL || !PyNumber_Check(arg)) return false;
  return frame->parameters[i].kind == PARAM_INT || frame->parameters[i].kind == PARAM_FLOAT;
}

static bool convert_scalar_value(call_frame *frame, int i, PyObject *arg, DLDataType dtype) {
  if (dtype.code == kDLFloat) {
    double value = PyFloat_AsDouble(arg);
    return !(value == -1.0 && PyErr_Occurred()) && convert_float(frame, i, value);
  }
  if (dtype.code != kDLInt && dtype.code != kDLUInt) {
    if (call_takes_complex(frame, i)) return number_for_array(frame, i, arg);
    return call_frame_error(frame, i, PyExc_TypeError,
                            "a complex number is no argument of a function; pass an array");
  }
  PyObject *number = dtype.bits == 1 ? PyBool_FromLong(PyObject_IsTrue(arg)) : PyNumber_Index(arg);
  if (number == NULL) return false;
  bool ok = dtype.bits == 1 ? convert_bool(frame, i, number) : convert_int(frame, i, number);
  Py_DECREF(number);
  return ok;
}

/* ctypes pointers (c_void_p, POINTER(c_float)) export their own bytes, format "P" or "&...". */
static bool is_ctypes_pointer(const Py_buffer *view) {
  const char *f = view->format;
  if (f == NULL || view->ndim != 0 || view->itemsize != (Py_ssize_t)sizeof(void *)) return false;
  f += strspn(f, "<>@=");
  return *f == '&' || (f[0] == 'P' && f[1] == '\0');
}

/* True if elements of a format are addresses: pointers, texts and functions of ctypes. */
static bool is_address(const char *format) {
  const char *f = format + strspn(format, "<>@=");
  return *f == '&' || strcmp(f, "X{}") == 0 || (*f != '\0' && strchr("PzZ", *f) && f[1] == '\0');
}

/* True if a pointer of ctypes points at addresses, or at numbers that may be some. */
static bool points_at_addresses(const char *format) {
  const char *f = format + strspn(format, "<>@=");
  if (*f != '&') return true; /* void * */
  ++f;
  const char *end = *f == '(' ? strchr(f, ')') : NULL; /* of an array */
  if (end != NULL) f = end + 1;
  f += strspn(f, "<>@=");
  return is_address(f) || (*f != '\0' && strchr("lLqQ", *f) && f[1] == '\0');
}

/* True if an array that gives no buffer has elements of ml_dtypes, for which the buffer protocol
 * has no letter. The error that Python has set for it is gone then. */
static bool is_small_float(PyObject *arg, DLDataType *dtype) {
  if (PyErr_ExceptionMatches(PyExc_MemoryError)) return false;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject *element = PyObject_GetAttrString(arg, "dtype");
  PyObject *name = element ? PyObject_GetAttrString(element, "name") : NULL;
  const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
  const bool found = text != NULL && call_dtype_of_small_float(text, dtype);
  Py_XDECREF(element);
  Py_XDECREF(name);
  PyErr_Clear();
  if (!found) {
    PyErr_Restore(type, value, traceback);
    return false;
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return true;
}

/* Get the bits of elements of ml_dtypes as a buffer, in numpy's name for unsigned numbers. */
static bool get_bits(PyObject *arg, DLDataType dtype, Py_buffer *view) {
  PyObject *bits = PyObject_CallMethod(arg, "view", "s", dtype.bits == 16 ? "uint16" : "uint8");
  if (bits == NULL) return false;
  const int failed = PyObject_GetBuffer(bits, view, PyBUF_FULL_RO);
  Py_DECREF(bits); /* the view holds it */
  return !failed;
}

static bool convert_small_float_value(call_frame *frame, int i, PyObject *arg) {
  PyObject *number = PyNumber_Float(arg);
  if (number == NULL) return false;
  const bool ok = convert_float(frame, i, PyFloat_AS_DOUBLE(number));
  Py_DECREF(number);
  return ok;
}

static bool is_contiguous(const Py_buffer *view) {
  if (view->strides == NULL || view->len == 0) return true;
  Py_ssize_t expected = view->itemsize;
  for (int d = view->ndim - 1; d >= 0; --d) {
    if (view->shape[d] != 1 && view->strides[d] != expected) return false;
    expected *= view->shape[d];
  }
  return view->suboffsets == NULL;
}

/* An array with gaps between its elements: through DLPack, where the function takes one. */
static bool convert_strided(call_frame *frame, int i, PyObject *arg) {
  call_slot *slot = &frame->slots[i];
  bool absent = true;
  if (call_frame_takes_gaps(frame, i)) { /* DLPack counts strides in elements, as functions do */
    PyBuffer_Release(&slot->u.view);
    slot->kind = SLOT_NONE;
    if (call_dlpack_argument(frame, i, arg, &absent)) return true;
    if (!absent && !PyErr_ExceptionMatches(PyExc_BufferError)) return false;
    PyErr_Clear(); /* strides that are no multiples of an element */
  }
  if (!call_function_check_shape(frame->items ? NULL : frame->function, i, &slot->u.view))
    return false;
  return call_frame_error(
      frame, i, PyExc_ValueError,
      "the array is not contiguous; pass numpy.ascontiguousarray(" CALL_ARGUMENT_NAME
      "), and for an output copy it back");
}

/* The tensor of the buffer that the slot holds. */
static inline bool convert_view(call_frame *frame, int i, PyObject *arg) {
  call_slot *slot = &frame->slots[i];
  Py_buffer *view = &slot->u.view;
  DLTensor *t = &slot->tensor;
  if (!is_contiguous(view)) return convert_strided(frame, i, arg);
  call_ndarray_learn(arg, view, t->dtype);
  slot->is_tensor = true;
  slot->readonly = view->readonly != 0;
  t->data = view->buf;
  t->device.device_type = kDLCPU;
  t->device.device_id = 0;
  t->ndim = view->ndim;
  t->shape = (int64_t *)view->shape;
  t->strides = NULL;
  t->byte_offset = 0;
  return call_frame_tensor(frame, i, "array");
}

/* What gives no buffer: of the elements that buffers have no format for, an array or a scalar. */
static bool convert_small_floats(call_frame *frame, int i, PyObject *arg) {
  call_slot *slot = &frame->slots[i];
  if (!is_small_float(arg, &slot->tensor.dtype)) return call_convert_overlapping(frame, i, arg);
  if (Py_TYPE(arg)->tp_hash != PyObject_HashNotImplemented) /* a scalar */
    return convert_small_float_value(frame, i, arg);
  if (!get_bits(arg, slot->tensor.dtype, &slot->u.view)) return false;
  slot->kind = SLOT_BUFFER;
  if (slot->u.view.ndim == 0 && takes_number(frame, i, arg))
    return convert_small_float_value(frame, i, arg);
  return convert_view(frame, i, arg);
}

/* Structs of ctypes and numpy, and bytes of numpy ("8x"); ctypes has the format of a byte for a union or a packed
 * struct. */
static bool is_record(const Py_buffer *view) {
  return view->format[0] == 'T' || view->format[strspn(view->format, "0123456789")] == 'x' ||
         (strcmp(view->format, "B") == 0 && view->itemsize > 1);
}

/* True if the elements of an array are Python's objects, or have some; sets the error for it. */
static bool holds_objects(call_frame *frame, int i, PyObject *arg) {
  if (strchr(frame->slots[i].u.view.format, 'O') == NULL) return false;
  PyObject *dtype = PyObject_GetAttrString(arg, "dtype");
  PyObject *has = dtype ? PyObject_GetAttrString(dtype, "hasobject") : NULL;
  const bool found = has == Py_True;
  if (has == NULL) PyErr_Clear(); /* of ctypes */
  if (found) call_frame_error(frame, i, PyExc_TypeError, MB_TEXT_OBJECTS, dtype);
  Py_XDECREF(dtype);
  Py_XDECREF(has);
  return found;
}

/* A struct of ctypes or an array of structs, for a function that takes a pointer of any type. */
static bool convert_record(call_frame *frame, int i, PyObject *arg, bool is_addresses) {
  call_slot *slot = &frame->slots[i];
  if (!is_addresses && !call_function_check_record(frame->items ? NULL : frame->function, i, arg))
    return false;
  return is_contiguous(&slot->u.view) ? convert_memory(frame, i, is_addresses)
                                      : convert_strided(frame, i, arg);
}

/* A pointer of ctypes, whose buffer the slot holds: the address, or what it points at where that says
 * how many bytes there are. */
static bool convert_pointer(call_frame *frame, int i, PyObject *arg) {
  call_slot *slot = &frame->slots[i];
  const size_t size = frame->parameters ? frame->parameters[i].size : 0;
  if (size != 0) {
    if (!call_function_check_record(frame->items ? NULL : frame->function, i, arg)) return false;
    PyObject *least = PyLong_FromSize_t(size);
    PyObject *made = least ? call_uncommon("pointed", arg, least, NULL) : NULL;
    Py_XDECREF(least);
    if (made != Py_None) return call_convert_instead(frame, i, made);
    Py_DECREF(made);
  }
  if (frame->parameters && frame->parameters[i].dtype.bits != 0)
    return call_frame_error(
        frame, i, PyExc_TypeError,
        "expected an array, found a pointer of ctypes, which tells no size; pass "
        "ctypes.byref(%s.contents), or an array",
        CALL_ARGUMENT_NAME);
  void *pointer;
  memcpy(&pointer, slot->u.view.buf, sizeof pointer);
  return call_frame_handle(frame, i, pointer, kTVMOpaqueHandle);
}

/* What byref refers to, which takes over the reference: of a pointer the place where it is, not what it
 * points at. */
static bool convert_referred(call_frame *frame, int i, PyObject *made) {
  call_slot *slot = &frame->slots[i];
  Py_buffer *view = &slot->u.view;
  if (made == NULL || PyObject_GetBuffer(made, view, PyBUF_FULL_RO) != 0) {
    Py_XDECREF(made);
    return false;
  }
  if (view->ndim == 0 && is_address(view->format)) {
    Py_DECREF(made); /* the view holds it */
    slot->kind = SLOT_BUFFER;
    return convert_memory(frame, i, true);
  }
  PyBuffer_Release(view);
  return call_convert_instead(frame, i, made);
}

/* A function of ctypes for a pointer to a function of the same types. */
static bool check_callback(call_frame *frame, int i, PyObject *arg) {
  const call_parameter *p = &frame->parameters[i];
  PyObject *text = PyUnicode_FromStringAndSize(p->text, (Py_ssize_t)p->text_size);
  PyObject *wrong = text ? call_uncommon("mismatch", text, arg, NULL) : NULL;
  Py_XDECREF(text);
  const bool ok = wrong != NULL && PyUnicode_GET_LENGTH(wrong) == 0;
  if (wrong != NULL && !ok) call_frame_error(frame, i, PyExc_TypeError, "%U", wrong);
  Py_XDECREF(wrong);
  return ok;
}

/* A buffer whose format is no dtype: a pointer of ctypes, a struct, a long double, or an error. */
static bool convert_other_format(call_frame *frame, int i, PyObject *arg) {
  const Py_buffer *view = &frame->slots[i].u.view;
  const call_parameter *p = frame->parameters ? &frame->parameters[i] : NULL;
  const bool any_pointer = p != NULL && p->kind == PARAM_POINTER && p->dtype.bits == 0;
  const bool indirect = any_pointer && p->indirect;
  const bool is_callback =
      any_pointer && !indirect && view->ndim == 0 && strcmp(view->format, "X{}") == 0;
  if (is_callback && p->function && !check_callback(frame, i, arg)) return false;
  if (any_pointer && p->function && !is_callback && strchr(view->format, '&') != NULL)
    return call_no_function(frame, i);
  const bool is_any = any_pointer && !indirect && p->opaque && !p->function;
  if (is_callback || (is_any && p->is_const && view->ndim == 0 && is_address(view->format)) ||
      (is_ctypes_pointer(view) && !(indirect && !points_at_addresses(view->format))))
    return convert_pointer(frame, i, arg);
  if (any_pointer && view->ndim > 0 && (!indirect || view->ndim == 1) && is_address(view->format))
    return convert_record(frame, i, arg, indirect); /* of pointers, texts, functions */
  if (any_pointer && !indirect && (is_record(view) || (is_any && view->ndim > 0)))
    return holds_objects(frame, i, arg) ? false : convert_record(frame, i, arg, false);
  if (any_pointer && !indirect && !p->is_text && view->ndim > 0 && strcmp(view->format, "g") == 0)
    return convert_record(frame, i, arg, false); /* of long double */
  if (is_scalar_value(arg, view) && !PyFloat_Check(arg) && strcmp(view->format, "g") == 0)
    return convert_scalar_value(frame, i, arg, (DLDataType){kDLFloat, 64, 1});
  return call_bad_elements(frame, i, arg, view->format);
}

static bool convert_buffer(call_frame *frame, int i, PyObject *arg) {
  call_slot *slot = &frame->slots[i];
  Py_buffer *view = &slot->u.view;
  DLTensor *t = &slot->tensor;
  if (call_ndarray_masked(arg)) return call_frame_error(frame, i, PyExc_TypeError, MB_TEXT_MASKED);
  if (PyObject_GetBuffer(arg, view, PyBUF_FULL_RO) != 0) return convert_small_floats(frame, i, arg);
  slot->kind = SLOT_BUFFER;
  if (call_takes_characters(frame, i, view->format)) return call_convert_characters(frame, i, arg);
  if (!call_dtype_from_format(view->format, view->itemsize, &t->dtype))
    return convert_other_format(frame, i, arg);
  if (view->ndim == 0 && (is_scalar_value(arg, view) || takes_number(frame, i, arg)))
    return convert_scalar_value(frame, i, arg, t->dtype);
  const call_parameter *p = frame->parameters ? &frame->parameters[i] : NULL;
  if (p != NULL && p->bytes && p->is_signed && strchr(view->format, 'c')) t->dtype.code = kDLInt;
  if (p != NULL && p->kind != PARAM_POINTER && call_is_number_of_ctypes(frame, i, arg))
    return call_convert_instead(frame, i, PyObject_GetAttrString(arg, "value")); /* c_int(3) */
  return convert_view(frame, i, arg);
}

/* ---- our own types ------------------------------------------------------------------------- */

static bool convert_tensor(call_frame *frame, int i, PyObject *arg) {
  call_slot *slot = &frame->slots[i];
  const call_tensor *tensor = (const call_tensor *)arg;
  if (!call_tensor_valid(tensor)) return false;
  slot->tensor = tensor->dl;
  slot->is_tensor = true;
  slot->readonly = tensor->readonly;
  return call_frame_tensor(frame, i, "tensor");
}

static bool convert_module(call_frame *frame, int i, PyObject *arg) {
  PyObject *address = PyObject_CallFunctionObjArgs(call_hook.module_handle, arg, NULL);
  if (address == NULL) return false;
  void *handle = PyLong_AsVoidPtr(address);
  Py_DECREF(address);
  if (handle == NULL && PyErr_Occurred()) return false;
  frame->slots[i].kind = SLOT_MODULE;
  frame->slots[i].u.module = handle;
  return call_frame_handle(frame, i, handle, kTVMModuleHandle);
}

static bool convert_device(call_frame *frame, int i, PyObject *arg) {
  static const char *const names[] = {"device_type", "device_id"};
  int32_t fields[2];
  for (int k = 0; k < 2; ++k) {
    PyObject *field = PyObject_GetAttrString(arg, names[k]);
    if (field == NULL) return false;
    long value = PyLong_AsLong(field);
    Py_DECREF(field);
    if (value == -1 && PyErr_Occurred()) return false;
    fields[k] = (int32_t)value;
  }
  frame->values[i].v_int64 = 0;
  frame->values[i].v_device.device_type = (DLDeviceType)fields[0];
  frame->values[i].v_device.device_id = fields[1];
  frame->codes[i] = kDLDevice;
  return true;
}

static bool convert_function(call_frame *frame, int i, PyObject *arg) {
  mblob_function *function = call_callback_new(arg);
  if (function == NULL) return false;
  frame->slots[i].kind = SLOT_FUNCTION;
  frame->slots[i].u.function = function;
  return call_frame_handle(frame, i, function, kTVMPackedFuncHandle);
}

static bool is_by_reference(PyObject *arg) {
  return strstr(Py_TYPE(arg)->tp_name, "CArgObject") != NULL;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static bool convert_other(call_frame *frame, int i, PyObject *arg) {
  PyTypeObject *type = Py_TYPE(arg);
  const call_parameter *p = frame->parameters ? &frame->parameters[i] : NULL;
  if (PyObject_TypeCheck(arg, &call_tensor_type)) return convert_tensor(frame, i, arg);
  if (PyFloat_Check(arg)) return convert_float(frame, i, PyFloat_AS_DOUBLE(arg));
  if (PyBool_Check(arg)) return convert_bool(frame, i, arg);
  if (PyLong_Check(arg)) return convert_int(frame, i, arg);
  if (PyComplex_Check(arg) && call_takes_complex(frame, i)) return number_for_array(frame, i, arg);
  bool absent = true;
  const bool is_text = PyUnicode_Check(arg) || PyBytes_Check(arg) || PyByteArray_Check(arg);
  if (p != NULL && p->indirect && is_text)
    return call_no_addresses(frame, i, PyUnicode_FromString(type->tp_name));
  if (p != NULL && p->function && (PyUnicode_Check(arg) || type == &call_function_type))
    return call_no_ctypes_function(frame, i, arg);
  if (PyUnicode_Check(arg)) {
    if (frame->ffi && !PyUnicode_CheckExact(arg) && call_convert_stand_in(frame, i, arg, &absent))
      return true;
    return absent && call_convert_str(frame, i, arg);
  }
  const bool is_written = PyByteArray_Check(arg);
  if (p != NULL &&
      ((p->opaque || p->bytes) ? PyBytes_Check(arg) || is_written : p->padded && is_written))
    return call_convert_opaque_bytes(frame, i, arg);
  if (p != NULL && p->kind == PARAM_POINTER && !p->indirect && !p->function &&
      (PyBytes_Check(arg) || PyByteArray_Check(arg)))
    return call_convert_bytes_of_pointer(frame, i, arg);
  if (p != NULL && p->indirect && (PyList_Check(arg) || PyTuple_Check(arg)))
    return call_convert_list_of_arrays(frame, i, arg);
  if (p != NULL && p->padded && p->is_const && (PyList_Check(arg) || PyTuple_Check(arg)))
    return call_convert_characters(frame, i, arg);
  if (p != NULL && p->kind == PARAM_POINTER && is_by_reference(arg))
    return convert_referred(frame, i, call_uncommon("by_reference", arg, NULL, NULL));
  if (PyBytes_Check(arg))
    return call_convert_bytes(frame, i, PyBytes_AS_STRING(arg), PyBytes_GET_SIZE(arg));
  if (PyByteArray_Check(arg)) return call_convert_bytearray(frame, i, arg);
  if (type == &call_function_type)
    return call_frame_handle(frame, i, call_function_handle(arg), kTVMPackedFuncHandle);
  if (PyObject_TypeCheck(arg, (PyTypeObject *)call_hook.module_class))
    return convert_module(frame, i, arg);
  if (PyObject_CheckBuffer(arg)) return convert_buffer(frame, i, arg);
  if (PyObject_HasAttrString((PyObject *)type, "_is_device")) return convert_device(frame, i, arg);
  if (frame->ffi && PyTuple_Check(arg) && !PyTuple_CheckExact(arg) && call_hook_classes() &&
      PyObject_TypeCheck(arg, (PyTypeObject *)call_hook.shape_class))
    return call_convert_shape(frame, i, arg);
  const bool is_pointer = p != NULL && p->kind == PARAM_POINTER;
  if (frame->ffi && !is_pointer && (PyList_Check(arg) || PyTuple_CheckExact(arg)))
    return call_convert_sequence(frame, i, arg);
  if (frame->ffi && !is_pointer && PyDict_CheckExact(arg)) return call_convert_dict(frame, i, arg);
  if (call_dlpack_argument(frame, i, arg, &absent)) return true;
  if (!absent) return false;
  if (frame->ffi && call_ffi_is_shape(arg)) return call_convert_shape(frame, i, arg);
  if (call_ffi_argument(frame, i, arg, &absent)) return true;
  if (!absent) return false;
  if (frame->ffi && !is_pointer && PyTuple_Check(arg)) return call_convert_sequence(frame, i, arg);
  if (frame->ffi && !PyFunction_Check(arg)) {
    if (call_convert_stand_in(frame, i, arg, &absent)) return true;
    if (!absent) return false;
    if (!is_pointer && PyDict_Check(arg)) return call_convert_dict(frame, i, arg);
  }
  if (p != NULL && p->function) return call_no_ctypes_function(frame, i, arg);
  if (PyCallable_Check(arg) || frame->opaque) return convert_function(frame, i, arg);
  if (p != NULL && (p->kind == PARAM_INT || p->kind == PARAM_FLOAT))
    return call_convert_number(frame, i, arg);
  if (is_struct(p)) return call_no_struct(frame, i, PyUnicode_FromString(type->tp_name));
  if (p != NULL && p->indirect)
    return call_no_addresses(frame, i, PyUnicode_FromString(type->tp_name));
  if (p != NULL && p->is_text)
    return call_frame_error(frame, i, PyExc_TypeError, MB_TEXT_EXPECTED, TEXT_OR_ARRAY,
                            type->tp_name);
  char dtype[48] = "", advice[120] = "";
  if (p != NULL && p->kind == PARAM_POINTER && p->dtype.bits != 0) call_dtype_text(p->dtype, dtype);
  if (p != NULL && p->chars) strcpy(dtype, "S");
  const char *quote = *dtype ? "\"" : "";
  if (*dtype == '\0' && call_lists_functions(arg))
    snprintf(advice, sizeof advice, MB_TEXT_LISTED_FUNCTIONS, (int)PySequence_Size(arg),
             CALL_ARGUMENT_NAME);
  else if (PySequence_Check(arg) || PyObject_HasAttrString((PyObject *)type, "__array__"))
    snprintf(advice, sizeof advice,
             "; make it an array with numpy.asarray(" CALL_ARGUMENT_NAME "%s%s%s%s)",
             *dtype ? ", " : "", quote, dtype, quote);
  else if (is_by_reference(arg))
    snprintf(advice, sizeof advice, "; pass ctypes.pointer(x) for byref(x)");
  if (is_pointer)
    return call_frame_error(frame, i, PyExc_TypeError, MB_TEXT_EXPECTED "%s", "an array",
                            type->tp_name, advice);
  return call_frame_error(
      frame, i, PyExc_TypeError,
      "expected an array, a number, str, bytes, None, %sa Tensor, a Module, a Device or a function, "
      "found %s%s",
      frame->ffi ? "a list, a dict, " : "", type->tp_name, advice);
}

bool call_convert_argument(call_frame *frame, int i, PyObject *arg) {
  call_slot *slot = &frame->slots[i];
  slot->kind = SLOT_NONE;
  slot->is_tensor = slot->readonly = slot->misaligned = slot->shared = false;
  slot->copy = slot->snapshot = NULL;
  slot->counted = NULL;
  frame->count = i + 1;
  PyTypeObject *type = Py_TYPE(arg);
  if (type == call_ndarray_type && call_ndarray_read(slot, arg))
    return call_frame_tensor(frame, i, "array");
  if (type == &PyLong_Type) return convert_int(frame, i, arg);
  if (type == &PyFloat_Type) return convert_float(frame, i, PyFloat_AS_DOUBLE(arg));
  if (arg == Py_None) return call_frame_handle(frame, i, NULL, kTVMNullptr);
  /* Arrays are the common case: no base class to ask about, and a buffer. */
  if (type->tp_base == &PyBaseObject_Type && type->tp_as_buffer != NULL &&
      type->tp_as_buffer->bf_getbuffer != NULL && type != &PyBytes_Type &&
      type != &PyByteArray_Type && type != &call_tensor_type) {
    return convert_buffer(frame, i, arg);
  }
  return convert_other(frame, i, arg);
}
