/* container.c - TVM's containers as Python objects: an Array is a list, a ShapeTuple a Shape, a
 * Map a dict, a String a str. They are copies; what is counted in them (arrays, modules,
 * functions) is shared. */
#include "call.h"

enum { STRING = 3, ARRAY = 4, MAP = 5, SHAPE = 6 }; /* type indices of TVM */

/* Call a function of the runtime with a container and, if `i` is not negative, an index. */
static bool ask(const char *name, void *container, int64_t i, TVMValue *ret, int *ret_code) {
  mblob_function *function = NULL;
  TVMValue args[2] = {{.v_handle = container}, {.v_int64 = i}};
  const int codes[2] = {kTVMObjectHandle, kTVMArgInt};
  int status = mblob_get_global(name, &function);
  if (status == MBLOB_OK)
    status = mblob_function_call(function, args, codes, i < 0 ? 1 : 2, ret, ret_code);
  mblob_function_release(function);
  if (status != MBLOB_OK) call_raise(PyExc_RuntimeError, "%s", mblob_last_error());
  return status == MBLOB_OK;
}

static PyObject *item(const char *name, void *container, int64_t i) {
  TVMValue value;
  int code;
  return ask(name, container, i, &value, &code) ? call_convert_result(value, code, NULL) : NULL;
}

static PyObject *list_of(void *container, const char *size_name, const char *item_name) {
  TVMValue size;
  int code;
  if (!ask(size_name, container, -1, &size, &code)) return NULL;
  PyObject *list = PyList_New((Py_ssize_t)size.v_int64);
  for (int64_t i = 0; list != NULL && i < size.v_int64; ++i) {
    PyObject *object = item(item_name, container, i);
    if (object == NULL)
      Py_CLEAR(list);
    else
      PyList_SET_ITEM(list, (Py_ssize_t)i, object);
  }
  return list;
}

static PyObject *dict_of(void *map) {
  TVMValue items;
  int code;
  if (!ask("runtime.MapItems", map, -1, &items, &code)) return NULL;
  PyObject *row = list_of(items.v_handle, "runtime.ArraySize", "runtime.ArrayGetItem");
  call_tvm.object_free(items.v_handle);
  PyObject *dict = row ? PyDict_New() : NULL;
  for (Py_ssize_t i = 0; dict != NULL && i + 1 < PyList_GET_SIZE(row); i += 2) {
    PyObject *key = call_container_tuples(Py_NewRef(PyList_GET_ITEM(row, i))); /* no list is one */
    if (key == NULL || PyDict_SetItem(dict, key, PyList_GET_ITEM(row, i + 1)) != 0) Py_CLEAR(dict);
    Py_XDECREF(key);
  }
  Py_XDECREF(row);
  return dict;
}

/* What is no UTF-8 is bytes. */
static PyObject *text_of(void *string) {
  TVMValue found;
  int code;
  if (!ask("mblob.StringBytes", string, -1, &found, &code)) return NULL;
  const TVMByteArray *bytes = found.v_handle;
  PyObject *text = PyUnicode_DecodeUTF8(bytes->data, (Py_ssize_t)bytes->size, NULL);
  if (text != NULL || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) return text;
  PyErr_Clear();
  return PyBytes_FromStringAndSize(bytes->data, (Py_ssize_t)bytes->size);
}

static PyObject *convert(void *container) {
  unsigned type = 0;
  if (call_tvm.object_type(container, &type) != 0) {
    call_raise(PyExc_TypeError, "a value that is an object: %s", mblob_last_error());
    return NULL;
  }
  if (type == ARRAY) return list_of(container, "runtime.ArraySize", "runtime.ArrayGetItem");
  if (type == STRING) return text_of(container);
  if (type == MAP) return dict_of(container);
  if (type == SHAPE) {
    PyObject *list = list_of(container, "runtime.GetShapeTupleSize", "runtime.GetShapeTupleElem");
    PyObject *shape =
        list && call_hook_classes() ? PyObject_CallOneArg(call_hook.shape_class, list) : NULL;
    Py_XDECREF(list);
    return shape;
  }
  call_raise(PyExc_TypeError, "an object of type %u has no meaning in Python", type);
  return NULL;
}

PyObject *call_container_object(void *container) {
  if (container == NULL) Py_RETURN_NONE;
  static __thread int nesting;
  if (nesting == MB_NESTING_LIMIT) {
    call_raise(PyExc_ValueError, MB_TEXT_NESTED);
    return NULL;
  }
  nesting++;
  PyObject *object = convert(container);
  nesting--;
  return object;
}

/* As deep as call_container_object went. */
PyObject *call_container_tuples(PyObject *object) {
  if (object == NULL || !PyList_CheckExact(object)) return object;
  PyObject *tuple = PyTuple_New(PyList_GET_SIZE(object));
  for (Py_ssize_t i = 0; tuple != NULL && i < PyList_GET_SIZE(object); ++i) {
    PyObject *item = call_container_tuples(Py_NewRef(PyList_GET_ITEM(object, i)));
    if (item == NULL)
      Py_CLEAR(tuple);
    else
      PyTuple_SET_ITEM(tuple, i, item);
  }
  Py_DECREF(object);
  return tuple;
}
