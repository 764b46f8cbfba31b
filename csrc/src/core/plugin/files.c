/* Plug-ins in shared objects: those on MBLOB_PLUGIN_PATH, then those beside libmblob. A file is
 * read to see what it has, and loaded when something of it is needed; it stays in memory then,
 * because memory of its devices may be anywhere. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base.h"
#include "core/plugin/plugin.h"

#define PREFIX "libmblob-"

struct entry {
  struct entry *next;
  char *symbol;
  struct mb_plugin_head head;
  const mblob_plugin *started; /* NULL until it is */
};

/* A file that was read; it is read again when it changes. */
struct file {
  struct file *next;
  char *path;
  dev_t device;
  ino_t inode;
  struct timespec changed;
  off_t size;
  struct entry *entries;
  struct mb_plugin_head none; /* its problem: why the file cannot be read; "" if it can */
};

static struct file *files;
static struct mb_lock files_lock = MB_LOCK_INIT; /* a plug-in may ask for others */

/* ---- reading a file -------------------------------------------------------------------------- */

static int add_entry(void *context, const char *symbol, struct mb_slice bytes) {
  struct file *file = context;
  struct entry *entry = calloc(1, sizeof(*entry)), **end = &file->entries;
  if (entry) entry->symbol = strdup(symbol);
  if (!entry || !entry->symbol) {
    free(entry);
    return mb_fail_memory(sizeof(*entry));
  }
  mb_plugin_read_head(bytes, symbol, &entry->head);
  while (*end) end = &(*end)->next;
  *end = entry;
  return MBLOB_OK;
}

static void read_plugin_tables(struct file *file) {
  struct mb_source source;
  struct mb_elf elf;
  int status = mb_source_open(file->path, &source);
  if (!status) {
    status = mb_elf_read(source.bytes, source.size, &elf);
    if (!status) status = mb_plugin_symbols(&elf, add_entry, file);
    mb_source_close(&source);
  }
  const char *said = status                                             ? mblob_last_error()
                     : !file->entries && strstr(file->path, "/" PREFIX) ? "it is no plug-in"
                                                                        : "";
  size_t size = strlen(file->path);
  if (strncmp(said, file->path, size) == 0 && said[size] == ':')
    said += size + 2; /* it is shown beside the path */
  (void)snprintf(file->none.problem, sizeof(file->none.problem), "%s", said);
}

static bool is_same_file(const struct file *file, const char *path, const struct stat *st) {
  return strcmp(file->path, path) == 0 && file->device == st->st_dev && file->inode == st->st_ino &&
         file->size == st->st_size && file->changed.tv_sec == st->st_mtim.tv_sec &&
         file->changed.tv_nsec == st->st_mtim.tv_nsec;
}

/* With the lock. What is read stays for good: tables of it may be in use. NULL: no memory. */
static struct file *plugin_file_at(const char *path) {
  struct stat st = {0};
  (void)stat(path, &st); /* where that fails, opening it tells why */
  for (struct file *f = files; f; f = f->next)
    if (is_same_file(f, path, &st)) return f;
  struct file *file = calloc(1, sizeof(*file));
  if (file) file->path = strdup(path);
  if (!file || !file->path) {
    free(file);
    return NULL;
  }
  file->device = st.st_dev;
  file->inode = st.st_ino;
  file->changed = st.st_mtim;
  file->size = st.st_size;
  read_plugin_tables(file);
  file->next = files;
  files = file;
  return file;
}

/* ---- the places ------------------------------------------------------------------------------ */

/* `place` counts the folders and files of the search, from 0. */
typedef int (*file_visitor)(void *context, struct file *file, int place);

static int in_any_folder(const struct dirent *e) {
  size_t size = strlen(e->d_name);
  return size > 3 && strcmp(e->d_name + size - 3, ".so") == 0;
}

static int beside_runtime(const struct dirent *e) {
  return strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0 && in_any_folder(e);
}

static int visit_folder(const char *folder, int (*filter)(const struct dirent *), int place,
                        file_visitor visit, void *context) {
  struct dirent **names = NULL;
  int count = scandir(folder, &names, filter, alphasort), result = 0;
  for (int i = 0; i < count; i++) {
    char *path = NULL;
    if (!result && asprintf(&path, "%s/%s", folder, names[i]->d_name) >= 0) {
      struct file *file = plugin_file_at(path);
      if (file && (file->entries || *file->none.problem)) result = visit(context, file, place);
      free(path);
    }
    free(names[i]);
  }
  free(names);
  return result;
}

static int visit_path(const char *path, int place, file_visitor visit, void *context) {
  struct stat st;
  if (stat(path, &st) != 0) return 0;
  if (S_ISDIR(st.st_mode)) return visit_folder(path, in_any_folder, place, visit, context);
  struct file *file = plugin_file_at(path);
  return file ? visit(context, file, place) : 0;
}

/* The folder of the file that this code is in: of libmblob, or of the program that it is linked
 * into. */
static char *own_folder(void) {
  Dl_info info;
  union {
    bool (*function)(const char *, int);
    void *address;
  } own = {mb_plugin_lists_number};
  if (!dladdr(own.address, &info) || !info.dli_fname || !strchr(info.dli_fname, '/')) return NULL;
  char *real = realpath(info.dli_fname, NULL);
  if (real) *strrchr(real, '/') = 0;
  return real;
}

static int visit_files(file_visitor visit, void *context) {
  const char *set = secure_getenv("MBLOB_PLUGIN_PATH");
  char *list = set ? strdup(set) : NULL, *rest = list, *item;
  int place = 0, result = 0;
  while (!result && (item = strsep(&rest, ":")))
    if (*item) result = visit_path(item, place++, visit, context);
  free(list);
  char *folder = result ? NULL : own_folder();
  if (folder) result = visit_folder(*folder ? folder : "/", beside_runtime, place, visit, context);
  free(folder);
  return result;
}

/* ---- finding --------------------------------------------------------------------------------- */

struct file_search {
  bool (*wanted)(const struct mb_plugin_head *head, const void *what);
  const void *what;
  struct file *file;
  struct entry *entry; /* the first that serves */
  int place;
  const struct file *other; /* another in the same folder */
};

static int search_file(void *context, struct file *file, int place) {
  struct file_search *s = context;
  if (s->entry && place != s->place) return 1;
  for (struct entry *e = file->entries; e; e = e->next) {
    if (*e->head.problem || !s->wanted(&e->head, s->what)) continue;
    if (s->entry) {
      s->other = file;
      return 1;
    }
    s->file = file, s->entry = e, s->place = place;
  }
  return 0;
}

/* MBLOB_OK and the table in *out. */
static int start_file(const struct file *file, struct entry *entry, const mblob_plugin **out) {
  *out = entry->started;
  if (*out) return MBLOB_OK;
  const struct mb_float_control before = mb_float_control();
  void *handle = dlopen(file->path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  mb_float_control_keep(before);
  if (!handle) {
    const char *said = dlerror();
    return mb_fail(MBLOB_E_INCOMPATIBLE, "plug-in '%s': %s", entry->head.name,
                   said ? said : file->path);
  }
  const mblob_plugin *table = dlsym(handle, entry->symbol);
  (void)dlclose(handle);
  if (!table)
    return mb_fail(MBLOB_E_INCOMPATIBLE, "plug-in '%s' (%s): there is no %s", entry->head.name,
                   file->path, entry->symbol);
  int status = mb_plugin_start(table, file->path);
  if (!status) entry->started = *out = table;
  return status;
}

/* True if a plug-in in memory has it, too. */
static bool wanted_of(const mblob_plugin *plugin,
                      bool (*wanted)(const struct mb_plugin_head *, const void *),
                      const void *what) {
  struct mb_plugin_head head;
  mb_plugin_read_head((struct mb_slice){(const uint8_t *)plugin, sizeof(*plugin)},
                      MBLOB_PLUGIN_SYMBOL, &head);
  return wanted(&head, what);
}

static enum mb_found find_locked(bool (*wanted)(const struct mb_plugin_head *, const void *),
                                 const void *what, const char *label, const mblob_plugin **out) {
  struct file_search s = {.wanted = wanted, .what = what};
  (void)visit_files(search_file, &s);
  if (!s.entry) return MB_ABSENT;
  if (s.other) {
    (void)mb_fail(MBLOB_E_LOADER,
                  "two plug-ins serve %s: %s and %s; name one of them in MBLOB_PLUGIN_PATH", label,
                  s.file->path, s.other->path);
    return MB_BROKEN;
  }
  if (!out) return MB_PRESENT;
  *out = mb_plugin_first(s.entry->head.name);
  return (*out && wanted_of(*out, wanted, what)) || !start_file(s.file, s.entry, out) ? MB_PRESENT
                                                                                      : MB_BROKEN;
}

static enum mb_found find_in_files(bool (*wanted)(const struct mb_plugin_head *, const void *),
                                   const void *what, const char *label, const mblob_plugin **out) {
  mb_lock(&files_lock);
  enum mb_found found = find_locked(wanted, what, label, out);
  mb_unlock(&files_lock);
  return found;
}

static bool has_key(const struct mb_plugin_head *head, const void *key) {
  return mb_list_has(head->type_keys, key);
}

static bool has_device(const struct mb_plugin_head *head, const void *type) {
  return mb_plugin_lists_number(head->devices, *(const int *)type);
}

enum mb_found mb_plugin_in_files(const char *type_key, const mblob_runtime **out) {
  const mblob_plugin *plugin = NULL;
  char label[96];
  (void)snprintf(label, sizeof(label), "type key '%.64s'", type_key);
  enum mb_found found = find_in_files(has_key, type_key, label, out ? &plugin : NULL);
  if (found == MB_PRESENT && out) *out = mb_plugin_runtime(plugin, type_key);
  return found;
}

int mb_plugin_device_in_files(int device_type) {
  const mblob_plugin *plugin = NULL;
  char label[32];
  (void)snprintf(label, sizeof(label), "device type %d", device_type);
  return find_in_files(has_device, &device_type, label, &plugin) == MB_BROKEN
             ? mblob_last_error_info()->status
             : MBLOB_OK;
}

/* ---- listing --------------------------------------------------------------------------------- */

struct file_listing {
  mb_plugin_visitor visit;
  void *context;
};

static int list_file(void *context, struct file *file, int place) {
  const struct file_listing *l = context;
  (void)place;
  if (*file->none.problem) return l->visit(l->context, &file->none, file->path);
  int result = 0;
  for (const struct entry *e = file->entries; !result && e; e = e->next)
    result = l->visit(l->context, &e->head, file->path);
  return result;
}

int mb_plugin_files_visit(mb_plugin_visitor visit, void *context) {
  struct file_listing l = {visit, context};
  mb_lock(&files_lock);
  int result = visit_files(list_file, &l);
  mb_unlock(&files_lock);
  return result;
}

static bool has_name(const struct mb_plugin_head *head, const void *name) {
  return strcmp(head->name, name) == 0;
}

enum mb_found mb_plugin_named_in_files(const char *name, const mblob_plugin **out) {
  return find_in_files(has_name, name, name, out);
}
