/* Modules of the keys const_loader and metadata (TVM 0.7 and 0.8, the same bytes): constants of
 * external modules.
 *
 * Before the first function of a symbol is handed out, `__init_<symbol>` of the import that has
 * one is called with the symbol's constants in the order of the file, as TVM does: one Array of
 * NDArrays. They live as long as this module and beyond it, in memory of their own: compiled
 * code of the library keeps them in static variables, and a view of the library's memory would
 * keep the library open for ever. Plug-ins get one argument (kTVMNDArrayHandle) per constant
 * instead, a view that keeps the library open while it is retained. What `__init_` returns, if
 * anything, must be 0. */
#define _GNU_SOURCE
#include "exec/common/const_loader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/call/call.h"
#include "core/library/library.h"
#include "core/loaded/loaded.h"
#include "core/plugin/plugin.h"
#include "core/device/device.h"
#include "exec/common/parameter_bytes.h"
#include "exec/common/stored_arrays.h"
#include "exec/common/tensors.h"

enum state { UNTOUCHED, RUNNING, DONE };

struct const_symbol {
  char *name;
  size_t *constants; /* indices into the arrays */
  size_t count;
  enum state state; /* guarded by the lock */
  size_t runner;    /* while RUNNING: an mb_thread_id() */
};

struct const_loader {
  mblob_module *module; /* itself: not counted */
  struct mb_stored_arrays arrays;
  DLTensor **copies; /* of each array, NULL until an Array needs it; guarded by the lock */
  struct const_symbol *symbols;
  size_t symbol_count;
  struct mb_map by_name; /* to symbols */
  struct mb_lock lock;
  struct mb_condition changed;
};

/* ---- reading --------------------------------------------------------------------------------- */

static char *copy_name(struct mb_slice name) {
  char *copy = strndup((const char *)name.data, mb_size(name.size));
  if (!copy) (void)mb_fail_memory(mb_size(name.size));
  return copy;
}

static bool read_symbols(struct mb_cursor *c, struct const_loader *loader) {
  uint64_t count = 0;
  if (!mb_read_count(c, &count, 16, "symbols")) return false;
  loader->symbols = mb_new_items(count, sizeof(*loader->symbols));
  if (!loader->symbols) return false;
  while (loader->symbol_count < count) {
    struct mb_slice name;
    struct const_symbol *symbol = &loader->symbols[loader->symbol_count];
    if (!mb_read_string(c, &name, "symbols") || !(symbol->name = copy_name(name))) return false;
    loader->symbol_count++;
    if (!mb_map_put(&loader->by_name, symbol->name, symbol)) return false;
  }
  return true;
}

static bool read_constants_of(struct mb_cursor *c, struct const_loader *loader,
                              struct const_symbol *symbol) {
  uint64_t count = 0;
  if (!mb_read_count(c, &count, 8, "symbols.constants")) return false;
  symbol->constants = mb_new_items(count, sizeof(*symbol->constants));
  if (!symbol->constants) return false;
  while (symbol->count < count) {
    struct mb_slice name;
    uint64_t start = c->pos;
    if (!mb_read_string(c, &name, "symbols.constants")) return false;
    char *text = copy_name(name);
    if (!text) return false;
    const struct mb_stored_array *array = mb_stored_arrays_find(&loader->arrays, text);
    if (!array)
      (void)mb_fail_format("payload", (int64_t)start, c->entry,
                           "symbol '%.64s' needs constant '%.64s', which the module does not hold",
                           symbol->name, text);
    free(text);
    if (!array) return false;
    symbol->constants[symbol->count++] = (size_t)(array - loader->arrays.items);
  }
  return true;
}

static bool read_const_payload(struct mb_cursor *c, struct const_loader *loader) {
  uint64_t count = 0;
  if (!mb_stored_arrays_names(c, &loader->arrays) || !mb_read_u64(c, &count, "constants.count"))
    return false;
  bool agree = count == loader->arrays.count;
  if (agree) {
    if (!mb_stored_arrays_data(c, &loader->arrays) || !read_symbols(c, loader) ||
        !mb_read_u64(c, &count, "symbols.count"))
      return false;
    agree = count == loader->symbol_count;
  }
  if (!agree) {
    (void)mb_fail_format("payload", (int64_t)c->pos - 8, c->entry,
                         "counts of names and of what they name differ");
    return false;
  }
  for (size_t i = 0; i < loader->symbol_count; i++)
    if (!read_constants_of(c, loader, &loader->symbols[i])) return false;
  return true;
}

static void close_loader(void *object) {
  struct const_loader *loader = object;
  mb_map_free(&loader->by_name);
  for (size_t i = 0; i < loader->symbol_count; i++) {
    free(loader->symbols[i].name);
    free(loader->symbols[i].constants);
  }
  free(loader->symbols);
  for (size_t i = 0; loader->copies && i < loader->arrays.count; i++)
    if (loader->copies[i]) mb_array_release(loader->copies[i]);
  free(loader->copies);
  mb_stored_arrays_free(&loader->arrays);
  mb_condition_destroy(&loader->changed);
  mb_lock_destroy(&loader->lock);
  free(loader);
}

static int open_loader(const mblob_module_info *info, void **object) {
  struct const_loader *loader = calloc(1, sizeof(*loader));
  if (!loader) return mb_fail_memory(sizeof(*loader));
  mb_lock_init(&loader->lock);
  mb_condition_init(&loader->changed);
  loader->module = info->module;
  struct mb_cursor c = {info->payload, 0, info->payload_size, (int64_t)info->index};
  if (read_const_payload(&c, loader)) {
    const bool of_ffi = strcmp(info->dialect, "ffi") == 0;
    for (size_t i = 0; of_ffi && i < loader->arrays.count; i++)
      loader->arrays.items[i].view.dtype =
          mb_dtype_stored_in_ffi(loader->arrays.items[i].view.dtype);
    *object = loader;
    return MBLOB_OK;
  }
  mb_error_prefix(info->type_key);
  close_loader(loader);
  return mblob_last_error_info()->status;
}

/* ---- initialising ---------------------------------------------------------------------------- */

/* The function `name` of the first direct import that has one. */
static int find_in_const_imports(const struct const_loader *loader, const char *name,
                                 mblob_function **out) {
  int status = MBLOB_OK;
  *out = NULL;
  for (size_t i = 0; !*out && i < mblob_module_import_count(loader->module); i++) {
    /* One that cannot be opened does not hide the ones behind it; who needs that very module is
     * told later. */
    status =
        mb_module_find_if_open(mblob_module_import_at(loader->module, i), name, MB_ITSELF, out);
    if (status) return status;
  }
  return MBLOB_OK;
}

static int check_result(const char *name, TVMValue value, int code) {
  if (code == kTVMNullptr || (code == kTVMArgInt && value.v_int64 == 0)) return MBLOB_OK;
  mblob_value_release(value, code);
  if (code == kTVMArgInt)
    return mb_fail(MBLOB_E_KERNEL, "%s: returned %lld, expected 0", name, (long long)value.v_int64);
  return mb_fail(MBLOB_E_KERNEL, "%s: returned %s, expected 0", name, mb_type_code_name(code));
}

/* A constant with memory of its own; made once, and kept. The reference is the caller's. */
static int copy_constant(struct const_loader *loader, size_t i, DLTensor **out) {
  const DLTensor *from = &loader->arrays.items[i].view;
  int status = MBLOB_OK;
  mb_lock(&loader->lock);
  if (!loader->copies) loader->copies = calloc(loader->arrays.count, sizeof(*loader->copies));
  DLTensor **copy = loader->copies ? &loader->copies[i] : NULL;
  if (!copy)
    status = mb_fail_memory(loader->arrays.count * sizeof(*copy));
  else if (!*copy &&
           !(status = mb_array_new(from->device, from->ndim, from->shape, from->dtype, copy)))
    status = mb_array_copy(from, *copy, NULL); /* does not fail: both are the host's, and alike */
  if (!status) mb_array_retain(*out = *copy);
  mb_unlock(&loader->lock);
  return status;
}

/* `args` are the constants, one each. */
static int call_with_array(mblob_function *init, const TVMValue *args, const int *codes, int count,
                           TVMValue *value, int *code) {
  struct mb_return array = MB_RETURN_NOTHING;
  struct mb_call make = {"runtime.Array", args, codes, count, &array};
  int status = mb_object_make_array(NULL, &make);
  if (!status) status = mblob_function_call(init, &array.value, &array.code, 1, value, code);
  mb_return_drop(&array);
  return status;
}

static int call_init(struct const_loader *loader, const struct const_symbol *symbol,
                     const char *name, mblob_function *init) {
  TVMValue *args = calloc(symbol->count + 1, sizeof(*args)), value = {.v_int64 = 0};
  int *codes = calloc(symbol->count + 1, sizeof(*codes)), code = kTVMNullptr;
  int status = args && codes ? MBLOB_OK : mb_fail_memory(symbol->count * sizeof(*args));
  const bool one_each = mb_plugin_has_function(init);
  size_t made = 0;
  for (; !status && made < symbol->count; made += !status) {
    const size_t i = symbol->constants[made];
    DLTensor *array = NULL;
    status = one_each ? mb_stored_array_share(&loader->arrays.items[i], loader->module, &array)
                      : copy_constant(loader, i, &array);
    args[made].v_handle = array;
    codes[made] = kTVMNDArrayHandle;
  }
  if (!status && symbol->count > INT32_MAX)
    status = mb_fail(MBLOB_E_ARGUMENT, "%s: %zu constants are too many", name, symbol->count);
  if (!status)
    status = (one_each ? mblob_function_call : call_with_array)(init, args, codes,
                                                                (int)symbol->count, &value, &code);
  if (!status) status = check_result(name, value, code);
  while (made) mb_array_release(args[--made].v_handle);
  free(args);
  free(codes);
  return status;
}

static int run_init(struct const_loader *loader, const struct const_symbol *symbol) {
  char *name = NULL;
  mblob_function *init = NULL;
  if (asprintf(&name, "__init_%s", symbol->name) < 0) return mb_fail_memory(strlen(symbol->name));
  int status = find_in_const_imports(loader, name, &init);
  if (!status && init) status = call_init(loader, symbol, name, init);
  if (status) mb_error_prefix(name);
  free(name);
  /* A library that the runtime of the symbol needs is not there. MBLOB_E_LOADER would say that
   * this module cannot be opened, and who searches module by module would go on, to the very
   * function that was not initialised. */
  return status == MBLOB_E_LOADER ? mb_error_restatus(MBLOB_E_INCOMPATIBLE) : status;
}

/* Once per symbol; other threads wait for it. What failed is tried again at the next lookup. */
static int initialise(struct const_loader *loader, struct const_symbol *symbol) {
  mb_lock(&loader->lock);
  while (symbol->state == RUNNING && symbol->runner != mb_thread_id() &&
         !mb_thread_is_gone(symbol->runner))
    mb_wait(&loader->changed, &loader->lock);
  /* Still RUNNING by this thread: it looks itself up while it is initialised. */
  const bool left = symbol->state == RUNNING && mb_thread_is_gone(symbol->runner);
  const bool mine = symbol->state == UNTOUCHED || left;
  if (mine) {
    symbol->state = RUNNING;
    symbol->runner = mb_thread_id();
  }
  mb_unlock(&loader->lock);
  if (!mine) return MBLOB_OK;
  int status = run_init(loader, symbol);
  mb_lock(&loader->lock);
  symbol->state = status ? UNTOUCHED : DONE;
  mb_wake(&loader->changed);
  mb_unlock(&loader->lock);
  return status;
}

static int find_const_function(void *object, const char *name, mblob_function **out) {
  struct const_loader *loader = object;
  struct const_symbol *symbol = mb_map_get(&loader->by_name, name);
  int status = symbol ? initialise(loader, symbol) : MBLOB_OK;
  if (!status) status = find_in_const_imports(loader, name, out);
  if (!status && *out) (void)mblob_function_retain(*out);
  return status;
}

static int get_const_var_ndarray(void *object, struct mb_call *call) {
  const struct const_loader *loader = object;
  return mb_parameters_return(&loader->arrays, "constant", call);
}

static const struct mb_method const_loader_methods[] = {
    {"get_const_var_ndarray", get_const_var_ndarray}, {"", NULL}};
static const struct mb_method no_methods[] = {{"", NULL}};

const struct mb_class mb_const_loader_class = {.type_key = MB_KEY_CONST_LOADER,
                                               .methods = const_loader_methods,
                                               .open = open_loader,
                                               .function = find_const_function,
                                               .close = close_loader};
const struct mb_class mb_metadata_class = {.type_key = MB_KEY_METADATA,
                                           .methods = no_methods,
                                           .open = open_loader,
                                           .function = find_const_function,
                                           .close = close_loader};
