/* From a name to a function, as TVM resolves it: the module's own, then its imports depth first. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "core/call/call.h"
#include "core/library/builtin_class.h"
#include "core/library/library.h"
#include "core/link/link.h"
#include "core/loaded/loaded.h"
#include "core/plugin/plugin.h"

#define ENTRY_NAME "__tvm_main__" /* names the entry function: a string, or the function itself */
#define SHOWN 12                  /* names that an error lists */
#define COMPARED 4096             /* names among which the one that was meant is sought */
#define HINT_LIMIT 256            /* modules that are looked through for what an error says */

/* ---- functions of a library ------------------------------------------------------------------ */

static bool is_code(const struct mb_library *library, const ElfW(Sym) * symbol) {
  unsigned type = ELF64_ST_TYPE(symbol->st_info);
  if (type == STT_FUNC || type == STT_GNU_IFUNC) return true;
  return type == STT_NOTYPE && symbol->st_shndx != SHN_ABS &&
         mb_elf_is_loaded(&library->elf, symbol->st_value, 1, PF_X);
}

/* True if the library exports a function under that symbol. */
static bool is_symbol_there(const struct mb_library *library, const char *symbol_name) {
  ElfW(Sym) symbol;
  return mb_library_symbol(library, symbol_name, &symbol) && is_code(library, &symbol);
}

/* A name of C++, whose functions take arguments in no way that we could know. */
static bool is_mangled(const char *name) { return name[0] == '_' && name[1] == 'Z'; }

/* True if something says that a function is a packed one of the classic dialect: the row of its
 * symbol, or its library where there is no row. */
static bool is_recorded_packed(const struct mb_library *library, const char *symbol,
                               const struct mb_function_row *row) {
  return row ? row->packed : library->is_compiled_by_tvm && !is_mangled(symbol);
}

/* True if it is one because the opening says so of what nothing else tells anything about. A row
 * without types may be of any function. */
static bool is_assumed_packed(const mblob_module *module, const char *symbol,
                              const struct mb_function_row *row) {
  return module->tree->assume == MBLOB_ASSUME_PACKED && module->library->dialect != MB_FFI &&
         !is_mangled(symbol) && (!row || strcmp(row->types, "?") == 0);
}

/* The name in the string `__tvm_main__`; NULL if there is none, or it is no string. */
static const char *entry_string(const struct mb_library *library) {
  ElfW(Sym) symbol;
  struct mb_slice bytes;
  if (library->system_prefix)
    return mb_library_symbol(library, ENTRY_NAME, &symbol); /* TVM: always a string */
  if (!mb_elf_find(&library->elf, ENTRY_NAME, &symbol) || is_code(library, &symbol) ||
      mb_elf_object(&library->elf, &symbol, ENTRY_NAME, &bytes) ||
      !memchr(bytes.data, 0, mb_size(bytes.size)))
    return NULL;
  return (const char *)bytes.data;
}

static int make_kernel(struct mb_library *library, const char *name, const char *symbol_name,
                       const struct mb_function_row *row, mblob_function **out) {
  ElfW(Sym) symbol;
  void *address = mb_library_symbol(library, symbol_name, &symbol);
  if (!address || !is_code(library, &symbol)) return MBLOB_OK;
  /* A system library may have functions of both dialects. */
  const bool of_ffi = library->system_prefix && symbol.st_other == MB_FFI;
  const bool safe =
      of_ffi || library->dialect == MB_FFI_OF_0_21 || mb_ffi_function_name(symbol_name);
  if (of_ffi && mb_plugin_convention(&library->convention)) return MBLOB_E_INCOMPATIBLE;
  mblob_function *function = mb_function_new(safe ? MB_SAFE_CALL : MB_KERNEL, library, name);
  if (!function) return MBLOB_E_MEMORY;
  function->u.address = address;
  if (row) {
    function->alignment = row->alignment;
    function->signature = strcmp(row->types, "?") == 0 ? "" : row->types;
    function->prototype = row->prototype;
  } else if (safe) {
    const enum mb_cxx cxx = mb_ffi_cxx(library);
    if (cxx >= MB_CXX_SOME) function->takes = MBLOB_ARGUMENTS_OBJECTS;
    if (cxx == MB_CXX_ALL) function->alignment = 0; /* as tvm_ffi passes arrays */
  }
  if (!mb_map_put(&library->functions, function->name, function)) {
    mb_function_free(function);
    return MBLOB_E_MEMORY;
  }
  *out = function;
  return MBLOB_OK;
}

static int find_prefixed(struct mb_library *library, const char *name, mblob_function **out) {
  char *symbol = NULL;
  if (asprintf(&symbol, MB_FFI_PREFIX "%s", name) < 0) return mb_fail_memory(strlen(name));
  int status = make_kernel(library, name, symbol, NULL, out);
  free(symbol);
  return status;
}

/* The row of a table that is about `name`, or about its symbol; NULL if there is none. */
static const struct mb_function_row *row_of(const struct mb_function_table *table,
                                            const char *name) {
  const struct mb_function_row *row = mb_function_table_find(table, name, true);
  if (!row) row = mb_function_table_find(table, name, false);
  return row ? row : mb_function_table_symbol(table, name);
}

static int assume_kernel(const mblob_module *module, const char *name, const char *symbol,
                         mblob_function **out) {
  int status = make_kernel(module->library, name, symbol, NULL, out);
  if (*out) (*out)->is_assumed = true;
  return status;
}

/* With the library's lock. The table decides where it says something: a symbol that it calls
 * plain has not the packed convention. In the ffi dialect a plain function may have the name of a
 * packed one, whose symbol is another: the packed one is called. */
static int find_kernel(const mblob_module *module, const char *name, mblob_function **out) {
  struct mb_library *library = module->library;
  *out = mb_map_get(&library->functions, name);
  if (*out && (*out)->is_assumed && module->tree->assume != MBLOB_ASSUME_PACKED) *out = NULL;
  if (*out) return MBLOB_OK;
  const struct mb_function_row *row = row_of(&library->table, name);
  const char *symbol = row ? row->symbol : name;
  if (strcmp(name, ENTRY_NAME) == 0 && !(row && row->packed)) {
    const char *entry = entry_string(library);
    if (entry && strcmp(entry, ENTRY_NAME) != 0) return find_kernel(module, entry, out);
    if (library->dialect == MB_FFI || library->system_prefix)
      return find_kernel(module, "main", out);
  }
  if (library->dialect == MB_FFI && !(row && row->packed && strcmp(row->name, name) == 0))
    return find_prefixed(library, name, out); /* others are no functions of the module */
  if (is_recorded_packed(library, symbol, row)) return make_kernel(library, name, symbol, row, out);
  return is_assumed_packed(module, symbol, row) ? assume_kernel(module, name, symbol, out)
                                                : MBLOB_OK;
}

/* `*closed`: as of mb_loader_find. */
static int find_own(mblob_module *module, const char *name, mblob_function **out, bool *closed) {
  *out = NULL;
  *closed = module->library->is_readonly;
  if (*closed)
    return mb_fail(MBLOB_E_ARGUMENT,
                   "'%s': mblob_open_readonly loads no code; open the library with mblob_open",
                   name);
  if (!module->is_library) return mb_loader_find(module, name, out, closed);
  mb_lock(&module->library->lock);
  int status = find_kernel(module, name, out);
  mb_unlock(&module->library->lock);
  return status;
}

/* ---- and of what it imports ------------------------------------------------------------------ */

struct function_search {
  const char *name;
  mblob_function *found;
  bool passed; /* a module that cannot be opened; the error is that of the first */
  struct mb_saved_error error;
  size_t walked; /* modules that a hint was sought in */
};

static int look_in_module(struct function_search *search, mblob_module *module) {
  bool closed = false;
  int status = find_own(module, search->name, &search->found, &closed);
  if (!closed) return status;
  if (!search->passed) mb_error_save(&search->error);
  search->passed = true;
  return MBLOB_OK;
}

/* A module that cannot be opened does not hide functions of the modules behind it. */
static int visit(mblob_module *module, void *argument) {
  struct function_search *search = argument;
  int status = look_in_module(search, module);
  return status ? status : search->found ? 1 : 0;
}

/* The end of a search that found something, or whose last visit gave `status`. Why a module was
 * passed by is the error of a name that nobody has. */
static int finish_search(struct function_search *search, int status, mblob_function **out) {
  *out = search->found;
  status = status > 1 ? status : MBLOB_OK;
  if (search->passed && !status && !search->found) status = mb_error_restore(&search->error);
  if (search->passed) mb_saved_error_free(&search->error);
  return status;
}

static int search_module(struct function_search *search, mblob_module *module,
                         enum mb_scope scope) {
  int status = scope == MB_IMPORTS_ONLY ? MBLOB_OK : look_in_module(search, module);
  return !status && !search->found && scope != MB_ITSELF
             ? mb_module_walk(module, true, visit, search)
             : status;
}

int mb_module_find(mblob_module *module, const char *name, enum mb_scope scope,
                   mblob_function **out) {
  struct function_search search = {.name = name};
  int status = search_module(&search, module, scope);
  return finish_search(&search, status, out);
}

int mb_module_find_if_open(mblob_module *module, const char *name, enum mb_scope scope,
                           mblob_function **out) {
  struct function_search search = {.name = name};
  int status = search_module(&search, module, scope);
  if (search.passed) mb_saved_error_free(&search.error);
  search.passed = false;
  return finish_search(&search, status, out);
}

static int search_trees(const struct mb_tree *tree, struct function_search *search) {
  int status = MBLOB_OK;
  for (; tree && !status; tree = tree->next)
    for (size_t i = 0; i < tree->count && !status; i++)
      if (tree->modules[i].is_library)
        status = mb_module_walk(&tree->modules[i], true, visit, search);
  return status;
}

/* As TVM 0.8 and later: the first match, depth first. TVM 0.5 and 0.6 search one level of imports,
 * and TVM 0.7 takes the last match. */
int mb_library_find_import(struct mb_library *library, const char *name, mblob_function **out) {
  struct function_search search = {.name = name};
  int status = MBLOB_OK;
  while (library && !status) {
    mb_lock(&library->lock);
    /* Trees are only ever put in front, so the rest may be read without the lock. */
    const struct mb_tree *tree = library->trees;
    struct mb_library *joined = library->joined;
    mb_unlock(&library->lock);
    status = search_trees(tree, &search);
    library = joined;
  }
  return finish_search(&search, status, out);
}

/* ---- not found ------------------------------------------------------------------------------- */

struct names_listing {
  FILE *text;
  bool has_program; /* of a virtual machine, whose functions are none of the module */
  struct mb_set seen;
  struct mb_near near;
  size_t shown, walked;
};

/* Names of compilers, TVM and mblob, and those of C++, as mblob/format/exported_functions.py has them. */
static bool is_helper(const char *name) {
  static const char prefixes[][12] = {"__tvm_", "__TVM", "__mblob_", "_Z"};
  static const char names[][16] = {
      "_init",        "_fini",         "__extendhfsf2", "__truncsfhf2",   "__extendhfdf2",
      "__truncdfhf2", "__extendhfxf2", "__truncxfhf2",  "__gnu_h2f_ieee", "__gnu_f2h_ieee"};
  for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
    if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
    if (strcmp(name, names[i]) == 0) return true;
  return false;
}

static void list_name(struct names_listing *l, const char *name) {
  mb_near_offer(&l->near, name);
  if (++l->shown <= SHOWN) (void)fprintf(l->text, "%s%s", l->shown > 1 ? ", " : "", name);
}

/* The functions of a library, at most `most`. */
static void library_names(const mblob_module *module, size_t most,
                          void (*visit)(void *context, const char *name), void *context) {
  const struct mb_library *library = module->library;
  for (size_t i = 0; i < library->table.count && most; i++) {
    const struct mb_function_row *row = &library->table.rows[i];
    if ((row->packed || is_assumed_packed(module, row->symbol, row)) &&
        is_symbol_there(library, row->symbol))
      visit(context, row->name), most--;
  }
  for (uint64_t i = 1; i < library->elf.symbol_count && most; i++) {
    ElfW(Sym) symbol = mb_elf_symbol(&library->elf, i);
    const char *name = mb_elf_symbol_name(&library->elf, &symbol),
               *own = mb_ffi_function_name(name);
    if (!mb_elf_is_exported(&symbol) || !is_code(library, &symbol) ||
        mb_function_table_symbol(&library->table, name))
      continue;
    if (own ? *own != '_'
            : library->dialect != MB_FFI && !is_helper(name) &&
                  (is_recorded_packed(library, name, NULL) ||
                   is_assumed_packed(module, name, NULL)))
      visit(context, own ? own : name), most--;
  }
}

static void visit_name(void *l, const char *name) { list_name(l, name); }

static bool is_program(const mblob_module *module) {
  return mb_list_has(MB_KEY_RELAX_EXECUTABLE "," MB_KEY_RELAX_EXECUTABLE_OF_0_16, module->type_key);
}

static int list_module(mblob_module *module, void *argument) {
  struct names_listing *l = argument;
  if (l->shown >= COMPARED || l->walked++ == HINT_LIMIT) return 1;
  if (!module->is_library) {
    l->has_program |= is_program(module);
    mb_known_names(module, visit_name, l);
    return 0;
  }
  if (mb_set_add(&l->seen, module->library) == 1)
    library_names(module, COMPARED - l->shown, visit_name, l);
  return 0;
}

/* A function that is not called: what the table says of it, and whether there is one. */
struct recorded {
  const char *name;
  const struct mb_function_row *row;
  struct mb_slice why; /* it has no packed function, as far as something tells */
  bool is_there;
};

static int find_recorded(mblob_module *module, void *argument) {
  struct recorded *found = argument;
  if (!module->is_library) return 0;
  found->row = row_of(&module->library->table, found->name);
  if (found->row && found->row->packed && strcmp(found->row->name, found->name) != 0)
    found->row = NULL;
  const char *symbol = found->row ? found->row->symbol : found->name;
  const bool may_be = found->row || !(module->library->dialect == MB_FFI || is_mangled(symbol));
  found->is_there = may_be && is_symbol_there(module->library, symbol);
  if (!found->row || !found->row->packed)
    found->why = mb_function_table_note(&module->library->table, symbol);
  return found->row || found->is_there || found->why.size;
}

/* For a hint no loader may run, and a miss must not cost a walk over all that is below. */
static int visit_near_library(mblob_module *module, void *argument) {
  struct function_search *search = argument;
  if (search->walked++ == HINT_LIMIT) return HINT_LIMIT;
  return module->is_library ? visit(module, argument) : 0;
}

static int not_found(mblob_module *module, const char *name, enum mb_scope scope) {
  bool imports = scope != MB_ITSELF, only = scope == MB_IMPORTS_ONLY;
  char *text = NULL;
  size_t size = 0;
  struct names_listing l = {.text = open_memstream(&text, &size),
                            .near = MB_NEAR(name, strlen(name))};
  struct function_search elsewhere = {.name = name};
  struct recorded recorded = {.name = name};
  if (!l.text) return mb_fail_memory(0);
  (void)(imports ? mb_module_walk(module, only, find_recorded, &recorded)
                 : find_recorded(module, &recorded));
  if (recorded.is_there) { /* one with a packed function was found before */
    (void)fclose(l.text);
    free(text);
    /* "?": the packer did not know either */
    const bool is_plain = recorded.row && strcmp(recorded.row->types, "?") != 0;
    return mb_fail_plain_function(name, is_plain, (const char *)recorded.why.data,
                                  mb_size(recorded.why.size));
  }
  if (imports)
    (void)mb_module_walk(module, only, list_module, &l);
  else
    (void)list_module(module, &l);
  if (l.shown > SHOWN) (void)fputs(", ...", l.text);
  if (!l.shown) (void)fputs("none", l.text);
  bool hint = !imports && mb_module_walk(module, true, visit_near_library, &elsewhere) == 1;
  (void)fclose(l.text);
  mb_set_free(&l.seen);
  int status = mb_fail(MBLOB_E_NOT_FOUND, "%smodule '%s' has no function '%s'; it has: %s%s%s",
                       only ? "what is imported by " : "", module->type_key, name,
                       text ? text : "?", recorded.why.size ? "" : l.near.text,
                       hint ? "; one of its imports has it: pass query_imports" : "");
  free(text);
  if (recorded.row)
    mb_error_hint(
        "its table of functions gives it the symbol '%s', and the library has no such function: "
        "pack it again",
        recorded.row->symbol);
  else if (recorded.why.size)
    mb_error_hint("%.*s", (int)mb_size(recorded.why.size), (const char *)recorded.why.data);
  else if (module->is_library && !*l.near.text && strstr(name, "::"))
    mb_error_hint(
        "methods, templates and static functions cannot be called: pack with --function %s (in "
        "Python functions=), whose error says what to write",
        name);
  else if (l.has_program)
    mb_error_hint("a function of its program is run by mblob_executor_create(module, NAME, ...)");
  return status;
}

/* ---- the public functions -------------------------------------------------------------------- */

int mb_module_need(mblob_module *module, const char *name, enum mb_scope scope,
                   mblob_function **out) {
  int status = mb_module_find(module, name, scope, out);
  if (!status && !*out) status = not_found(module, name, scope);
  if (status) *out = NULL;
  return status || !mblob_function_retain(*out) ? status : MBLOB_OK;
}

int mblob_module_function(mblob_module *module, const char *name, int query_imports,
                          mblob_function **out) {
  if (MB_IS_NULL(out)) return MBLOB_E_ARGUMENT;
  *out = NULL;
  if (MB_NO_MODULE(module) || MB_IS_NULL(name)) return MBLOB_E_ARGUMENT;
  return mb_module_need(module, name, query_imports ? MB_WITH_IMPORTS : MB_ITSELF, out);
}

int mblob_module_names(mblob_module *module, void (*visit)(void *context, const char *name),
                       void *context) {
  if (MB_NO_MODULE(module) || MB_IS_NULL(visit)) return MBLOB_E_ARGUMENT;
  if (module->is_library)
    library_names(module, SIZE_MAX, visit, context);
  else
    mb_known_names(module, visit, context);
  return MBLOB_OK;
}

void *mblob_module_dlhandle(mblob_module *module) {
  return module && module->is_library ? module->library->handle : NULL;
}

void *mblob_module_symbol(mblob_module *module, const char *name) {
  ElfW(Sym) symbol;
  if (!module || !name || !module->is_library || module->library->is_readonly) return NULL;
  /* In a statically linked library the name itself is announced for the packed function. */
  const struct mb_function_row *row = mb_function_table_find(&module->library->table, name, false);
  return mb_library_symbol(module->library, row ? row->symbol : name, &symbol);
}
