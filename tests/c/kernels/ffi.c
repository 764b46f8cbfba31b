/* A library as TVM 0.22 and later make them from C (-DOLD: as 0.21 made them): functions of the
 * safe-call convention, and what they leave undefined. */
#include <dlpack/dlpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "abi.h"

#ifdef OLD
#define FUNCTION(name) name
void *__tvm_ffi_library_ctx;
#define CONTEXT __tvm_ffi_library_ctx
#define TENSOR_TYPE 72
#define HEADER 16
#else
#define FUNCTION(name) __tvm_ffi_##name
void *__tvm_ffi__library_ctx;
#define CONTEXT __tvm_ffi__library_ctx
#define TENSOR_TYPE 70
#define HEADER 24
#endif

#define KERNEL(name)                                                                           \
  int FUNCTION(name)(void *self, const struct mb_any *args, int32_t n, struct mb_any *result); \
  int FUNCTION(name)(void *self, const struct mb_any *args, int32_t n, struct mb_any *result)
#define UNUSED (void)self, (void)args, (void)n, (void)result

typedef struct mb_any any;

extern int TVMFFIFunctionCall(void *function, any *args, int32_t count, any *result);
extern void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);
extern int TVMBackendGetFuncFromEnv(void *context, const char *name, void **out);
extern int TVMBackendParallelLaunch(int (*task)(int id, void *env, void *data), void *data,
                                    int count);
extern void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t size, int code,
                                      int bits);
extern int TVMBackendFreeWorkspace(int device_type, int device_id, void *data);

static int fail(const char *kind, const char *text) {
  TVMFFIErrorSetRaisedFromCStr(kind, text);
  return -1;
}

static int give(any *result, int32_t type, int64_t value) {
  result->type = type;
  result->u.i64 = value;
  return 0;
}

/* A text, however it comes. */
static const char *text_in(const any *value) {
  if (value->type == MB_ANY_SMALL_STRING) return value->u.text;
  if (value->type != MB_ANY_STRING) return value->u.pointer;
  return ((const struct mb_text *)(const void *)((const char *)value->u.pointer + HEADER))->data;
}

KERNEL(add) {
  UNUSED;
  if (n != 2) return fail("TypeError", "add: expected 2 arguments");
  if (args[0].type != MB_ANY_INT || args[1].type != MB_ANY_INT)
    return fail("TypeError", "add: expected integers");
  return give(result, MB_ANY_INT, args[0].u.i64 + args[1].u.i64);
}

KERNEL(fails) {
  UNUSED;
  return fail(text_in(&args[0]), text_in(&args[1]));
}

KERNEL(fails_silently) {
  UNUSED;
  return -1;
}

KERNEL(type_of) {
  UNUSED;
  return give(result, MB_ANY_INT, args[0].type);
}

KERNEL(nothing) {
  UNUSED;
  return 0;
}

/* A tensor as kernels take it: a DLTensor, or an object that has one behind its header. */
static const DLTensor *tensor(const any *value) {
  const char *at = value->u.pointer;
  return (const DLTensor *)(const void *)(value->type == TENSOR_TYPE ? at + HEADER : at);
}

KERNEL(sum) {
  UNUSED;
  const DLTensor *t = tensor(&args[0]);
  const float *data = t->data;
  double total = 0;
  int64_t count = 1;
  for (int i = 0; i < t->ndim; i++) count *= t->shape[i];
  for (int64_t i = 0; i < count; i++) total += data[i];
  result->type = MB_ANY_FLOAT;
  result->u.f64 = total;
  return 0;
}

/* Whatever `name` of the imports and the registry gives for the rest. */
KERNEL(asks) {
  UNUSED;
  void *function = NULL;
  any copy[8];
  if (TVMBackendGetFuncFromEnv(CONTEXT, text_in(&args[0]), &function)) return -1;
  memcpy(copy, args, (size_t)n * sizeof(any));
  return TVMFFIFunctionCall(function, copy + 1, n - 1, result);
}

static int one_task(int id, void *env, void *data) {
  int64_t *out = data;
  (void)env;
  if (out[0] == id) return fail("IndexError", "this task fails");
  out[id + 1] = id;
  return 0;
}

KERNEL(parallel) {
  UNUSED;
  int64_t out[9] = {args[0].u.i64};
  if (TVMBackendParallelLaunch(one_task, out, 4)) return -1;
  return give(result, MB_ANY_INT, out[1] + out[2] + out[3] + out[4]);
}

KERNEL(workspace) {
  UNUSED;
  char *data = TVMBackendAllocWorkspace(1, 0, 100000, 0, 8);
  if (!data) return -1;
  memset(data, 7, 100000);
  int64_t last = data[99999];
  if (TVMBackendFreeWorkspace(1, 0, data)) return -1;
  return give(result, MB_ANY_INT, last);
}

#ifdef OLD
const char __tvm_main__[] = "add";
#else

extern void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **parts, int32_t count);
extern void TVMFFIErrorSetRaised(void *error);
extern void TVMFFIErrorMoveFromRaised(void **out);
extern int TVMFFIErrorCreate(const struct mb_text *kind, const struct mb_text *message,
                             const struct mb_text *trace, void **out);
extern int TVMFFIErrorCreateWithCauseAndExtraContext(const struct mb_text *kind,
                                                     const struct mb_text *message,
                                                     const struct mb_text *trace, void *cause,
                                                     void *context, void **out);
extern int TVMFFIAnyViewToOwnedAny(const any *view, any *out);
extern int TVMFFIStringFromByteArray(const struct mb_text *text, any *out);
extern int TVMFFIBytesFromByteArray(const struct mb_text *text, any *out);
extern int TVMFFIObjectIncRef(void *object);
extern int TVMFFIObjectDecRef(void *object);
extern int TVMFFIObjectCreateOpaque(void *handle, int32_t type, void (*deleter)(void *),
                                    void **out);
extern int TVMFFIFunctionCreate(void *self, mb_safe_call call, void (*deleter)(void *), void **out);
extern int TVMFFIFunctionGetGlobal(const struct mb_text *name, void **out);
extern int TVMFFIFunctionSetGlobal(const struct mb_text *name, void *function, int allow_override);
extern int TVMFFIEnvModLookupFromImports(void *context, const char *name, void **out);
extern int TVMFFIHandleInitOnce(void **handle, int (*init)(void **result));
extern int TVMFFIHandleDeinitOnce(void **handle, int (*deinit)(void *handle));
extern int TVMFFIEnvTensorAlloc(DLTensor *like, void **out);
extern int TVMFFITensorCreateUnsafeView(void *source, const DLTensor *like, void **out);
extern int TVMFFITensorToDLPack(void *object, DLManagedTensor **out);
extern int TVMFFITensorFromDLPack(DLManagedTensor *from, int32_t alignment, int32_t contiguous,
                                  void **out);
extern int TVMFFITensorToDLPackVersioned(void *object, DLManagedTensorVersioned **out);
extern int TVMFFITensorFromDLPackVersioned(DLManagedTensorVersioned *from, int32_t alignment,
                                           int32_t contiguous, void **out);

KERNEL(main) { return FUNCTION(add)(self, args, n, result); }

KERNEL(echo) {
  UNUSED;
  return TVMFFIAnyViewToOwnedAny(&args[0], result);
}

static int text(const any *args, any *result, int (*make)(const struct mb_text *text, any *out)) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
  const struct mb_text view = {letters, (size_t)args[0].u.i64};
  return make(&view, result);
}

KERNEL(string) {
  UNUSED;
  return text(args, result, TVMFFIStringFromByteArray);
}

KERNEL(bytes) {
  UNUSED;
  return text(args, result, TVMFFIBytesFromByteArray);
}

KERNEL(nul_inside) {
  UNUSED;
  const struct mb_text view = {"a\0b", 3};
  return TVMFFIStringFromByteArray(&view, result);
}

KERNEL(fails_in_parts) {
  UNUSED;
  const char *parts[] = {"one", NULL, " two", " three"};
  TVMFFIErrorSetRaisedFromCStrParts("ValueError", parts, 4);
  return -1;
}

KERNEL(fails_with_object) {
  UNUSED;
  const struct mb_text kind = {"my.Error", 8}, message = {"a message", 9}, none = {"", 0};
  void *error = NULL;
  if (TVMFFIErrorCreate(&kind, &message, &none, &error)) return -1;
  TVMFFIErrorSetRaised(error);
  TVMFFIObjectDecRef(error);
  return -1;
}

static int deleted;

static void count_deletion(void *self) {
  (void)self;
  deleted++;
}

/* An error with a chain of errors, in turn its cause and its context, and beside each an object:
 * nobody else has them when it is left. */
KERNEL(fails_with_causes) {
  UNUSED;
  const struct mb_text kind = {"my.Error", 8}, message = {"a message", 9}, none = {"", 0};
  void *error = NULL;
  for (int64_t i = 0; i < args[0].u.i64; i++) {
    void *before = error, *other = NULL;
    if (TVMFFIObjectCreateOpaque(NULL, 200, count_deletion, &other)) return -1;
    if (TVMFFIErrorCreateWithCauseAndExtraContext(&kind, &message, &none, i % 2 ? before : other,
                                                  i % 2 ? other : before, &error))
      return -1;
    if (before) TVMFFIObjectDecRef(before);
    TVMFFIObjectDecRef(other);
  }
  TVMFFIErrorSetRaised(error);
  TVMFFIObjectDecRef(error);
  return -1;
}

/* Calls and swallows the error; the number of bytes of its message. */
KERNEL(swallows) {
  UNUSED;
  any ret = {.type = MB_ANY_NONE};
  void *error = NULL;
  if (!TVMFFIFunctionCall(args[0].u.pointer, NULL, 0, &ret)) return give(result, MB_ANY_INT, -1);
  TVMFFIErrorMoveFromRaised(&error);
  if (!error) return fail("RuntimeError", "no error is there");
  const struct mb_error_cell *cell =
      (const struct mb_error_cell *)(const void *)((const char *)error + HEADER);
  give(result, MB_ANY_INT, (int64_t)cell->message.size);
  return TVMFFIObjectDecRef(error);
}

KERNEL(call) {
  UNUSED;
  any copy[8];
  memcpy(copy, args, (size_t)n * sizeof(any));
  return TVMFFIFunctionCall(args[0].u.pointer, copy + 1, n - 1, result);
}

static int plus(void *self, const any *args, int32_t n, any *result) {
  (void)n;
  return give(result, MB_ANY_INT, args[0].u.i64 + (int64_t)(intptr_t)self);
}

KERNEL(adder) {
  UNUSED;
  result->type = MB_ANY_FUNCTION;
  return TVMFFIFunctionCreate((void *)(intptr_t)args[0].u.i64, plus, count_deletion,
                              &result->u.pointer);
}

KERNEL(opaque) {
  UNUSED;
  result->type = 200;
  return TVMFFIObjectCreateOpaque(NULL, 200, count_deletion, &result->u.pointer);
}

KERNEL(deletions) {
  UNUSED;
  return give(result, MB_ANY_INT, deleted);
}

KERNEL(registers) {
  UNUSED;
  const struct mb_text name = {text_in(&args[0]), strlen(text_in(&args[0]))};
  return TVMFFIFunctionSetGlobal(&name, args[1].u.pointer, 1);
}

KERNEL(global) {
  UNUSED;
  const struct mb_text name = {text_in(&args[0]), strlen(text_in(&args[0]))};
  void *function = NULL;
  if (TVMFFIFunctionGetGlobal(&name, &function)) return -1;
  result->type = function ? MB_ANY_FUNCTION : MB_ANY_NONE;
  result->u.pointer = function;
  return 0;
}

static void *handle;
static int made;

static int make_handle(void **out) {
  made++;
  return TVMFFIEnvModLookupFromImports(CONTEXT, "once", out);
}

static int forget_handle(void *old) {
  (void)old;
  return 0;
}

KERNEL(once) {
  UNUSED;
  if (TVMFFIHandleInitOnce(&handle, make_handle) || TVMFFIHandleInitOnce(&handle, make_handle))
    return -1;
  any ret = {.type = MB_ANY_NONE};
  if (TVMFFIFunctionCall(handle, &ret, 0, &ret)) return -1;
  if (TVMFFIHandleDeinitOnce(&handle, forget_handle)) return -1;
  return give(result, MB_ANY_INT, made);
}

/* A new tensor of the shape of the argument, all 2. */
KERNEL(twos) {
  UNUSED;
  DLTensor like = *tensor(&args[0]);
  if (TVMFFIEnvTensorAlloc(&like, &result->u.pointer)) return -1;
  result->type = MB_ANY_TENSOR;
  const DLTensor *t = tensor(result);
  for (int64_t i = 0; i < t->shape[0]; i++) ((float *)t->data)[i] = 2;
  return 0;
}

/* The first half of a tensor object, through a view and both forms of DLPack: its memory is the
 * argument's. */
KERNEL(half) {
  UNUSED;
  void *made_of[4] = {NULL};
  DLManagedTensor *plain;
  DLManagedTensorVersioned *versioned;
  DLTensor like = *tensor(&args[0]);
  int64_t shape[1] = {like.shape[0] / 2};
  like.shape = shape;
  if (args[0].type != MB_ANY_TENSOR) return fail("TypeError", "half: expected a counted tensor");
  if (TVMFFITensorCreateUnsafeView(args[0].u.pointer, &like, &made_of[0])) return -1;
  if (TVMFFITensorToDLPack(made_of[0], &plain) || TVMFFITensorFromDLPack(plain, 4, 1, &made_of[1]))
    return -1;
  if (TVMFFITensorToDLPackVersioned(made_of[1], &versioned) ||
      TVMFFITensorFromDLPackVersioned(versioned, 0, 0, &made_of[2]))
    return -1;
  TVMFFIObjectDecRef(made_of[0]);
  TVMFFIObjectDecRef(made_of[1]);
  result->type = MB_ANY_TENSOR;
  result->u.pointer = made_of[2];
  return TVMFFIObjectIncRef(made_of[2]) || TVMFFIObjectDecRef(made_of[2]);
}

int __tvm_ffi__metadata_add(void *self, const any *args, int32_t n, any *result);
int __tvm_ffi__metadata_add(void *self, const any *args, int32_t n, any *result) {
  const struct mb_text view = {"{\"type_schema\": \"...\"}", 22};
  (void)self, (void)args, (void)n;
  return TVMFFIStringFromByteArray(&view, result);
}

int __tvm_ffi__doc_add(void *self, const any *args, int32_t n, any *result);
int __tvm_ffi__doc_add(void *self, const any *args, int32_t n, any *result) {
  const struct mb_text view = {"Adds.", 5};
  (void)self, (void)args, (void)n;
  return TVMFFIStringFromByteArray(&view, result);
}
#endif

/* A tensor, and the code and bits that its type has to have. */
KERNEL(takes_type) {
  UNUSED;
  const DLTensor *t = args[0].u.pointer;
  return t->dtype.code == args[1].u.i64 && t->dtype.bits == args[2].u.i64
             ? 0
             : fail("TypeError", "another type");
}
