/* callback.c - functions of the runtime that call Python.
 *
 * An exception in Python becomes an error return with its text. It is also kept for the thread,
 * so that the Python code that called the kernel that called back gets the very exception
 * object. A thread of the runtime's pool has no Python state that outlives the call: what it kept is
 * for the thread that it works for, and dropped with the call of that thread.
 *
 * A Python object that is no function, and that no other language knows, is passed to Python
 * functions as a function that nobody can call, and that turns back into the object. */
#include "call.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char pending_key[] = "mblob: exception of a callback";
static __thread bool pending;    /* something is kept on this thread */
static __thread bool is_foreign; /* Python knows this thread only as long as it calls back */
static __thread bool
    is_interrupted;          /* KeyboardInterrupt left a function that the first thread called */
enum { FOREIGN_LIMIT = 64 }; /* exceptions of such threads; older ones are dropped */
/* A list of (exception, text, mblob_parallel_caller()), NULL if it is empty; with the interpreter's
 * lock. */
static PyObject *of_foreign;

/* csrc/src/core/threads/thread_pool.h */
const void *mblob_parallel_caller(int *is_inside);

static PyObject *pending_slot(void) {
  PyObject *dict = PyThreadState_GetDict();
  return dict ? PyDict_GetItemString(dict, pending_key) : NULL;
}

static bool is_for(PyObject *kept, const void *caller) {
  return PyLong_AsVoidPtr(PyTuple_GET_ITEM(kept, 2)) == caller;
}

static bool remove_foreign(Py_ssize_t i) {
  bool ok = PyList_SetSlice(of_foreign, i, i + 1, NULL) == 0; /* may run code of any kind */
  if (!ok) PyErr_Clear();
  return ok;
}

static Py_ssize_t find_foreign(const void *caller) {
  Py_ssize_t i = of_foreign != NULL ? PyList_GET_SIZE(of_foreign) : 0;
  while (i-- > 0 && !is_for(PyList_GET_ITEM(of_foreign, i), caller)) {
  }
  return i;
}

/* A call has ended: drop what threads kept for it, unless this thread itself works for a call. */
static void drop_foreign(void) {
  int is_inside;
  const void *caller = mblob_parallel_caller(&is_inside);
  for (Py_ssize_t i; !is_inside && (i = find_foreign(caller)) >= 0;)
    if (!remove_foreign(i)) break;
  if (of_foreign != NULL && PyList_GET_SIZE(of_foreign) == 0) Py_CLEAR(of_foreign);
}

static void forget_own(void) {
  if (!pending) return;
  pending = is_interrupted = false;
  PyObject *dict = PyThreadState_GetDict();
  if (dict != NULL && PyDict_DelItemString(dict, pending_key) != 0) PyErr_Clear();
}

void call_callback_forget(void) {
  forget_own();
  if (of_foreign != NULL) drop_foreign();
}

/* True if the message has the text of the exception ("ValueError: .."), around which and behind whose
 * kind a runtime in between may have put words. */
static bool is_of_exception(const char *message, const char *text, const char *kind) {
  if (strstr(message, text) != NULL) return true;
  const size_t size = strlen(kind);
  return strncmp(message, kind, size) == 0 && strncmp(message + size, ": ", 2) == 0 &&
         strncmp(text, kind, size) == 0 && strstr(message + size, text + size) != NULL;
}

/* Raise a kept (exception, text) if the message is of it: another error since then is not. */
static bool raise_kept(PyObject *kept, const char *message) {
  PyObject *exception = PyTuple_GET_ITEM(kept, 0);
  const char *text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kept, 1));
  bool same = text != NULL && is_of_exception(message, text, Py_TYPE(exception)->tp_name);
  if (same)
    PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
  else
    PyErr_Clear();
  return same;
}

/* First those for this thread; then those of threads that work for nobody. */
static bool raise_foreign(const char *message) {
  int is_inside;
  const void *caller = mblob_parallel_caller(&is_inside);
  for (int own = 1; of_foreign != NULL && own >= 0; own--)
    for (Py_ssize_t i = PyList_GET_SIZE(of_foreign); i-- > 0;) {
      PyObject *kept = PyList_GET_ITEM(of_foreign, i);
      if (is_for(kept, caller) != own || !raise_kept(kept, message)) continue;
      PyObject *type, *exception, *traceback;
      PyErr_Fetch(&type, &exception, &traceback); /* what is removed may run code */
      (void)remove_foreign(i);
      PyErr_Restore(type, exception, traceback);
      return true;
    }
  return false;
}

bool call_callback_reraise(const char *message) {
  PyObject *kept = pending ? pending_slot() : NULL;
  Py_XINCREF(kept);
  forget_own();
  bool same = (kept != NULL && raise_kept(kept, message)) || raise_foreign(message);
  Py_XDECREF(kept);
  if (of_foreign != NULL) { /* those of operators that failed, too, and that nobody asks for */
    PyObject *type, *exception, *traceback;
    PyErr_Fetch(&type, &exception, &traceback);
    drop_foreign();
    PyErr_Restore(type, exception, traceback);
  }
  return same;
}

static bool keep_foreign(PyObject *exception, PyObject *text) {
  int is_inside;
  PyObject *caller = PyLong_FromVoidPtr((void *)(uintptr_t)mblob_parallel_caller(&is_inside));
  PyObject *kept = caller ? PyTuple_Pack(3, exception, text, caller) : NULL;
  Py_XDECREF(caller);
  if (of_foreign == NULL) of_foreign = PyList_New(0);
  bool ok = kept != NULL && of_foreign != NULL && PyList_Append(of_foreign, kept) == 0;
  Py_XDECREF(kept);
  if (ok && PyList_GET_SIZE(of_foreign) > FOREIGN_LIMIT) (void)remove_foreign(0);
  return ok;
}

/* "ValueError: text" on one line, without the traceback. */
static PyObject *describe(PyObject *exception) {
  PyObject *text = PyObject_Str(exception);
  if (text == NULL) {
    PyErr_Clear();
    text = PyUnicode_FromString("(no text)");
  }
  PyObject *line = text ? PyUnicode_FromFormat("%s: %U", Py_TYPE(exception)->tp_name, text) : NULL;
  Py_XDECREF(text);
  PyObject *plain = line ? PyUnicode_AsEncodedString(line, "utf-8", "backslashreplace") : NULL;
  Py_XDECREF(line);
  PyObject *result =
      plain ? PyUnicode_DecodeUTF8(PyBytes_AS_STRING(plain), PyBytes_GET_SIZE(plain), "replace")
            : NULL;
  Py_XDECREF(plain);
  return result;
}

/* Turn the current exception into the runtime's error of this thread. */
int call_callback_keep(void) {
  PyObject *type, *exception, *traceback;
  PyErr_Fetch(&type, &exception, &traceback);
  PyErr_NormalizeException(&type, &exception, &traceback);
  if (traceback != NULL) PyException_SetTraceback(exception, traceback);
  PyObject *text = describe(exception);
  const char *message = text ? PyUnicode_AsUTF8(text) : NULL;
  mblob_set_error(MBLOB_E_KERNEL, message ? message : "a Python callback failed");
  PyObject *dict = PyThreadState_GetDict();
  PyObject *kept = message && !is_foreign ? PyTuple_Pack(2, exception, text) : NULL;
  if (message && is_foreign)
    (void)keep_foreign(exception, text);
  else if (dict != NULL && kept != NULL && PyDict_SetItemString(dict, pending_key, kept) == 0)
    pending = true;
  is_interrupted |= pending && PyErr_GivenExceptionMatches(exception, PyExc_KeyboardInterrupt);
  PyErr_Clear();
  Py_XDECREF(kept);
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(exception);
  Py_XDECREF(traceback);
  return -1;
}

/* ---- signals --------------------------------------------------------------------------------- */

/* Python handles signals in the first thread of the process. Others neither wait for the interpreter's
 * lock nor take a signal. */
static int run_signal_handlers(void) {
  if (syscall(SYS_gettid) != getpid() || !Py_IsInitialized()) return 0;
  PyGILState_STATE state = PyGILState_Ensure();
  int rc = 0;
  if (is_interrupted) { /* of what the call began, other threads may go on */
    mblob_set_error(MBLOB_E_KERNEL, "KeyboardInterrupt: ");
    rc = -1;
  } else if (PyErr_CheckSignals() != 0) {
    rc = call_callback_keep();
  }
  PyGILState_Release(state);
  return rc;
}

void call_callback_offer_signals(void) {
  union {
    int (*call)(void);
    void *address;
  } hook = {run_signal_handlers};
  (void)call_tvm.register_hook("mblob_interrupted", hook.address);
}

/* ---- results --------------------------------------------------------------------------------- */

/* What keeps the memory of a tensor that a Python function returned. */
typedef struct kept_tensor {
  DLManagedTensor managed;
  PyObject *owner;                     /* one of ours, or NULL */
  DLManagedTensor *plain;              /* of others, or NULL */
  DLManagedTensorVersioned *versioned; /* the same */
} kept_tensor;

static void drop_kept(DLManagedTensor *managed) {
  kept_tensor *kept = managed->manager_ctx;
  if (kept->plain != NULL && kept->plain->deleter != NULL) kept->plain->deleter(kept->plain);
  if (kept->versioned != NULL && kept->versioned->deleter != NULL)
    kept->versioned->deleter(kept->versioned);
  if (kept->owner != NULL && Py_IsInitialized()) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(kept->owner);
    PyGILState_Release(state);
  }
  free(kept);
}

/* The arguments of a Python function. Their tensors are the caller's, for the length of the
 * call. */
typedef struct borrowed {
  const TVMValue *args;
  const int *codes;
  int count;
} borrowed;

static bool is_tensor(int code) {
  return code == kTVMDLTensorHandle || code == kTVMNDArrayHandle || code == MBLOB_LENT_TENSOR;
}

/* True if the memory is, or may be, of one of them. */
static bool is_borrowed(const borrowed *from, const DLTensor *tensor) {
  const uintptr_t at = (uintptr_t)tensor->data + (uintptr_t)tensor->byte_offset;
  for (int i = 0; i < from->count; ++i) {
    const DLTensor *given = from->args[i].v_handle;
    size_t size;
    if (!is_tensor(from->codes[i]) || given == NULL) continue;
    const uintptr_t start = (uintptr_t)given->data + (uintptr_t)given->byte_offset;
    if (given->strides != NULL || !call_tensor_size(given, &size) ||
        (at >= start && at - start <= size))
      return true;
  }
  return false;
}

static bool keep(PyObject *object, bool own, call_slot *slot, TVMArrayHandle *out) {
  if (slot->readonly || !(own || slot->kind == SLOT_DLPACK || slot->kind == SLOT_DLPACK_VERSIONED))
    return false;
  kept_tensor *kept = calloc(1, sizeof *kept);
  if (kept == NULL) return false;
  kept->managed.dl_tensor = slot->tensor;
  kept->managed.manager_ctx = kept;
  kept->managed.deleter = drop_kept;
  PyObject *owner = own ? call_tensor_owner(object) : NULL;
  if ((own && owner == NULL) || call_tvm.from_dlpack(&kept->managed, out) != 0) {
    PyErr_Clear(); /* no memory */
    Py_XDECREF(owner);
    free(kept);
    return false;
  }
  kept->owner = owner;
  if (slot->kind == SLOT_DLPACK) kept->plain = slot->u.managed;
  if (slot->kind == SLOT_DLPACK_VERSIONED) kept->versioned = slot->u.versioned;
  if (!own) slot->kind = SLOT_NONE; /* the array has it now */
  return true;
}

bool call_keep_array(PyObject *object, call_slot *slot, TVMArrayHandle *out) {
  return keep(object, PyObject_TypeCheck(object, &call_tensor_type), slot, out);
}

bool call_keep_argument(PyObject *object, call_slot *slot, TVMArrayHandle *out) {
  const bool own = slot->kind == SLOT_ARRAY || PyObject_TypeCheck(object, &call_tensor_type);
  return keep(object, own, slot, out);
}

bool call_copy_array(const DLTensor *tensor, TVMArrayHandle *out) {
  bool ok =
      call_tvm.array_alloc(tensor->shape, tensor->ndim, tensor->dtype.code, tensor->dtype.bits,
                           tensor->dtype.lanes, (int)tensor->device.device_type,
                           tensor->device.device_id, out) == 0;
  if (ok && call_tvm.copy_from_to((DLTensor *)(uintptr_t)tensor, *out, NULL) != 0) {
    call_tvm.array_free(*out);
    *out = NULL;
    ok = false;
  }
  if (!ok) call_raise(PyExc_RuntimeError, "a copy of a tensor: %s", mblob_last_error());
  return ok;
}

/* Arrays are copied: who returns one may go on writing to it; so is what is only borrowed. */
static bool result_array(PyObject *result, call_slot *slot, const borrowed *from,
                         TVMArrayHandle *out) {
  return (!is_borrowed(from, &slot->tensor) && call_keep_array(result, slot, out)) ||
         call_copy_array(&slot->tensor, out);
}

/* Give `result` to the caller of the function. The runtime copies text and takes references of
 * its own. */
static bool set_result(PyObject *result, const borrowed *from, TVMRetValueHandle ret) {
  if (result == Py_None) return true;
  PyObject *name = PyUnicode_FromString("result of a Python function");
  if (name == NULL) return false;
  call_frame frame;
  bool ok = call_frame_init(&frame, name, 1);
  frame.opaque = true;
  frame.ffi = true; /* what a caller of before does not know is an object to it, and a bool a number
                       (TVMFuncCall) */
  ok = ok && call_convert_argument(&frame, 0, result);
  TVMArrayHandle array = NULL;
  if (ok && frame.slots[0].is_tensor) {
    ok = result_array(result, &frame.slots[0], from, &array);
    frame.values[0].v_handle = array;
    frame.codes[0] = kTVMNDArrayHandle;
  }
  if (ok) {
    TVMValue value = frame.values[0];
    int code = frame.codes[0];
    if (call_tvm.set_return(ret, &value, &code, 1) != 0) {
      call_raise(PyExc_RuntimeError, "result of a Python function: %s", mblob_last_error());
      ok = false;
    }
  }
  if (array != NULL) call_tvm.array_free(array); /* the caller has a reference of its own */
  call_frame_release(&frame);
  Py_DECREF(name);
  return ok;
}

static void delete_managed(void *managed) {
  ((DLManagedTensor *)managed)->deleter((DLManagedTensor *)managed);
}

/* The end of the call for an argument that is a tensor. What Python keeps gets the memory, if that
 * has an owner; without one it may only be used during the call. */
static bool end_tensor(PyObject *tensor, int i, TVMValue value, int code) {
  if (Py_REFCNT(tensor) == 1) return true;
  void *owner = NULL;
  void (*release)(void *) = NULL;
  if (code == MBLOB_LENT_TENSOR) {
    mblob_lent_tensor *lent = value.v_handle;
    if (lent->keep(lent, &owner, &release) != 0) release = NULL;
  } else if (code == kTVMNDArrayHandle) {
    DLManagedTensor *managed = NULL;
    if (call_tvm.to_dlpack(value.v_handle, &managed) == 0) release = delete_managed;
    owner = managed;
  }
  if (release != NULL)
    call_tensor_own(tensor, release, owner);
  else if (!call_tensor_detach(tensor)) {
    call_raise(
        PyExc_ValueError,
        "argument %d of a Python function: when it returned, there was still a view of the tensor "
        "(of numpy, or through DLPack), whose memory is valid only during the call; keep a copy, "
        "x.numpy().copy()",
        i);
    return false;
  }
  return true;
}

static int call_python(PyObject *callable, TVMValue *args, const int *codes, int count,
                       TVMRetValueHandle ret) {
  PyObject **objects = PyMem_Calloc((size_t)count + 1, sizeof *objects);
  if (objects == NULL) {
    PyErr_NoMemory();
    return call_callback_keep();
  }
  bool ok = true;
  for (int i = 0; ok && i < count; ++i) {
    objects[i] = call_convert_borrowed(args[i], codes[i]);
    ok = objects[i] != NULL;
    if (ok && is_tensor(codes[i])) call_tensor_lend(objects[i]);
  }
  PyObject *result = ok ? PyObject_Vectorcall(callable, objects, (size_t)count, NULL) : NULL;
  const borrowed from = {args, codes, count};
  int status = result != NULL && set_result(result, &from, ret) ? 0 : call_callback_keep();
  Py_XDECREF(result);
  for (int i = 0; i < count && objects[i] != NULL; ++i) {
    if (is_tensor(codes[i]) && !end_tensor(objects[i], i, args[i], codes[i])) {
      if (status == 0)
        status = call_callback_keep();
      else
        PyErr_Clear(); /* the function's own exception, whose traceback may have the view */
    }
    Py_DECREF(objects[i]);
  }
  PyMem_Free(objects);
  return status;
}

/* What a function that calls Python has. All of them are in rows by the function's address, of which
 * there are as many as functions at least; with the interpreter's lock. */
typedef struct callback {
  PyObject *callable;
  const mblob_function *function;
  struct callback *next;
} callback;

static callback *first_rows[256];

static struct {
  callback **at;
  size_t size; /* a power of two */
  size_t count;
} rows = {first_rows, sizeof first_rows / sizeof first_rows[0], 0};

static callback **row_of(const mblob_function *function) {
  return &rows.at[((uintptr_t)function >> 5) & (rows.size - 1)];
}

static void add_to_row(callback *one) {
  callback **row = row_of(one->function);
  one->next = *row;
  *row = one;
}

/* Make room for one more. Without memory for more rows those that are there get longer. */
static void reserve_row(void) {
  const size_t size = rows.size;
  callback **old = rows.at, **at = rows.count < size ? NULL : calloc(2 * size, sizeof *at);
  if (at == NULL) return;
  rows.at = at;
  rows.size = 2 * size;
  for (size_t i = 0; i < size; ++i)
    for (callback *one = old[i], *next; one != NULL; one = next) {
      next = one->next;
      add_to_row(one);
    }
  if (old != first_rows) free(old);
}

PyObject *call_callback_callable(const mblob_function *function) {
  const callback *one = *row_of(function);
  while (one != NULL && one->function != function) one = one->next;
  return one != NULL ? one->callable : NULL;
}

bool call_callback_is(const mblob_function *function) {
  return call_callback_callable(function) != NULL;
}

static int refuse(PyObject *object) {
  char text[160];
  (void)PyOS_snprintf(text, sizeof text,
                      "TypeError: an object of the Python class %.60s is no function",
                      Py_TYPE(object)->tp_name);
  mblob_set_error(MBLOB_E_KERNEL, text);
  return -1;
}

static int trampoline(TVMValue *args, int *codes, int count, TVMRetValueHandle ret,
                      void *resource) {
  if (!Py_IsInitialized()) {
    mblob_set_error(MBLOB_E_KERNEL, "a Python function was called after the interpreter ended");
    return -1;
  }
  const bool outer = is_foreign;
  is_foreign = PyGILState_GetThisThreadState() == NULL;
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject *callable = ((callback *)resource)->callable;
  int status = PyCallable_Check(callable) ? call_python(callable, args, codes, count, ret)
                                          : refuse(callable);
  if (is_foreign) pending = false; /* it was kept in the state that goes now */
  is_foreign = outer;
  PyGILState_Release(state);
  return status;
}

static void finalize(void *resource) {
  callback *self = resource;
  if (!Py_IsInitialized()) return; /* the process ends; its memory goes with it */
  PyGILState_STATE state = PyGILState_Ensure();
  callback **at = row_of(self->function);
  while (*at != self) at = &(*at)->next;
  *at = self->next;
  rows.count--;
  Py_DECREF(self->callable);
  free(self);
  PyGILState_Release(state);
}

mblob_function *call_callback_new(PyObject *callable) {
  mblob_function *function = NULL;
  callback *self = calloc(1, sizeof *self);
  if (self == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  self->callable = Py_NewRef(callable);
  if (mblob_function_create(trampoline, self, finalize, &function) != MBLOB_OK) {
    Py_DECREF(callable);
    free(self);
    PyErr_Format(PyExc_MemoryError, "no function made of %R: %s", callable, mblob_last_error());
    return NULL;
  }
  self->function = function;
  reserve_row();
  add_to_row(self);
  rows.count++;
  return function;
}
