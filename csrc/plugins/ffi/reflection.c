#include "reflection.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "common.h"
#include "errors.h"
#include "values.h"

#define RELEASES MB_RELEASES_0_22
#define FIRST_ROOM 4
#define REFLECTION_LIMIT 16384 /* classes, as in types.c; members of one, and attributes */

static struct mb_lock reflection_lock = MB_LOCK_INIT;

/* Record an error of a class that nobody registered. */
static int unknown_type(const char *function, int32_t type) {
  (void)mb_fail(MBLOB_E_ARGUMENT, "%s: no class has the number %d", function, (int)type);
  return mb_error_raise_last();
}

static bool is_text(const struct mb_text *text) { return text->data || !text->size; }

static bool is_same_text(const struct mb_text *a, const struct mb_text *b) {
  return a->size == b->size && (!a->size || memcmp(a->data, b->data, a->size) == 0);
}

static bool copy_text(struct mb_text *text) {
  char *copy = malloc(text->size + 1);
  if (!copy) return mb_fail_memory(text->size), false;
  if (text->size) memcpy(copy, text->data, text->size);
  copy[text->size] = 0;
  *text = (struct mb_text){copy, text->size};
  return true;
}

static void free_text(const struct mb_text *text) { free((void *)(uintptr_t)text->data); }

/* Room for one item more. Arrays that have become too small stay, for those who read them. */
static void *room_for_column(const void *items, int32_t count, size_t size) {
  void *old = (void *)(uintptr_t)items;
  if (count && (count < FIRST_ROOM || (count & (count - 1)))) return old;
  void *items_now =
      count < REFLECTION_LIMIT ? calloc(count ? 2 * (size_t)count : FIRST_ROOM, size) : NULL;
  if (!items_now)
    (void)mb_fail_memory((size_t)count * size);
  else if (count)
    memcpy(items_now, old, (size_t)count * size);
  return items_now;
}

/* ---- members --------------------------------------------------------------------------------- */

/* Copies of the texts and the value of a field or method; what it cannot keep is freed. */
static bool keep(struct mb_text *texts[3], struct mb_any *value) {
  int copied = 0;
  while (copied < 3 && copy_text(texts[copied])) copied++;
  struct mb_any own = {.type = MB_ANY_NONE};
  if (copied == 3 && !mb_any_own(value, &own)) {
    *value = own;
    return true;
  }
  while (copied-- > 0) free_text(texts[copied]);
  return false;
}

/* With the lock: an array of fields or methods, which begin with their names, with one more, or with
 * another of that name; *count is how many it has then. NULL when memory is out. */
static void *with(const void *items, int32_t *count, const void *info, size_t size) {
  const char *old = items;
  int32_t at = 0;
  while (at < *count &&
         !is_same_text((const struct mb_text *)(const void *)(old + (size_t)at * size), info))
    at++;
  char *array = at < *count ? (char *)(uintptr_t)items : room_for_column(items, *count, size);
  if (!array) return NULL;
  memcpy(array + (size_t)at * size, info, size);
  if (at == *count) *count = at + 1;
  return array;
}

int mb_register_field(int32_t type, const struct mb_field_info *info) {
  static const char function[] = "TVMFFITypeRegisterField";
  if (!info || !is_text(&info->name) || !is_text(&info->doc) || !is_text(&info->metadata))
    return mb_error_null(function);
  struct mb_type_info *known = mb_type_known(type);
  if (!known) return unknown_type(function, type);
  struct mb_field_info own = *info;
  if (!(own.flags & MB_FIELD_HAS_STANDARD)) own.standard = (struct mb_any){.type = MB_ANY_NONE};
  if (!keep((struct mb_text *[]){&own.name, &own.doc, &own.metadata}, &own.standard))
    return mb_error_raise_last();
  if (own.flags & MB_FIELD_SETTER_IS_OBJECT && own.setter)
    mb_ffi_object_retain(RELEASES, own.setter);
  mb_lock(&reflection_lock);
  int32_t count = known->field_count;
  struct mb_field_info *array = with(known->fields, &count, &own, sizeof(own));
  if (array) __atomic_store_n(&known->fields, array, __ATOMIC_RELEASE);
  if (array) __atomic_store_n(&known->field_count, count, __ATOMIC_RELEASE);
  mb_unlock(&reflection_lock);
  return array ? 0 : mb_error_raise_last();
}

int mb_register_method(int32_t type, const struct mb_method_info *info) {
  static const char function[] = "TVMFFITypeRegisterMethod";
  if (!info || !is_text(&info->name) || !is_text(&info->doc) || !is_text(&info->metadata))
    return mb_error_null(function);
  struct mb_type_info *known = mb_type_known(type);
  if (!known) return unknown_type(function, type);
  struct mb_method_info own = *info;
  if (!keep((struct mb_text *[]){&own.name, &own.doc, &own.metadata}, &own.method))
    return mb_error_raise_last();
  mb_lock(&reflection_lock);
  int32_t count = known->method_count;
  struct mb_method_info *array = with(known->methods, &count, &own, sizeof(own));
  if (array) __atomic_store_n(&known->methods, array, __ATOMIC_RELEASE);
  if (array) __atomic_store_n(&known->method_count, count, __ATOMIC_RELEASE);
  mb_unlock(&reflection_lock);
  return array ? 0 : mb_error_raise_last();
}

int mb_register_metadata(int32_t type, const struct mb_type_metadata *metadata) {
  static const char function[] = "TVMFFITypeRegisterMetadata";
  if (!metadata || !is_text(&metadata->doc)) return mb_error_null(function);
  struct mb_type_info *known = mb_type_known(type);
  if (!known) return unknown_type(function, type);
  struct mb_type_metadata *own = malloc(sizeof(*own));
  if (!own) return (void)mb_fail_memory(sizeof(*own)), mb_error_raise_last();
  *own = *metadata;
  if (!copy_text(&own->doc)) {
    free(own);
    return mb_error_raise_last();
  }
  __atomic_store_n(&known->metadata, own, __ATOMIC_RELEASE);
  return 0;
}

/* ---- attributes ------------------------------------------------------------------------------ */

struct column {
  struct mb_attribute_column shown; /* what C++ has a pointer to */
  int32_t room;
  struct mb_text name;
  struct column *next;
};

static struct column *first_column; /* with the lock; they stay */

static struct column *column_of(const struct mb_text *name) {
  struct column *column = first_column;
  while (column && !is_same_text(&column->name, name)) column = column->next;
  return column;
}

static struct column *new_column(const struct mb_text *name) {
  struct column *made = calloc(1, sizeof(*made));
  if (!made) return (void)mb_fail_memory(sizeof(*made)), NULL;
  made->name = *name;
  if (!copy_text(&made->name)) {
    free(made);
    return NULL;
  }
  made->next = first_column;
  first_column = made;
  return made;
}

/* Items up to that of `type`. */
static bool widen(struct column *column, int32_t type) {
  if (type < column->room) return true;
  int32_t room = column->room ? column->room : 128;
  while (room <= type) room *= 2;
  struct mb_any *items = calloc((size_t)room, sizeof(*items)); /* MB_ANY_NONE is 0 */
  if (!items) return mb_fail_memory((size_t)room * sizeof(*items)), false;
  if (column->shown.count)
    memcpy(items, column->shown.items, (size_t)column->shown.count * sizeof(*items));
  __atomic_store_n(&column->shown.items, items, __ATOMIC_RELEASE);
  column->room = room;
  return true;
}

static bool set_attribute(const struct mb_text *name, int32_t type, const struct mb_any *value) {
  struct column *column = column_of(name);
  if (!column && !(column = new_column(name))) return false;
  if (type == MB_ANY_NONE) return true;
  struct mb_any own;
  if (!widen(column, type) || mb_any_own(value, &own)) return false;
  ((struct mb_any *)(uintptr_t)column->shown.items)[type] = own;
  if (type >= column->shown.count)
    __atomic_store_n(&column->shown.count, type + 1, __ATOMIC_RELEASE);
  return true;
}

int mb_register_attribute(int32_t type, const struct mb_text *name, const struct mb_any *value) {
  static const char function[] = "TVMFFITypeRegisterAttr";
  if (!name || !is_text(name) || !value) return mb_error_null(function);
  if (!mb_type_known(type)) return unknown_type(function, type);
  mb_lock(&reflection_lock);
  const bool set = set_attribute(name, type, value);
  mb_unlock(&reflection_lock);
  return set ? 0 : mb_error_raise_last();
}

const struct mb_attribute_column *mb_attribute_column(const struct mb_text *name) {
  if (!name || !is_text(name)) return NULL;
  mb_lock(&reflection_lock);
  const struct column *column = column_of(name);
  mb_unlock(&reflection_lock);
  return column ? &column->shown : NULL;
}

const struct mb_any *mb_class_attribute(const struct mb_text *name, int32_t type) {
  union {
    void *address;
    const struct mb_attribute_column *(*call)(const struct mb_text *name);
  } find = {mb_process_function("TVMFFIGetTypeAttrColumn")};
  const struct mb_attribute_column *column = find.address ? find.call(name) : NULL;
  if (!column) column = mb_attribute_column(name);
  if (!column || type < column->begin ||
      type - column->begin >= __atomic_load_n(&column->count, __ATOMIC_ACQUIRE))
    return NULL;
  const struct mb_any *items = __atomic_load_n(&column->items, __ATOMIC_ACQUIRE);
  const struct mb_any *found = &items[type - column->begin];
  return found->type == MB_ANY_NONE ? NULL : found;
}

int mb_type_index_of(const struct mb_text *key, int32_t *out) {
  if (!key || !is_text(key) || !out) return mb_error_null("TVMFFITypeKeyToIndex");
  *out = mb_type_number_of(key);
  if (*out >= 0) return 0;
  (void)mb_fail(MBLOB_E_NOT_FOUND, "TVMFFITypeKeyToIndex: no class has the key \"%.*s\"",
                (int)(key->size < 200 ? key->size : 200), key->data ? key->data : "");
  return mb_error_raise_last();
}

/* ---- global functions ------------------------------------------------------------------------ */

struct described {
  struct described *next;
  struct mb_text name, metadata;
};

static struct described *first_described; /* with the lock; they stay */

static struct described *described_as(const struct mb_text *name) {
  struct described *found = first_described;
  while (found && !is_same_text(&found->name, name)) found = found->next;
  return found;
}

/* (name) -> its metadata; "" without any */
static int get_metadata(TVMValue *args, int *codes, int count, TVMRetValueHandle ret,
                        void *unused) {
  (void)unused;
  if (count != 1 || codes[0] != kTVMStr)
    return mb_fail(MBLOB_E_ARGUMENT, "ffi.GetGlobalFuncMetadata: expected a name"), -1;
  const struct mb_text name = {args[0].v_str, strlen(args[0].v_str)};
  mb_lock(&reflection_lock);
  const struct described *found = described_as(&name);
  const TVMValue text = {.v_str = found ? found->metadata.data : ""};
  mb_unlock(&reflection_lock);
  return mb_plugin_host()->return_value(ret, text, kTVMStr) ? -1 : 0;
}

static int register_reader(void) {
  const mblob_host *host = mb_plugin_host();
  mblob_function *function = NULL;
  union {
    void *address;
    int (*call)(const char *name, TVMFunctionHandle f, int override);
  } set = {host->symbol("TVMFuncRegisterGlobal")};
  if (!set.address || host->function_create(get_metadata, NULL, NULL, &function)) return -1;
  const int rc = set.call("ffi.GetGlobalFuncMetadata", function, 1);
  host->function_release(function);
  return rc;
}

int mb_global_describe(const struct mb_method_info *info) {
  if (!is_text(&info->name) || !is_text(&info->metadata))
    return mb_error_null("TVMFFIFunctionSetGlobalFromMethodInfo");
  struct described *made = calloc(1, sizeof(*made));
  if (!made) return (void)mb_fail_memory(sizeof(*made)), mb_error_raise_last();
  made->name = info->name;
  made->metadata = info->metadata;
  const bool has_name = copy_text(&made->name), has_both = has_name && copy_text(&made->metadata);
  if (has_both) {
    mb_lock(&reflection_lock);
    const bool is_first = !first_described;
    made->next = first_described; /* in front of an older one of that name */
    first_described = made;
    mb_unlock(&reflection_lock);
    return is_first && register_reader() ? mb_error_raise_last() : 0;
  }
  if (has_name) free_text(&made->name);
  free(made);
  return mb_error_raise_last();
}
