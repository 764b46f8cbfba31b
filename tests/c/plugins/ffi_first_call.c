/* ffi_first_call NAME: a program linked with libmblob-ffi whose first call of it is that
 * function, with arguments that are fine. */
#include <dlpack/dlpack.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "abi.h"

int TVMFFIAnyViewToOwnedAny(const struct mb_any *view, struct mb_any *out);
const struct mb_text *TVMFFIBacktrace(const char *file, int line, const char *function,
                                      int crosses);
const int32_t *TVMFFIGetTypeInfo(int32_t type);
int32_t TVMFFITypeGetOrAllocIndex(const struct mb_text *key, int32_t fixed, int32_t depth,
                                  int32_t slots, int32_t may_overflow, int32_t parent);
int TVMFFIBytesFromByteArray(const struct mb_text *from, struct mb_any *out);
int TVMFFIEnvCheckSignals(void);
void *TVMFFIEnvGetStream(int32_t type, int32_t id);
int TVMFFIEnvModLookupFromImports(void *library, const char *name, void **out);
int TVMFFIEnvModRegisterSystemLibSymbol(const char *name, void *address);
int TVMFFIEnvSetStream(int32_t type, int32_t id, void *stream, void **before);
int TVMFFIEnvTensorAlloc(const DLTensor *like, void **out);
int TVMFFIErrorCreate(const struct mb_text *kind, const struct mb_text *message,
                      const struct mb_text *trace, void **out);
int TVMFFIErrorCreateWithCauseAndExtraContext(const struct mb_text *kind,
                                              const struct mb_text *message,
                                              const struct mb_text *trace, void *cause,
                                              void *context, void **out);
void TVMFFIErrorMoveFromRaised(void **out);
void TVMFFIErrorSetRaised(void *error);
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);
void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char *const *parts, int32_t count);
int TVMFFIFunctionCall(void *function, const struct mb_any *args, int32_t count,
                       struct mb_any *result);
int TVMFFIFunctionCreate(void *self, mb_safe_call call, void (*deleter)(void *self), void **out);
int TVMFFIFunctionGetGlobal(const struct mb_text *name, void **out);
int TVMFFIFunctionSetGlobal(const struct mb_text *name, void *function, int replace);
void TVMFFIGetVersion(uint32_t *out);
int TVMFFIHandleDeinitOnce(void **handle, int (*deinit)(void *handle));
int TVMFFIHandleInitOnce(void **handle, int (*init)(void **result));
int TVMFFIObjectCreateOpaque(void *handle, int32_t type, void (*deleter)(void *handle), void **out);
int TVMFFIObjectDecRef(void *object);
int TVMFFIObjectIncRef(void *object);
int TVMFFIStringFromByteArray(const struct mb_text *from, struct mb_any *out);
int TVMFFITensorCreateUnsafeView(void *source, const DLTensor *like, void **out);
int TVMFFITensorFromDLPack(DLManagedTensor *from, int32_t alignment, int32_t contiguous,
                           void **out);
int TVMFFITensorFromDLPackVersioned(DLManagedTensorVersioned *from, int32_t alignment,
                                    int32_t contiguous, void **out);
int TVMFFITensorToDLPack(void *object, DLManagedTensor **out);
int TVMFFITensorToDLPackVersioned(void *object, DLManagedTensorVersioned **out);

/* An object of others, as C++ code makes them. */
static int deleted;
static struct {
  uint64_t references;
  int32_t type;
  uint32_t padding;
  void (*deleter)(void *self, int flags);
  union {
    struct mb_function_cell function;
    DLTensor tensor;
  } cell;
} foreign = {.references = (UINT64_C(1) << 32) | 1};

static void delete_foreign(void *self, int flags) { (void)self, (void)flags, deleted++; }

static int called(void *self, const struct mb_any *args, int32_t count, struct mb_any *result) {
  (void)self, (void)args;
  *result = (struct mb_any){.type = MB_ANY_INT, .u.i64 = 40 + count};
  return 0;
}

static int64_t shape[1] = {3};
static float data[3] = {1, 2, 3};
static const DLTensor tensor = {data, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, NULL, 0};
static const struct mb_text name = {"test.first_call", 15}, text = {"a text of some length", 21};
static int made;

static int make(void **result) { return *result = &made, 0; }
static int unmake(void *handle) { return handle == &made ? 0 : -1; }

extern int mblob_ffi_take_announced(int (*take)(const char *symbol, void *address));
static int taken;
static int take(const char *symbol, void *address) {
  return (void)symbol, (void)address, ++taken, 0;
}

static int fine(const char *what) {
  void *out = NULL;
  struct mb_any any = {.type = MB_ANY_NONE}, seven = {.type = MB_ANY_INT, .u.i64 = 7};
  DLManagedTensor managed = {tensor, NULL, NULL}, *exported = NULL;
  DLManagedTensorVersioned versioned = {.version = {1, 0}, .dl_tensor = tensor},
                           *exported_versioned = NULL;
#define IS(function) (strcmp(what, #function) == 0)
  foreign.deleter = delete_foreign;
  foreign.type = strstr(what, "Tensor")  ? MB_ANY_TENSOR
                 : strstr(what, "Error") ? MB_ANY_ERROR
                                         : MB_ANY_FUNCTION;
  if (strstr(what, "Tensor"))
    foreign.cell.tensor = tensor;
  else
    foreign.cell.function.call = called;
  if (IS(mblob_ffi_take_announced)) return mblob_ffi_take_announced(take) == 0 && taken == 0;
  if (IS(TVMFFIAnyViewToOwnedAny))
    return TVMFFIAnyViewToOwnedAny(&seven, &any) == 0 && any.u.i64 == 7;
  if (IS(TVMFFIBacktrace)) return TVMFFIBacktrace(NULL, 0, NULL, 0)->size == 0;
  if (IS(TVMFFIGetTypeInfo)) return TVMFFIGetTypeInfo(MB_ANY_TENSOR)[0] == MB_ANY_TENSOR;
  if (IS(TVMFFITypeGetOrAllocIndex))
    return TVMFFITypeGetOrAllocIndex(&name, -1, 1, 0, 1, MB_ANY_OBJECT) >= 128;
  if (IS(TVMFFIBytesFromByteArray))
    return TVMFFIBytesFromByteArray(&text, &any) == 0 && any.type == MB_ANY_BYTES;
  if (IS(TVMFFIStringFromByteArray))
    return TVMFFIStringFromByteArray(&text, &any) == 0 && any.type == MB_ANY_STRING;
  if (IS(TVMFFIEnvCheckSignals)) return TVMFFIEnvCheckSignals() == 0;
  if (IS(TVMFFIEnvGetStream)) return TVMFFIEnvGetStream(kDLCPU, 0) == NULL;
  if (IS(TVMFFIEnvModLookupFromImports))
    return TVMFFIEnvModLookupFromImports(NULL, "runtime.NumThreads", &out) == 0 && out;
  if (IS(TVMFFIEnvModRegisterSystemLibSymbol))
    return TVMFFIEnvModRegisterSystemLibSymbol("first_call", &made) == 0;
  if (IS(TVMFFIEnvSetStream)) return TVMFFIEnvSetStream(kDLCPU, 0, NULL, &out) == 0 && !out;
  if (IS(TVMFFIEnvTensorAlloc))
    return TVMFFIEnvTensorAlloc(&tensor, &out) == 0 && TVMFFIObjectDecRef(out) == 0;
  if (IS(TVMFFIErrorCreate))
    return TVMFFIErrorCreate(&name, &text, &text, &out) == 0 && TVMFFIObjectDecRef(out) == 0;
  if (IS(TVMFFIErrorCreateWithCauseAndExtraContext))
    return TVMFFIErrorCreateWithCauseAndExtraContext(&name, &text, &text, NULL, NULL, &out) == 0 &&
           out;
  if (IS(TVMFFIErrorMoveFromRaised)) return TVMFFIErrorMoveFromRaised(&out), out == NULL;
  if (IS(TVMFFIErrorSetRaised))
    return TVMFFIErrorSetRaised(&foreign), TVMFFIErrorMoveFromRaised(&out), out == &foreign;
  if (IS(TVMFFIErrorSetRaisedFromCStr))
    return TVMFFIErrorSetRaisedFromCStr("ValueError", "x"), TVMFFIErrorMoveFromRaised(&out),
           out != NULL;
  if (IS(TVMFFIErrorSetRaisedFromCStrParts))
    return TVMFFIErrorSetRaisedFromCStrParts("ValueError", &name.data, 1),
           TVMFFIErrorMoveFromRaised(&out), out != NULL;
  if (IS(TVMFFIFunctionCall))
    return TVMFFIFunctionCall(&foreign, &seven, 1, &any) == 0 && any.u.i64 == 41;
  if (IS(TVMFFIFunctionCreate))
    return TVMFFIFunctionCreate(&made, called, NULL, &out) == 0 && TVMFFIObjectDecRef(out) == 0;
  if (IS(TVMFFIFunctionGetGlobal)) return TVMFFIFunctionGetGlobal(&name, &out) == 0 && !out;
  if (IS(TVMFFIFunctionSetGlobal))
    return TVMFFIFunctionSetGlobal(&name, &foreign, 0) == 0 &&
           TVMFFIFunctionGetGlobal(&name, &out) == 0 &&
           TVMFFIFunctionCall(out, &seven, 1, &any) == 0 && any.u.i64 == 41;
  if (IS(TVMFFIGetVersion)) {
    uint32_t version[3] = {9, 0, 0};
    return TVMFFIGetVersion(version), version[1] == 1;
  }
  if (IS(TVMFFIHandleDeinitOnce))
    return out = &made, TVMFFIHandleDeinitOnce(&out, unmake) == 0 && !out;
  if (IS(TVMFFIHandleInitOnce)) return TVMFFIHandleInitOnce(&out, make) == 0 && out == &made;
  if (IS(TVMFFIObjectCreateOpaque))
    return TVMFFIObjectCreateOpaque(&made, 64, NULL, &out) == 0 && TVMFFIObjectDecRef(out) == 0;
  if (IS(TVMFFIObjectDecRef)) return TVMFFIObjectDecRef(&foreign) == 0 && deleted == 1;
  if (IS(TVMFFIObjectIncRef))
    return TVMFFIObjectIncRef(&foreign) == 0 && TVMFFIObjectDecRef(&foreign) == 0 && !deleted;
  if (IS(TVMFFITensorCreateUnsafeView))
    return TVMFFITensorCreateUnsafeView(&foreign, &tensor, &out) == 0 &&
           TVMFFIObjectDecRef(out) == 0;
  if (IS(TVMFFITensorFromDLPack))
    return TVMFFITensorFromDLPack(&managed, 4, 1, &out) == 0 && TVMFFIObjectDecRef(out) == 0;
  if (IS(TVMFFITensorFromDLPackVersioned))
    return TVMFFITensorFromDLPackVersioned(&versioned, 4, 1, &out) == 0 &&
           TVMFFIObjectDecRef(out) == 0;
  if (IS(TVMFFITensorToDLPack))
    return TVMFFITensorToDLPack(&foreign, &exported) == 0 && exported->dl_tensor.data == data;
  if (IS(TVMFFITensorToDLPackVersioned))
    return TVMFFITensorToDLPackVersioned(&foreign, &exported_versioned) == 0 &&
           exported_versioned->dl_tensor.data == data;
  fprintf(stderr, "no case for %s\n", what);
  return 0;
}

int main(int argc, char **argv) { return argc == 2 && fine(argv[1]) ? 0 : 1; }
