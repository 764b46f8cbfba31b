#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "errors.h"
#include "borrowed_tensors.h"
#include "values.h"

#define INLINE_ANYS 16
#define INLINE_VIEWS 6
#define INLINE_VIEW_RANK 6

/* ---- from the runtime to the ffi ------------------------------------------------------------- */

/* The callee of a call. */
struct callee {
  enum mb_releases releases;
  mb_safe_call call;
  void *handle;
  const char *name;
};

/* A tensor as others see it: with strides, which compact ones need not have here and DLPack 1.2
 * asks for, and the type as the callee names it. */
struct view {
  DLTensor tensor;
  int64_t strides[INLINE_VIEW_RANK];
};

struct call_views {
  struct view inline_views[INLINE_VIEWS];
  int count;
};

static int set_view(enum mb_releases releases, struct call_views *views, struct mb_any *any,
                    void **heap) {
  const DLTensor *tensor = any->u.pointer;
  size_t ndim = tensor->ndim > 0 ? (size_t)tensor->ndim : 0;
  struct view *view = NULL;
  if (ndim && !tensor->shape)
    return mb_fail(MBLOB_E_ARGUMENT, "tensor: " MB_TEXT_SHAPE_IS_NULL, (int)ndim);
  if (views->count < INLINE_VIEWS && ndim <= INLINE_VIEW_RANK)
    view = &views->inline_views[views->count++];
  else
    *heap = view = malloc(sizeof(DLTensor) + (ndim + 1) * sizeof(int64_t));
  if (!view) return mb_fail_memory(ndim * sizeof(int64_t));
  view->tensor = *tensor;
  view->tensor.dtype = mb_dtype_of_releases(releases, tensor->dtype);
  view->tensor.strides = (int64_t *)(void *)((char *)view + sizeof(DLTensor));
  mb_fill_strides(tensor, view->tensor.strides);
  any->u.pointer = &view->tensor;
  return MBLOB_OK;
}

/* True if the callee can have the very tensor: it has strides, and its type is the callee's. */
static bool is_view(enum mb_releases releases, const DLTensor *tensor) {
  return tensor && tensor->strides && tensor->shape &&
         mb_dtype_of_releases(releases, tensor->dtype).code == tensor->dtype.code;
}

static int convert_argument(enum mb_releases releases, struct call_views *views, TVMValue value,
                            int code, struct mb_any *out, void **heap) {
  if (code == kTVMDLTensorHandle && value.v_handle) {
    *out = (struct mb_any){.type = MB_ANY_TENSOR_VIEW, .u.pointer = value.v_handle};
    return set_view(releases, views, out, heap);
  }
  int status = mb_any_of_value(releases, value, code, true, out);
  return status || out->type != MB_ANY_TENSOR_VIEW ? status : set_view(releases, views, out, heap);
}

/* What the callee returned; its reference ends here. */
static int take_any_result(const struct callee *callee, struct mb_any *result, void *ret) {
  struct mb_place place;
  TVMValue value;
  int code;
  int status = mb_value_of_any(callee->releases, result, &value, &code, &place);
  if (!status && code == kTVMDLTensorHandle) /* nothing would keep its memory */
    status = mb_fail(MBLOB_E_KERNEL,
                     result->type == MB_ANY_TENSOR_VIEW
                         ? "%s: the tensor that it returned is borrowed; return a counted one"
                         : "%s: the tensor that it returned has gaps between its rows",
                     callee->name);
  if (!status && code != kTVMNullptr) status = mb_plugin_host()->return_value(ret, value, code);
  mb_place_release(&place);
  mb_any_release(callee->releases, result);
  return status;
}

static inline int call_with(const struct callee *callee, const struct mb_any *args, int count,
                            void *ret) {
  struct mb_any result = {.type = MB_ANY_NONE};
  mb_error_forget(); /* what somebody left and nobody took is not this call's */
  const uint64_t before = mb_plugin_host()->error_count();
  MB_CATCHES;
  const int rc = callee->call(callee->handle, args, count, &result);
  if (rc) return mb_error_record(callee->name, rc, before);
  return result.type == MB_ANY_NONE ? MBLOB_OK : take_any_result(callee, &result, ret);
}

static int call_out(const struct callee *callee, const TVMValue *args, const int *codes, int count,
                    void *ret) {
  struct mb_any inline_anys[INLINE_ANYS], *anys = inline_anys;
  void *inline_copies[INLINE_ANYS], **copies = inline_copies;
  const size_t room = (size_t)count * (sizeof(*anys) + sizeof(*copies));
  if (count > INLINE_ANYS) {
    anys = mb_block_take_unset(room);
    if (!anys) return mb_fail_memory(room);
    copies = (void **)(anys + count);
  }
  struct call_views views;
  views.count = 0; /* the rest is written where it is used */
  int status = MBLOB_OK, made = 0;
  bool others = false; /* than tensors that go as they are */
  for (; !status && made < count; made++) {
    copies[made] = NULL;
    if (codes[made] == kTVMDLTensorHandle && is_view(callee->releases, args[made].v_handle)) {
      anys[made] = (struct mb_any){.type = MB_ANY_TENSOR_VIEW, .u.pointer = args[made].v_handle};
      continue;
    }
    if (codes[made] == MBLOB_LENT_TENSOR) {
      others = true;
      status = mb_loan_begin(callee->releases, args[made].v_handle, &anys[made]);
      continue;
    }
    status = convert_argument(callee->releases, &views, args[made], codes[made], &anys[made],
                              &copies[made]);
    others |= copies[made] || anys[made].type >= MB_ANY_OBJECT;
  }
  if (!status) status = call_with(callee, anys, count, ret);
  while (others && made-- > 0) {
    if (copies[made]) free(copies[made]);
    if (codes[made] == MBLOB_LENT_TENSOR)
      mb_loan_end(callee->releases, &anys[made], args[made].v_handle);
    else if (anys[made].type >= MB_ANY_OBJECT)
      mb_any_release(callee->releases, &anys[made]);
  }
  if (anys != inline_anys) mb_block_give(anys, room);
  return status;
}

static struct callee callee_at(int releases, void *address, const char *name) {
  union {
    void *address;
    mb_safe_call call;
  } code = {address};
  return (struct callee){
      .releases = (enum mb_releases)releases, .call = code.call, .handle = NULL, .name = name};
}

int mb_ffi_call(int releases, int external, void *address, const char *name, const TVMValue *args,
                const int *codes, int count, void *ret) {
  (void)external; /* all see the same */
  const struct callee callee = callee_at(releases, address, name);
  return call_out(&callee, args, codes, count, ret);
}

_Static_assert(sizeof(mblob_any) == sizeof(struct mb_any) &&
                   offsetof(mblob_any, value) == offsetof(struct mb_any, u) &&
                   MB_ANY_TENSOR_VIEW == 7 && MB_ANY_INT == 1,
               "one layout");

int mb_ffi_call_row(int releases, void *address, const char *name, const mblob_any *row, int count,
                    void *ret) {
  const struct callee callee = callee_at(releases, address, name);
  return call_with(&callee, (const struct mb_any *)(const void *)row, count, ret);
}

/* ---- objects of others as functions ---------------------------------------------------------- */

static int call_object_of_others(enum mb_releases releases, void *object, const TVMValue *args,
                                 const int *codes, int count, void *ret) {
  int32_t type = mb_ffi_object_type(releases, object);
  if (type != MB_ANY_FUNCTION) {
    (void)mb_fail(
        MBLOB_E_ARGUMENT,
        "an object of type %d of the ffi dialect is no function: it can only be passed on", type);
    return -1;
  }
  const struct mb_function_cell *cell = mb_object_cell(releases, object);
  const struct callee callee = {
      .releases = releases, .call = cell->call, .handle = object, .name = "function"};
  return call_out(&callee, args, codes, count, ret) ? -1 : 0;
}

static int call_foreign(TVMValue *args, int *codes, int count, TVMRetValueHandle ret,
                        void *object) {
  return call_object_of_others(MB_RELEASES_0_22, object, args, codes, count, ret);
}

static int call_foreign_old(TVMValue *args, int *codes, int count, TVMRetValueHandle ret,
                            void *object) {
  return call_object_of_others(MB_RELEASES_0_21, object, args, codes, count, ret);
}

static void release_foreign_function(void *object) {
  mb_ffi_object_release(MB_RELEASES_0_22, object);
}
static void release_foreign_function_old(void *object) {
  mb_ffi_object_release(MB_RELEASES_0_21, object);
}

int mb_foreign_function(enum mb_releases releases, void *object, mblob_function **out) {
  const bool old = releases == MB_RELEASES_0_21;
  mb_ffi_object_retain(releases, object);
  int status = mb_plugin_host()->function_create(
      old ? call_foreign_old : call_foreign, object,
      old ? release_foreign_function_old : release_foreign_function, out);
  if (status) mb_ffi_object_release(releases, object);
  return status;
}

void *mb_foreign_object(const mblob_function *function) {
  return mb_plugin_host()->function_resource(function, call_foreign);
}

/* ---- from the ffi to the runtime ------------------------------------------------------------- */

static int call_in(enum mb_releases releases, mblob_function *function, const struct mb_any *args,
                   int32_t count, struct mb_any *result) {
  struct argument {
    struct mb_place place;
    TVMValue value;
    int code;
  };
  const mblob_host *host = mb_plugin_host();
  struct {
    struct mb_place places[INLINE_ANYS];
    TVMValue values[INLINE_ANYS];
    int codes[INLINE_ANYS];
  } room;
  struct mb_place *places = room.places;
  TVMValue *values = room.values, ret = {.v_int64 = 0};
  int *codes = room.codes, ret_code = kTVMNullptr, made = 0, status = MBLOB_OK;
  void *heap = NULL;
  if (count > INLINE_ANYS) {
    heap = mb_block_take_unset((size_t)count * sizeof(struct argument));
    if (!heap) return mb_fail_memory((size_t)count * sizeof(struct argument));
    places = heap;
    values = (TVMValue *)(void *)(places + count);
    codes = (int *)(values + count);
  }
  for (; !status && made < count; made++)
    status = mb_value_of_any(releases, &args[made], &values[made], &codes[made], &places[made]);
  if (!status) status = host->function_call(function, values, codes, count, &ret, &ret_code);
  if (!status) {
    status = mb_any_of_value(releases, ret, ret_code, false, result);
    host->value_release(ret, ret_code);
  }
  while (made-- > 0) mb_place_release(&places[made]);
  if (heap) mb_block_give(heap, (size_t)count * sizeof(struct argument));
  return status;
}

int mb_object_call(enum mb_releases releases, void *object, const struct mb_any *args,
                   int32_t count, struct mb_any *result) {
  static const char no_function[] = "TVMFFIFunctionCall: expected a function";
  if (!object || !result || count < 0 || (count && !args)) {
    (void)mb_fail(MBLOB_E_ARGUMENT, "%s",
                  object ? "TVMFFIFunctionCall: the arguments are NULL" : no_function);
    return mb_error_raise_last();
  }
  mblob_function *function = mb_object_own_function(releases, object);
  if (function) return call_in(releases, function, args, count, result) ? mb_error_raise_last() : 0;
  if (mb_ffi_object_type(releases, object) != MB_ANY_FUNCTION) {
    (void)mb_fail_argument(MB_ARGUMENT_TYPE, "%s, found an object of type %d", no_function,
                           mb_ffi_object_type(releases, object));
    return mb_error_raise_last();
  }
  int rc = ((const struct mb_function_cell *)mb_object_cell(releases, object))
               ->call(object, args, count, result);
  if (rc && !mb_object_is_own(releases, object)) mb_error_fetch_process();
  return rc;
}

/* Called by others: their errors are kept elsewhere. */
static int call_for_others(enum mb_releases releases, void *self, const struct mb_any *args,
                           int32_t count, struct mb_any *result) {
  mblob_function *function = mb_object_own_function(releases, self);
  int rc =
      function && !call_in(releases, function, args, count, result) ? 0 : mb_error_raise_last();
  if (rc) mb_error_tell_process();
  return rc;
}

static int safe_call(void *self, const struct mb_any *args, int32_t count, struct mb_any *result) {
  return call_for_others(MB_RELEASES_0_22, self, args, count, result);
}

static int safe_call_old(void *self, const struct mb_any *args, int32_t count,
                         struct mb_any *result) {
  return call_for_others(MB_RELEASES_0_21, self, args, count, result);
}

void *mb_object_function(enum mb_releases releases, mblob_function *function, bool counted) {
  void *object = mb_object_new(releases, MB_ANY_FUNCTION, sizeof(struct mb_function_cell));
  if (!object) return NULL;
  struct mb_record *record = mb_object_record(object);
  record->value.v_handle = function;
  record->code = kTVMPackedFuncHandle;
  record->counted = counted;
  if (counted) mb_plugin_host()->value_retain(record->value, record->code);
  ((struct mb_function_cell *)mb_object_cell(releases, object))->call =
      releases == MB_RELEASES_0_22 ? safe_call : safe_call_old;
  return object;
}

static int call_own_callback(void *object, const struct mb_any *args, int32_t count,
                             struct mb_any *result) {
  const struct mb_record *record = mb_object_record(object);
  return record->call(record->owner, args, count, result);
}

void *mb_object_of_callback(void *self, mb_safe_call call, void (*release)(void *self)) {
  void *object = mb_object_new(MB_RELEASES_0_22, MB_ANY_FUNCTION, sizeof(struct mb_function_cell));
  if (!object) return NULL;
  struct mb_record *record = mb_object_record(object);
  record->call = call;
  record->owner = self;
  record->release = release;
  ((struct mb_function_cell *)mb_object_cell(MB_RELEASES_0_22, object))->call = call_own_callback;
  return object;
}
