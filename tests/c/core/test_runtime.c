/* test_runtime DIRECTORY: opening files, loaders and trees, on the libraries that the Makefile
 * builds. */
#include <fcntl.h>
#include <unistd.h>

#include "../common/check.h"

static void a_module_tells_the_form_of_its_blob(const char *dir) {
  mblob_open_options stub = {sizeof(stub), MBLOB_VERIFY_HEADER, MBLOB_MISSING_STUB, 0, NULL, 0, 0};
  mblob_module *module = open_ok(dir, "plain.so");
  CHECK(strcmp(mblob_module_dialect(module), "") == 0);
  mblob_module_release(module);
  CHECK(mblob_open(in(dir, "keyed.so"), &stub, &module) == MBLOB_OK);
  CHECK(strcmp(mblob_module_dialect(module), "classic") == 0);
  CHECK(strcmp(mblob_module_dialect(mblob_module_import_at(module, 0)), "classic") == 0);
  mblob_module_release(module);
}

/* ---- loaders --------------------------------------------------------------------------------- */

static int opened, closed;

static int load_open(void *context, const mblob_module_info *info, void **self) {
  CHECK(context == &opened && strcmp(info->type_key, "my_key") == 0 &&
        strcmp(info->dialect, "classic") == 0);
  CHECK(info->payload_size == 5 && memcmp(info->payload, "hello", 5) == 0);
  CHECK(mblob_module_index(info->module) == info->index);
  opened++;
  *self = &closed;
  return MBLOB_OK;
}

static int in_child(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource) {
  (void)args, (void)codes, (void)resource;
  TVMValue value = {.v_int64 = 100 + count};
  int code = kTVMArgInt;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

static int load_function(void *self, const char *name, mblob_function **out) {
  CHECK(self == &closed);
  *out = NULL;
  return strcmp(name, "in_child") == 0 ? mblob_function_create(in_child, NULL, NULL, out)
                                       : MBLOB_OK;
}

static void load_close(void *self) { ++*(int *)self; }

static const mblob_loader my_loader = {.struct_size = sizeof(mblob_loader),
                                       .type_key = "my_key",
                                       .context = &opened,
                                       .open = load_open,
                                       .function = load_function,
                                       .close = load_close};

static void a_missing_loader_is_named(const char *dir) {
  mblob_module *module;
  CHECK(mblob_open(in(dir, "keyed.so"), NULL, &module) == MBLOB_E_LOADER && !module);
  const mblob_error_info *info = mblob_last_error_info();
  CHECK(strcmp(info->type_key, "my_key") == 0 && info->entry == 1 &&
        strstr(info->hint, "mblob_register_loader"));
  mblob_open_options stub = {sizeof(stub), MBLOB_VERIFY_FULL, MBLOB_MISSING_STUB, 0, NULL, 0, 0};
  CHECK(mblob_open(in(dir, "keyed.so"), &stub, &module) == MBLOB_OK);
  CHECK(mblob_module_import_count(module) == 1);
  mblob_module *child = mblob_module_import_at(module, 0);
  mblob_function *function;
  CHECK(mblob_module_function(child, "in_child", 0, &function) == MBLOB_E_LOADER);
  CHECK(mblob_module_function(module, "in_child", 1, &function) == MBLOB_E_LOADER);
  CHECK(mblob_module_function(module, "which", 1, &function) == MBLOB_OK);
  mblob_function_release(function);
  CHECK(call_status(module, "calls_child", 1) == MBLOB_E_LOADER);
  mblob_module_release(module);
}

static void a_loader_opens_a_module_once(const char *dir) {
  mblob_module *module;
  const mblob_loader *loaders[] = {&my_loader};
  mblob_open_options options = {
      sizeof(options), MBLOB_VERIFY_HEADER, MBLOB_MISSING_ERROR, 1, loaders, 0, 0};
  opened = closed = 0;
  CHECK(mblob_open(in(dir, "keyed.so"), &options, &module) == MBLOB_OK);
  CHECK(opened == 0);
  CHECK(call_int(module, "calls_child", 1) == 101);
  CHECK(call_int(module, "calls_child", 1) == 101);
  CHECK(call_int(module, "in_child", 1) == 101);
  CHECK(opened == 1 && closed == 0);
  const void *payload;
  size_t size;
  CHECK(mblob_module_payload(mblob_module_import_at(module, 0), &payload, &size) == MBLOB_OK);
  CHECK(size == 5 && memcmp(payload, "hello", 5) == 0);
  const void *found;
  CHECK(mblob_module_payload_by_key(module, "my_key", &found, &size) == MBLOB_OK);
  CHECK(found == payload && size == 5);
  CHECK(mblob_module_payload_by_key(module, "library", &found, &size) == MBLOB_E_NOT_FOUND);
  CHECK(!found && !size);
  CHECK(strcmp(mblob_last_error(),
               "no payload 'library' in module 'library' and its imports; there are: my_key") == 0);
  mblob_module_release(module);
  CHECK(closed == 1);
  CHECK(mblob_register_loader(&my_loader) == MBLOB_OK);
  module = open_ok(dir, "keyed.so");
  CHECK(call_int(module, "calls_child", 1) == 101);
  mblob_module_release(module);
  mblob_loader nothing = {.struct_size = sizeof(nothing), .type_key = "my_key"};
  CHECK(mblob_register_loader(&nothing) == MBLOB_OK);
  CHECK(mblob_open(in(dir, "keyed.so"), NULL, &module) == MBLOB_E_LOADER);
}

/* ---- the same file, other files, no files ---------------------------------------------------- */

static void the_same_file_is_one_library(const char *dir) {
  mblob_module *a = open_ok(dir, "plain.so"), *b = open_ok(dir, "plain.so");
  CHECK(a != b);
  CHECK(mblob_module_symbol(a, "some_data") == mblob_module_symbol(b, "some_data"));
  mblob_module_release(a);
  CHECK(call_int(b, "returns_int", 1) == 1);
  mblob_module_release(b);
}

/* A program that opens a file again and again while it holds it once must not grow. */
static void a_tree_that_nobody_holds_is_taken_over(const char *dir) {
  mblob_open_options stub = {sizeof(stub), MBLOB_VERIFY_HEADER, MBLOB_MISSING_STUB, 0, NULL, 0, 0};
  mblob_module *held = open_ok(dir, "plain.so"), *first = open_ok(dir, "plain.so"), *again, *other,
               *imported;
  mblob_module_release(first);
  for (int i = 0; i < 3; i++) {
    CHECK(mblob_open(in(dir, "plain.so"), NULL, &again) == MBLOB_OK && again == first);
    CHECK(mblob_open(in(dir, "plain.so"), &stub, &other) == MBLOB_OK && other != first &&
          other != held);
    mblob_module_release(other);
    mblob_module_release(again);
  }
  /* One that was changed is not: it would bring its imports along. */
  again = open_ok(dir, "plain.so");
  CHECK(mblob_open(in(dir, "keyed.so"), &stub, &imported) == MBLOB_OK);
  CHECK(again == first && mblob_module_import(again, imported) == MBLOB_OK);
  mblob_module_release(imported);
  mblob_module_release(again);
  again = open_ok(dir, "plain.so");
  CHECK(again != first && mblob_module_import_count(again) == 0);
  mblob_module_release(again);
  mblob_module_release(held);
}

static int64_t which_by_fd(int fd) {
  mblob_module *module;
  mblob_open_options stub = {sizeof(stub), MBLOB_VERIFY_HEADER, MBLOB_MISSING_STUB, 0, NULL, 0, 0};
  CHECK(mblob_open_fd(fd, &stub, &module) == MBLOB_OK);
  int64_t which = call_int(module, "which", 0);
  mblob_module_release(module);
  return which;
}

static void a_descriptor_number_that_comes_back_gives_the_new_file(const char *dir) {
  for (int round = 0; round < 3; round++) {
    int fd = open(in(dir, "keyed.so"), O_RDONLY);
    CHECK(which_by_fd(fd) == 0);
    close(fd);
    int again = open(in(dir, "other.so"), O_RDONLY);
    CHECK(again == fd);
    CHECK(which_by_fd(again) == 7);
    close(again);
  }
}

static void a_library_loads_from_memory(const char *dir) {
  static char bytes[1 << 20];
  FILE *file = fopen(in(dir, "plain.so"), "rb");
  CHECK(file);
  size_t size = fread(bytes, 1, sizeof(bytes), file);
  fclose(file);
  mblob_module *module;
  CHECK(mblob_open_memory(bytes, size, NULL, &module) == MBLOB_OK);
  memset(bytes, 0, sizeof(bytes));
  CHECK(!*mblob_module_path(module));
  CHECK(call_int(module, "returns_int", 1) == 1);
  mblob_module_release(module);
}

static void bad_files_have_errors(const char *dir) {
  mblob_module *module = (mblob_module *)&module;
  CHECK(mblob_open(in(dir, "not there"), NULL, &module) == MBLOB_E_IO && !module);
  CHECK(mblob_open(dir, NULL, &module) == MBLOB_E_IO);
  CHECK(mblob_open(in(dir, "Makefile.txt"), NULL, &module) == MBLOB_E_FORMAT);
  CHECK(strcmp(mblob_last_error_info()->code, "not_elf") == 0);
  CHECK(mblob_open_memory("", 0, NULL, &module) == MBLOB_E_FORMAT);
  CHECK(mblob_open_fd(-1, NULL, &module) == MBLOB_E_IO);
  CHECK(mblob_open(NULL, NULL, &module) == MBLOB_E_ARGUMENT);
  mblob_open_options wrong = {sizeof(wrong), 9, 0, 0, NULL, 0, 0};
  CHECK(mblob_open(in(dir, "plain.so"), &wrong, &module) == MBLOB_E_ARGUMENT);
  CHECK(mblob_open(in(dir, "undefined.so"), NULL, &module) == MBLOB_E_INCOMPATIBLE);
  CHECK(strstr(mblob_last_error(), "nobody_has_this"));
}

static void modules_can_be_joined_but_not_in_a_circle(const char *dir) {
  mblob_module *root = open_ok(dir, "plain.so"), *child = open_ok(dir, "table.so");
  CHECK(mblob_module_import(root, child) == MBLOB_OK);
  CHECK(mblob_module_import(child, root) == MBLOB_E_ARGUMENT);
  CHECK(mblob_module_import(root, root) == MBLOB_E_ARGUMENT);
  mblob_module_release(child);
  mblob_function *function;
  CHECK(mblob_module_function(root, "wide", 0, &function) == MBLOB_E_NOT_FOUND);
  CHECK(strstr(mblob_last_error(), "query_imports"));
  CHECK(mblob_module_function(root, "wide", 1, &function) == MBLOB_OK);
  mblob_function_release(function);
  mblob_module_release(root);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  const char *dir = argv[1];
  CHECK(mblob_abi_version() == MBLOB_ABI_VERSION);
  RUN(a_module_tells_the_form_of_its_blob, dir);
  RUN(a_missing_loader_is_named, dir);
  RUN(a_loader_opens_a_module_once, dir);
  RUN(the_same_file_is_one_library, dir);
  RUN(a_tree_that_nobody_holds_is_taken_over, dir);
  RUN(a_descriptor_number_that_comes_back_gives_the_new_file, dir);
  RUN(a_library_loads_from_memory, dir);
  RUN(bad_files_have_errors, dir);
  RUN(modules_can_be_joined_but_not_in_a_circle, dir);
  return 0;
}
