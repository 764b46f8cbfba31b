/* Builtins that make tensors, and look at what they are. */
#include <stdlib.h>
#include <string.h>

#include "exec/relax/machine.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Types that TVM's allocators take. */
static int check_tensor_dtype(DLDataType dtype) {
  char text[MB_DTYPE_TEXT];
  const bool flag = dtype.code == kDLUInt && dtype.bits == 1;
  if (dtype.lanes >= 1 &&
      (flag || (dtype.bits && dtype.bits % 8 == 0 && !(dtype.bits & (dtype.bits - 1)))))
    return MBLOB_OK;
  return mb_fail(MBLOB_E_KERNEL, "InternalError: no tensor of type %s can be allocated",
                 mb_dtype_text(dtype, text));
}

/* Bytes of elements of that shape; TVM fails with std::bad_alloc where there cannot be so many. */
static int size_of_tensor(const struct mb_object *shape, DLDataType dtype, size_t *out) {
  size_t size = ((size_t)dtype.bits * dtype.lanes + 7) / 8;
  bool empty = false, large = false;
  for (size_t i = 0; i < mb_object_count(shape); i++) {
    const int64_t extent = mb_object_item(shape, i)->value.v_int64;
    if (extent < 0)
      return mb_fail(MBLOB_E_KERNEL, "InternalError: std::bad_alloc: dimension %zu is %lld", i,
                     (long long)extent);
    empty |= extent == 0;
    large |= __builtin_mul_overflow(size, (uint64_t)extent, &size);
  }
  *out = empty ? 0 : size;
  if (empty || (!large && size <= PTRDIFF_MAX / 2)) return MBLOB_OK;
  return mb_fail(MBLOB_E_KERNEL, "InternalError: std::bad_alloc: more bytes than memory can have");
}

/* ---- storage --------------------------------------------------------------------------------- */

static void release_relax_storage(void *storage) { vm_storage_release(storage); }

static int new_storage(struct relax_machine *m, DLDevice device, size_t size, DLTensor **out) {
  struct vm_storage *storage = NULL;
  *out = NULL;
  int status = vm_storage_new(m->pool, size, MB_TENSOR_ALIGNMENT, &storage);
  if (status) return status;
  int64_t bytes = (int64_t)storage->size;
  const DLTensor all = {.data = storage->data,
                        .device = device,
                        .ndim = 1,
                        .dtype = {kDLUInt, 8, 1},
                        .shape = &bytes};
  status = mb_array_view(&all, storage, release_relax_storage, out);
  if (status) vm_storage_release(storage);
  return status;
}

/* -1 is the last, which is the host's to TVM. A machine of one device has that of its host, too. */
static DLDevice device_at(const struct relax_machine *m, int64_t i) {
  if (!m->device_count) return (DLDevice){kDLCPU, 0};
  const size_t last = m->device_count - 1;
  return m->devices[i < 0 || (uint64_t)i > last ? last : (size_t)i];
}

static int check_memory_scope(const struct mb_call *call, int i) {
  TVMByteArray scope = {"", 0};
  if (i >= call->count || call->codes[i] == kTVMNullptr) return MBLOB_OK;
  if (!mb_value_text(call->args[i], call->codes[i], &scope))
    return relax_mismatch(call, i, "ffi.String");
  if (!scope.size || (scope.size == 6 && memcmp(scope.data, "global", 6) == 0)) return MBLOB_OK;
  return mb_fail(
      MBLOB_E_KERNEL,
      "InternalError: Allocator cannot allocate data space with specified memory scope: %s",
      scope.data);
}

/* (machine, shape, index of a device, type, scope) -> storage: an array of bytes. */
static int alloc_relax_storage(void *unused, struct mb_call *call) {
  (void)unused;
  struct relax_machine *m = NULL;
  struct mb_object *shape = NULL;
  int64_t device = 0;
  size_t size = 0;
  DLDataType dtype;
  DLTensor *storage = NULL;
  int status = relax_expect(call, 5);
  if (!status) status = relax_context(call, &m);
  if (!status) status = relax_shape(call, 1, &shape);
  if (!status) status = relax_int(call, 2, &device);
  if (!status) status = relax_dtype(call, 3, &dtype);
  if (!status) status = check_memory_scope(call, 4);
  const int64_t known = m ? (int64_t)m->device_count : 0;
  if (!status && (device < -1 || device > (known > 1 ? known - 1 : 1)))
    status = mb_fail(MBLOB_E_KERNEL,
                     "InternalError: The device index is out of VM physical devices list");
  if (!status) status = check_tensor_dtype(dtype);
  if (!status) status = size_of_tensor(shape, dtype, &size);
  if (!status) status = new_storage(m, device_at(m, device), size, &storage);
  if (!status) mb_call_return_array(call, storage);
  return status;
}

static int tensor_view_of(DLTensor *owner, const DLTensor *like, struct mb_call *call) {
  DLTensor *view = NULL;
  int status = mb_array_view(like, owner, mb_array_release_owner, &view);
  if (status) return status;
  mb_array_retain(owner);
  mb_call_return_array(call, view);
  return MBLOB_OK;
}

#define INLINE_RANK 8

/* The extents of a ShapeTuple in a row; `room` or heap memory, which `free_extents` gives back. */
static int64_t *extents_of(const struct mb_object *shape, int64_t room[INLINE_RANK]) {
  const size_t count = mb_object_count(shape);
  int64_t *extents = count <= INLINE_RANK ? room : malloc(count * sizeof(*extents));
  if (!extents) (void)mb_fail_memory(count * sizeof(*extents));
  for (size_t i = 0; extents && i < count; i++)
    extents[i] = mb_object_item(shape, i)->value.v_int64;
  return extents;
}

static void free_extents(int64_t *extents, const int64_t *room) {
  if (extents != room) free(extents);
}

static int shaped_view(DLTensor *owner, const struct mb_object *shape, DLTensor *like,
                       struct mb_call *call) {
  int64_t room[INLINE_RANK];
  const size_t rank = mb_object_count(shape);
  if (rank > MB_NDIM_LIMIT)
    return mb_fail(MBLOB_E_KERNEL,
                   "InternalError: a shape of %zu dimensions, at most %d are possible", rank,
                   MB_NDIM_LIMIT);
  like->shape = extents_of(shape, room);
  like->ndim = (int32_t)rank;
  int status = like->shape ? tensor_view_of(owner, like, call) : MBLOB_E_MEMORY;
  free_extents(like->shape, room);
  return status;
}

/* (storage, offset, shape, type [, scope]) -> a view, which keeps the storage. */
int relax_alloc_tensor(void *unused, struct mb_call *call) {
  (void)unused;
  DLTensor *storage = NULL;
  struct mb_object *shape = NULL;
  int64_t offset = 0;
  size_t size = 0, whole = 0;
  DLDataType dtype = {0, 0, 0};
  int status = call->count == 4 || call->count == 5 ? MBLOB_OK : relax_expect(call, 4);
  if (!status && call->codes[0] != kTVMNDArrayHandle)
    status = relax_mismatch(call, 0, "vm.Storage");
  if (!status) status = relax_tensor(call, 0, &storage);
  if (!status) status = relax_int(call, 1, &offset);
  if (!status) status = relax_shape(call, 2, &shape);
  if (!status) status = relax_dtype(call, 3, &dtype);
  if (!status) status = check_tensor_dtype(dtype);
  if (!status) status = size_of_tensor(shape, dtype, &size);
  if (!status) status = mb_tensor_size(storage, &whole);
  if (status) return status;
  if (offset < 0 || (uint64_t)offset > whole || size > whole - (uint64_t)offset)
    return mb_fail(MBLOB_E_KERNEL,
                   "InternalError: storage allocation failure, attempted to allocate %zu at offset "
                   "%lld in region that is %zubytes",
                   size, (long long)offset, whole);
  DLTensor like = {.data = storage->data,
                   .device = storage->device,
                   .dtype = dtype,
                   .byte_offset = storage->byte_offset};
  if (offset % MB_DEFAULT_ALIGNMENT) /* kernels refuse it */
    like.byte_offset += (uint64_t)offset;
  else
    like.data = (char *)storage->data + offset;
  return shaped_view(storage, shape, &like, call);
}

int relax_placed_read(const struct relax_machine *m, const struct relax_instruction *in,
                      struct relax_placed *out) {
  if (in->count < 4) return MBLOB_OK;
  static const enum relax_operand kinds[] = {RELAX_REGISTER, RELAX_IMMEDIATE, RELAX_CONSTANT,
                                             RELAX_CONSTANT};
  for (size_t i = 0; i < 4; i++)
    if (relax_operand_kind(in->operands[i]) != kinds[i]) return MBLOB_OK;
  const struct relax_value shape = m->constants[relax_operand_value(in->operands[2])],
                           dtype = m->constants[relax_operand_value(in->operands[3])];
  const struct mb_object *extents = relax_object(shape.value, shape.code, MB_SHAPE_TYPE);
  const int64_t offset = relax_operand_value(in->operands[1]);
  /* What is wrong, or rare, is told when it runs. */
  if (relax_operand_value(in->operands[0]) >= RELAX_VOID || !extents ||
      dtype.code != kTVMDataType || offset < 0 || offset % MB_DEFAULT_ALIGNMENT ||
      mb_object_count(extents) > MB_NDIM_LIMIT || check_tensor_dtype(dtype.value.v_type) ||
      size_of_tensor(extents, dtype.value.v_type, &out->size) || !out->size)
    return MBLOB_OK;
  const size_t rank = mb_object_count(extents);
  int64_t *copy = malloc((2 * rank + 1) * sizeof(*copy)), stride = 1;
  if (!copy) return mb_fail_memory(rank * sizeof(*copy));
  for (size_t i = rank; i-- > 0;) {
    copy[i] = mb_object_item(extents, i)->value.v_int64;
    copy[rank + i] = stride;
    stride *= copy[i];
  }
  out->like = (DLTensor){
      .ndim = (int32_t)rank, .dtype = dtype.value.v_type, .shape = copy, .strides = copy + rank};
  out->offset = offset;
  return MBLOB_OK;
}

DLTensor *relax_place(const struct relax_placed *placed, DLTensor *storage) {
  DLTensor *view = NULL;
  if (storage->ndim != 1 || storage->dtype.bits != 8 || storage->dtype.lanes != 1 ||
      (uint64_t)placed->offset > (uint64_t)storage->shape[0] ||
      placed->size > (uint64_t)storage->shape[0] - (uint64_t)placed->offset)
    return NULL;
  (void)mb_array_part(&placed->like, storage, (size_t)placed->offset, &view);
  return view;
}

/* (machine, count) -> int64[count] */
static int alloc_shape_heap(void *unused, struct mb_call *call) {
  (void)unused;
  struct relax_machine *m = NULL;
  int64_t count = 0;
  DLTensor *heap = NULL;
  int status = relax_expect(call, 2);
  if (!status) status = relax_context(call, &m);
  if (!status) status = relax_int(call, 1, &count);
  if (!status && (count < 0 || count > RELAX_REGISTER_LIMIT))
    status = mb_fail(MBLOB_E_KERNEL, "InternalError: std::bad_alloc: a heap of %lld dimensions",
                     (long long)count);
  if (!status) status = vm_tensor_new(1, &count, (DLDataType){kDLInt, 64, 1}, &heap);
  if (!status) mb_call_return_array(call, heap);
  return status;
}

int relax_null_value(void *unused, struct mb_call *call) {
  (void)unused;
  return relax_expect(call, 0);
}

static int copy_tensor(void *unused, struct mb_call *call) {
  (void)unused;
  int status = relax_expect(call, 1);
  if (!status && call->codes[0] == kTVMDLTensorHandle) status = relax_mismatch(call, 0, "Any");
  if (!status) status = mb_return_set(call->result, call->args[0], call->codes[0]);
  return status;
}

/* ---- views and copies ------------------------------------------------------------------------ */

static void put_shape_values(const DLTensor *t, char text[MB_SHAPE_TEXT]) {
  (void)mb_shape_text(t, text);
}

static int too_large(const DLTensor *t, const struct mb_object *shape, size_t size, size_t whole) {
  char dtype[MB_DTYPE_TEXT], from[MB_SHAPE_TEXT], to[MB_SHAPE_TEXT];
  int64_t room[INLINE_RANK], *extents = extents_of(shape, room);
  if (!extents) return MBLOB_E_MEMORY;
  const DLTensor asked = {.ndim = (int32_t)mb_object_count(shape), .shape = extents};
  put_shape_values(&asked, to);
  put_shape_values(t, from);
  (void)mb_dtype_text(t->dtype, dtype);
  free_extents(extents, room);
  return mb_fail(
      MBLOB_E_KERNEL,
      "ValueError: View with shape %s and datatype %s would have a size of %zu bytes.  This "
      "would occupy bytes 0 <= i_byte < %zu within the backing array.  However, the Tensor "
      "being viewed only contains %zu bytes (shape = %s, dtype = %s).",
      to, dtype, size, size, whole, from, dtype);
}

/* (tensor, shape) -> a view of the first elements. */
static int reshape(void *unused, struct mb_call *call) {
  (void)unused;
  DLTensor *t = NULL;
  struct mb_object *shape = NULL;
  size_t size = 0, whole = 0;
  int status = relax_expect(call, 2);
  if (!status) status = relax_tensor(call, 0, &t);
  if (!status && call->codes[0] != kTVMNDArrayHandle)
    status = relax_mismatch(call, 0, "ffi.Tensor");
  if (!status) status = relax_shape(call, 1, &shape);
  if (!status) status = mb_tensor_size(t, &whole);
  if (!status) status = size_of_tensor(shape, t->dtype, &size);
  if (status) return status;
  if (!mb_is_compact(t))
    return mb_fail(MBLOB_E_KERNEL, "ValueError: the tensor is not contiguous, so it has no view");
  if (size > whole) return too_large(t, shape, size, whole);
  DLTensor like = *t;
  return shaped_view(t, shape, &like, call);
}

static int copied(const DLTensor *t, DLDevice device, struct mb_call *call) {
  DLTensor *made = NULL;
  int status = device.device_type == kDLCPU && !device.device_id
                   ? vm_tensor_new(t->ndim, t->shape, t->dtype, &made)
                   : mb_array_new(device, t->ndim, t->shape, t->dtype, &made);
  if (!status) status = mb_array_copy(t, made, NULL);
  if (!status)
    mb_call_return_array(call, made);
  else if (made)
    mb_array_release(made);
  return status;
}

/* (tensor, type of a device, id [, scope]) -> a new tensor */
static int to_device(void *unused, struct mb_call *call) {
  (void)unused;
  DLTensor *t = NULL;
  int64_t type = 0, id = 0;
  int status = call->count == 3 || call->count == 4 ? MBLOB_OK : relax_expect(call, 3);
  if (!status) status = relax_tensor(call, 0, &t);
  if (!status) status = relax_int(call, 1, &type);
  if (!status) status = relax_int(call, 2, &id);
  if (!status && (type < 1 || type > INT16_MAX || id < 0 || id > INT32_MAX))
    status = mb_fail(MBLOB_E_KERNEL, "InternalError: (%lld, %lld) is no device", (long long)type,
                     (long long)id);
  return status ? status : copied(t, (DLDevice){(DLDeviceType)type, (int32_t)id}, call);
}

/* The tensor itself, or one that starts where its memory does. */
static int ensure_zero_offset(void *unused, struct mb_call *call) {
  (void)unused;
  DLTensor *t = NULL;
  int status = relax_expect(call, 1);
  if (!status) status = relax_tensor(call, 0, &t);
  if (!status && call->codes[0] != kTVMNDArrayHandle)
    status = relax_mismatch(call, 0, "ffi.Tensor");
  if (status) return status;
  if (!t->byte_offset) return mb_return_set(call->result, call->args[0], call->codes[0]);
  if (!mb_device_is_host((int)t->device.device_type) || t->byte_offset % MB_DEFAULT_ALIGNMENT)
    return copied(t, t->device, call);
  DLTensor like = *t;
  like.data = (char *)t->data + t->byte_offset;
  like.byte_offset = 0;
  return tensor_view_of(t, &like, call);
}

/* All blocks that wait are the machines' own, and bounded by what was in use at once. */
static int clear_allocator(void *unused, struct mb_call *call) {
  (void)unused;
  struct relax_activation *running = relax_running();
  int status = relax_expect(call, 0);
  for (; !status && running; running = running->outer) {
    vm_pool_keep(running->machine->pool, false);
    vm_pool_keep(running->machine->pool, true);
  }
  return status;
}

/* (tuple, index): a machine lets go of an item that it needs no more. */
static int tuple_reset_item(void *unused, struct mb_call *call) {
  (void)unused;
  struct mb_object *array = NULL;
  int64_t i = 0;
  int status = relax_item_argument(call, &array, &i);
  if (!status) mb_object_reset_item(array, (size_t)i);
  return status;
}

const struct mb_method relax_memory_functions[] = {
    {"vm.builtin.tuple_reset_item", tuple_reset_item},
    {"vm.builtin.alloc_storage", alloc_relax_storage},
    {"vm.builtin.alloc_tensor", relax_alloc_tensor},
    {"vm.builtin.alloc_shape_heap", alloc_shape_heap},
    {"vm.builtin.null_value", relax_null_value},
    {"vm.builtin.copy", copy_tensor},
    {"vm.builtin.reshape", reshape},
    {"vm.builtin.to_device", to_device},
    {"vm.builtin.ensure_zero_offset", ensure_zero_offset},
    {"vm.builtin.memory_manager.clear", clear_allocator},
    {"", NULL}};
