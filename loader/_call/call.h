/* call.h - what the files of the extension module `mblob.loader._call` share.
 *
 * The module is the hot path of the run side: calling functions with Python objects, tensors,
 * callbacks. It reaches the runtime through `mblob_*` names only: another TVM in the process may
 * own the `TVM*` ones. The few of those it needs come from libmblob itself (runtime.c). */
#ifndef MBLOB_LOADER_CALL_H
#define MBLOB_LOADER_CALL_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <mblob.h>
#include <mblob/plugin.h>
#include <tvm/runtime/c_runtime_api.h>

#include "base/argument_types.h"
#include "base/device_types.h"
#include "base/texts.h"

#if PY_VERSION_HEX < 0x030A0000
static inline PyObject *Py_NewRef(PyObject *object) {
  Py_INCREF(object);
  return object;
}
#endif

/* DLTensor shapes are int64_t and buffer shapes Py_ssize_t: one array serves both. */
_Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "a 64-bit Python is needed");

/* ---- module.c: Python objects that the C code needs, set by loader/__init__.py ---------- */

typedef struct call_hooks {
  PyObject *module_class;  /* mblob.module.Module */
  PyObject *module_handle; /* f(Module) -> address of its mblob_module, with a reference */
  PyObject *wrap_module;   /* f(address) -> Module; takes over the reference */
  PyObject
      *classes; /* f() -> the three that follow, which are not imported before there is a use for
                        them */
  PyObject *device_class; /* mblob.devices.Device(device_type, device_id), NULL before that */
  PyObject *tensor_class; /* mblob.loader.tensor.Tensor, a subclass of call_tensor_type */
  PyObject *shape_class;  /* mblob.loader.tensor.Shape, a subclass of tuple */
  PyObject *raise_status; /* f(status, function name): raises what mblob_last_error_info() says */
  PyObject *ffi_function; /* f(address of an mblob_function) -> tvm_ffi.Function */
  PyObject *ffi_stand_in; /* f(value) -> what is passed for it to a function of the ffi dialect, or
                             None */
  PyObject
      *error_class;   /* f(class, or tuple of classes) -> class of mblob.errors that is all these */
  PyObject *declared; /* f(owner, function name, i) -> (NAME, DECLARATION) of its parameter, or
                            of all for -1; each "" if unknown */
  PyObject *prototype; /* f(owner, function name) -> the whole of it, "" if unknown */
  PyObject *
      tensor_advice; /* f(owner, text) -> what to pass instead, if that is the name of a tensor; else "" */
  PyObject *
      check_bound; /* f(owner, function name, name in errors, arguments): raises if they do not fit together;
                             a tensor is the tuple of its shape */
  PyObject
      *check_shape;   /* f(owner, function name, name in errors, i, shape): the same of one array */
  PyObject *remember; /* f(module, owner, function name, arguments): which call made the module */
  PyObject *result_value; /* f(type code, value) -> what a handle (its address) or a data type (its
                             text) is in Python */
} call_hooks;

extern call_hooks call_hook;

/* Have device_class and tensor_class, for results; false with an exception set. */
bool call_hook_classes(void);

/* A Device; NULL with an exception set. */
PyObject *call_device_object(DLDevice device);

/* ---- runtime.c: TVM's own names, as libmblob defines them --------------------------------- */

typedef struct call_runtime {
  int (*set_return)(TVMRetValueHandle ret, TVMValue *value, int *type_code, int count);
  int (*array_free)(TVMArrayHandle array);
  int (*array_alloc)(const tvm_index_t *shape, int ndim, int dtype_code, int dtype_bits,
                     int dtype_lanes, int device_type, int device_id, TVMArrayHandle *out);
  int (*copy_from_to)(TVMArrayHandle from, TVMArrayHandle to, TVMStreamHandle stream);
  int (*from_dlpack)(DLManagedTensor *from, TVMArrayHandle *out);
  int (*to_dlpack)(TVMArrayHandle from, DLManagedTensor **out);
  int (*synchronize)(int device_type, int device_id, TVMStreamHandle stream);
  int (*object_free)(TVMObjectHandle object);
  int (*object_type)(TVMObjectHandle object, unsigned *type);
  int (*register_hook)(const char *name, void *hook);
} call_runtime;

extern call_runtime call_tvm;
bool call_runtime_bind(void); /* false with ImportError set */

/* ---- dtype.c: element types --------------------------------------------------------------- */

/* Element type of a buffer; NULL `format` means unsigned bytes. False if it is no plain native
 * number. */
bool call_dtype_from_format(const char *format, Py_ssize_t itemsize, DLDataType *out);
/* Format of the buffer protocol for one lane, NULL if it has none (bfloat16, int4, ...). */
const char *call_dtype_format(DLDataType dtype);
size_t call_dtype_size(DLDataType dtype); /* bytes of an element, all lanes */
bool call_dtype_equal(DLDataType a, DLDataType b);
bool call_dtype_is_small_float(DLDataType dtype);                  /* bfloat16 or float8 */
bool call_dtype_of_small_float(const char *name, DLDataType *out); /* "bfloat16", "float8_..." */
DLDataType call_dtype_for_dlpack(
    DLDataType dtype); /* TVM's two 8-bit floats by DLPack's codes; others stay */
void call_dtype_text(DLDataType dtype, char out[48]); /* "float32", "int8x4", "bool" */

/* ---- signature.c: what the library recorded about a function's arguments --------------------- */

typedef struct call_parameter {
  enum { PARAM_ANY, PARAM_INT, PARAM_FLOAT, PARAM_POINTER } kind;
  bool is_const;    /* pointer to const: the function only reads */
  DLDataType dtype; /* of the number, or of what a pointer points to; bits 0 = not known */
  bool opaque;      /* a pointer to void, a struct or a function: bytes of any kind do */
  bool bytes;       /* a pointer to bytes: `bytes` and `bytearray` are arrays of them */
  bool is_signed;   /* these have a sign */
  bool chars;       /* they are of type char, and no text */
  bool is_text;     /* a pointer to a char, which may be a text */
  bool padded;      /* to texts of Fortran, which end with blanks */
  bool function;    /* a pointer to a function */
  const char *text; /* the parameter in C: a part of the signature, without a NUL behind it */
  size_t text_size;
  bool columns;       /* an array in column order */
  bool indirect;      /* a pointer to pointers */
  int depth;          /* ... how many lead to what is none */
  DLDataType pointed; /* of a pointer to pointers: what these point to */
  bool pointed_const; /* ... and whether the function only reads it */
  bool pointed_char;  /* ... texts */
  bool functions;     /* ... functions */
  size_t size;        /* bytes of the struct that it points to, 0: not known */
  size_t alignment;   /* of that struct, 1: not known */
  PyObject *fits;     /* the dtype of the last array of numpy with its fields, or NULL */
} call_parameter;

/* Parse "const float *, float *, int64_t". Returns the count, -1 if nothing is recorded, -2
 * without memory. *out is to be freed with PyMem_Free. */
int call_signature_parse(const char *text, call_parameter **out);
int call_signature_result(const char *prototype);

/* ---- frame.c: the arguments of one call ------------------------------------------------------ */

enum {
  SLOT_NONE,
  SLOT_ARRAY,
  SLOT_BUFFER,
  SLOT_DLPACK,
  SLOT_DLPACK_VERSIONED,
  SLOT_FUNCTION,
  SLOT_MODULE,
  SLOT_OBJECT,
  SLOT_OWNED
};

#define CALL_INLINE_DIMS 8

/* What one argument borrows for the length of a call. */
typedef struct call_slot {
  DLTensor tensor;
  int (*keep)(mblob_lent_tensor *self, void **owner,
              void (**release)(void *owner)); /* borrowed_tensors.c */
  union {
    struct {
      PyObject *object;
      int64_t shape[CALL_INLINE_DIMS];
    } array;                  /* SLOT_ARRAY: a numpy array, without its buffer protocol */
    Py_buffer view;           /* SLOT_BUFFER */
    DLManagedTensor *managed; /* SLOT_DLPACK */
    DLManagedTensorVersioned *versioned; /* SLOT_DLPACK_VERSIONED */
    mblob_function *function;            /* SLOT_FUNCTION */
    mblob_module *module;                /* SLOT_MODULE */
    TVMObjectHandle container;           /* SLOT_OBJECT */
    PyObject *owner;                     /* SLOT_OWNED: of the memory */
    TVMByteArray bytes;                  /* SLOT_NONE, code kTVMBytes */
  } u;
  uint8_t kind;
  bool is_tensor;
  bool readonly;
  bool misaligned;
  bool shared; /* `copy` belongs to an earlier argument */
  /* Set by align.c: the bytes that tensor data spans, gaps included, and how many of them are
   * before the data pointer. */
  size_t nbytes, before;
  void *original; /* the first of them */
  void *copy;     /* of them all, aligned, behind `pad` more bytes: what the function works on */
  size_t pad;
  void *snapshot;         /* what the copy held before the call, for overlapping arguments */
  TVMArrayHandle counted; /* what a function that keeps tensors is given in place of `tensor` */
  PyObject *copy_owner;   /* what keeps `copy`, if somebody does; set with `copy` */
  /* Set by borrowed_tensors.c: the argument, and the slot of the frame that this one was borrowed from. */
  PyObject *lender;
  struct call_slot *origin;
} call_slot;
_Static_assert(offsetof(call_slot, keep) == offsetof(mblob_lent_tensor, keep), "one layout");

#define CALL_INLINE_ARGS 8

typedef struct call_frame {
  PyObject *name;                   /* of the function, for errors; borrowed */
  PyObject *function;               /* the PackedFunction, which knows its parameters; or NULL */
  const call_parameter *parameters; /* NULL if not recorded */
  uint32_t alignment;               /* mblob_function_alignment() */
  int count;
  bool ffi; /* bools, texts with a NUL and containers may be passed: not MBLOB_ARGUMENTS_CLASSIC */
  bool dlpack; /* what tensors are described to has DLPack's codes: a function of the ffi dialect */
  bool gaps; /* tensors may have gaps between their rows: compiled functions of the ffi dialect look
                at strides themselves */
  bool opaque; /* an object of any class may be passed: the callee is a Python function, or a caller
                  that gets its result */
  bool items;  /* these are the items of a container, not arguments */
  bool pairs;  /* of a dict: its keys and values in turn */
  bool misaligned;                /* some slot is */
  int nesting;                    /* how many containers these are within */
  int place;                      /* of the innermost of them in `outer` */
  const struct call_frame *outer; /* NULL: these are the arguments */
  TVMValue *values;
  int *codes;
  call_slot *slots;
  void *heap;
  TVMValue inline_values[CALL_INLINE_ARGS];
  int inline_codes[CALL_INLINE_ARGS];
  call_slot inline_slots[CALL_INLINE_ARGS];
} call_frame;

bool call_frame_init(call_frame *frame, PyObject *name, Py_ssize_t count);
void call_frame_release(
    call_frame *frame); /* keeps an exception that is set; harmless a second time */
/* The arguments of a frame for one call more, into an initialised frame of as many: what `from`
 * holds stays its own. */
void call_frame_borrow(call_frame *frame, const call_frame *from);
int call_frame_traverse(const call_frame *frame, visitproc visit, void *arg);
/* "f: argument 1: item 2": what error texts start with. A new reference. */
PyObject *call_frame_place(const call_frame *frame, int i);
/* Set an exception "NAME: argument I (PARAMETER): ...", counted from 0 as kernels do; `type` as of
 * `call_raise`. Returns false. */
bool call_frame_error(const call_frame *frame, int i, PyObject *type, const char *format, ...);
/* In such a text: the parameter's name, or "x". */
#define CALL_ARGUMENT_NAME "\1"
/* convert_errors.c: each sets the error for an argument, and returns false. `found`: what it is, which is
 * released. */
bool call_no_struct(call_frame *frame, int i, PyObject *found);
bool call_no_addresses(call_frame *frame, int i, PyObject *found);
/* What a pointer to pointers leads to, for call_uncommon. */
PyObject *call_pointed(const call_parameter *p);
bool call_no_function(call_frame *frame, int i);
bool call_no_ctypes_function(call_frame *frame, int i, PyObject *arg);
/* True if an argument is a list or tuple that begins with a function; sets no error. */
bool call_lists_functions(PyObject *arg);
bool call_bad_elements(call_frame *frame, int i, PyObject *arg, const char *format);
bool call_no_buffer(call_frame *frame, int i, PyObject *arg); /* Python's own is set */
bool call_no_number(call_frame *frame, int i, PyObject *arg);
/* An argument that is a handle of a type code. Returns true. */
static inline bool call_frame_handle(call_frame *frame, int i, void *handle, int code) {
  frame->values[i].v_handle = handle;
  frame->codes[i] = code;
  return true;
}
/* True if an argument may be an array that is not in row order: the function looks at strides. */
bool call_frame_takes_gaps(const call_frame *frame, int i);
/* Finish a tensor slot: compactness, alignment, what the signature says. */
bool call_frame_tensor(call_frame *frame, int i, const char *kind);
/* Check the tensor of a slot against the signature. */
bool call_frame_parameter(call_frame *frame, int i);
/* True if no tensor from argument `first` on, which the function writes, is read-only; the error
 * names `of`, argument 0, which says what they would get. */
bool call_frame_writable(const call_frame *frame, int first, PyObject *of);

/* ---- convert.c, result.c --------------------------------------------------------------------- */

bool call_convert_argument(call_frame *frame, int i, PyObject *arg);
/* True if the signature has a pointer to complex numbers. */
bool call_takes_complex(const call_frame *frame, int i);
/* An array with a number for a pointer to one complex number that the function reads, None for other
 * pointers. */
PyObject *call_complex_array(const call_frame *frame, int i, PyObject *number);
/* The bytes of a number for an integer of 128 bits, None for other pointers to structs. */
PyObject *call_int128(const call_frame *frame, int i, PyObject *number);
/* True if the buffer that the slot holds is of a number of ctypes, c_int(3), of the parameter's type. */
bool call_is_number_of_ctypes(const call_frame *frame, int i, PyObject *arg);
/* What converts itself to a number of the kind that the signature says. */
bool call_convert_number(call_frame *frame, int i, PyObject *arg);
/* A new object for what a function returned; takes over references in it. `owner` goes to
 * returned functions. */
PyObject *call_convert_result(TVMValue value, int code, PyObject *owner);
/* A new object for an argument that a kernel passes to Python; borrows. */
PyObject *call_convert_borrowed(TVMValue value, int code);
/* Of codes that mean the same whoever holds the value. NULL without an exception: not one of them. */
PyObject *call_convert_plain(TVMValue value, int code);

/* ---- convert_text.c ------------------------------------------------------------------------- */

bool call_convert_str(call_frame *frame, int i, PyObject *arg);
bool call_convert_opaque_bytes(call_frame *frame, int i, PyObject *arg);
bool call_convert_bytes_of_pointer(call_frame *frame, int i, PyObject *arg);
/* convert_made.c */
bool call_convert_instead(call_frame *frame, int i, PyObject *made);
bool call_convert_overlapping(call_frame *frame, int i, PyObject *arg);
bool call_convert_list_of_arrays(call_frame *frame, int i, PyObject *arg);
bool call_takes_characters(const call_frame *frame, int i, const char *format);
bool call_convert_characters(call_frame *frame, int i, PyObject *arg);
bool call_convert_bytes(call_frame *frame, int i, const char *data, Py_ssize_t size);
/* A copy, because others may resize the bytearray while the function runs. */
bool call_convert_bytearray(call_frame *frame, int i, PyObject *arg);

/* ---- ffi_values.c: what only functions of the ffi dialect take ------------------------------- */

/* A str with a NUL inside. */
bool call_convert_string(call_frame *frame, int i, const char *text, size_t size);
/* A list or tuple, as an Array. */
bool call_convert_sequence(call_frame *frame, int i, PyObject *arg);
/* A dict, as a Map. */
bool call_convert_dict(call_frame *frame, int i, PyObject *arg);
/* A Shape, as a ShapeTuple. */
bool call_convert_shape(call_frame *frame, int i, PyObject *arg);
/* Tensors of the caller in a frame of a function that keeps them, as counted ones: over the same
 * memory where its owner can be kept and kernels can use it as it lies, of others a copy. */
bool call_count_tensors(call_frame *frame, PyObject *const *args);
/* What the function wrote to copies goes to the caller's arrays. */
void call_count_back(call_frame *frame);
/* Whatever loader/ffi_values.py knows; false with *absent set if that is not so. */
bool call_convert_stand_in(call_frame *frame, int i, PyObject *arg, bool *absent);

/* ---- container.c ----------------------------------------------------------------------------- */

/* A list, tuple or dict of what a container of the runtime holds; borrows. TypeError: it is
 * none. */
PyObject *call_container_object(void *container);
/* The same object with tuples in place of lists, however deep; takes it over. */
PyObject *call_container_tuples(PyObject *object);

/* ---- ndarray.c: numpy's arrays --------------------------------------------------------------- */

/* numpy.ndarray, once one was seen; NULL before. */
extern PyTypeObject *call_ndarray_type;
/* Compare the fields of an array with what its buffer protocol said, for the next one of its
 * element type. */
void call_ndarray_learn(PyObject *object, const Py_buffer *view, DLDataType dtype);
/* The tensor of an object of call_ndarray_type into its slot; false if only the buffer protocol
 * can tell. */
bool call_ndarray_read(call_slot *slot, PyObject *object);
/* True if it is a masked array of numpy, whose memory says nothing of its mask. */
bool call_ndarray_masked(PyObject *object);

/* ---- borrowed_tensors.c: tensors for C++, which may keep them ------------------------------------------------ */

/* Pass the tensors of a frame as MBLOB_LENT_TENSOR. */
void call_lend_tensors(call_frame *frame, PyObject *const *args);

/* ---- align.c: data less aligned than the kernel assumes -------------------------------------- */

/* Of a kernel that recorded no types the last tensor is the output: copy it if it is read-only. */
void call_align_output(call_frame *frame);
bool call_align_in(call_frame *frame);
/* The argument that was written though it is read-only, or -1. */
int call_align_out(call_frame *frame);

/* ---- dlpack.c -------------------------------------------------------------------------------- */

bool call_dlpack_init(void); /* false with an exception set */
/* True if `obj` has __dlpack__ and its tensor is now in slot i; false with *absent set if it has
 * none. */
bool call_dlpack_argument(call_frame *frame, int i, PyObject *obj, bool *absent);
/* Run the deleter of a tensor, of either form, if it has one. An exception that is set stays
 * set. */
void call_dlpack_delete(DLManagedTensor *plain, DLManagedTensorVersioned *versioned);
PyObject *call_dlpack_import(PyObject *obj); /* a Tensor over obj.__dlpack__() */
PyObject *call_dlpack_export(PyObject *tensor, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames);
/* A capsule over the memory of a tensor, wherever that is. */
PyObject *call_dlpack_capsule(PyObject *tensor);

/* ---- tensor.c -------------------------------------------------------------------------------- */

#define CALL_TENSOR_EXTENTS 10 /* shape and strides of up to four dimensions */

typedef struct call_tensor {
  PyObject_HEAD DLTensor dl; /* compact: strides NULL, byte_offset 0 */
  int64_t *shape;            /* ndim, then one more for the lanes; NULL if there is neither */
  int64_t *strides;          /* bytes, for the buffer protocol; behind the shape */
  int64_t extents[CALL_TENSOR_EXTENTS]; /* where both are, if they fit */
  size_t nbytes;
  PyObject *owner;            /* keeps the memory alive, or NULL */
  struct call_tensor *source; /* of a view of a tensor: the first one, which `owner` keeps */
  size_t exports;             /* of a source: what others made over its memory, views included */
  void *memory;               /* ours, from posix_memalign, or NULL */
  void (*release)(void *);
  void *release_arg;
  PyObject *weakrefs;
  bool readonly;
  bool borrowed; /* of a source: an argument of a Python function that is running */
} call_tensor;

extern PyTypeObject call_tensor_type;

#define CALL_TENSOR_ALIGNMENT 128 /* what kernels of TVM 0.7 - 0.9 assume; later ones assume 64 */
#define CALL_TENSOR_NDIM_MAX 64   /* numpy's limit */

/* A tensor of tensor_class over the memory `dl` describes. `owner` may be NULL; `release` runs
 * at the end (not when this fails). */
PyObject *call_tensor_over(const DLTensor *dl, PyObject *owner, void (*release)(void *), void *arg,
                           bool readonly);
/* An uninitialised tensor in memory of its own, aligned to CALL_TENSOR_ALIGNMENT. */
PyObject *call_tensor_empty(const DLTensor *like);
bool call_tensor_valid(
    const call_tensor *tensor); /* false with ValueError set after call_tensor_detach */
/* The counted array that a tensor is, or becomes now, if its memory is its own; borrowed. NULL
 * without an exception: it is none. */
TVMArrayHandle call_tensor_counted(PyObject *tensor);
/* The `release` of a tensor over a counted array. */
void call_array_release(void *array);
/* What somebody keeps who needs the memory of an array beyond this call: the array, or an export
 * of a tensor that is lent. A new reference. */
PyObject *call_tensor_owner(PyObject *array);
/* Count what others made over the memory of a tensor. */
void call_tensor_exported(call_tensor *tensor);
void call_tensor_returned(call_tensor *tensor);
/* Make a tensor an argument of a Python function, whose memory may go with the call. */
void call_tensor_lend(PyObject *tensor);
/* The end of that call. With a release, a tensor that is kept has its memory from now on; else
 * later use gives an error. */
void call_tensor_own(PyObject *tensor, void (*release)(void *), void *arg);
/* False: somebody still has its memory. */
bool call_tensor_detach(PyObject *tensor);
bool call_tensor_compact(const DLTensor *dl);              /* row-major without gaps */
bool call_tensor_size(const DLTensor *dl, size_t *nbytes); /* false if the product overflows */
/* True if what somebody else wrote describes a tensor, its strides left aside; false with
 * ValueError set. `has_data`: one that has elements has memory, too. */
bool call_tensor_described(const DLTensor *dl, bool has_data);

/* ---- device.c: memory of devices; failures raise what the runtime says ----------------------- */

/* True if the processor reads its memory at the same addresses. */
bool call_device_is_host(DLDevice device);
/* True if DLPack can carry its memory to others. */
bool call_device_has_addresses(DLDevice device);
/* An uninitialised tensor in memory that the runtime of `like->device` gives. */
PyObject *call_device_empty(const DLTensor *like);
/* All bytes of a compact tensor to another of as many. */
bool call_device_copy(const DLTensor *from, const DLTensor *to);
/* Wait for what this thread gave to the device. */
bool call_device_wait(DLDevice device);

/* ---- foreign_code.c: static methods of PackedFunction ------------------------------------------ */

PyObject *call_function_from_c(PyObject *unused, PyObject *args, PyObject *kwargs);
PyObject *call_function_from_mlir(PyObject *unused, PyObject *args, PyObject *kwargs);

/* ---- ffi.c: objects of tvm_ffi --------------------------------------------------------------- */

/* True if `obj` is such an object and is now argument i; false with *absent set if it is none. */
bool call_ffi_argument(call_frame *frame, int i, PyObject *obj, bool *absent);
/* True if it is a tvm_ffi.Shape: a tuple with an object of tvm_ffi behind it. */
bool call_ffi_is_shape(PyObject *obj);
PyObject *call_ffi_hand_over(PyObject *module, PyObject *unused);

/* " (NAME)" of a parameter of a PackedFunction (or NULL) for errors, "" where nothing tells it. */
PyObject *call_function_parameter(PyObject *function, int i);
/* How the prototype declares it, "float y[3]", or "it" where nothing tells it. */
PyObject *call_function_declared(PyObject *function, int i);
/* "; for the tensor of that name pass lib.tensors[...]", "" if the library has no such tensor. */
PyObject *call_function_tensor_of(PyObject *function, PyObject *name);
/* Refuse an array whose shape cannot be right, whatever the other arguments are. */
bool call_function_check_shape(PyObject *function, int i, const Py_buffer *view);
/* Refuse structs with other fields than those that parameter `i` points at. */
bool call_function_check_record(PyObject *function, int i, PyObject *arg);
/* True if the arguments of a frame fit together, as far as the prototype of its function tells;
 * `args` are those that it was made of. */
bool call_function_check_bound(const call_frame *frame, PyObject *args);

/* ---- error.c: exceptions, all of them classes of mblob.errors -------------------------------- */

/* For an array of another dtype, and a wrong number of arguments: (TypeError, ValueError). */
extern PyObject *call_type_and_value;
bool call_error_init(void); /* false with an exception set */
/* The class of mblob.errors that is also `type`, a class of Python or a tuple of such; a new
 * reference, never NULL. */
PyObject *call_error_class(PyObject *type);
/* Set an exception of that class. Returns NULL. */
PyObject *call_raise(PyObject *type, const char *format, ...);

/* ---- function.c, bound.c, callback.c, memory.c ----------------------------------------------- */

extern PyTypeObject call_function_type;
extern PyTypeObject call_bound_type;
extern PyTypeObject call_memory_type;

/* Convert and check the arguments of a call. The frame is to be released, also after false. */
bool call_function_prepare(PyObject *function, call_frame *frame, PyObject *const *args,
                           Py_ssize_t count, PyObject *kwnames);
PyObject *call_function_invoke(PyObject *function, call_frame *frame);
/* function.bind(*args) */
PyObject *call_bound_new(PyObject *function, PyObject *const *args, Py_ssize_t count,
                         PyObject *kwnames);

/* What makes an object of a pickle: a function of mblob.loader.pickled. */
PyObject *call_pickled(const char *name);
/* Call a function of mblob.loader.call_hooks that few programs need, with up to three arguments. */
PyObject *call_uncommon(const char *name, PyObject *a, PyObject *b, PyObject *c);

/* Borrowed, for code that may keep it. */
mblob_function *call_function_handle(PyObject *function);
PyObject *call_function_python(PyObject *function); /* that it calls, borrowed; NULL: none */
/* A PackedFunction that takes over the reference in `handle` (also on failure). */
PyObject *call_function_wrap(mblob_function *handle, PyObject *name, PyObject *owner);

/* A counted tensor over the memory of `object`, whose argument is `slot`: of tensors, ours and
 * those of others. False without an exception: it has to be a copy. */
bool call_keep_array(PyObject *object, call_slot *slot, TVMArrayHandle *out);
/* The same, also of an array of numpy, which its holder goes on to write. */
bool call_keep_argument(PyObject *object, call_slot *slot, TVMArrayHandle *out);
/* A counted copy of a tensor. */
bool call_copy_array(const DLTensor *tensor, TVMArrayHandle *out);
/* A new function that calls a Python callable. NULL with an exception set. */
mblob_function *call_callback_new(PyObject *callable);
/* What such a function calls, borrowed; NULL of others. */
PyObject *call_callback_callable(const mblob_function *function);
/* True if it is one of these. */
bool call_callback_is(const mblob_function *function);
/* Turn the current exception into the runtime's error of this thread, and keep it. Returns -1. */
int call_callback_keep(void);
/* Let signals of Python end long calls of the thread that handles them. */
void call_callback_offer_signals(void);
/* The exception a callback raised on this thread, if that is why `message` was set; raises it
 * again. */
bool call_callback_reraise(const char *message);
void call_callback_forget(void);

#endif /* MBLOB_LOADER_CALL_H */
