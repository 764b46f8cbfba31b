/* ffi_first_call NAME: a program linked with libmblob-ffi whose first call of it is that
 * function, with arguments that are fine. */
#include <dlpack/dlpack.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "abi.h"
#include "environment.h"
#include "reflection.h"
#include "tensors.h"

int TVMFFIBigIntFromByteArray(const struct mb_text *words, struct mb_any *out);
struct mb_text TVMFFIBigIntGetContentByteArray(const struct mb_any *value);
int TVMFFIDataTypeFromString(const struct mb_text *text, DLDataType *out);
int TVMFFIDataTypeToString(const DLDataType *dtype, struct mb_any *out);
mb_tensor_allocator TVMFFIEnvGetDLPackManagedTensorAllocator(void);
int TVMFFIEnvModRegisterContextSymbol(const char *name, void *symbol);
int TVMFFIEnvRegisterCAPI(const char *name, void *symbol);
int TVMFFIEnvSetDLPackManagedTensorAllocator(mb_tensor_allocator allocator, int everywhere,
                                             mb_tensor_allocator *before);
int TVMFFIFunctionSetGlobalFromMethodInfo(const struct mb_method_info *info, int replace);
struct mb_object_allocator *TVMFFIGetCustomAllocator(void);
const struct mb_attribute_column *TVMFFIGetTypeAttrColumn(const struct mb_text *name);
int TVMFFISetCustomAllocator(struct mb_object_allocator *allocator);
int TVMFFITypeKeyToIndex(const struct mb_text *key, int32_t *out);
int TVMFFITypeRegisterAttr(int32_t type, const struct mb_text *name, const struct mb_any *value);
int TVMFFITypeRegisterField(int32_t type, const struct mb_field_info *info);
int TVMFFITypeRegisterMetadata(int32_t type, const struct mb_type_metadata *metadata);
int TVMFFITypeRegisterMethod(int32_t type, const struct mb_method_info *info);
int TVMFFIAnyViewToOwnedAny(const struct mb_any *view, struct mb_any *out);
const struct mb_text *TVMFFIBacktrace(const char *file, int line, const char *function,
                                      int crosses);
const struct mb_type_info *TVMFFIGetTypeInfo(int32_t type);
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

/* An allocator of tensors that has one, then none and a reason, then neither. */
static int asked;
static DLManagedTensorVersioned given = {.version = {1, 0}, .dl_tensor = {0}};
static int allocate(const DLTensor *like, DLManagedTensorVersioned **out, void *context,
                    void (*fail)(void *context, const char *kind, const char *message)) {
  (void)like;
  given.dl_tensor = tensor;
  if (asked == 0) *out = &given;
  if (asked == 1) fail(context, "MemoryError", "the pool is empty");
  return asked++ == 1;
}

static int allocators(void) {
  mb_tensor_allocator before = allocate;
  void *out = NULL;
  int fails = TVMFFIEnvSetDLPackManagedTensorAllocator(allocate, 1, &before) || before ||
              TVMFFIEnvGetDLPackManagedTensorAllocator() != allocate ||
              TVMFFIEnvTensorAlloc(&tensor, &out) || TVMFFIObjectDecRef(out);
  for (int i = 0; i < 2; i++) {
    fails |= TVMFFIEnvTensorAlloc(&tensor, &out) != -1;
    TVMFFIErrorMoveFromRaised(&out);
    const struct mb_error_cell *cell = (const void *)((const char *)out + 24);
    fails |= !out || strncmp(cell->kind.data, i ? "RuntimeError" : "MemoryError", 11) != 0;
  }
  return fails;
}

/* Members of a class: the second of a name replaces the first, and none of ten is lost. */
static int members(bool of_methods) {
  const struct mb_text key = {"test.first_call.Class", 21};
  const int32_t type = TVMFFITypeGetOrAllocIndex(&key, -1, 1, 0, 1, MB_ANY_OBJECT);
  const struct mb_type_info *info = TVMFFIGetTypeInfo(type);
  int fails = 0;
  for (int i = 0; i < 11; i++) {
    char letters[2] = {(char)('a' + i % 10), 0};
    struct mb_field_info field = {.name = {letters, 1}, .offset = i};
    struct mb_method_info method = {.name = {letters, 1}, .flags = i};
    method.method = (struct mb_any){.type = MB_ANY_INT, .u.i64 = i};
    fails |= of_methods ? TVMFFITypeRegisterMethod(type, &method)
                        : TVMFFITypeRegisterField(type, &field);
  }
  for (int i = 0; i < 10; i++) {
    const struct mb_text *found = of_methods ? &info->methods[i].name : &info->fields[i].name;
    const int64_t number = of_methods ? info->methods[i].flags : info->fields[i].offset;
    fails |= found->size != 1 || found->data[0] != 'a' + i || number != (i ? i : 10);
  }
  return fails || (of_methods ? info->method_count : info->field_count) != 10;
}

static int attributes(void) {
  const struct mb_text attribute = {"__test__", 8};
  const struct mb_any value = {.type = MB_ANY_INT, .u.i64 = 5};
  const struct mb_attribute_column *column;
  int fails = TVMFFIGetTypeAttrColumn(&attribute) != NULL ||
              TVMFFITypeRegisterAttr(MB_ANY_NONE, &attribute, &value) ||
              !(column = TVMFFIGetTypeAttrColumn(&attribute)) || column->count ||
              TVMFFITypeRegisterAttr(MB_ANY_MAP, &attribute, &value) ||
              TVMFFITypeRegisterAttr(999, &attribute, &value) != -1;
  if (fails || column->count <= MB_ANY_MAP) return 1;
  return column->items[MB_ANY_MAP - column->begin].u.i64 != 5 ||
         column->items[MB_ANY_ARRAY - column->begin].type != MB_ANY_NONE;
}

static int big_ints(void) {
  const int64_t words[] = {-7, -1, -1, 5, 1, 0};
  struct mb_any any = {.type = MB_ANY_NONE};
  const struct mb_text small = {(const char *)words, 24}, large = {(const char *)&words[3], 24},
                       torn = {(const char *)words, 9};
  int fails = TVMFFIBigIntFromByteArray(&small, &any) || any.type != MB_ANY_INT ||
              any.u.i64 != -7 || TVMFFIBigIntGetContentByteArray(&any).size != 8 ||
              TVMFFIBigIntFromByteArray(&torn, &any) != -1 ||
              TVMFFIBigIntFromByteArray(&large, &any) || any.type != MB_ANY_BIG_INT;
  const struct mb_text found = TVMFFIBigIntGetContentByteArray(&any);
  return fails || found.size != 16 || memcmp(found.data, &words[3], 16) != 0 ||
         TVMFFIObjectDecRef(any.u.pointer);
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
  if (IS(TVMFFIGetTypeInfo)) return TVMFFIGetTypeInfo(MB_ANY_TENSOR)->type == MB_ANY_TENSOR;
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
  if (IS(TVMFFIBigIntFromByteArray) || IS(TVMFFIBigIntGetContentByteArray)) return !big_ints();
  if (IS(TVMFFIEnvSetDLPackManagedTensorAllocator)) return !allocators();
  if (IS(TVMFFIEnvGetDLPackManagedTensorAllocator))
    return !TVMFFIEnvGetDLPackManagedTensorAllocator();
  if (IS(TVMFFITypeRegisterField)) return !members(false);
  if (IS(TVMFFITypeRegisterMethod)) return !members(true);
  if (IS(TVMFFITypeRegisterAttr) || IS(TVMFFIGetTypeAttrColumn)) return !attributes();
  if (IS(TVMFFIDataTypeFromString) || IS(TVMFFIDataTypeToString)) {
    const struct mb_text written = {"int8x4", 6};
    DLDataType dtype = {0};
    return TVMFFIDataTypeFromString(&written, &dtype) == 0 && dtype.bits == 8 && dtype.lanes == 4 &&
           TVMFFIDataTypeToString(&dtype, &any) == 0 && strcmp(any.u.text, "int8x4") == 0;
  }
  if (IS(TVMFFITypeRegisterMetadata)) {
    const struct mb_type_metadata metadata = {.doc = text, .total_size = 48};
    return TVMFFITypeRegisterMetadata(MB_ANY_TENSOR, &metadata) == 0 &&
           TVMFFIGetTypeInfo(MB_ANY_TENSOR)->metadata->total_size == 48;
  }
  if (IS(TVMFFITypeKeyToIndex)) {
    const struct mb_text key = {"ffi.Dict", 8};
    int32_t type = 0;
    return TVMFFITypeKeyToIndex(&key, &type) == 0 && type == MB_ANY_DICT &&
           TVMFFITypeKeyToIndex(&name, &type) == -1;
  }
  if (IS(TVMFFIFunctionSetGlobalFromMethodInfo)) {
    struct mb_method_info info = {.name = name, .doc = text, .metadata = text};
    info.method = (struct mb_any){.type = MB_ANY_FUNCTION, .u.pointer = &foreign};
    return TVMFFIFunctionSetGlobalFromMethodInfo(&info, 0) == 0 &&
           TVMFFIFunctionGetGlobal(&name, &out) == 0 && out;
  }
  if (IS(TVMFFIGetCustomAllocator)) {
    const struct mb_object_allocator *allocator = TVMFFIGetCustomAllocator();
    char *object = allocator->allocate(40, 64, MB_ANY_OBJECT, allocator->context);
    if (!object || (uintptr_t)object % 64) return 0;
    memset(object, 1, 40);
    return ((void (**)(void *))(void *)object)[-1](object), 1;
  }
  if (IS(TVMFFISetCustomAllocator))
    return TVMFFISetCustomAllocator(NULL) == 0 &&
           TVMFFISetCustomAllocator(&(struct mb_object_allocator){NULL, NULL}) == -1;
  if (IS(TVMFFIEnvRegisterCAPI)) return TVMFFIEnvRegisterCAPI("PyErr_CheckSignals", &made) == -1;
  if (IS(TVMFFIEnvModRegisterContextSymbol))
    return TVMFFIEnvModRegisterContextSymbol("TVMFFIFunctionCall", &made) == 0 &&
           TVMFFIEnvModRegisterContextSymbol("MyFunction", &made) == -1;
  fprintf(stderr, "no case for %s\n", what);
  return 0;
}

int main(int argc, char **argv) { return argc == 2 && fine(argv[1]) ? 0 : 1; }
