/* Instructions of the virtual machine that make values. */
#include <string.h>

#include <stdlib.h>

#include "base/base.h"
#include "core/device/device.h"
#include "exec/common/common.h"
#include "exec/relay/machine.h"
#include "format/format.h"

/* ---- registers ------------------------------------------------------------------------------- */

void vm_register_set(struct vm_value *place, struct vm_value value) {
  struct vm_value old = *place;
  *place = value;
  vm_value_clear(&old);
}

static void set_array(struct vm_value *place, DLTensor *array) {
  vm_register_set(place, (struct vm_value){.kind = VM_ARRAY, .u.array = array});
}

static int expect_kind(const struct vm_value *registers, int64_t i, enum vm_kind kind) {
  if (registers[i].kind == kind) return MBLOB_OK;
  return mb_fail(MBLOB_E_FORMAT, "register %lld has %s, expected %s", (long long)i,
                 vm_kind_name(registers[i].kind), vm_kind_name(kind));
}

static int array_in(const struct vm_value *registers, int64_t i, DLTensor **out) {
  int status = expect_kind(registers, i, VM_ARRAY);
  if (!status) *out = registers[i].u.array;
  return status;
}

int vm_register_scalar(const struct vm_value *registers, int64_t i, int64_t *out) {
  DLTensor *t = NULL;
  size_t size = 0;
  int status = array_in(registers, i, &t);
  if (!status) status = mb_tensor_size(t, &size);
  if (status) return status;
  bool is_int = (t->dtype.code == kDLInt || t->dtype.code == kDLUInt) && t->dtype.lanes == 1;
  const char *data = (const char *)t->data + t->byte_offset;
  if (is_int && size >= (size_t)(t->dtype.bits + 7) / 8) switch (t->dtype.bits) {
      case 1: *out = *(const uint8_t *)data != 0; return MBLOB_OK;
      case 8: *out = *(const int8_t *)data; return MBLOB_OK;
      case 16: *out = *(const int16_t *)(const void *)data; return MBLOB_OK;
      case 32: *out = *(const int32_t *)(const void *)data; return MBLOB_OK;
      case 64: *out = *(const int64_t *)(const void *)data; return MBLOB_OK;
      default: break;
    }
  char dtype[MB_DTYPE_TEXT], shape[MB_SHAPE_TEXT];
  return mb_fail(MBLOB_E_FORMAT, "register %lld has %s of shape %s, expected an integer",
                 (long long)i, mb_dtype_text(t->dtype, dtype), mb_shape_text(t, shape));
}

/* A shape: the elements of a 1-dimensional array of integers. */
static int read_shape_register(const struct vm_value *registers, int64_t i,
                               int64_t shape[MB_NDIM_LIMIT], int *ndim) {
  DLTensor *t = NULL;
  int status = array_in(registers, i, &t);
  if (status) return status;
  bool is_shape =
      t->dtype.code == kDLInt && (t->dtype.bits == 32 || t->dtype.bits == 64) &&
      t->dtype.lanes == 1 &&
      (t->ndim == 0 || (t->ndim == 1 && t->shape[0] >= 0 && t->shape[0] <= MB_NDIM_LIMIT));
  if (!is_shape) {
    char dtype[MB_DTYPE_TEXT], text[MB_SHAPE_TEXT];
    return mb_fail(MBLOB_E_FORMAT,
                   "register %lld has %s of shape %s, expected a shape of at most %d dimensions",
                   (long long)i, mb_dtype_text(t->dtype, dtype), mb_shape_text(t, text),
                   MB_NDIM_LIMIT);
  }
  *ndim =
      t->ndim ? (int)t->shape[0] : 1; /* TVM's shape functions return a scalar for one dimension */
  const char *data = (const char *)t->data + t->byte_offset;
  for (int d = 0; d < *ndim; d++)
    shape[d] = t->dtype.bits == 64 ? ((const int64_t *)(const void *)data)[d]
                                   : ((const int32_t *)(const void *)data)[d];
  return MBLOB_OK;
}

/* ---- simple ones ----------------------------------------------------------------------------- */

static int op_move(struct vm_machine *m, struct vm_value *r, const int64_t *f) {
  (void)m;
  vm_value_retain(r[f[0]]);
  vm_register_set(&r[f[1]], r[f[0]]);
  return MBLOB_OK;
}

static int kill_register(struct vm_machine *m, struct vm_value *r, const int64_t *f) {
  (void)m;
  vm_value_clear(&r[f[0]]);
  return MBLOB_OK;
}

static int load_const(struct vm_machine *m, struct vm_value *r, const int64_t *f) {
  DLTensor **constant = &m->constants[f[0]];
  if (!*constant) {
    int status = mb_stored_array_share(&m->exec->constants[f[0]], m->module, constant);
    if (status) return status;
  }
  mb_array_retain(*constant);
  set_array(&r[f[2]], *constant);
  return MBLOB_OK;
}

/* A new array of `count` integers. */
static int new_integers(int64_t count, uint8_t bits, DLTensor **out) {
  return mb_array_new((DLDevice){kDLCPU, 0}, 1, &count, (DLDataType){kDLInt, bits, 1}, out);
}

static int load_consti(struct vm_machine *m, struct vm_value *r, const int64_t *f) {
  DLTensor *t = NULL;
  (void)m;
  int status = new_integers(1, 64, &t);
  if (status) return status;
  *(int64_t *)t->data = f[0];
  set_array(&r[f[1]], t);
  return MBLOB_OK;
}

static int op_shape_of(struct vm_machine *m, struct vm_value *r, const int64_t *f) {
  DLTensor *of = NULL, *t = NULL;
  (void)m;
  int status = array_in(r, f[0], &of);
  if (!status) status = new_integers(of->ndim, 64, &t);
  if (status) return status;
  if (of->ndim) memcpy(t->data, of->shape, (size_t)of->ndim * sizeof(int64_t));
  set_array(&r[f[1]], t);
  return MBLOB_OK;
}

/* ---- tuples and closures --------------------------------------------------------------------- */

static int new_compound(struct vm_value *r, enum vm_kind kind, const int64_t *f) {
  struct vm_compound *compound = NULL;
  int status = vm_compound_new(f[0], (size_t)f[1], &compound);
  if (status) return status;
  for (int64_t i = 0; i < f[1]; i++) {
    compound->fields[i] = r[f[3 + i]];
    vm_value_retain(compound->fields[i]);
  }
  vm_register_set(&r[f[2]], (struct vm_value){.kind = kind, .u.compound = compound});
  return MBLOB_OK;
}

static int alloc_adt(struct vm_machine *m, struct vm_value *r, const int64_t *f) {
  (void)m;
  return new_compound(r, VM_ADT, f);
}

static int alloc_closure(struct vm_machine *m, struct vm_value *r, const int64_t *f) {
  (void)m;
  return new_compound(r, VM_CLOSURE, f);
}

static int op_get_field(struct vm_machine *m, struct vm_value *r, const int64_t *f) {
  (void)m;
  int status = expect_kind(r, f[0], VM_ADT);
  if (status) return status;
  const struct vm_compound *compound = r[f[0]].u.compound;
  if ((uint64_t)f[1] >= compound->count)
    return mb_fail(MBLOB_E_FORMAT, "register %lld has a tuple of %zu fields, no field %lld",
                   (long long)f[0], compound->count, (long long)f[1]);
  struct vm_value field = compound->fields[f[1]];
  vm_value_retain(field);
  vm_register_set(&r[f[2]], field);
  return MBLOB_OK;
}

static int op_get_tag(struct vm_machine *m, struct vm_value *r, const int64_t *f) {
  DLTensor *t = NULL;
  (void)m;
  int status = expect_kind(r, f[0], VM_ADT);
  if (!status) status = new_integers(1, 32, &t);
  if (status) return status;
  *(int32_t *)t->data = (int32_t)r[f[0]].u.compound->tag;
  set_array(&r[f[1]], t);
  return MBLOB_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static DLDataType dtype_of(const int64_t *f) {
  return (DLDataType){(uint8_t)f[0], (uint8_t)f[1], (uint16_t)f[2]};
}

/* A device of the program, which is the host's memory under that number. */
static DLDevice device_of_storage(const struct vm_machine *m, int64_t i) {
  const bool listed = m->exec->has_devices && i >= 0 && (uint64_t)i < m->exec->device_count &&
                      m->exec->devices[i].device_type == kDLCPU;
  return (DLDevice){kDLCPU, listed ? m->exec->devices[i].device_id : 0};
}

/* Fields: size, alignment, dtype, device, ndim, target, shape. With a shape, the size follows
 * from it. */
static int alloc_vm_storage(struct vm_machine *m, struct vm_value *r, const int64_t *f) {
  struct vm_storage *storage = NULL;
  int64_t size = 0;
  size_t bytes = 0;
  int status = MBLOB_OK;
  if (f[6] > 0) {
    DLTensor t = {
        .ndim = (int32_t)f[6], .dtype = dtype_of(f + 2), .shape = (int64_t *)(uintptr_t)(f + 8)};
    status = mb_tensor_size(&t, &bytes);
  } else {
    status = vm_register_scalar(r, f[0], &size);
    if (!status && size < 0)
      status = mb_fail(MBLOB_E_FORMAT, "storage of %lld bytes", (long long)size);
    bytes = (size_t)size;
  }
  if (!status) status = vm_storage_new(m->pool, bytes, (size_t)f[1], &storage);
  if (!status) storage->device_id = device_of_storage(m, f[5]).device_id;
  if (!status)
    vm_register_set(&r[f[7]], (struct vm_value){.kind = VM_STORAGE, .u.storage = storage});
  return status;
}

static void release_vm_storage(void *storage) { vm_storage_release(storage); }

/* An array in the storage of register `from`, at the offset in register `at`. */
static int place_tensor(struct vm_value *r, int64_t from, int64_t at, DLTensor *t,
                        struct vm_value *target) {
  DLTensor *array = NULL;
  int64_t offset = 0;
  size_t size = 0;
  int status = expect_kind(r, from, VM_STORAGE);
  if (!status) status = vm_register_scalar(r, at, &offset);
  if (!status) status = mb_tensor_size(t, &size);
  if (status) return status;
  struct vm_storage *storage = r[from].u.storage;
  if (offset < 0 || (uint64_t)offset > storage->size || size > storage->size - (size_t)offset)
    return mb_fail(MBLOB_E_FORMAT,
                   "a tensor of %zu bytes at %lld is outside of its storage of %zu bytes", size,
                   (long long)offset, storage->size);
  if (offset % MB_DEFAULT_ALIGNMENT)
    return mb_fail(MBLOB_E_FORMAT, "a tensor at offset %lld, expected a multiple of %d",
                   (long long)offset, MB_DEFAULT_ALIGNMENT);
  t->data = storage->data + offset;
  t->device = (DLDevice){kDLCPU, storage->device_id};
  status = mb_array_view(t, storage, release_vm_storage, &array);
  if (status) return status;
  vm_storage_retain(storage);
  set_array(target, array);
  return MBLOB_OK;
}

/* Fields: storage, offset, dtype, ndim, target, shape. */
static int alloc_tensor(struct vm_machine *m, struct vm_value *r, const int64_t *f) {
  DLTensor t = {
      .ndim = (int32_t)f[5], .dtype = dtype_of(f + 2), .shape = (int64_t *)(uintptr_t)(f + 7)};
  (void)m;
  return place_tensor(r, f[0], f[1], &t, &r[f[6]]);
}

/* Fields: storage, offset, register of the shape, dtype, target. */
static int alloc_tensor_reg(struct vm_machine *m, struct vm_value *r, const int64_t *f) {
  int64_t shape[MB_NDIM_LIMIT];
  int ndim = 0;
  (void)m;
  int status = read_shape_register(r, f[2], shape, &ndim);
  DLTensor t = {.ndim = ndim, .dtype = dtype_of(f + 3), .shape = shape};
  return status ? status : place_tensor(r, f[0], f[1], &t, &r[f[6]]);
}

static int reshape_tensor(struct vm_machine *m, struct vm_value *r, const int64_t *f) {
  int64_t shape[MB_NDIM_LIMIT];
  DLTensor *of = NULL, *view = NULL;
  size_t old_size = 0, new_size = 0;
  int ndim = 0;
  (void)m;
  int status = array_in(r, f[0], &of);
  if (!status) status = read_shape_register(r, f[1], shape, &ndim);
  if (status) return status;
  DLTensor t = *of;
  t.ndim = ndim;
  t.shape = shape;
  t.strides = NULL;
  status = mb_tensor_size(of, &old_size);
  if (!status) status = mb_tensor_size(&t, &new_size);
  if (status) return status;
  if (old_size != new_size) {
    char from[MB_SHAPE_TEXT], to[MB_SHAPE_TEXT];
    return mb_fail(MBLOB_E_ARGUMENT, "shape %s cannot become %s", mb_shape_text(of, from),
                   mb_shape_text(&t, to));
  }
  status = mb_array_view(&t, of, mb_array_release_owner, &view);
  if (status) return status;
  mb_array_retain(of);
  set_array(&r[f[2]], view);
  return MBLOB_OK;
}

/* All devices are host memory here; the copy is one nevertheless, as the program may write to
 * it. */
static int device_copy(struct vm_machine *m, struct vm_value *r, const int64_t *f) {
  DLTensor *from = NULL, *to = NULL;
  int status = array_in(r, f[0], &from);
  if (!status)
    status = mb_array_new(device_of_storage(m, f[2]), from->ndim, from->shape, from->dtype, &to);
  if (!status) status = mb_tensor_assign("copy", to, from);
  if (status && to) mb_array_release(to);
  if (!status) set_array(&r[f[3]], to);
  return status;
}

/* ---- primitives ------------------------------------------------------------------------------ */

static int add_argument(struct vm_machine *m, size_t *count, struct vm_value value) {
  if (value.kind != VM_ARRAY)
    return mb_fail(MBLOB_E_FORMAT, "argument %zu is %s, expected an array", *count,
                   vm_kind_name(value.kind));
  if (*count + 1 >= m->arg_capacity) { /* kernels may use one slot behind the last */
    size_t capacity = m->arg_capacity ? 2 * m->arg_capacity : 16;
    TVMValue *args = realloc(m->args, capacity * sizeof(*args));
    if (args) m->args = args;
    int *codes = args ? realloc(m->codes, capacity * sizeof(*codes)) : NULL;
    if (codes) m->codes = codes;
    if (!codes || capacity > INT32_MAX) return mb_fail_memory(capacity * sizeof(*args));
    m->arg_capacity = capacity;
  }
  m->args[*count].v_handle = value.u.array;
  m->codes[(*count)++] = kTVMNDArrayHandle;
  return MBLOB_OK;
}

static bool is_empty(const DLTensor *t) {
  for (int32_t i = 0; i < t->ndim; i++)
    if (t->shape[i] == 0) return true;
  return false;
}

/* Fields: primitive, arguments, outputs among them, registers. Tuples are passed as their
 * fields. A call whose only output is empty is not made. */
static int invoke_packed(struct vm_machine *m, struct vm_value *r, const int64_t *f) {
  size_t count = 0;
  int status = MBLOB_OK;
  for (int64_t i = 0; !status && i < f[1]; i++) {
    struct vm_value value = r[f[3 + i]];
    if (value.kind != VM_ADT) {
      status = add_argument(m, &count, value);
      continue;
    }
    for (size_t k = 0; !status && k < value.u.compound->count; k++)
      status = add_argument(m, &count, value.u.compound->fields[k]);
  }
  if (status) return status;
  const struct vm_value *last = f[1] ? &r[f[3 + f[1] - 1]] : NULL;
  if (f[2] == 1 && last->kind == VM_ARRAY && is_empty(last->u.array)) return MBLOB_OK;
  return mblob_function_call(m->primitives[f[0]], m->args, m->codes, (int)count, NULL, NULL);
}

const vm_operation vm_operations[VM_OPCODE_COUNT] = {
    [VM_MOVE] = op_move,
    [VM_INVOKE_PACKED] = invoke_packed,
    [VM_ALLOC_TENSOR] = alloc_tensor,
    [VM_ALLOC_TENSOR_REG] = alloc_tensor_reg,
    [VM_ALLOC_ADT] = alloc_adt,
    [VM_ALLOC_CLOSURE] = alloc_closure,
    [VM_GET_FIELD] = op_get_field,
    [VM_LOAD_CONST] = load_const,
    [VM_GET_TAG] = op_get_tag,
    [VM_LOAD_CONSTI] = load_consti,
    [VM_ALLOC_STORAGE] = alloc_vm_storage,
    [VM_SHAPE_OF] = op_shape_of,
    [VM_RESHAPE_TENSOR] = reshape_tensor,
    [VM_DEVICE_COPY] = device_copy,
    [VM_KILL_REGISTER] = kill_register,
};
