/* test_open_readonly DIRECTORY: what modules tell of themselves: names of functions, tensors; opened, and
 * looked at without loading the file. */
#include <fcntl.h>
#include <sys/stat.h>

#include "../common/check.h"

/* ---- names ----------------------------------------------------------------------------------- */

struct names {
  int count;
  char all[4096]; /* " one two " */
};

static void add_name(void *context, const char *name) {
  struct names *names = context;
  names->count++;
  strcat(strcat(names->all, name), " ");
}

static struct names names_of(mblob_module *module) {
  struct names names = {0, " "};
  CHECK(mblob_module_names(module, add_name, &names) == MBLOB_OK);
  return names;
}

static int any_status(mblob_module *module, const char *name) {
  mblob_function *function;
  int status = mblob_module_function(module, name, 0, &function);
  mblob_function_release(function);
  return status;
}

/* Each name can be looked up, and the error of one that is not there lists the same. */
static void a_library_tells_the_names_of_its_functions(const char *dir) {
  static const char *const libraries[] = {"plain.so", "table.so", "graph.so", "weights.so"};
  for (int i = 0; i < COUNT(libraries); i++) {
    mblob_module *module = open_ok(dir, libraries[i]);
    struct names names = names_of(module);
    CHECK(names.count > 1);
    CHECK(any_status(module, "no such") == MBLOB_E_NOT_FOUND);
    const char *listed = strstr(mblob_last_error(), "it has: ") + strlen("it has: ");
    char copy[4096], *rest = copy;
    int position = 0;
    (void)strcpy(copy, names.all + 1);
    for (char *name; (name = strtok_r(rest, " ", &rest)) && position < 12; position++) {
      CHECK(any_status(module, name) == MBLOB_OK);
      CHECK(strncmp(listed, name, strlen(name)) == 0);
      listed += strlen(name) + strlen(", ");
    }
    mblob_module_release(module);
  }
}

static void plain_functions_and_those_of_the_compiler_are_none(const char *dir) {
  mblob_module *module = open_ok(dir, "table.so");
  struct names names = names_of(module);
  CHECK(strcmp(names.all, " scale wide note note_u64 ") == 0 && names.count == 4);
  mblob_module_release(module);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static int check_tensor(void *context, const mblob_tensor_info *info) {
  int *count = context;
  CHECK(info->struct_size == sizeof(*info) && !info->flags && info->device.device_type == kDLCPU);
  if (++*count == 2) {
    const float *values = info->data;
    CHECK(strcmp(info->name, "w") == 0 && info->ndim == 2 && info->shape[0] == 2 &&
          info->shape[1] == 3 && info->size == 24);
    CHECK(info->dtype.code == kDLFloat && info->dtype.bits == 32 && info->dtype.lanes == 1);
    CHECK(values[0] == 0 && values[5] == 5 && (uintptr_t)values % 64 == 0);
  } else {
    CHECK(strcmp(info->name, "none") == 0 && info->ndim == 1 && !info->shape[0] && !info->size);
    CHECK(info->dtype.code == kDLInt && info->dtype.bits == 8);
  }
  return 0;
}

static int stop(void *context, const mblob_tensor_info *info) {
  (void)info;
  return ++*(int *)context, MBLOB_E_KERNEL;
}

static void expect_tensors(mblob_module *library) {
  mblob_module *weights = mblob_module_import_at(library, 0);
  DLTensor w;
  int count = 0;
  CHECK(mblob_module_tensors(weights, check_tensor, &count) == MBLOB_OK && count == 2);
  CHECK(mblob_module_tensors(weights, stop, &count) == MBLOB_E_KERNEL && count == 3);
  CHECK(mblob_module_tensors(library, stop, &count) == MBLOB_OK && count == 3);
  CHECK(mblob_module_tensor(library, "w", &w) == MBLOB_OK && ((float *)w.data)[5] == 5);
  CHECK(mblob_module_tensors(NULL, stop, &count) == MBLOB_E_ARGUMENT);
  CHECK(mblob_module_tensors(weights, NULL, &count) == MBLOB_E_ARGUMENT);
}

/* Whether the page of an address may be written. */
static bool is_writable(const void *address) {
  FILE *maps = fopen("/proc/self/maps", "r");
  unsigned long start, end, at = (unsigned long)(uintptr_t)address;
  char may[8], line[4096];
  bool found = false, writable = false;
  CHECK(maps);
  while (!found && fgets(line, sizeof(line), maps)) {
    CHECK(sscanf(line, "%lx-%lx %7s", &start, &end, may) == 3);
    found = at >= start && at < end;
    writable = may[1] == 'w';
  }
  (void)fclose(maps);
  CHECK(found);
  return writable;
}

static void weights_are_told_by_name_and_are_read_only(const char *dir) {
  mblob_module *library = open_ok(dir, "weights.so");
  DLTensor w;
  expect_tensors(library);
  CHECK(mblob_module_tensor(library, "w", &w) == MBLOB_OK);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ /* elsewhere it is a copy in the machine's order */
  CHECK(!is_writable(w.data));
#endif
  mblob_module_release(library);
  library = open_ok(dir, "plain.so");
  int count = 0;
  CHECK(mblob_module_tensors(library, stop, &count) == MBLOB_OK && !count);
  mblob_module_release(library);
}

/* ---- looking --------------------------------------------------------------------------------- */

static mblob_module *look(const char *dir, const char *name) {
  mblob_module *module = NULL;
  CHECK(mblob_open_readonly(in(dir, name), MBLOB_VERIFY_HEADER, &module) == MBLOB_OK && module);
  return module;
}

/* Lines of the memory map of what may run. */
static long code_lines(const char *name) {
  char line[4096];
  long count = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps);
  while (fgets(line, sizeof(line), maps)) count += strstr(line, name) && strstr(line, "r-xp");
  (void)fclose(maps);
  return count;
}

static void a_look_tells_what_the_file_has(const char *dir) {
  mblob_module *library = look(dir, "weights.so"), *weights = mblob_module_import_at(library, 0);
  const void *payload;
  size_t size;
  CHECK(strcmp(mblob_module_type_key(library), "library") == 0 &&
        mblob_module_import_count(library) == 1 && mblob_module_index(weights) == 1);
  CHECK(strcmp(mblob_module_type_key(weights), "safetensors") == 0 &&
        mblob_module_is_data(weights));
  CHECK(strcmp(mblob_module_dialect(library), "classic") == 0);
  CHECK(strstr(mblob_module_path(library), "weights.so"));
  CHECK(strcmp(names_of(library).all, " calls_child which ") == 0 ||
        strcmp(names_of(library).all, " which calls_child ") == 0);
  CHECK(mblob_module_payload(weights, &payload, &size) == MBLOB_OK && size == 152 &&
        !is_writable(payload));
  expect_tensors(library);
  mblob_module_release(library);
}

static void a_look_loads_nothing(const char *dir) {
  unsetenv("WEIGHTS_LOADED");
  mblob_module *library = look(dir, "weights.so");
  CHECK(!getenv("WEIGHTS_LOADED") && !code_lines("weights.so"));
  mblob_module_release(library);
  CHECK(!mapped_lines("weights.so"));
  library = open_ok(dir, "weights.so");
  CHECK(getenv("WEIGHTS_LOADED") && code_lines("weights.so"));
  mblob_module_release(library);
}

static void what_was_looked_at_cannot_be_called_and_says_why(const char *dir) {
  mblob_module *looked = look(dir, "weights.so"), *opened = open_ok(dir, "weights.so"), *made;
  CHECK(any_status(looked, "which") == MBLOB_E_ARGUMENT && strstr(mblob_last_error(), "'which'") &&
        strstr(mblob_last_error(), "mblob_open"));
  CHECK(any_status(looked, "no such") == MBLOB_E_ARGUMENT);
  CHECK(any_status(mblob_module_import_at(looked, 0), "w") == MBLOB_E_ARGUMENT);
  CHECK(mblob_call(looked, "which", "") == MBLOB_E_ARGUMENT);
  CHECK(!mblob_module_symbol(looked, "which"));
  CHECK(mblob_executor_create(looked, NULL, kDLCPU, 0, &made) == MBLOB_E_ARGUMENT && !made);
  /* It hides nothing of the modules behind it. */
  CHECK(mblob_module_import(looked, opened) == MBLOB_OK);
  CHECK(call_int(looked, "which", 0) == 0);
  mblob_module_release(opened);
  mblob_module_release(looked);
}

static int never_open(void *context, const mblob_module_info *info, void **self) {
  (void)context, (void)info, (void)self;
  CHECK(!"called");
}
static int never_find(void *self, const char *name, mblob_function **out) {
  (void)self, (void)name, (void)out;
  CHECK(!"called");
}

static void a_look_asks_no_loader(const char *dir) {
  const mblob_loader loader = {.struct_size = sizeof(loader),
                               .type_key = "my_key",
                               .open = never_open,
                               .function = never_find},
                     none = {.struct_size = sizeof(none), .type_key = "my_key"};
  mblob_module *library = look(dir, "keyed.so"); /* which has no loader */
  mblob_module_release(library);
  CHECK(mblob_register_loader(&loader) == MBLOB_OK);
  CHECK(mblob_open_readonly(in(dir, "keyed.so"), MBLOB_VERIFY_FULL, &library) == MBLOB_OK);
  CHECK(any_status(mblob_module_import_at(library, 0), "in_child") == MBLOB_E_ARGUMENT);
  CHECK(names_of(mblob_module_import_at(library, 0)).count == 0);
  mblob_module_release(library);
  CHECK(mblob_register_loader(&none) == MBLOB_OK);
}

static void a_look_and_an_open_library_are_two(const char *dir) {
  mblob_module *looked = look(dir, "keyed.so"), *again = look(dir, "keyed.so"), *opened;
  const mblob_open_options stub = {sizeof(stub), 0, MBLOB_MISSING_STUB, 0, NULL, 0, 0};
  CHECK(mblob_open(in(dir, "keyed.so"), &stub, &opened) == MBLOB_OK);
  mblob_module_release(looked);
  CHECK(any_status(opened, "which") == MBLOB_OK && any_status(again, "which") == MBLOB_E_ARGUMENT);
  mblob_module_release(opened);
  CHECK(names_of(again).count == 2);
  mblob_module_release(again);
}

static void what_cannot_be_opened_cannot_be_looked_at(const char *dir) {
  static const char *const libraries[] = {"Makefile.txt", "bad_table.so", "vm_programs.bin",
                                          "no such file", "."};
  mblob_module *module;
  for (int i = 0; i < COUNT(libraries); i++) {
    const int status = mblob_open(in(dir, libraries[i]), NULL, &module);
    char text[4096];
    (void)snprintf(text, sizeof(text), "%s", mblob_last_error());
    CHECK(status && mblob_open_readonly(in(dir, libraries[i]), 0, &module) == status && !module);
    CHECK(strcmp(text, mblob_last_error()) == 0);
  }
  CHECK(mblob_open_readonly(in(dir, "plain.so"), 3, &module) == MBLOB_E_ARGUMENT && !module &&
        strstr(mblob_last_error(), "verify is 3"));
  CHECK(mblob_open_readonly(NULL, 0, &module) == MBLOB_E_ARGUMENT && !module);
  CHECK(mblob_open_readonly(in(dir, "plain.so"), 0, NULL) == MBLOB_E_ARGUMENT);
}

/* Any byte of the blob: a look that verifies fully finds it, whatever it is. */
static void damage_is_found(const char *dir) {
  struct stat facts;
  char path[] = "/tmp/look.XXXXXX";
  int from = open(in(dir, "weights.so"), O_RDONLY), to = mkstemp(path), found = 0;
  CHECK(from >= 0 && to >= 0 && fstat(from, &facts) == 0);
  char *bytes = malloc((size_t)facts.st_size);
  CHECK(bytes && read(from, bytes, (size_t)facts.st_size) == facts.st_size);
  for (off_t at = 0; at < facts.st_size; at += 1 + at / 97 % 13) {
    mblob_module *module;
    bytes[at] ^= 0x55;
    CHECK(pwrite(to, bytes, (size_t)facts.st_size, 0) == facts.st_size);
    bytes[at] ^= 0x55;
    found += mblob_open_readonly(path, MBLOB_VERIFY_FULL, &module) != MBLOB_OK;
    if (module) {
      struct names names = names_of(module);
      mblob_module *child = mblob_module_import_at(module, 0);
      int count = 0;
      (void)names;
      if (child) (void)mblob_module_tensors(child, stop, &count);
    }
    mblob_module_release(module);
  }
  CHECK(found > 20);
  free(bytes);
  (void)close(from);
  (void)close(to);
  (void)unlink(path);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  RUN(a_library_tells_the_names_of_its_functions, argv[1]);
  RUN(plain_functions_and_those_of_the_compiler_are_none, argv[1]);
  RUN(weights_are_told_by_name_and_are_read_only, argv[1]);
  RUN(a_look_tells_what_the_file_has, argv[1]);
  RUN(a_look_loads_nothing, argv[1]);
  RUN(what_was_looked_at_cannot_be_called_and_says_why, argv[1]);
  RUN(a_look_asks_no_loader, argv[1]);
  RUN(a_look_and_an_open_library_are_two, argv[1]);
  RUN(what_cannot_be_opened_cannot_be_looked_at, argv[1]);
  RUN(damage_is_found, argv[1]);
  return 0;
}
