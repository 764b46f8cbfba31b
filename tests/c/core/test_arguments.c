/* test_arguments DIRECTORY: what the public functions say about arguments that cannot be. The
 * rows below are a table: a call, and the whole text of its error. */
#include <tvm/runtime/c_backend_api.h>

#include "../common/check.h"

#define NO_PLUGIN \
  "; there is: cpu; plug-ins are looked for in libraries, on MBLOB_PLUGIN_PATH and beside libmblob"

static void refused(int result, int expected, const char *call, const char *text) {
  if (result == expected && strcmp(mblob_last_error(), text) == 0) return;
  fprintf(stderr, "%s\n  gave %d, expected %d\n  found    %s\n  expected %s\n", call, result,
          expected, mblob_last_error(), text);
  exit(1);
}

#define TVM_SAYS(call, text) refused(call, -1, #call, text)
#define MBLOB_SAYS(call, text) refused(call, MBLOB_E_ARGUMENT, #call, text)

static int nothing(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource) {
  (void)args, (void)codes, (void)count, (void)ret, (void)resource;
  return 0;
}

static const DLDevice cpu = {kDLCPU, 0};
static const DLDataType float32 = {kDLFloat, 32, 1};
static uint32_t stranger[4]; /* a handle of something else */

static void modules_and_functions(mblob_module *module, mblob_function *function) {
  void *out = &out;
  TVMValue value = {.v_handle = NULL};
  int code = kTVMNullptr;
  TVM_SAYS(TVMModLoadFromFile(NULL, "so", &out), "TVMModLoadFromFile: file_name is NULL");
  CHECK(!out);
  TVM_SAYS(TVMModLoadFromFile("x.so", "so", NULL), "TVMModLoadFromFile: out is NULL");
  TVM_SAYS(TVMModImport(NULL, module), "TVMModImport: mod is NULL, expected a module");
  TVM_SAYS(TVMModImport(module, NULL), "TVMModImport: dep is NULL, expected a module");
  TVM_SAYS(TVMModImport(module, function), "TVMModImport: dep is a function, expected a module");
  TVM_SAYS(TVMModImport(stranger, module),
           "TVMModImport: mod is no object of this runtime, expected a module");
  TVM_SAYS(TVMModGetFunction(NULL, "f", 0, &out),
           "TVMModGetFunction: mod is NULL, expected a module");
  TVM_SAYS(TVMModGetFunction(function, "f", 0, &out),
           "TVMModGetFunction: mod is a function, expected a module");
  TVM_SAYS(TVMModGetFunction(module, NULL, 0, &out), "TVMModGetFunction: func_name is NULL");
  TVM_SAYS(TVMModGetFunction(module, "f", 0, NULL), "TVMModGetFunction: out is NULL");
  TVM_SAYS(TVMModFree(function), "TVMModFree: mod is a function, expected a module");
  TVM_SAYS(TVMFuncFree(module), "TVMFuncFree: func is a module, expected a function");
  CHECK(TVMModFree(NULL) == 0 && TVMFuncFree(NULL) == 0);
  TVM_SAYS(TVMFuncCall(NULL, &value, &code, 0, &value, &code),
           "TVMFuncCall: func is NULL, expected a function");
  TVM_SAYS(TVMFuncCall(module, &value, &code, 0, &value, &code),
           "TVMFuncCall: func is a module, expected a function");
  TVM_SAYS(TVMFuncCall(function, NULL, &code, 1, &value, &code), "TVMFuncCall: arg_values is NULL");
  TVM_SAYS(TVMFuncCall(function, &value, NULL, 1, &value, &code),
           "TVMFuncCall: type_codes is NULL");
  TVM_SAYS(TVMFuncCall(function, &value, &code, -2, &value, &code),
           "TVMFuncCall: num_args is -2, expected 0 or more");
  TVM_SAYS(TVMFuncCreateFromCFunc(NULL, NULL, NULL, &out), "TVMFuncCreateFromCFunc: func is NULL");
  TVM_SAYS(TVMFuncCreateFromCFunc(nothing, NULL, NULL, NULL),
           "TVMFuncCreateFromCFunc: out is NULL");
  TVM_SAYS(TVMCFuncSetReturn(NULL, &value, &code, 1), "TVMCFuncSetReturn: ret is NULL");
  TVM_SAYS(TVMCFuncSetReturn(&out, NULL, &code, 1), "TVMCFuncSetReturn: value is NULL");
  TVM_SAYS(TVMCFuncSetReturn(&out, &value, NULL, 1), "TVMCFuncSetReturn: type_code is NULL");
  TVM_SAYS(TVMCFuncSetReturn(&out, &value, &code, 2),
           "TVMCFuncSetReturn: num_ret is 2, expected 1");
  TVM_SAYS(TVMCbArgToReturn(NULL, &code), "TVMCbArgToReturn: value is NULL");
  TVM_SAYS(TVMCbArgToReturn(&value, NULL), "TVMCbArgToReturn: code is NULL");
}

static void the_registry(mblob_module *module, mblob_function *function) {
  void *out;
  int count;
  const char **names;
  TVM_SAYS(TVMFuncRegisterGlobal(NULL, function, 1), "TVMFuncRegisterGlobal: name is NULL");
  TVM_SAYS(TVMFuncRegisterGlobal("n", NULL, 1),
           "TVMFuncRegisterGlobal: f is NULL, expected a function");
  TVM_SAYS(TVMFuncRegisterGlobal("n", module, 1),
           "TVMFuncRegisterGlobal: f is a module, expected a function");
  TVM_SAYS(TVMFuncGetGlobal(NULL, &out), "TVMFuncGetGlobal: name is NULL");
  TVM_SAYS(TVMFuncGetGlobal("n", NULL), "TVMFuncGetGlobal: out is NULL");
  TVM_SAYS(TVMFuncListGlobalNames(NULL, &names), "TVMFuncListGlobalNames: out_size is NULL");
  TVM_SAYS(TVMFuncListGlobalNames(&count, NULL), "TVMFuncListGlobalNames: out_array is NULL");
  TVM_SAYS(TVMFuncRemoveGlobal(NULL), "TVMFuncRemoveGlobal: name is NULL");
}

static void element_types(void) {
  const int64_t shape[2] = {2, 3};
  DLTensor *out = NULL;
  void *data = NULL;
  const char *const from_dlpack =
      "TVMArrayFromDLPack: dtype: no data type has the code 77, expected 0 to 17 or 128 to 255";
  const struct {
    int code, bits, lanes;
    const char *text;
  } wrong[] = {
      {77, 32, 1, "dtype: no data type has the code 77, expected 0 to 17 or 128 to 255"},
      {-1, 32, 1, "dtype: no data type has the code -1, expected 0 to 17 or 128 to 255"},
      {kDLFloat + 256, 32, 1,
       "dtype: no data type has the code 258, expected 0 to 17 or 128 to 255"},
      {kDLFloat, 0, 1, "dtype: an element of 0 bits, expected 1 to 255"},
      {kDLFloat, 32 + 256, 1, "dtype: an element of 288 bits, expected 1 to 255"},
      {kDLFloat, 32, 0, "dtype: an element of 0 lanes, expected 1 to 65535"},
      {kDLFloat, 32, 65536, "dtype: an element of 65536 lanes, expected 1 to 65535"},
      {kDLFloat8_e4m3b11fnuz, 32, 1, "dtype: code 9 with elements of 32 bits, expected 8"},
      {kDLBfloat, 8, 1, "dtype: code 4 with elements of 8 bits, expected 16"},
      {kDLFloat4_e2m1fn, 8, 1, "dtype: code 17 with elements of 8 bits, expected 4"},
      {kDLFloat6_e3m2fn, 8, 1, "dtype: code 16 with elements of 8 bits, expected 6"},
      {kDLFloat, 33, 1, "dtype: code 2 with elements of 33 bits, expected 8, 16, 32, 64 or 128"},
      {kDLFloat, 48, 4, "dtype: code 2 with elements of 48 bits, expected 8, 16, 32, 64 or 128"},
      {kDLFloat, 4, 1, "dtype: code 2 with elements of 4 bits, expected 8, 16, 32, 64 or 128"},
      {kDLInt, 65, 1, "dtype: code 0 with elements of 65 bits, expected 1 to 64 or 128"},
      {kDLUInt, 255, 1, "dtype: code 1 with elements of 255 bits, expected 1 to 64 or 128"},
      {kDLOpaqueHandle, 32, 1, "dtype: code 3 with elements of 32 bits, expected 64"},
      {kDLComplex, 96, 1, "dtype: code 5 with elements of 96 bits, expected 32, 64 or 128"},
      {kDLBool, 1, 1, "dtype: code 6 with elements of 1 bits, expected 8"}};
  for (int i = 0; i < COUNT(wrong); i++) {
    char text[256];
    snprintf(text, sizeof(text), "TVMArrayAlloc: %s", wrong[i].text);
    TVM_SAYS(TVMArrayAlloc(shape, 2, wrong[i].code, wrong[i].bits, wrong[i].lanes, kDLCPU, 0, &out),
             text);
    CHECK(!out);
    if (wrong[i].code < 0 || wrong[i].code > 255 || wrong[i].bits > 255 || wrong[i].lanes > 65535)
      continue;
    const DLDataType type = {(uint8_t)wrong[i].code, (uint8_t)wrong[i].bits,
                             (uint16_t)wrong[i].lanes};
    snprintf(text, sizeof(text), "TVMDeviceAllocDataSpaceWithScope: %s", wrong[i].text);
    TVM_SAYS(TVMDeviceAllocDataSpaceWithScope(cpu, 2, shape, type, NULL, &data), text);
  }
  DLManagedTensor managed = {
      .dl_tensor = {.data = &data, .device = cpu, .ndim = 0, .dtype = {77, 32, 1}}};
  TVM_SAYS(TVMArrayFromDLPack(&managed, &out), from_dlpack);
  CHECK(TVMArrayAlloc(shape, 2, 131, 7, 3, kDLCPU, 0, &out) == 0); /* a custom type */
  CHECK(TVMArrayFree(out) == 0);
  const DLDataType possible[] = {
      {kDLInt, 4, 1},     {kDLInt, 24, 1},     {kDLUInt, 1, 1},         {kDLUInt, 128, 1},
      {kDLFloat, 8, 1},   {kDLFloat, 16, 4},   {kDLFloat, 32, 1},       {kDLFloat, 64, 1},
      {kDLFloat, 128, 1}, {kDLComplex, 32, 1}, {kDLComplex, 128, 2},    {kDLOpaqueHandle, 64, 1},
      {kDLBfloat, 16, 1}, {kDLBool, 8, 1},     {kDLFloat6_e2m3fn, 6, 4}};
  for (int i = 0; i < COUNT(possible); i++) {
    const DLDataType t = possible[i];
    CHECK(TVMArrayAlloc(shape, 2, t.code, t.bits, t.lanes, kDLCPU, 0, &out) == 0 &&
          TVMArrayFree(out) == 0);
  }
}

static void shapes(void) {
  const int64_t negative[2] = {2, -5}, huge[3] = {INT64_MAX, 2, 2},
                empty[3] = {INT64_MAX, INT64_MAX, 0};
  DLTensor *out = NULL;
  void *data = NULL;
  TVM_SAYS(TVMArrayAlloc(NULL, 2, kDLFloat, 32, 1, kDLCPU, 0, &out),
           "TVMArrayAlloc: shape is NULL, expected 2 extents");
  TVM_SAYS(TVMArrayAlloc(negative, -1, kDLFloat, 32, 1, kDLCPU, 0, &out),
           "TVMArrayAlloc: ndim is -1, expected 0 to 64");
  TVM_SAYS(TVMArrayAlloc(negative, 65, kDLFloat, 32, 1, kDLCPU, 0, &out),
           "TVMArrayAlloc: ndim is 65, expected 0 to 64");
  TVM_SAYS(TVMArrayAlloc(negative, 2, kDLFloat, 32, 1, kDLCPU, 0, &out),
           "TVMArrayAlloc: shape[1] is -5, expected at least 0");
  TVM_SAYS(TVMArrayAlloc(huge, 3, kDLFloat, 32, 1, kDLCPU, 0, &out),
           "TVMArrayAlloc: the shape is impossible: it has more bytes than memory can");
  TVM_SAYS(TVMArrayAlloc(huge, 3, kDLFloat, 32, 1, kDLCUDA, 0, &out),
           "TVMArrayAlloc: no runtime for device type 2 (cuda) is in this process" NO_PLUGIN);
  TVM_SAYS(TVMArrayAlloc(huge, 3, kDLFloat, 32, 1, kDLCPU, 0, NULL), "TVMArrayAlloc: out is NULL");
  CHECK(TVMArrayAlloc(empty, 3, kDLFloat, 32, 1, kDLCPU, 0, &out) == 0 && TVMArrayFree(out) == 0);
  CHECK(TVMArrayAlloc(NULL, 0, kDLFloat, 32, 1, kDLCPU, 0, &out) == 0 && TVMArrayFree(out) == 0);
  TVM_SAYS(TVMDeviceAllocDataSpaceWithScope(cpu, 2, NULL, float32, NULL, &data),
           "TVMDeviceAllocDataSpaceWithScope: shape is NULL, expected 2 extents");
  TVM_SAYS(TVMDeviceAllocDataSpaceWithScope(cpu, 2, negative, float32, NULL, NULL),
           "TVMDeviceAllocDataSpaceWithScope: out_data is NULL");
  TVM_SAYS(TVMDeviceAllocDataSpace(cpu, 8, 3, float32, NULL),
           "TVMDeviceAllocDataSpace: out_data is NULL");
  TVM_SAYS(TVMDeviceAllocDataSpace(cpu, 8, 129, float32, &data),
           "TVMDeviceAllocDataSpace: 8 bytes aligned to 129 are impossible");
}

static void copies(void) {
  int64_t shape[2] = {2, 3}, columns[2] = {1, 2}, few[1] = {1};
  float values[6] = {0};
  DLTensor *a = NULL, *out = NULL;
  DLManagedTensor *exported = NULL;
  CHECK(TVMArrayAlloc(shape, 2, kDLFloat, 32, 1, kDLCPU, 0, &a) == 0);
  DLTensor bare = {.device = cpu, .ndim = 2, .dtype = float32, .shape = shape};
  DLTensor turned = {.data = values,
                     .device = cpu,
                     .ndim = 2,
                     .dtype = float32,
                     .shape = shape,
                     .strides = columns};
  DLTensor small = {.data = values, .device = cpu, .ndim = 1, .dtype = float32, .shape = few};
  DLTensor shapeless = {.data = values, .device = cpu, .ndim = 1, .dtype = float32};
  DLManagedTensor managed = {.dl_tensor = bare};
  TVM_SAYS(TVMArrayCopyFromBytes(NULL, values, 24), "TVMArrayCopyFromBytes: handle is NULL");
  TVM_SAYS(TVMArrayCopyFromBytes(a, NULL, 24), "TVMArrayCopyFromBytes: data is NULL");
  TVM_SAYS(TVMArrayCopyFromBytes(a, values, 4),
           "TVMArrayCopyFromBytes: the array has 24 bytes, the copy 4");
  TVM_SAYS(TVMArrayCopyToBytes(NULL, values, 24), "TVMArrayCopyToBytes: handle is NULL");
  TVM_SAYS(TVMArrayCopyToBytes(a, NULL, 24), "TVMArrayCopyToBytes: data is NULL");
  TVM_SAYS(TVMArrayCopyToBytes(&bare, values, 24),
           "TVMArrayCopyToBytes: data is NULL, expected 24 bytes");
  TVM_SAYS(TVMArrayCopyFromTo(NULL, a, NULL), "TVMArrayCopyFromTo: from is NULL");
  TVM_SAYS(TVMArrayCopyFromTo(a, NULL, NULL), "TVMArrayCopyFromTo: to is NULL");
  TVM_SAYS(TVMArrayCopyFromTo(&bare, a, NULL),
           "TVMArrayCopyFromTo: from: data is NULL, expected 24 bytes");
  TVM_SAYS(TVMArrayCopyFromTo(a, &turned, NULL),
           "TVMArrayCopyFromTo: to: the strides are not those of compact rows");
  TVM_SAYS(TVMArrayCopyFromTo(a, &small, NULL),
           "TVMArrayCopyFromTo: to: the array has 4 bytes, the copy 24");
  TVM_SAYS(TVMArrayCopyFromTo(&shapeless, a, NULL),
           "TVMArrayCopyFromTo: from: shape is NULL, expected 1 extents");
  TVM_SAYS(TVMDeviceCopyDataFromTo(NULL, a, NULL), "TVMDeviceCopyDataFromTo: from is NULL");
  TVM_SAYS(TVMDeviceCopyDataFromTo(a, NULL, NULL), "TVMDeviceCopyDataFromTo: to is NULL");
  TVM_SAYS(TVMArrayFromDLPack(NULL, &out), "TVMArrayFromDLPack: from is NULL");
  TVM_SAYS(TVMArrayFromDLPack(&managed, NULL), "TVMArrayFromDLPack: out is NULL");
  TVM_SAYS(TVMArrayFromDLPack(&managed, &out),
           "TVMArrayFromDLPack: data is NULL, expected 24 bytes");
  TVM_SAYS(TVMArrayToDLPack(NULL, &exported), "TVMArrayToDLPack: from is NULL");
  TVM_SAYS(TVMArrayToDLPack(a, NULL), "TVMArrayToDLPack: out is NULL");
  TVM_SAYS(TVMStreamCreate(kDLCPU, 0, NULL), "TVMStreamCreate: out is NULL");
  TVM_SAYS(TVMSynchronize(kDLMetal, 0, NULL),
           "TVMSynchronize: no runtime for device type 8 (metal) is in this process" NO_PLUGIN);
  CHECK(TVMArrayFree(a) == 0 && TVMArrayFree(NULL) == 0);
}

static void objects(mblob_module *module) {
  unsigned index = 0;
  char *key = NULL;
  TVM_SAYS(TVMObjectGetTypeIndex(NULL, &index),
           "TVMObjectGetTypeIndex: obj is NULL, expected a module, a function or a container");
  TVM_SAYS(TVMObjectGetTypeIndex(module, NULL), "TVMObjectGetTypeIndex: out_tindex is NULL");
  TVM_SAYS(TVMObjectTypeKey2Index(NULL, &index), "TVMObjectTypeKey2Index: type_key is NULL");
  TVM_SAYS(TVMObjectTypeKey2Index("runtime.Object", NULL),
           "TVMObjectTypeKey2Index: out_tindex is NULL");
  TVM_SAYS(TVMObjectTypeIndex2Key(0, NULL), "TVMObjectTypeIndex2Key: out_type_key is NULL");
  TVM_SAYS(TVMObjectTypeIndex2Key(999, &key),
           "TVMObjectTypeIndex2Key: no object type 999 is in this runtime");
  TVM_SAYS(
      TVMObjectRetain(stranger),
      "TVMObjectRetain: obj is no object of this runtime, expected a module, a function or a container");
  TVM_SAYS(
      TVMObjectFree(stranger),
      "TVMObjectFree: obj is no object of this runtime, expected a module, a function or a container");
  TVM_SAYS(TVMObjectDerivedFrom(1, 0, NULL), "TVMObjectDerivedFrom: is_derived is NULL");
}

/* A cell keeps what it holds when the value that should replace it is none. */
static void moved_values_are_checked(void) {
  struct {
    TVMValue value;
    int code;
  } cell = {{.v_int64 = 41}, kTVMArgInt};
  TVMByteArray lost = {NULL, 3};
  const struct {
    TVMValue value;
    int code;
    const char *text;
  } wrong[] = {{{.v_int64 = 5}, 99, "return value: type code 99 cannot be returned"},
               {{.v_int64 = 5}, -1, "return value: type code -1 cannot be returned"},
               {{.v_str = NULL}, kTVMStr, "return value: a string that is NULL"},
               {{.v_handle = NULL}, kTVMBytes, "return value: bytes that are NULL"},
               {{.v_handle = &lost}, kTVMBytes, "return value: 3 bytes whose data is NULL"}};
  for (int i = 0; i < COUNT(wrong); i++) {
    TVMValue value = wrong[i].value;
    int code = wrong[i].code;
    char text[128];
    snprintf(text, sizeof(text), "TVMBackendAnyListMoveFromPackedReturn: %s", wrong[i].text);
    TVM_SAYS(TVMBackendAnyListMoveFromPackedReturn(&cell, 0, &value, &code, 0), text);
    CHECK(cell.code == kTVMArgInt && cell.value.v_int64 == 41 && code == wrong[i].code);
  }
}

static void what_kernels_call(void) {
  void *out;
  TVMValue value = {.v_handle = NULL};
  int code = kTVMNullptr;
  TVM_SAYS(TVMBackendGetFuncFromEnv(NULL, NULL, &out),
           "TVMBackendGetFuncFromEnv: func_name is NULL");
  TVM_SAYS(TVMBackendGetFuncFromEnv(NULL, "f", NULL), "TVMBackendGetFuncFromEnv: out is NULL");
  TVM_SAYS(TVMBackendParallelLaunch(NULL, NULL, 1), "TVMBackendParallelLaunch: flambda is NULL");
  TVM_SAYS(TVMBackendParallelBarrier(0, NULL), "TVMBackendParallelBarrier: penv is NULL");
  TVM_SAYS(TVMBackendRunOnce(NULL, NULL, NULL, 0), "TVMBackendRunOnce: handle is NULL");
  TVM_SAYS(TVMBackendRunOnce(&out, NULL, NULL, 0), "TVMBackendRunOnce: f is NULL");
  TVM_SAYS(TVMBackendRegisterEnvCAPI(NULL, NULL), "TVMBackendRegisterEnvCAPI: name is NULL");
  TVM_SAYS(TVMBackendRegisterSystemLibSymbol(NULL, &code),
           "TVMBackendRegisterSystemLibSymbol: name is NULL");
  TVM_SAYS(TVMBackendRegisterSystemLibSymbol("n", NULL),
           "TVMBackendRegisterSystemLibSymbol: ptr is NULL");
  TVM_SAYS(TVMBackendAnyListSetPackedArg(NULL, 0, &value, &code, 0),
           "TVMBackendAnyListSetPackedArg: anylist is NULL");
  TVM_SAYS(TVMBackendAnyListSetPackedArg(&value, 0, NULL, &code, 0),
           "TVMBackendAnyListSetPackedArg: args is NULL");
  TVM_SAYS(TVMBackendAnyListSetPackedArg(&value, 0, &value, NULL, 0),
           "TVMBackendAnyListSetPackedArg: type_codes is NULL");
  TVM_SAYS(TVMBackendAnyListResetItem(NULL, 0), "TVMBackendAnyListResetItem: anylist is NULL");
  TVM_SAYS(TVMBackendAnyListMoveFromPackedReturn(NULL, 0, &value, &code, 0),
           "TVMBackendAnyListMoveFromPackedReturn: anylist is NULL");
  moved_values_are_checked();
}

static void the_face_of_mblob(mblob_module *module, mblob_function *function) {
  mblob_module *out = module;
  mblob_function *found = function;
  const void *data;
  size_t size;
  DLTensor tensor;
  TVMValue value = {.v_handle = NULL};
  const int code = kTVMNullptr;
  mblob_loader loader = {.struct_size = 8};
  MBLOB_SAYS(mblob_open(NULL, NULL, &out), "mblob_open: path is NULL");
  CHECK(!out);
  MBLOB_SAYS(mblob_open("x.so", NULL, NULL), "mblob_open: out is NULL");
  MBLOB_SAYS(mblob_open_fd(0, NULL, NULL), "mblob_open_fd: out is NULL");
  MBLOB_SAYS(mblob_open_memory(NULL, 1, NULL, &out), "mblob_open_memory: data is NULL");
  MBLOB_SAYS(mblob_open_memory(&code, 1, NULL, NULL), "mblob_open_memory: out is NULL");
  MBLOB_SAYS(mblob_system_lib(NULL, &out), "mblob_system_lib: prefix is NULL");
  MBLOB_SAYS(mblob_system_lib("", NULL), "mblob_system_lib: out is NULL");
  MBLOB_SAYS(mblob_module_import(NULL, module),
             "mblob_module_import: module is NULL, expected a module");
  MBLOB_SAYS(mblob_module_import(module, NULL),
             "mblob_module_import: child is NULL, expected a module");
  MBLOB_SAYS(mblob_module_payload(NULL, &data, &size),
             "mblob_module_payload: module is NULL, expected a module");
  MBLOB_SAYS(mblob_module_payload(module, NULL, &size), "mblob_module_payload: data is NULL");
  MBLOB_SAYS(mblob_module_payload(module, &data, NULL), "mblob_module_payload: size is NULL");
  MBLOB_SAYS(mblob_module_payload_by_key(NULL, "k", &data, &size),
             "mblob_module_payload_by_key: module is NULL, expected a module");
  MBLOB_SAYS(mblob_module_payload_by_key(module, NULL, &data, &size),
             "mblob_module_payload_by_key: type_key is NULL");
  MBLOB_SAYS(mblob_module_payload_by_key(module, "k", NULL, &size),
             "mblob_module_payload_by_key: data is NULL");
  MBLOB_SAYS(mblob_module_payload_by_key(module, "k", &data, NULL),
             "mblob_module_payload_by_key: size is NULL");
  MBLOB_SAYS(mblob_module_function(NULL, "f", 0, &found),
             "mblob_module_function: module is NULL, expected a module");
  CHECK(!found);
  MBLOB_SAYS(mblob_module_function(module, NULL, 0, &found), "mblob_module_function: name is NULL");
  MBLOB_SAYS(mblob_module_function(module, "f", 0, NULL), "mblob_module_function: out is NULL");
  MBLOB_SAYS(mblob_module_tensor(NULL, "w", &tensor),
             "mblob_module_tensor: module is NULL, expected a module");
  MBLOB_SAYS(mblob_module_tensor(module, NULL, &tensor), "mblob_module_tensor: name is NULL");
  MBLOB_SAYS(mblob_module_tensor(module, "w", NULL), "mblob_module_tensor: out is NULL");
  MBLOB_SAYS(mblob_function_call(NULL, &value, &code, 0, NULL, NULL),
             "mblob_function_call: function is NULL, expected a function");
  MBLOB_SAYS(mblob_function_call(function, NULL, &code, 1, NULL, NULL),
             "mblob_function_call: args is NULL");
  MBLOB_SAYS(mblob_function_call(function, &value, NULL, 1, NULL, NULL),
             "mblob_function_call: codes is NULL");
  MBLOB_SAYS(mblob_function_call(function, &value, &code, -1, NULL, NULL),
             "mblob_function_call: count is -1, expected 0 or more");
  MBLOB_SAYS(mblob_call(NULL, "f", ""), "mblob_call: module is NULL, expected a module");
  MBLOB_SAYS(mblob_call(module, NULL, ""), "mblob_call: name is NULL");
  MBLOB_SAYS(mblob_call(module, "f", NULL), "mblob_call: types is NULL");
  MBLOB_SAYS(mblob_function_create(NULL, NULL, NULL, &found),
             "mblob_function_create: call is NULL");
  MBLOB_SAYS(mblob_function_create(nothing, NULL, NULL, NULL),
             "mblob_function_create: out is NULL");
  MBLOB_SAYS(mblob_register_global(NULL, function, 1), "mblob_register_global: name is NULL");
  MBLOB_SAYS(mblob_register_global("n", NULL, 1),
             "mblob_register_global: function is NULL, expected a function");
  MBLOB_SAYS(mblob_get_global(NULL, &found), "mblob_get_global: name is NULL");
  MBLOB_SAYS(mblob_get_global("n", NULL), "mblob_get_global: out is NULL");
  MBLOB_SAYS(mblob_register_loader(NULL), "mblob_register_loader: loader is NULL");
  MBLOB_SAYS(mblob_module_create(NULL, NULL, &out), "mblob_module_create: loader is NULL");
  MBLOB_SAYS(mblob_module_create(&loader, NULL, NULL), "mblob_module_create: out is NULL");
  MBLOB_SAYS(mblob_module_create(&loader, NULL, &out),
             sizeof(void *) == 8 ? "mblob_module_create: struct_size is 8, expected 48"
                                 : "mblob_module_create: struct_size is 8, expected 24");
  loader.struct_size = sizeof(loader);
  MBLOB_SAYS(mblob_register_loader(&loader), "mblob_register_loader: loader->type_key is NULL");
  loader.type_key = "";
  MBLOB_SAYS(mblob_register_loader(&loader), "mblob_register_loader: loader->type_key is empty");
}

/* What the functions of the runtime say about values. */
static void values(void) {
  TVMValue value = {.v_handle = NULL};
  TVMByteArray bytes = {NULL, 5};
  mblob_function *type_key, *load, *give;
  CHECK(mblob_get_global("runtime.ModuleGetTypeKey", &type_key) == MBLOB_OK);
  CHECK(mblob_get_global("runtime.ModuleLoadFromFile", &load) == MBLOB_OK);
  CHECK(mblob_get_global("runtime.Load_Executable", &give) == MBLOB_OK);
#define CALL_SAYS(function, type_code, text)                                        \
  do {                                                                              \
    int given = type_code;                                                          \
    MBLOB_SAYS(mblob_function_call(function, &value, &given, 1, NULL, NULL), text); \
  } while (0)
  CALL_SAYS(type_key, kTVMModuleHandle,
            "runtime.ModuleGetTypeKey: argument 0: expected a module, found a module that is NULL");
  CALL_SAYS(type_key, kTVMNullptr,
            "runtime.ModuleGetTypeKey: argument 0: expected a module, found None");
  CALL_SAYS(
      load, kTVMStr,
      "runtime.ModuleLoadFromFile: argument 0: expected a string, found a string that is NULL");
  value.v_handle = stranger;
  CALL_SAYS(
      type_key, kTVMModuleHandle,
      "runtime.ModuleGetTypeKey: argument 0: expected a module, found no object of this runtime");
  value.v_handle = type_key;
  CALL_SAYS(type_key, kTVMModuleHandle,
            "runtime.ModuleGetTypeKey: argument 0: expected a module, found a function");
  value.v_handle = &bytes;
  CALL_SAYS(give, kTVMBytes, "runtime.Load_Executable: argument 0: 5 bytes whose data is NULL");
  mblob_function_release(type_key);
  mblob_function_release(load);
  mblob_function_release(give);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  mblob_module *module = open_ok(argv[1], "plain.so");
  mblob_function *function;
  CHECK(mblob_function_create(nothing, NULL, NULL, &function) == MBLOB_OK);
  RUN(modules_and_functions, module, function);
  RUN(the_registry, module, function);
  RUN(element_types);
  RUN(shapes);
  RUN(copies);
  RUN(objects, module);
  RUN(what_kernels_call);
  RUN(the_face_of_mblob, module, function);
  RUN(values);
  mblob_function_release(function);
  mblob_module_release(module);
  return 0;
}
