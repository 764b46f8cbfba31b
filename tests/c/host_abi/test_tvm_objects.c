/* test_tvm_objects DIRECTORY: devices, objects and module functions of TVM's C API, and the
 * names that sources of 0.7 and before use. */
#define MBLOB_DLTENSOR_CTX
#include "../common/check_tvm.h"

static const DLDevice cpu = {kDLCPU, 0}, gpu = {kDLMetal, 0};
static const DLDataType float32 = {kDLFloat, 32, 1};

static void streams_of_the_host_are_empty(void) {
  int something = 0;
  TVMStreamHandle stream = &something;
  CHECK(TVMStreamCreate(kDLCPU, 0, &stream) == 0 && !stream);
  CHECK(TVMSetStream(kDLCPU, 0, stream) == 0 && TVMSynchronize(kDLCPU, 0, stream) == 0);
  CHECK(TVMStreamStreamSynchronize(kDLCPU, 0, stream, NULL) == 0);
  CHECK(TVMStreamFree(kDLCPU, 0, stream) == 0);
  FAILS(TVMStreamCreate(kDLMetal, 0, &stream), "no runtime for device type 8");
  FAILS(TVMStreamCreate(kDLCPU, 0, NULL), "out is NULL");
}

static void memory_is_allocated_by_shape(void) {
  void *data = NULL;
  int64_t shape[2] = {3, 5}, huge[2] = {INT64_MAX, INT64_MAX}, negative[1] = {-1};
  CHECK(TVMDeviceAllocDataSpaceWithScope(cpu, 2, shape, float32, NULL, &data) == 0);
  CHECK((uintptr_t)data % 128 == 0);
  memset(data, 1, 3 * 5 * 4);
  CHECK(TVMDeviceFreeDataSpace(cpu, data) == 0);
  CHECK(TVMDeviceAllocDataSpaceWithScope(cpu, 0, NULL, float32, "global", &data) == 0 && data);
  CHECK(TVMDeviceFreeDataSpace(cpu, data) == 0);
  FAILS(TVMDeviceAllocDataSpaceWithScope(cpu, 2, shape, float32, "global.texture", &data),
        "'global.texture'");
  CHECK(!data);
  FAILS(TVMDeviceAllocDataSpaceWithScope(cpu, 2, huge, float32, "", &data), "is impossible");
  FAILS(TVMDeviceAllocDataSpaceWithScope(cpu, 1, negative, float32, "", &data), "shape[0] is -1");
  FAILS(TVMDeviceAllocDataSpaceWithScope(cpu, -1, shape, float32, "", &data), "ndim is -1");
  FAILS(TVMDeviceAllocDataSpaceWithScope(gpu, 2, shape, float32, "", &data),
        "no runtime for device type 8");
  FAILS(TVMDeviceAllocDataSpace(cpu, 8, 129, float32, &data), "impossible");
  FAILS(TVMDeviceAllocDataSpace(cpu, SIZE_MAX, 64, float32, &data), "impossible");
}

static void modules_and_functions_are_objects(TVMModuleHandle module) {
  TVMFunctionHandle function;
  unsigned index = 99, root = 99;
  char *key = NULL;
  int derived = -1;
  CHECK(TVMModGetFunction(module, "vadd", 0, &function) == 0 && function);
  CHECK(TVMObjectTypeKey2Index("runtime.Object", &root) == 0 && root == 0);
  CHECK(TVMObjectGetTypeIndex(module, &index) == 0 && index == 1);
  CHECK(TVMObjectTypeIndex2Key(index, &key) == 0 && strcmp(key, "runtime.Module") == 0);
  free(key);
  CHECK(TVMObjectDerivedFrom(index, root, &derived) == 0 && derived == 1);
  CHECK(TVMObjectDerivedFrom(index, 7, &derived) == 0 && derived == 0);
  CHECK(TVMObjectGetTypeIndex(function, &index) == 0 && index == 7);
  FAILS(TVMObjectTypeKey2Index("relay.Expr", &index), "no object type 'relay.Expr'");
  FAILS(TVMObjectTypeIndex2Key(12345, &key), "no object type 12345");
  CHECK(TVMObjectRetain(function) == 0 && TVMFuncFree(function) == 0);
  TVMValue ret;
  int code;
  FAILS(TVMFuncCall(function, NULL, NULL, 0, &ret, &code),
        "num_args should be 3"); /* still there */
  CHECK(TVMObjectFree(function) == 0);
  CHECK(TVMObjectRetain(module) == 0 && TVMObjectFree(module) == 0 && TVMObjectFree(NULL) == 0);
  DLTensor tensor = {.data = &index};
  FAILS(TVMObjectRetain(&tensor), "no object of this runtime");
  FAILS(TVMObjectGetTypeIndex(NULL, &index), "obj is NULL");
  CHECK(TVMByteArrayFree(NULL) == 0);
}

static int call_global(const char *name, TVMValue *args, int *codes, int count, TVMValue *ret,
                       int *code) {
  TVMFunctionHandle function;
  CHECK(TVMFuncGetGlobal(name, &function) == 0 && function);
  int rc = TVMFuncCall(function, args, codes, count, ret, code);
  CHECK(TVMFuncFree(function) == 0);
  return rc;
}

static void containers_are_objects(void) {
  TVMValue args[4] = {{.v_str = "key"}, {.v_int64 = 7}, {.v_str = "other"}, {.v_float64 = 0.5}},
           map, ret;
  int codes[4] = {kTVMStr, kTVMArgInt, kTVMStr, kTVMArgFloat}, code;
  unsigned index = 0;
  char *key = NULL;
  CHECK(call_global("runtime.Map", args, codes, 4, &map, &code) == 0 && code == kTVMObjectHandle);
  CHECK(TVMObjectGetTypeIndex(map.v_handle, &index) == 0 && index == 5);
  CHECK(TVMObjectTypeIndex2Key(index, &key) == 0 && strcmp(key, "Map") == 0);
  free(key);
  CHECK(TVMObjectRetain(map.v_handle) == 0 && TVMObjectFree(map.v_handle) == 0);
  int get_codes[2] = {kTVMObjectHandle, kTVMStr};
  TVMValue get[2] = {map, {.v_str = "other"}};
  CHECK(call_global("runtime.MapGetItem", get, get_codes, 2, &ret, &code) == 0);
  CHECK(code == kTVMArgFloat && ret.v_float64 == 0.5);
  get[1].v_str = "none";
  FAILS(call_global("runtime.MapGetItem", get, get_codes, 2, &ret, &code),
        "no key 'none' is in the map");
  FAILS(call_global("runtime.ArraySize", get, get_codes, 1, &ret, &code),
        "runtime.ArraySize: argument 0: expected an Array, found a Map");
  FAILS(call_global("runtime.ArraySize", args, codes, 1, &ret, &code),
        "expected an Array, found something else");
  FAILS(call_global("runtime.Map", args, codes, 3, &ret, &code),
        "keys and values in turn, found 3 arguments");
  FAILS(call_global("runtime.ShapeTuple", args, codes, 1, &ret, &code),
        "argument 0: expected an integer");
  /* A callback may keep what it is given. */
  code = kTVMObjectHandle;
  CHECK(TVMCbArgToReturn(&map, &code) == 0 && TVMObjectFree(map.v_handle) == 0);
  CHECK(TVMObjectFree(map.v_handle) == 0);
}

/* What a global function gives for a module and, if `count` is 2, one more argument. */
static int ask(const char *name, TVMModuleHandle module, TVMValue second, int second_code,
               int count, TVMValue *ret, int *code) {
  TVMValue args[2] = {{.v_handle = module}, second};
  int codes[2] = {kTVMModuleHandle, second_code};
  return call_global(name, args, codes, count, ret, code);
}

static void global_functions_ask_modules(TVMModuleHandle module, const char *path) {
  TVMValue ret, arg = {.v_int64 = 0};
  int code;
  CHECK(ask("runtime.ModuleGetTypeKey", module, arg, kTVMArgInt, 1, &ret, &code) == 0);
  CHECK(code == kTVMStr && strcmp(ret.v_str, "library") == 0);
  CHECK(ask("runtime.ModuleImportsSize", module, arg, kTVMArgInt, 1, &ret, &code) == 0 &&
        ret.v_int64 == 0);
  FAILS(ask("runtime.ModuleGetImport", module, arg, kTVMArgInt, 2, &ret, &code),
        "module 'library' has no import 0; it has 0");
  TVMFunctionHandle load;
  TVMModuleHandle other;
  arg.v_str = path;
  int text = kTVMStr;
  CHECK(TVMFuncGetGlobal("runtime.ModuleLoadFromFile", &load) == 0);
  CHECK(TVMFuncCall(load, &arg, &text, 1, &ret, &code) == 0 && code == kTVMModuleHandle);
  CHECK(TVMFuncFree(load) == 0);
  other = ret.v_handle;
  CHECK(TVMModImport(module, other) == 0);
  CHECK(ask("runtime.ModuleImportsSize", module, arg, kTVMArgInt, 1, &ret, &code) == 0 &&
        ret.v_int64 == 1);
  arg.v_int64 = 0;
  CHECK(ask("runtime.ModuleGetImport", module, arg, kTVMArgInt, 2, &ret, &code) == 0 &&
        ret.v_handle == other);
  CHECK(TVMModFree(ret.v_handle) == 0 && TVMModFree(other) == 0);
  arg.v_str = "vadd";
  CHECK(ask("runtime.ModuleImplementsFunction", module, arg, kTVMStr, 2, &ret, &code) == 0 &&
        ret.v_int64 == 1);
  arg.v_str = "nope";
  CHECK(ask("runtime.ModuleImplementsFunction", module, arg, kTVMStr, 2, &ret, &code) == 0 &&
        ret.v_int64 == 0);
  FAILS(ask("runtime.ModuleGetTypeKey", module, arg, kTVMStr, 2, &ret, &code),
        "runtime.ModuleGetTypeKey: expected 1 argument, found 2");
}

static void sources_of_0_7_compile(void) {
  DLTensor tensor = {.data = NULL};
  TVMContext gpu_of_old = {kDLGPU, 1};
  DLContext ctx = {kDLCPU, 0};
  TVMValue value = {.v_ctx = gpu_of_old};
  TVMType type = {kDLInt, 8, 1};
  TVMArray *array = &tensor;
  array->ctx = ctx;
  array->dtype = type;
  CHECK(tensor.device.device_type == kDLCPU && value.v_device.device_type == kDLCUDA);
  CHECK((sizeof(DLTensor) == 48 || sizeof(void *) != 8) && kTVMContext == 6 &&
        kDLCPUPinned == kDLCUDAHost);
}

int main(int argc, char **argv) {
  char path[4096], kernels[4096];
  TVMModuleHandle module;
  CHECK(argc == 2);
  (void)snprintf(path, sizeof(path), "%s/table.so", argv[1]);
  (void)snprintf(kernels, sizeof(kernels), "%s/plain.so", argv[1]);
  CHECK(TVMModLoadFromFile(kernels, "so", &module) == 0);
  streams_of_the_host_are_empty();
  memory_is_allocated_by_shape();
  modules_and_functions_are_objects(module);
  containers_are_objects();
  global_functions_ask_modules(module, path);
  sources_of_0_7_compile();
  CHECK(TVMModFree(module) == 0);
  return 0;
}
