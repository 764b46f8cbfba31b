/* ndarray.c - numpy's arrays, read where their fields are.
 *
 * At each request numpy's buffer protocol allocates a description, writes the format as text and
 * compares it with the last one, which costs more than all the rest of a call. The fields of an
 * array are part of numpy's ABI: extensions that were compiled against one release read them
 * inline in another. Still nothing is taken on trust: the first array of each element type goes
 * through the buffer protocol, and the type is read directly from then on only if the fields
 * said the same. numpy is not imported, nor needed to compile. */
#include "call.h"

#include <string.h>

/* PyArrayObject_fields of numpy's ndarraytypes.h */
typedef struct ndarray {
  PyObject_HEAD char *data;
  int nd;
  Py_ssize_t *dimensions, *strides;
  PyObject *base, *descr;
  int flags;
} ndarray;

#define FLAG_C_CONTIGUOUS 0x0001
#define FLAG_WRITEABLE 0x0400
#define FLAG_WARN_ON_WRITE (-0x7fffffff - 1) /* numpy gives such an array out as read-only */

PyTypeObject *call_ndarray_type;

/* Element types that were compared, with a reference to each: as long as it is held no other has
 * its address. */
static struct known {
  PyObject *descr;
  DLDataType dtype;
} known[40];
static size_t known_count;

static bool is_writeable(int flags) {
  return (flags & (FLAG_WRITEABLE | FLAG_WARN_ON_WRITE)) == FLAG_WRITEABLE;
}

static bool says_the_same(const ndarray *a, const Py_buffer *view) {
  size_t size = (size_t)view->ndim * sizeof *view->shape;
  return a->data == view->buf && a->nd == view->ndim && a->dimensions != NULL &&
         a->strides != NULL && memcmp(a->dimensions, view->shape, size) == 0 &&
         memcmp(a->strides, view->strides, size) == 0 &&
         is_writeable(a->flags) == !view->readonly &&
         ((a->flags & FLAG_C_CONTIGUOUS) != 0) == (PyBuffer_IsContiguous(view, 'C') != 0);
}

void call_ndarray_learn(PyObject *object, const Py_buffer *view, DLDataType dtype) {
  PyTypeObject *type = Py_TYPE(object);
  if (known_count == sizeof known / sizeof known[0] || view->ndim == 0 || view->shape == NULL ||
      view->strides == NULL || type->tp_basicsize < (Py_ssize_t)sizeof(ndarray) ||
      strcmp(type->tp_name, "numpy.ndarray") != 0 ||
      (call_ndarray_type != NULL && type != call_ndarray_type))
    return;
  const ndarray *array = (const ndarray *)object;
  PyObject *descr = PyObject_GetAttrString(object, "dtype");
  if (descr == NULL) {
    PyErr_Clear();
    return;
  }
  if (!says_the_same(array, view) || array->descr != descr) {
    Py_DECREF(descr);
    return;
  }
  if (call_ndarray_type == NULL) call_ndarray_type = (PyTypeObject *)Py_NewRef((PyObject *)type);
  known[known_count].descr = descr;
  known[known_count++].dtype = dtype;
}

bool call_ndarray_read(call_slot *slot, PyObject *object) {
  const ndarray *a = (const ndarray *)object;
  const struct known *k = known, *end = known + known_count;
  while (k < end && k->descr != a->descr) ++k;
  if (k == end || a->nd < 1 || a->nd > CALL_INLINE_DIMS || !(a->flags & FLAG_C_CONTIGUOUS))
    return false;
  /* A copy, because somebody may give the array another shape while the function runs. */
  for (int d = 0; d < a->nd; ++d) slot->u.array.shape[d] = a->dimensions[d];
  slot->u.array.object = Py_NewRef(object); /* numpy does not resize what others refer to */
  slot->kind = SLOT_ARRAY;
  slot->is_tensor = true;
  slot->readonly = !is_writeable(a->flags);
  slot->tensor = (DLTensor){.data = a->data,
                            .device = {kDLCPU, 0},
                            .ndim = a->nd,
                            .dtype = k->dtype,
                            .shape = slot->u.array.shape};
  return true;
}

bool call_ndarray_masked(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  if (type->tp_base == &PyBaseObject_Type) return false; /* derived from no array */
  PyObject *bases = type->tp_mro;
  for (Py_ssize_t i = 0; bases != NULL && i < PyTuple_GET_SIZE(bases); ++i)
    if (strcmp(((PyTypeObject *)PyTuple_GET_ITEM(bases, i))->tp_name, "MaskedArray") == 0)
      return true;
  return false;
}
