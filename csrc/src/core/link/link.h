/* link.h - libraries and the dynamic linker: what it is given, which symbols it finds, and whether
 * code can be unloaded. */
#ifndef MB_LINK_H
#define MB_LINK_H

#include "core/link/system_symbols.h" /* symbols of statically linked libraries */
#include "core/link/ffi_library.h"    /* libraries of the ffi dialect */
#include "core/loaded/loaded.h"

/* Opens a library; NULL in *out after an error. */
typedef int mb_opener(const char *path, mblob_module **out);
/* Hand the file to the dynamic linker and fill the slots. `open` opens libraries that it
 * needs. */
int mb_library_link(struct mb_library *library, mb_opener *open);
/* Let go of the libraries that one needed which is closed. */
void mb_library_release_needed(struct mb_needed *needed);
/* True if nothing can run the code of a library whose last reference goes. */
bool mb_library_may_be_unmapped(const struct mb_library *library);
/* What `keeps_no_address` is, as its file tells it. */
bool mb_library_keeps_no_address(const struct mb_library *library);
/* Handlers of signals, and the locale, before code of a library runs. */
#define MB_SIGNALS \
  65 /* one more than the highest of Linux, but for MIPS, whose further ones are real-time signals */
struct mb_process_state {
  uintptr_t handlers[MB_SIGNALS];
  char locale[256];
};
void mb_process_state_take(struct mb_process_state *state);
/* What is otherwise now, as a text on the heap for people; NULL: nothing, or no memory. */
char *mb_process_state_changes(const struct mb_process_state *before);
/* Close the linker's handle; whether the library is still in memory, for itself or because others
 * hold it. */
bool mb_library_unlink(struct mb_library *library);

/* The names of functions that its code asks for by TVMBackendGetFuncFromEnv, as far as
 * the file tells them; one may come twice. They lie in the file's mapping. */
typedef void (*mb_name_visitor)(const char *name, void *context);
void mb_library_code_names(const struct mb_library *library, mb_name_visitor visit, void *context);
/* Address of an exported symbol of this very library, NULL if absent. */
void *mb_library_symbol(const struct mb_library *library, const char *name, ElfW(Sym) * symbol);

#endif
