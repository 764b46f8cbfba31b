/* test_created DIRECTORY: modules that a program makes, without a file. */
#include "../common/check.h"

struct adder {
  int64_t amount;
  int asked, closed;
};

static int add(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource) {
  const struct adder *adder = resource;
  if (count != 1 || codes[0] != kTVMArgInt)
    return mblob_set_error(MBLOB_E_ARGUMENT, "one integer, please");
  TVMValue sum = {.v_int64 = args[0].v_int64 + adder->amount};
  int code = kTVMArgInt;
  return TVMCFuncSetReturn(ret, &sum, &code, 1);
}

static int find(void *self, const char *name, mblob_function **out) {
  struct adder *adder = self;
  adder->asked++;
  if (strcmp(name, "fails") == 0) return mblob_set_error(MBLOB_E_KERNEL, "not today");
  if (strcmp(name, "host.twice") != 0) return MBLOB_OK;
  return mblob_function_create(add, adder, NULL, out);
}

static void close_adder(void *self) { ((struct adder *)self)->closed++; }

static mblob_module *create(const char *key, struct adder *adder) {
  mblob_loader loader = {
      .struct_size = sizeof(loader), .type_key = key, .function = find, .close = close_adder};
  mblob_module *module = NULL;
  CHECK(mblob_module_create(&loader, adder, &module) == MBLOB_OK);
  return module;
}

static void it_is_a_module(const char *key) {
  struct adder adder = {.amount = 7};
  char copied[32];
  (void)snprintf(copied, sizeof(copied), "%s", key);
  mblob_module *module = create(copied, &adder);
  copied[0] = '?';
  CHECK(strcmp(mblob_module_type_key(module), key) == 0 &&
        strcmp(mblob_module_path(module), "") == 0);
  CHECK(mblob_module_index(module) == 0 && mblob_module_import_count(module) == 0);
  CHECK(strcmp(mblob_module_dialect(module), "") == 0 && !mblob_module_symbol(module, "add"));
  const void *payload = module;
  size_t size = 1;
  CHECK(mblob_module_payload(module, &payload, &size) == MBLOB_OK && size == 0 && !payload);
  CHECK(call_int(module, "host.twice", 1) == 8 && call_int(module, "host.twice", 2) == 9);
  CHECK(adder.asked == 1); /* what it gave is kept */
  mblob_function *function = NULL;
  CHECK(mblob_module_function(module, "nothing", 0, &function) == MBLOB_E_NOT_FOUND && !function);
  CHECK(mblob_module_function(module, "fails", 0, &function) == MBLOB_E_KERNEL && !function);
  CHECK(strcmp(mblob_last_error(), "not today") == 0);
  CHECK(adder.closed == 0);
  mblob_module_release(module);
  CHECK(adder.closed == 1);
}

static void a_function_keeps_it(void) {
  struct adder adder = {.amount = 1};
  mblob_function *function = NULL;
  mblob_module *module = create("adder", &adder);
  CHECK(mblob_module_function(module, "host.twice", 0, &function) == MBLOB_OK);
  mblob_module_release(module);
  CHECK(adder.closed == 0);
  TVMValue arg = {.v_int64 = 41}, ret;
  int code = kTVMArgInt, ret_code;
  CHECK(mblob_function_call(function, &arg, &code, 1, &ret, &ret_code) == MBLOB_OK &&
        ret.v_int64 == 42);
  code = kTVMNullptr;
  CHECK(mblob_function_call(function, &arg, &code, 1, &ret, &ret_code) == MBLOB_E_ARGUMENT);
  CHECK(strcmp(mblob_last_error(), "one integer, please") == 0);
  mblob_function_release(function);
  CHECK(adder.closed == 1);
}

static void a_kernel_above_finds_its_functions(const char *dir) {
  struct adder adder = {.amount = 100}, below = {.amount = 5};
  mblob_module *library = open_ok(dir, "plain.so");
  mblob_module *module = create("adder", &adder), *child = create("below", &below);
  CHECK(mblob_module_import(module, child) == MBLOB_OK);
  CHECK(mblob_module_import(library, module) == MBLOB_OK);
  CHECK(mblob_module_import(child, library) == MBLOB_E_ARGUMENT &&
        strstr(mblob_last_error(), "cycle"));
  mblob_module_release(module);
  mblob_module_release(child);
  CHECK(call_int(library, "calls_twice", 4) == 104);
  CHECK(below.asked == 0 && adder.closed == 0);
  mblob_module_release(library);
  CHECK(adder.closed == 1 && below.closed == 1);
}

static void a_wrong_one_is_refused(void) {
  mblob_loader loader = {.struct_size = sizeof(loader), .type_key = "adder", .close = close_adder};
  struct adder adder = {0};
  mblob_module *module = NULL;
  CHECK(mblob_module_create(&loader, &adder, &module) == MBLOB_E_ARGUMENT && !module);
  CHECK(strstr(mblob_last_error(), "loader->function is NULL"));
  loader.function = find;
  loader.type_key = "";
  CHECK(mblob_module_create(&loader, &adder, &module) == MBLOB_E_ARGUMENT);
  CHECK(mblob_module_create(NULL, &adder, &module) == MBLOB_E_ARGUMENT);
  loader.type_key = "adder";
  loader.struct_size = 8;
  CHECK(mblob_module_create(&loader, &adder, &module) == MBLOB_E_ARGUMENT);
  CHECK(adder.closed == 0);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  RUN(it_is_a_module, "adder");
  RUN(it_is_a_module, "metadata_module"); /* a key that needs no loader when a file holds it */
  RUN(a_function_keeps_it);
  RUN(a_kernel_above_finds_its_functions, argv[1]);
  RUN(a_wrong_one_is_refused);
  return 0;
}
