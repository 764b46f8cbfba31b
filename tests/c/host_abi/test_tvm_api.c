/* test_tvm_api DIRECTORY: a host that knows TVM's C API only. */
#include <stdbool.h>
#include <tvm/runtime/c_backend_api.h>

#include "../common/check_tvm.h"

static int greet(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource) {
  (void)args, (void)codes, (void)count;
  TVMValue value = {.v_str = resource};
  int code = kTVMStr;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

static int fail(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource) {
  (void)args, (void)codes, (void)count, (void)ret, (void)resource;
  TVMAPISetLastError("greet: no");
  return -1;
}

static int finalized;
static void finalize(void *resource) {
  free(resource);
  finalized = 1;
}

static void call_a_kernel(const char *directory) {
  char path[4096];
  TVMModuleHandle module;
  TVMFunctionHandle vadd, none;
  snprintf(path, sizeof(path), "%s/plain.so", directory);
  CHECK(TVMModLoadFromFile(path, "so", &module) == 0);
  CHECK(TVMModGetFunction(module, "vadd", 0, &vadd) == 0 && vadd);
  CHECK(TVMModGetFunction(module, "nope", 1, &none) == 0 && !none);
  TVMArrayHandle arrays[3];
  int64_t shape[1] = {100};
  float data[100];
  TVMValue args[3];
  int codes[3] = {kTVMNDArrayHandle, kTVMNDArrayHandle, kTVMNDArrayHandle};
  for (int i = 0; i < 100; i++) data[i] = (float)i;
  for (int i = 0; i < 3; i++) {
    CHECK(TVMArrayAlloc(shape, 1, kDLFloat, 32, 1, kDLCPU, 0, &arrays[i]) == 0);
    CHECK((uintptr_t)arrays[i]->data % 128 == 0);
    CHECK(TVMArrayCopyFromBytes(arrays[i], data, sizeof(data)) == 0);
    args[i].v_handle = arrays[i];
  }
  TVMValue ret;
  int code = -1;
  CHECK(TVMFuncCall(vadd, args, codes, 3, &ret, &code) == 0 && code == kTVMNullptr);
  CHECK(TVMArrayCopyToBytes(arrays[2], data, sizeof(data)) == 0 && data[99] == 198);
  CHECK(TVMArrayCopyToBytes(arrays[2], data, 4) == -1);
  CHECK(TVMFuncCall(vadd, args, codes, 2, &ret, &code) == -1);
  CHECK(strcmp(TVMGetLastError(), "vadd: num_args should be 3") == 0);
  DLManagedTensor *exported;
  TVMArrayHandle again;
  CHECK(TVMArrayToDLPack(arrays[2], &exported) == 0);
  for (int i = 0; i < 3; i++) CHECK(TVMArrayFree(arrays[i]) == 0);
  CHECK(TVMArrayFromDLPack(exported, &again) == 0);
  CHECK(((float *)again->data)[99] == 198 && again->shape[0] == 100);
  CHECK(TVMArrayFree(again) == 0);
  CHECK(TVMArrayAlloc(shape, 1, kDLFloat, 32, 1, kDLCUDA, 0, &again) == -1);
  CHECK(TVMFuncFree(vadd) == 0 && TVMModFree(module) == 0);
  CHECK(TVMModLoadFromFile("/no/such/file.so", "", &module) == -1 && !module);
}

static void free_managed(DLManagedTensor *managed) { managed->manager_ctx = NULL; }

/* As TVM does: kernels of later releases ask for them. */
static void keep_the_strides(void) {
  float data[6] __attribute__((aligned(128)));
  int64_t shape[2] = {2, 3}, strides[2] = {3, 1};
  DLManagedTensor from = {
      {data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, strides, 0}, data, free_managed};
  TVMArrayHandle array;
  CHECK(TVMArrayFromDLPack(&from, &array) == 0);
  CHECK(array->strides && array->strides != strides);
  CHECK(array->strides[0] == 3 && array->strides[1] == 1);
  CHECK(array->data == data && array->shape[1] == 3);
  CHECK(TVMArrayFree(array) == 0 && !from.manager_ctx);
}

static void use_the_registry(void) {
  TVMFunctionHandle function, found;
  char *text = malloc(6);
  memcpy(text, "hello", 6);
  CHECK(TVMFuncCreateFromCFunc(greet, text, finalize, &function) == 0);
  CHECK(TVMFuncRegisterGlobal("test.greet", function, 0) == 0);
  CHECK(TVMFuncRegisterGlobal("test.greet", function, 0) == -1);
  CHECK(TVMFuncRegisterGlobal("test.greet", function, 1) == 0);
  CHECK(TVMFuncFree(function) == 0);
  int count = 0;
  const char **names;
  bool listed = false;
  CHECK(TVMFuncListGlobalNames(&count, &names) == 0 && count > 1);
  for (int i = 0; i < count; i++) listed = listed || strcmp(names[i], "test.greet") == 0;
  CHECK(listed);
  CHECK(TVMFuncGetGlobal("test.greet", &found) == 0 && found);
  TVMValue ret;
  int code;
  CHECK(TVMFuncCall(found, NULL, NULL, 0, &ret, &code) == 0);
  CHECK(code == kTVMStr && strcmp(ret.v_str, "hello") == 0);
  CHECK(TVMFuncFree(found) == 0 && TVMFuncRemoveGlobal("test.greet") == 0 && finalized);
  CHECK(TVMFuncGetGlobal("test.greet", &found) == 0 && !found);
  CHECK(TVMFuncCreateFromCFunc(fail, NULL, NULL, &function) == 0);
  CHECK(TVMFuncCall(function, NULL, NULL, 0, &ret, &code) == -1);
  CHECK(strcmp(TVMGetLastError(), "greet: no") == 0);
  CHECK(TVMFuncFree(function) == 0);
}

static int linked_in(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                     void *resource) {
  (void)args, (void)codes, (void)count, (void)resource;
  ret->v_int64 = 21;
  *ret_code = kTVMArgInt;
  return 0;
}

static void use_a_statically_linked_library(void) {
  static const char entry[] = "linked_in";
  static void *context;
  union {
    TVMBackendPackedCFunc function;
    void *address;
  } code_of = {linked_in};
  TVMFunctionHandle get, function;
  TVMValue arg = {.v_str = "a_"}, ret;
  int code = kTVMStr, ret_code;
  CHECK(TVMFuncGetGlobal("runtime.SystemLib", &get) == 0 && get);
  CHECK(TVMFuncCall(get, &arg, &code, 1, &ret, &ret_code) ==
        0); /* as in TVM: a module of nothing */
  CHECK(TVMModGetFunction(ret.v_handle, "linked_in", 0, &function) == 0 && !function);
  CHECK(TVMModFree(ret.v_handle) == 0);
  CHECK(TVMBackendRegisterSystemLibSymbol("a_linked_in", code_of.address) == 0);
  CHECK(TVMBackendRegisterSystemLibSymbol("a___tvm_main__", (void *)(uintptr_t)entry) == 0);
  CHECK(TVMBackendRegisterSystemLibSymbol("a___tvm_module_ctx", &context) == 0);
  CHECK(TVMFuncCall(get, &arg, &code, 1, &ret, &ret_code) == 0 && ret_code == kTVMModuleHandle &&
        context);
  TVMModuleHandle module = ret.v_handle;
  const char *const names[] = {"linked_in", "a_linked_in", "__tvm_main__"};
  for (int i = 0; i < 3; i++) {
    CHECK(TVMModGetFunction(module, names[i], 0, &function) == 0 && function);
    CHECK(TVMFuncCall(function, NULL, NULL, 0, &ret, &ret_code) == 0 && ret.v_int64 == 21);
    CHECK(TVMFuncFree(function) == 0);
  }
  CHECK(TVMModGetFunction(module, "nope", 0, &function) == 0 && !function);
  CHECK(TVMModFree(module) == 0 && TVMFuncFree(get) == 0);
}

static void keep_values_in_registers(void) {
  struct {
    TVMValue value;
    int code;
  } cells[2] = {{.code = kTVMNullptr}, {.code = kTVMNullptr}};
  char text[] = "on the stack";
  TVMValue args[2] = {{.v_str = text}, {.v_int64 = 7}};
  int codes[2] = {kTVMStr, kTVMArgInt};
  CHECK(TVMBackendAnyListMoveFromPackedReturn(cells, 0, args, codes, 0) == 0 &&
        codes[0] == kTVMNullptr);
  CHECK(TVMBackendAnyListMoveFromPackedReturn(cells, 1, args, codes, 1) == 0);
  memset(text, 0, sizeof(text));
  CHECK(TVMBackendAnyListSetPackedArg(cells, 0, args, codes, 1) == 0);
  CHECK(codes[1] == kTVMStr && strcmp(args[1].v_str, "on the stack") == 0);
  CHECK(TVMBackendAnyListResetItem(cells, 0) == 0 && cells[0].code == kTVMNullptr);
  CHECK(cells[1].value.v_int64 == 7);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  call_a_kernel(argv[1]);
  keep_the_strides();
  use_the_registry();
  keep_values_in_registers();
  CHECK(TVMBackendRegisterEnvCAPI("PyErr_CheckSignals", argv) == 0);
  CHECK(TVMBackendRegisterEnvCAPI("nonsense", argv) == -1);
  use_a_statically_linked_library();
  CHECK(TVMBackendAllocWorkspace(2, 0, 10, 2, 32) == NULL);
  return 0;
}
