/* function.c - PackedFunction: a function of a library as a Python callable. */
#include "call.h"

#include <string.h>
#include <structmember.h>

typedef struct function_object {
  PyObject_HEAD vectorcallfunc vectorcall;
  mblob_function *handle;
  PyObject *name;
  PyObject *shown; /* the same in errors: a name of a file may hold anything */
  PyObject *owner; /* the node of its Module: keeps what its kernels may look up; or None */
  PyObject *weakrefs;
  call_parameter *parameters; /* NULL if the library recorded none */
  int parameter_count;        /* -1 if not recorded */
  uint32_t alignment;
  int first_output; /* mblob_function_first_output() */
  bool ffi;         /* not MBLOB_ARGUMENTS_CLASSIC */
  bool of_python;   /* it calls a Python function, which takes all values */
  bool lone;  /* the same, and no other code ever got the handle: the only reference is here */
  bool keeps; /* the same is 2 */
  bool lends; /* the same is 3, or it calls a Python function */
  int int_code; /* of a number that it returns, as its prototype says: both dialects have int64 alone */
} function_object;

mblob_function *call_function_handle(PyObject *function) {
  ((function_object *)function)->lone = false;
  return ((function_object *)function)->handle;
}

PyObject *call_function_python(PyObject *function) {
  return call_callback_callable(((function_object *)function)->handle);
}

/* ---- the call ------------------------------------------------------------------------------ */

static void raise_failure(function_object *self, int status) {
  if (call_callback_reraise(mblob_last_error())) return;
  PyObject *nothing = PyObject_CallFunction(call_hook.raise_status, "iO", status, self->shown);
  Py_XDECREF(nothing);
  if (!PyErr_Occurred())
    call_raise(PyExc_RuntimeError, "%U: failed with status %d", self->shown, status);
}

/* A text for errors that a hook gave, whose reference is taken over; "" for anything else, also for
 * an exception: the error itself is told without it. */
static PyObject *text_of(PyObject *given) {
  PyErr_Clear();
  if (given != NULL && PyUnicode_Check(given)) return given;
  Py_XDECREF(given);
  return PyUnicode_FromString("");
}

/* Item `part` of what the prototype tells of a parameter: 0 its name, 1 its declaration; -1 for the
 * declarations of all. A text, "" where nothing tells it. */
static PyObject *declared_parameter(PyObject *function, int i, int part) {
  const function_object *self = (const function_object *)function;
  PyObject *both = NULL, *text = NULL;
  if (self != NULL && self->owner != Py_None)
    both = PyObject_CallFunction(call_hook.declared, "OOi", self->owner, self->name, i);
  if (both != NULL && PyTuple_Check(both) && PyTuple_GET_SIZE(both) == 2)
    text = Py_NewRef(PyTuple_GET_ITEM(both, part));
  Py_XDECREF(both);
  return text_of(text);
}

PyObject *call_function_parameter(PyObject *function, int i) {
  PyObject *name = declared_parameter(function, i, 0);
  if (name == NULL || PyUnicode_GET_LENGTH(name) == 0) return name;
  PyObject *shown = PyUnicode_FromFormat(" (%U)", name);
  Py_DECREF(name);
  return shown;
}

PyObject *call_function_declared(PyObject *function, int i) {
  PyObject *text = declared_parameter(function, i, 1);
  if (text == NULL || PyUnicode_GET_LENGTH(text) != 0) return text;
  Py_DECREF(text);
  return PyUnicode_FromString("it");
}

static bool check_count(const function_object *self, Py_ssize_t count) {
  if (self->parameter_count < 0 || count == self->parameter_count) return true;
  PyObject *told_text = declared_parameter((PyObject *)(uintptr_t)self, -1, 1), *shown = NULL;
  if (told_text != NULL)
    shown = PyUnicode_GET_LENGTH(told_text) != 0
                ? PyUnicode_FromFormat(" (%U)", told_text)
                : PyUnicode_FromFormat(" (%s)", mblob_function_signature(self->handle));
  Py_XDECREF(told_text);
  const char *text = shown ? PyUnicode_AsUTF8(shown) : NULL;
  if (text)
    call_raise(call_type_and_value, "%U: " MB_TEXT_COUNT, self->shown, "expected",
               self->parameter_count, self->parameter_count == 1 ? "" : "s", text, (int)count);
  Py_XDECREF(shown);
  return false;
}

PyObject *call_function_tensor_of(PyObject *function, PyObject *name) {
  const function_object *self = (const function_object *)function;
  const bool has_owner = self != NULL && self->owner != Py_None;
  return text_of(
      has_owner ? PyObject_CallFunctionObjArgs(call_hook.tensor_advice, self->owner, name, NULL)
                : NULL);
}

/* A shape as a tuple of int. */
static PyObject *shape_of(int ndim, const int64_t *extents) {
  PyObject *shape = PyTuple_New(ndim);
  for (int d = 0; shape != NULL && d < ndim; ++d) {
    PyObject *extent = PyLong_FromLongLong(extents[d]);
    if (extent == NULL)
      Py_CLEAR(shape);
    else
      PyTuple_SET_ITEM(shape, d, extent);
  }
  return shape;
}

bool call_function_check_shape(PyObject *function, int i, const Py_buffer *view) {
  const function_object *self = (const function_object *)function;
  if (self == NULL || self->parameters == NULL || self->owner == Py_None) return true;
  if (view->ndim > PyBUF_MAX_NDIM) return true; /* no buffer has so many: the array is refused */
  int64_t extents[PyBUF_MAX_NDIM];
  for (int d = 0; d < view->ndim; ++d) extents[d] = view->shape[d];
  PyObject *shape = shape_of(view->ndim, extents);
  if (shape == NULL) return false;
  PyObject *nothing = PyObject_CallFunction(call_hook.check_shape, "OOOiO", self->owner, self->name,
                                            self->shown, i, shape);
  Py_DECREF(shape);
  Py_XDECREF(nothing);
  return nothing != NULL;
}

/* The fields of structs that are an argument, beside those of the structs that parameter `i` points at. */
bool call_function_check_record(PyObject *function, int i, PyObject *arg) {
  const function_object *self = (const function_object *)function;
  if (self == NULL || self->parameters == NULL || self->owner == Py_None) return true;
  call_parameter *p = &self->parameters[i];
  if (p->size == 0) return true;
  PyObject *dtype = PyObject_GetAttrString(arg, "dtype");
  if (dtype == NULL) PyErr_Clear(); /* of ctypes */
  bool fits = dtype != NULL && dtype == p->fits;
  if (!fits) {
    PyObject *place = Py_BuildValue("(OOin)", self->name, self->shown, i, (Py_ssize_t)p->size);
    PyObject *said = place ? call_uncommon("check_record", self->owner, place, arg) : NULL;
    fits = said != NULL;
    if (said == Py_True) { /* however many there are */
      Py_XDECREF(p->fits);
      p->fits = Py_NewRef(dtype);
    }
    Py_XDECREF(place);
    Py_XDECREF(said);
  }
  Py_XDECREF(dtype);
  return fits;
}

bool call_function_check_bound(const call_frame *frame, PyObject *args) {
  const function_object *self = (const function_object *)frame->function;
  if (self->parameters == NULL || self->owner == Py_None) return true;
  PyObject *given = PyTuple_New(frame->count);
  for (int i = 0; given != NULL && i < frame->count; ++i) {
    const call_slot *slot = &frame->slots[i];
    PyObject *one = slot->is_tensor ? shape_of(slot->tensor.ndim, slot->tensor.shape)
                                    : Py_NewRef(PyTuple_GET_ITEM(args, i));
    if (one == NULL)
      Py_CLEAR(given);
    else
      PyTuple_SET_ITEM(given, i, one);
  }
  if (given == NULL) return false;
  PyObject *nothing = PyObject_CallFunctionObjArgs(call_hook.check_bound, self->owner, self->name,
                                                   self->shown, given, args, NULL);
  Py_DECREF(given);
  Py_XDECREF(nothing);
  return nothing != NULL;
}

/* Tell Python which function made a module of which arguments, if these are numbers, texts and
 * devices: a pickle of the module has them. */
static bool remember(const function_object *self, const call_frame *frame, PyObject *module) {
  PyObject *args = PyTuple_New(frame->count);
  for (int i = 0; args != NULL && i < frame->count; ++i) {
    PyObject *arg = call_convert_plain(frame->values[i], frame->codes[i]);
    if (arg == NULL) {
      Py_DECREF(args);
      return !PyErr_Occurred();
    }
    PyTuple_SET_ITEM(args, i, arg);
  }
  PyObject *nothing = args == NULL
                          ? NULL
                          : PyObject_CallFunctionObjArgs(call_hook.remember, module, self->owner,
                                                         self->name, args, NULL);
  Py_XDECREF(args);
  Py_XDECREF(nothing);
  return nothing != NULL;
}

PyObject *call_function_invoke(PyObject *function, call_frame *frame) {
  function_object *self = (function_object *)function;
  if (frame->misaligned && !call_align_in(frame)) return NULL;
  TVMValue ret = {.v_int64 = 0};
  int ret_code = kTVMNullptr;
  int status;
  Py_BEGIN_ALLOW_THREADS status =
      mblob_function_call(self->handle, frame->values, frame->codes, frame->count, &ret, &ret_code);
  Py_END_ALLOW_THREADS int wrong = frame->misaligned ? call_align_out(frame) : -1;
  if (status != MBLOB_OK) {
    raise_failure(self, status);
    return NULL;
  }
  call_callback_forget();
  if (self->keeps) call_count_back(frame);
  if (ret_code == kTVMArgInt) ret_code = self->int_code;
  PyObject *result = ret_code == kTVMNullptr ? Py_NewRef(Py_None)
                                             : call_convert_result(ret, ret_code, self->owner);
  if (ret_code == kTVMBytes && result != NULL && self->owner != Py_None &&
      *mblob_function_prototype(self->handle) != '\0') { /* a struct by value, and its like */
    PyObject *data = result;
    result = call_uncommon("returned", self->owner, self->name, data);
    Py_DECREF(data);
  }
  if (self->keeps && ret_code == kTVMObjectHandle) result = call_container_tuples(result);
  if (ret_code == kTVMModuleHandle && self->owner != Py_None && result != NULL &&
      !remember(self, frame, result))
    Py_CLEAR(result);
  if (wrong < 0 || result == NULL) return result;
  Py_DECREF(result);
  call_frame_error(
      frame, wrong, PyExc_ValueError,
      "the array is read-only and the function wrote to it; what it wrote is lost, pass a "
      "writable one");
  return NULL;
}

bool call_function_prepare(PyObject *function, call_frame *frame, PyObject *const *args,
                           Py_ssize_t count, PyObject *kwnames) {
  const function_object *self = (const function_object *)function;
  if (!call_frame_init(frame, self->shown, count)) return false;
  frame->function = function;
  if (kwnames != NULL && PyTuple_GET_SIZE(kwnames) != 0) {
    call_raise(PyExc_TypeError, "%U: takes arguments by position only, found %U=", self->shown,
               PyTuple_GET_ITEM(kwnames, 0));
    return false;
  }
  if (!check_count(self, count)) return false;
  frame->parameters = self->parameters;
  frame->alignment = self->alignment;
  frame->ffi = self->ffi || self->of_python;
  frame->opaque = self->of_python || self->keeps;
  frame->dlpack = self->ffi && !self->keeps;
  frame->gaps = frame->dlpack && self->parameters == NULL;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!call_convert_argument(frame, (int)i, args[i])) return false;
  if (self->keeps) return call_count_tensors(frame, args);
  if (self->lends) call_lend_tensors(frame, args);
  const bool unknown = frame->parameters == NULL && self->first_output == 0;
  if (unknown && frame->alignment != 0) call_align_output(frame);
  return self->first_output == 0 || call_frame_writable(frame, self->first_output, args[0]);
}

static PyObject *function_vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf,
                                     PyObject *kwnames) {
  call_frame frame;
  Py_INCREF(callable); /* a callback may drop the last other reference */
  PyObject *result = NULL;
  if (call_function_prepare(callable, &frame, args, PyVectorcall_NARGS(nargsf), kwnames))
    result = call_function_invoke(callable, &frame);
  call_frame_release(&frame);
  Py_DECREF(callable);
  return result;
}

/* ---- the object ------------------------------------------------------------------------------ */

#define SHOWN_LIMIT 1024 /* characters of a name */

/* A name as errors show it: nearly all are shown as they are, the others as `repr` does, without
 * its quotes. */
static PyObject *shown_name(PyObject *name) {
  Py_ssize_t size = PyUnicode_GET_LENGTH(name);
  bool plain = PyUnicode_IS_COMPACT_ASCII(name) && size <= SHOWN_LIMIT;
  const Py_UCS1 *text = plain ? PyUnicode_1BYTE_DATA(name) : NULL;
  for (Py_ssize_t i = 0; plain && i < size; ++i) plain = text[i] >= 0x20 && text[i] < 0x7f;
  if (plain) return Py_NewRef(name);
  PyObject *part = size > SHOWN_LIMIT ? PyUnicode_Substring(name, 0, SHOWN_LIMIT) : Py_NewRef(name);
  PyObject *repr = part ? PyObject_Repr(part) : NULL;
  PyObject *inside = repr ? PyUnicode_Substring(repr, 1, PyUnicode_GET_LENGTH(repr) - 1) : NULL;
  PyObject *shown =
      inside ? PyUnicode_FromFormat(size > SHOWN_LIMIT ? "%U..." : "%U", inside) : NULL;
  Py_XDECREF(part);
  Py_XDECREF(repr);
  Py_XDECREF(inside);
  return shown;
}

PyObject *call_function_wrap(mblob_function *handle, PyObject *name, PyObject *owner) {
  PyObject *shown = shown_name(name);
  function_object *self = shown ? PyObject_GC_New(function_object, &call_function_type) : NULL;
  if (self == NULL) {
    Py_XDECREF(shown);
    mblob_function_release(handle);
    return NULL;
  }
  self->vectorcall = function_vectorcall;
  self->handle = handle;
  self->name = Py_NewRef(name);
  self->shown = shown;
  self->owner = Py_NewRef(owner ? owner : Py_None);
  self->weakrefs = NULL;
  self->alignment = mblob_function_alignment(handle);
  self->first_output = mblob_function_first_output(handle);
  const mblob_argument_mode takes = mblob_function_argument_mode(handle);
  self->ffi = takes != MBLOB_ARGUMENTS_CLASSIC;
  self->keeps = takes == MBLOB_ARGUMENTS_KEPT;
  self->lends = takes == MBLOB_ARGUMENTS_OBJECTS || call_callback_is(handle);
  self->of_python = call_callback_is(handle); /* a global function of Python too */
  self->int_code = call_signature_result(mblob_function_prototype(handle));
  self->lone = false;
  self->parameter_count = call_signature_parse(mblob_function_signature(handle), &self->parameters);
  PyObject_GC_Track(self);
  if (self->parameter_count == -2) {
    Py_DECREF(self);
    return PyErr_NoMemory();
  }
  return (PyObject *)self;
}

static PyObject *function_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"address", "name", "owner", "of_python", NULL};
  PyObject *address, *name, *owner;
  int of_python = 0;
  (void)type;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OUO|p", names, &address, &name, &owner,
                                   &of_python))
    return NULL;
  void *handle = PyLong_AsVoidPtr(address);
  if (handle == NULL) {
    if (!PyErr_Occurred()) call_raise(PyExc_ValueError, "PackedFunction: the address is 0");
    return NULL;
  }
  PyObject *made = call_function_wrap(handle, name, owner);
  if (made != NULL) ((function_object *)made)->lone = of_python;
  return made;
}

/* Nothing but this object keeps a lone function, and with it the Python function. A cycle through
 * that is broken in what has an attribute or an item. */
static int function_traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(((function_object *)object)->owner);
  if (((function_object *)object)->lone) Py_VISIT(call_function_python(object));
  return 0;
}

static int function_clear(PyObject *object) {
  /* The owner only keeps modules; the function itself stays callable. */
  function_object *self = (function_object *)object;
  PyObject *owner = self->owner;
  self->owner = Py_NewRef(Py_None);
  Py_XDECREF(owner);
  return 0;
}

static void function_dealloc(PyObject *object) {
  function_object *self = (function_object *)object;
  PyObject_GC_UnTrack(self);
  if (self->weakrefs != NULL) PyObject_ClearWeakRefs(object);
  mblob_function *handle = self->handle;
  /* The last reference closes a library: destructors run, and other threads may wait for the GIL
   * in there. */
  Py_BEGIN_ALLOW_THREADS mblob_function_release(handle);
  Py_END_ALLOW_THREADS for (int i = 0; self->parameters != NULL && i < self->parameter_count; ++i)
      Py_XDECREF(self->parameters[i].fits);
  PyMem_Free(self->parameters);
  Py_XDECREF(self->name);
  Py_XDECREF(self->shown);
  Py_XDECREF(self->owner);
  PyObject_GC_Del(self);
}

static PyObject *function_repr(PyObject *object) {
  const function_object *self = (const function_object *)object;
  PyObject *text =
      text_of(self->owner == Py_None ? NULL
                                     : PyObject_CallFunctionObjArgs(call_hook.prototype,
                                                                    self->owner, self->name, NULL));
  if (text == NULL) return NULL;
  PyObject *shown = PyUnicode_GET_LENGTH(text) != 0 ? text : self->shown;
  PyObject *repr = PyUnicode_FromFormat("<mblob.PackedFunction %U>", shown);
  Py_DECREF(text);
  return repr;
}

/* A function of a module of Python, which is imported now if it was not before. */
static PyObject *function_in(const char *module, const char *name) {
  PyObject *imported = PyImport_ImportModule(module);
  PyObject *found = imported ? PyObject_GetAttrString(imported, name) : NULL;
  Py_XDECREF(imported);
  return found;
}

PyObject *call_uncommon(const char *name, PyObject *a, PyObject *b, PyObject *c) {
  PyObject *hook = function_in("mblob.loader.call_hooks", name);
  PyObject *result = hook ? PyObject_CallFunctionObjArgs(hook, a, b, c, NULL) : NULL;
  Py_XDECREF(hook);
  return result;
}

/* What a function of Python says of a function, by its module and name. */
static PyObject *said(PyObject *object, const char *hook) {
  const function_object *self = (const function_object *)object;
  if (self->owner == Py_None) return Py_NewRef(Py_None);
  return call_uncommon(hook, self->owner, self->name, NULL);
}

static PyObject *get_doc(PyObject *object, void *closure) {
  (void)closure;
  PyObject *python = call_function_python(object);
  return python ? PyObject_GetAttrString(python, "__doc__") : said(object, "doc");
}

static PyObject *get_signature(PyObject *object, void *closure) {
  (void)closure;
  const char *text = mblob_function_signature(((function_object *)object)->handle);
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject *get_address(PyObject *object, void *closure) {
  (void)closure;
  return PyLong_FromVoidPtr(call_function_handle(object));
}

static PyObject *get_takes_objects(PyObject *object, void *closure) {
  const function_object *self = (const function_object *)object;
  (void)closure;
  return PyBool_FromLong(self->of_python || self->keeps);
}

static PyObject *as_ffi_object(PyObject *object, PyObject *unused) {
  (void)unused;
  return PyObject_CallFunction(call_hook.ffi_function, "N", get_address(object, NULL));
}

PyObject *call_pickled(const char *name) { return function_in("mblob.loader.pickled", name); }

static PyObject *function_reduce(PyObject *object, PyObject *unused) {
  const function_object *self = (const function_object *)object;
  (void)unused;
  if (self->owner == Py_None)
    return call_raise(
        PyExc_TypeError,
        self->lone
            ? "%U: a PackedFunction that calls a Python function cannot be pickled; pickle the "
              "Python function, and pass it to mblob.packed_function where it is unpickled"
            : "%U: a function without a module cannot be pickled; pickle its name, and call "
              "mblob.get_global_func where it is unpickled",
        self->shown);
  PyObject *find = call_pickled("function");
  PyObject *module = find ? PyObject_GetAttrString(self->owner, "module") : NULL;
  if (module != NULL) return Py_BuildValue("N(NO)", find, module, self->name);
  Py_XDECREF(find);
  return NULL;
}

/* Nothing of a function changes, so copy.copy and copy.deepcopy give it back, as of functions of
 * Python. */
static PyObject *function_copy(PyObject *object, PyObject *unused) {
  (void)unused;
  return Py_NewRef(object);
}

static PyObject *same_as(PyObject *object, PyObject *other) {
  return PyBool_FromLong(PyObject_TypeCheck(other, &call_function_type) &&
                         ((function_object *)object)->handle == ((function_object *)other)->handle);
}

static PyMethodDef function_methods[] = {
    {"__reduce__", function_reduce, METH_NOARGS,
     PyDoc_STR("For pickles: the module that the function came from, and its name.")},
    {"__copy__", function_copy, METH_NOARGS, PyDoc_STR("The function itself.")},
    {"__deepcopy__", function_copy, METH_O, PyDoc_STR("The function itself.")},
    {"__tvm_ffi_object__", as_ffi_object, METH_NOARGS,
     PyDoc_STR(
         "The function as a tvm_ffi.Function: tvm_ffi asks for it where the function is an argument of its own.")},
    {"same_as", same_as, METH_O,
     PyDoc_STR(
         "same_as(other): whether it is the same function; others of the same name may be different ones.")},
    {"bind", (PyCFunction)(void (*)(void))call_bound_new, METH_FASTCALL | METH_KEYWORDS,
     PyDoc_STR(
         "bind(*args) -> BoundFunction: convert and check the arguments once, and keep them. Call the result "
         "without arguments, as often as needed. Bind again after the owner of an array moved it (numpy's "
         "resize(refcheck=False)).")},
    {"__from_extern_c__", (PyCFunction)(void (*)(void))call_function_from_c,
     METH_VARARGS | METH_KEYWORDS | METH_STATIC,
     PyDoc_STR(
         "__from_extern_c__(c_symbol, *, keep_alive_object=None): the function of compiled code at the address "
         "c_symbol, of the convention of the ffi dialect (TVMFFISafeCallType). It keeps keep_alive_object, such as "
         "what owns the code.")},
    {"__from_mlir_packed_safe_call__", (PyCFunction)(void (*)(void))call_function_from_mlir,
     METH_VARARGS | METH_KEYWORDS | METH_STATIC,
     PyDoc_STR(
         "__from_mlir_packed_safe_call__(mlir_packed_symbol, *, keep_alive_object=None): the same for code that gets "
         "an array of the addresses of the handle, the arguments, their number, the result and the return code.")},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef function_members[] = {
    {"__name__", T_OBJECT, offsetof(function_object, name), READONLY, NULL},
    {"_node", T_OBJECT, offsetof(function_object, owner), READONLY, NULL},
    {"name", T_OBJECT, offsetof(function_object, name), READONLY,
     PyDoc_STR("name it was found under")},
    {"alignment", T_UINT, offsetof(function_object, alignment), READONLY,
     PyDoc_STR(
         "bytes that tensor data must be aligned to; 0: its element's size. Other data is copied for "
         "the call")},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef function_getset[] = {
    {"__doc__", get_doc, NULL, NULL, NULL},
    {"signature", get_signature, NULL,
     PyDoc_STR("C argument types that the library recorded, \"\" if none"), NULL},
    {"address", get_address, NULL, PyDoc_STR("address of its mblob_function, borrowed"), NULL},
    {"_takes_objects", get_takes_objects, NULL,
     PyDoc_STR("whether Python objects of any class pass, as to functions of Python"), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* A function has a __signature__, the class has none: inspect would take a descriptor for one. */
static PyObject *function_getattro(PyObject *object, PyObject *name) {
  if (PyUnicode_CompareWithASCIIString(name, "__signature__") != 0)
    return PyObject_GenericGetAttr(object, name);
  PyObject *found = said(object, "signature");
  if (found != Py_None) return found;
  Py_DECREF(found);
  PyErr_SetObject(PyExc_AttributeError, name);
  return NULL;
}

PyTypeObject call_function_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mblob.PackedFunction",
    .tp_basicsize = sizeof(function_object),
    .tp_dealloc = function_dealloc,
    .tp_vectorcall_offset = offsetof(function_object, vectorcall),
    .tp_repr = function_repr,
    .tp_call = PyVectorcall_Call,
    .tp_getattro = function_getattro,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = PyDoc_STR(
        "A function of a library. Call it with arrays, numbers, str, bytes, None, modules, functions.\n\n"
        "An array with too little alignment is copied for the call, and changes are written back. An array with "
        "strides is passed only to kernels of the ffi dialect without a prototype, which accept or refuse it. Other "
        "functions refuse it: pass numpy.ascontiguousarray(x).\n\n"
        "It keeps its library loaded. The GIL is released during the call."),
    .tp_traverse = function_traverse,
    .tp_clear = function_clear,
    .tp_weaklistoffset = offsetof(function_object, weakrefs),
    .tp_methods = function_methods,
    .tp_members = function_members,
    .tp_getset = function_getset,
    .tp_new = function_new,
};
