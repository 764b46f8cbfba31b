/* Plug-ins: where they are found and in which order, what is told when one cannot be used, and
 * the memory of their devices. Each way of finding runs in a process of its own, since what was
 * started stays. */
#define _GNU_SOURCE
#include <sys/stat.h>
#include <tvm/runtime/c_backend_api.h>

#include "../common/check.h"

extern const mblob_plugin
    __mblob_plugin_toy; /* kernels/plugin_toy.c, linked into this program: number 4 */

static const char *libraries;

static const char *place(const char *name) {
  static char paths[4][4096];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof(paths[0]), "%s/%s", libraries, name);
  return path;
}

static int status_of(mblob_module *module, const char *name, int64_t *value) {
  mblob_function *function;
  TVMValue ret;
  int code, status = mblob_module_function(module, name, 1, &function);
  if (status) return status;
  status = mblob_function_call(function, NULL, NULL, 0, &ret, &code);
  *value = status || code != kTVMArgInt ? -1 : ret.v_int64;
  mblob_function_release(function);
  return status;
}

/* What in_child says in a library: which plug-in serves it. */
static int64_t child_of(const char *file) {
  mblob_module *module;
  int64_t value;
  CHECK(mblob_open(place(file), NULL, &module) == MBLOB_OK);
  CHECK(status_of(module, "in_child", &value) == MBLOB_OK);
  mblob_module_release(module);
  return value;
}

static void fails_with(const char *file, int status, const char *text) {
  mblob_module *module;
  int64_t value;
  int found = mblob_open(place(file), NULL, &module);
  if (!found) found = status_of(module, "in_child", &value);
  CHECK(found == status);
  CHECK(strstr(mblob_last_error(), text));
  mblob_module_release(module);
}

/* ---- finding --------------------------------------------------------------------------------- */

static void one_on_the_path_is_found(void) {
  setenv("MBLOB_PLUGIN_PATH", place("plugins_a"), 1);
  CHECK(child_of("keyed.so") == 15);
  CHECK(child_of("keyed.so") == 15);
}

static void a_file_on_the_path_is_found(void) {
  setenv("MBLOB_PLUGIN_PATH", place("plugins_b/toy6.so"), 1);
  CHECK(child_of("keyed.so") == 65);
}

static void the_first_folder_counts(void) {
  char path[8300];
  snprintf(path, sizeof(path), ":/nowhere:%s:%s", place("plugins_b"), place("plugins_a"));
  setenv("MBLOB_PLUGIN_PATH", path, 1);
  CHECK(child_of("keyed.so") == 65);
}

static void two_in_one_folder_are_an_error(void) {
  setenv("MBLOB_PLUGIN_PATH", place("plugins_two"), 1);
  fails_with("keyed.so", MBLOB_E_LOADER, "two plug-ins serve type key 'my_key'");
  fails_with("keyed.so", MBLOB_E_LOADER, "toy1.so");
}

static void a_carried_one_comes_before_the_path(void) {
  setenv("MBLOB_PLUGIN_PATH", place("plugins_a"), 1);
  CHECK(child_of("carries.so") == 75);
  CHECK(child_of("keyed.so") == 75); /* the copy that was first has the device */
}

static void a_registered_one_comes_first(void) {
  setenv("MBLOB_PLUGIN_PATH", place("plugins_a"), 1);
  CHECK(mblob_register_plugin(&__mblob_plugin_toy) == MBLOB_OK);
  CHECK(mblob_register_plugin(&__mblob_plugin_toy) == MBLOB_OK);
  CHECK(child_of("carries.so") == 45);
  CHECK(child_of("keyed.so") == 45);
}

static void one_of_another_version_is_told(void) {
  setenv("MBLOB_PLUGIN_PATH", place("plugins_abi"), 1);
  fails_with("keyed.so", MBLOB_E_LOADER, "no loader for type key 'my_key' (entry 1)");
  fails_with("keyed.so", MBLOB_E_LOADER, "version 99 of the plug-in interface, here is 1");
  fails_with("keyed.so", MBLOB_E_LOADER, "MBLOB_PLUGIN_PATH");
}

static void one_whose_table_lies_is_refused(void) {
  setenv("MBLOB_PLUGIN_PATH", place("plugins_lies"), 1);
  fails_with("keyed.so", MBLOB_E_INCOMPATIBLE,
             "its texts list other keys or devices than its tables");
}

static void one_that_cannot_start_says_why_and_may_start_later(void) {
  mblob_module *module;
  int64_t value;
  setenv("MBLOB_PLUGIN_PATH", place("plugins_a"), 1);
  setenv("TOY_FAILS", "1", 1);
  CHECK(mblob_open(place("keyed.so"), NULL, &module) ==
        MBLOB_OK); /* no code of the plug-in ran yet */
  CHECK(status_of(module, "in_child", &value) == MBLOB_E_INCOMPATIBLE);
  CHECK(strstr(mblob_last_error(), "plug-in 'toy'") &&
        strstr(mblob_last_error(), "libtoy.so.1 is not installed"));
  CHECK(status_of(module, "which", &value) == MBLOB_OK &&
        value == 0); /* the rest of the library works */
  unsetenv("TOY_FAILS");
  CHECK(status_of(module, "in_child", &value) == MBLOB_OK && value == 15);
  mblob_module_release(module);
}

static void in_child_fails(int status, const char *text) {
  mblob_module *module;
  int64_t value;
  CHECK(mblob_open(place("keyed.so"), NULL, &module) == MBLOB_OK);
  CHECK(status_of(module, "in_child", &value) == status);
  CHECK(mblob_last_error_info()->status == status && strstr(mblob_last_error(), text));
  mblob_module_release(module);
}

static void the_status_of_one_that_fails_without_a_text_is_told(void) {
  setenv("MBLOB_PLUGIN_PATH", place("plugins_a"), 1);
  setenv("TOY_FAILS_AS_OK", "1", 1); /* no failure is a success */
  in_child_fails(MBLOB_E_KERNEL, "libtoy.so.1 is odd");
  setenv("TOY_STARTS_AS", "60", 1);
  in_child_fails(MBLOB_E_IO, "its start failed with status 60 (MBLOB_E_IO) and gave no reason");
  setenv("TOY_STARTS_AS", "-3", 1);
  in_child_fails(MBLOB_E_INCOMPATIBLE, "its start failed with status -3 and gave no reason");
  unsetenv("TOY_STARTS_AS"), unsetenv("TOY_FAILS_AS_OK");
  setenv("TOY_OPENS_AS", "70", 1);
  in_child_fails(MBLOB_E_MEMORY,
                 "open of its plug-in failed with status 70 (MBLOB_E_MEMORY) and gave no reason");
  setenv("TOY_OPENS_AS", "71", 1);
  in_child_fails(MBLOB_E_LOADER, "open of its plug-in failed with status 71 and gave no reason");
  unsetenv("TOY_OPENS_AS");
  CHECK(child_of("keyed.so") == 15);
}

static int count_found(void *context, const mblob_plugin_found *found) {
  int *counts = context;
  CHECK(found->struct_size == sizeof(*found));
  counts[0] += strcmp(found->name, "toy") == 0 && strcmp(found->type_keys, "my_key") == 0;
  counts[1] += *found->problem != 0;
  counts[2] += strcmp(found->origin, "process") == 0;
  return 0;
}

static void all_are_listed_and_describe_themselves(void) {
  char path[8300], text[64];
  int counts[3] = {0, 0, 0};
  mblob_module *module;
  snprintf(path, sizeof(path), "%s:%s", place("plugins_a"), place("plugins_abi"));
  setenv("MBLOB_PLUGIN_PATH", path, 1);
  CHECK(mblob_plugin_describe("toy", text, sizeof(text)) == MBLOB_OK &&
        strcmp(text, "toy number 1") == 0);
  CHECK(mblob_register_plugin(&__mblob_plugin_toy) == MBLOB_OK);
  CHECK(mblob_open(place("carries.so"), NULL, &module) == MBLOB_OK);
  CHECK(mblob_plugins(count_found, counts) == 0);
  CHECK(counts[0] == 3 && counts[1] == 1 && counts[2] == 1);
  CHECK(mblob_plugin_describe("toy", text, 5) == MBLOB_OK && strcmp(text, "toy ") == 0);
  CHECK(mblob_plugin_describe("none", text, sizeof(text)) == MBLOB_E_NOT_FOUND);
  mblob_module_release(module);
}

static int name_all(void *context, const mblob_plugin_found *found) {
  if (strcmp(found->origin, "process") == 0)
    snprintf((char *)context + strlen(context), 32, "%s ", found->name);
  return 0;
}

static void the_last_one_registered_counts_and_is_listed_first(void) {
  static mblob_plugin other;
  char names[256] = "";
  other = __mblob_plugin_toy;
  strcpy(other.name, "other");
  CHECK(mblob_register_plugin(&__mblob_plugin_toy) == MBLOB_OK &&
        mblob_register_plugin(&other) == MBLOB_OK);
  CHECK(mblob_plugins(name_all, names) == 0 && strcmp(names, "other toy ") == 0);
  CHECK(mblob_register_plugin(&__mblob_plugin_toy) == MBLOB_OK); /* once more */
  *names = 0;
  CHECK(mblob_plugins(name_all, names) == 0 && strcmp(names, "toy other ") == 0);
  other.abi_version = 7;
  CHECK(mblob_register_plugin(&other) == MBLOB_E_INCOMPATIBLE);
  CHECK(strstr(mblob_last_error(), "plug-in 'other' (process): it is built for version 7"));
}

static int last_function(void *self, const char *name, mblob_function **out) {
  (void)self, (void)name;
  *out = NULL;
  return mblob_set_error(MBLOB_E_KERNEL, "the last loader");
}

static void a_last_loader_is_asked_behind_all_plug_ins(void) {
  mblob_loader loader = {
      .struct_size = sizeof(loader), .type_key = "my_key", .function = last_function};
  CHECK(mblob_register_last_loader(NULL) == MBLOB_E_ARGUMENT);
  CHECK(mblob_register_last_loader(&loader) == MBLOB_OK);
  fails_with("keyed.so", MBLOB_E_KERNEL, "the last loader");
  CHECK(child_of("carries.so") == 75);
  setenv("MBLOB_PLUGIN_PATH", place("plugins_a"), 1);
  CHECK(child_of("keyed.so") == 75); /* the copy of the carried one, which was started */
  loader.function = NULL;
  CHECK(mblob_register_last_loader(&loader) == MBLOB_OK);
}

static void devices_go_by_the_names_of_their_plug_ins(void) {
  int type = 0;
  CHECK(mblob_device_type("toy", &type) == MBLOB_E_NOT_FOUND &&
        strstr(mblob_last_error(), "'toy'"));
  setenv("MBLOB_PLUGIN_PATH", place("plugins_a"), 1);
  CHECK(mblob_device_type("ext_dev", &type) == MBLOB_OK && type == 12);
  CHECK(mblob_device_type("toy", &type) == MBLOB_OK && type == 12);
  CHECK(mblob_device_type("cpu", &type) == MBLOB_OK && type == kDLCPU);
  CHECK(mblob_device_type(NULL, &type) == MBLOB_E_ARGUMENT &&
        mblob_device_type("toy", NULL) == MBLOB_E_ARGUMENT);
}

/* ---- modules --------------------------------------------------------------------------------- */

static void functions_outlive_the_module_and_errors_travel(void) {
  mblob_module *module;
  mblob_function *function;
  int64_t value;
  CHECK(mblob_register_plugin(&__mblob_plugin_toy) == MBLOB_OK);
  CHECK(mblob_open(place("keyed.so"), NULL, &module) == MBLOB_OK);
  CHECK(status_of(module, "fails", &value) == MBLOB_E_KERNEL &&
        strstr(mblob_last_error(), "fails as it should"));
  CHECK(status_of(module, "silent", &value) == MBLOB_E_KERNEL &&
        strstr(mblob_last_error(), "gave no reason"));
  CHECK(status_of(module, "unknown", &value) == MBLOB_E_NOT_FOUND);
  CHECK(strstr(mblob_last_error(), "in_child, sum, fails, silent"));
  CHECK(mblob_module_function(module, "in_child", 1, &function) == MBLOB_OK);
  mblob_module_release(module);
  TVMValue ret;
  int code;
  CHECK(mblob_function_call(function, NULL, NULL, 0, &ret, &code) == MBLOB_OK && ret.v_int64 == 45);
  mblob_function_release(function); /* toy_close checks that all came back */
}

/* ---- devices --------------------------------------------------------------------------------- */

static const int64_t one[] = {1}, many[] = {1 << 23};

static void memory_of_a_device(void) {
  DLTensor *a, *b, *c, *host;
  float value = 5, got = 0;
  mblob_module *module;
  mblob_function *function;
  TVMValue args[3], ret;
  int codes[] = {kTVMNDArrayHandle, kTVMNDArrayHandle, kTVMNDArrayHandle}, code;
  setenv("MBLOB_PLUGIN_PATH", place("plugins_a"), 1);
  CHECK(TVMArrayAlloc(one, 1, kDLFloat, 32, 1, 12, 2, &a) == -1 &&
        strstr(TVMGetLastError(), "toy: no device 2; there are 2"));
  CHECK(TVMArrayAlloc(one, 1, kDLFloat, 32, 1, 7, 0, &a) == -1 &&
        strstr(TVMGetLastError(), "vulkan"));
  CHECK(TVMArrayAlloc(many, 1, kDLFloat, 32, 1, 12, 0, &a) == -1 &&
        strstr(TVMGetLastError(), "16 MiB"));
  CHECK(TVMArrayAlloc(one, 1, kDLFloat, 32, 1, 12, 0, &a) == 0 && a->device.device_type == 12);
  CHECK(TVMArrayAlloc(one, 1, kDLFloat, 32, 1, 12, 1, &b) == 0 && b->device.device_id == 1);
  CHECK(TVMArrayAlloc(one, 1, kDLFloat, 32, 1, 12, 1, &c) == 0);
  CHECK(TVMArrayAlloc(one, 1, kDLFloat, 32, 1, kDLCPU, 0, &host) == 0);
  CHECK(TVMArrayCopyFromBytes(a, &value, sizeof(value)) == 0);
  CHECK(TVMArrayCopyFromTo(a, b, NULL) == 0);
  CHECK(TVMArrayCopyFromTo(b, host, NULL) == 0 && *(float *)host->data == 5);
  CHECK(mblob_open(place("keyed.so"), NULL, &module) == MBLOB_OK);
  CHECK(mblob_module_function(module, "sum", 1, &function) == MBLOB_OK);
  args[0].v_handle = a, args[1].v_handle = b, args[2].v_handle = c;
  CHECK(mblob_function_call(function, args, codes, 3, &ret, &code) == MBLOB_OK &&
        ret.v_int64 == -1);
  CHECK(TVMArrayCopyToBytes(c, &got, sizeof(got)) == 0 && got == 10);
  CHECK(TVMArrayCopyToBytes(c, &got, 3) == -1 && strstr(TVMGetLastError(), "4 bytes"));
  mblob_function_release(function);
  mblob_module_release(module);
  TVMArrayFree(a), TVMArrayFree(b), TVMArrayFree(c), TVMArrayFree(host);
}

static void streams_attributes_and_the_current_device(void) {
  mblob_function *function;
  TVMStreamHandle stream = &function;
  setenv("MBLOB_PLUGIN_PATH", place("plugins_a"), 1);
  CHECK(TVMStreamCreate(12, 0, &stream) == 0 &&
        !stream); /* the toy has none: all work is done when a call returns */
  CHECK(TVMSetStream(12, 0, stream) == 0 && TVMSynchronize(12, 0, stream) == 0 &&
        TVMStreamFree(12, 0, stream) == 0);
  CHECK(TVMSynchronize(7, 0, NULL) == -1);
  TVMValue args[] = {{.v_int64 = 12}, {.v_int64 = 1}, {.v_int64 = MBLOB_DEVICE_WARP_SIZE}}, ret;
  int codes[] = {kTVMArgInt, kTVMArgInt, kTVMArgInt}, code;
  CHECK(mblob_get_global("runtime.GetDeviceAttr", &function) == MBLOB_OK);
  CHECK(mblob_function_call(function, args, codes, 3, &ret, &code) == MBLOB_OK &&
        code == kTVMArgInt && ret.v_int64 == 7);
  args[2].v_int64 = MBLOB_DEVICE_NAME;
  CHECK(mblob_function_call(function, args, codes, 3, &ret, &code) == MBLOB_OK && code == kTVMStr &&
        !strcmp(ret.v_str, "toy 1"));
  args[2].v_int64 = MBLOB_DEVICE_MAX_CLOCK_RATE;
  CHECK(mblob_function_call(function, args, codes, 3, &ret, &code) == MBLOB_OK &&
        code == kTVMNullptr);
  args[1].v_int64 = 5, args[2].v_int64 = MBLOB_DEVICE_EXISTS;
  CHECK(mblob_function_call(function, args, codes, 3, &ret, &code) == MBLOB_OK &&
        code == kTVMArgInt && ret.v_int64 == 0);
  mblob_function_release(function);
  CHECK(mblob_get_global("__tvm_set_device", &function) == MBLOB_OK);
  args[1].v_int64 = 1;
  CHECK(mblob_function_call(function, args, codes, 2, &ret, &code) == MBLOB_OK);
  args[1].v_int64 = 9;
  CHECK(mblob_function_call(function, args, codes, 2, &ret, &code) == MBLOB_E_INCOMPATIBLE);
  mblob_function_release(function);
}

static void workspaces_of_a_device(void) {
  setenv("MBLOB_PLUGIN_PATH", place("plugins_a"), 1);
  void *first = TVMBackendAllocWorkspace(12, 1, 100, kDLFloat, 32),
       *host = TVMBackendAllocWorkspace(kDLCPU, 0, 64, kDLFloat, 32);
  CHECK(first && (uintptr_t)first < 0x2000 && host);
  CHECK(TVMBackendFreeWorkspace(12, 0, first) == -1); /* of another device */
  CHECK(TVMBackendFreeWorkspace(12, 1, first) == 0);
  CHECK(TVMBackendAllocWorkspace(12, 1, 50, kDLFloat, 32) == first); /* kept for the next call */
  CHECK(TVMBackendFreeWorkspace(12, 1, first) == 0 &&
        TVMBackendFreeWorkspace(kDLCPU, 0, host) == 0);
  CHECK(!TVMBackendAllocWorkspace(7, 0, 8, kDLFloat, 32) &&
        strstr(TVMGetLastError(), "no runtime for device type 7"));
  CHECK(!TVMBackendAllocWorkspace(12, 0, 1 << 25, kDLFloat, 32) &&
        strstr(TVMGetLastError(), "16 MiB"));
}

static void a_carried_device_outlives_its_library(void) {
  mblob_module *module;
  DLTensor *a;
  float value = 3, got = 0;
  CHECK(mblob_open(place("carries.so"), NULL, &module) == MBLOB_OK);
  CHECK(TVMArrayAlloc(one, 1, kDLFloat, 32, 1, 12, 0, &a) == 0);
  mblob_module_release(module);
  CHECK(TVMArrayCopyFromBytes(a, &value, sizeof(value)) == 0 &&
        TVMArrayCopyToBytes(a, &got, sizeof(got)) == 0 && got == 3);
  TVMArrayFree(a);
}

/* Memory of the copy that was first goes to the kernels of both libraries. */
static void adds_up(const char *file) {
  DLTensor *a, *b;
  float value = 3, got = 0;
  mblob_module *module;
  mblob_function *function;
  TVMValue args[2], ret;
  int codes[] = {kTVMNDArrayHandle, kTVMNDArrayHandle}, code;
  CHECK(mblob_open(place(file), NULL, &module) == MBLOB_OK);
  CHECK(mblob_module_function(module, "sum", 1, &function) == MBLOB_OK);
  CHECK(TVMArrayAlloc(one, 1, kDLFloat, 32, 1, 12, 0, &a) == 0 &&
        TVMArrayAlloc(one, 1, kDLFloat, 32, 1, 12, 0, &b) == 0);
  CHECK(TVMArrayCopyFromBytes(a, &value, sizeof(value)) == 0);
  args[0].v_handle = a, args[1].v_handle = b;
  CHECK(mblob_function_call(function, args, codes, 2, &ret, &code) == MBLOB_OK);
  CHECK(TVMArrayCopyToBytes(b, &got, sizeof(got)) == 0 && got == 3);
  TVMArrayFree(a), TVMArrayFree(b);
  mblob_function_release(function);
  mblob_module_release(module);
}

static void copies_share_the_memory_of_the_first(void) {
  setenv("MBLOB_PLUGIN_PATH", place("plugins_a"), 1);
  adds_up("keyed.so");
  adds_up("carries.so");
  CHECK(child_of("carries.so") == 15);
  CHECK(mblob_register_plugin(&__mblob_plugin_toy) == MBLOB_OK);
  adds_up("keyed.so");
}

static void copies_share_the_memory_of_a_carried_one(void) {
  setenv("MBLOB_PLUGIN_PATH", place("plugins_a"), 1);
  adds_up("carries.so");
  adds_up("keyed.so");
  CHECK(child_of("keyed.so") == 75);
  CHECK(strcmp(getenv("TOY_STARTS"), "1") == 0);
}

static void a_copy_is_not_started_while_another_serves(void) {
  setenv("MBLOB_PLUGIN_PATH", place("plugins_a"), 1);
  CHECK(child_of("keyed.so") == 15);
  CHECK(child_of("carries.so") == 15);
  setenv("MBLOB_PLUGIN_PATH", place("plugins_b"), 1);
  CHECK(child_of("keyed.so") == 15);
  CHECK(strcmp(getenv("TOY_STARTS"), "1") == 0);
}

static void a_carried_one_describes_itself(void) {
  char text[64];
  mblob_module *module;
  CHECK(mblob_plugin_describe("toy", text, sizeof(text)) == MBLOB_E_NOT_FOUND);
  CHECK(mblob_open(place("carries.so"), NULL, &module) == MBLOB_OK);
  CHECK(mblob_plugin_describe("toy", text, sizeof(text)) == MBLOB_OK &&
        strcmp(text, "toy number 7") == 0);
  mblob_module_release(module);
}

static void count_name(void *context, const char *name) {
  int *count = context;
  *count += *name != 0;
}

static void names_are_known_once_a_module_is_open(void) {
  mblob_module *module, *keyed;
  int64_t value;
  int count = 0;
  CHECK(mblob_register_plugin(&__mblob_plugin_toy) == MBLOB_OK);
  CHECK(mblob_open(place("keyed.so"), NULL, &module) == MBLOB_OK);
  keyed = mblob_module_import_at(module, 0);
  CHECK(mblob_module_names(keyed, count_name, &count) == MBLOB_OK && count == 0);
  CHECK(status_of(keyed, "in_child", &value) == MBLOB_OK);
  CHECK(mblob_module_names(keyed, count_name, &count) == MBLOB_OK && count == 4);
  CHECK(mblob_module_names(NULL, count_name, &count) == MBLOB_E_ARGUMENT);
  CHECK(mblob_module_names(keyed, NULL, NULL) == MBLOB_E_ARGUMENT);
  mblob_module_release(module);
}

/* ---- running --------------------------------------------------------------------------------- */

int main(int argc, char **argv) {
  CHECK(argc == 2);
  libraries = argv[1];
  unsetenv("MBLOB_PLUGIN_PATH");
  APART(one_on_the_path_is_found);
  APART(a_file_on_the_path_is_found);
  APART(the_first_folder_counts);
  APART(two_in_one_folder_are_an_error);
  APART(a_carried_one_comes_before_the_path);
  APART(a_registered_one_comes_first);
  APART(one_of_another_version_is_told);
  APART(one_whose_table_lies_is_refused);
  APART(one_that_cannot_start_says_why_and_may_start_later);
  APART(the_status_of_one_that_fails_without_a_text_is_told);
  APART(all_are_listed_and_describe_themselves);
  APART(the_last_one_registered_counts_and_is_listed_first);
  APART(a_last_loader_is_asked_behind_all_plug_ins);
  APART(devices_go_by_the_names_of_their_plug_ins);
  APART(functions_outlive_the_module_and_errors_travel);
  APART(memory_of_a_device);
  APART(streams_attributes_and_the_current_device);
  APART(workspaces_of_a_device);
  APART(a_carried_device_outlives_its_library);
  APART(copies_share_the_memory_of_the_first);
  APART(copies_share_the_memory_of_a_carried_one);
  APART(a_copy_is_not_started_while_another_serves);
  APART(a_carried_one_describes_itself);
  APART(names_are_known_once_a_module_is_open);
  return 0;
}
