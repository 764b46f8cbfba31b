/* profile.h - what can be run in this program: classes of modules, global functions, names of
 * the runtime. The functions by which a program comes in (entry/) hand the table down, because
 * no room knows what stands above it. A program has one table, chosen when it is linked; what a
 * program registers under the same name comes first. */
#ifndef MB_PROFILE_H
#define MB_PROFILE_H

#include <mblob.h>
#include <stdatomic.h>
#include <stdbool.h>

/* The executors of the table: all of them in libmblob. A program that compiles mblob.c
 * (csrc/amalgamation.py) may ask for some: MBLOB_PROFILE_CORE has none, and MBLOB_WITH_GRAPH and the
 * like are the core with those. MBLOB_WITH_FFI is no executor: mblob.c then has the plug-in "ffi".
 * MBLOB_PROFILE_MINIMAL leaves out more: see csrc/amalgamation.py. */
#if !defined(MBLOB_PROFILE_MINIMAL) && !defined(MBLOB_PROFILE_CORE) &&                      \
    !defined(MBLOB_WITH_GRAPH) && !defined(MBLOB_WITH_AOT) && !defined(MBLOB_WITH_RELAY) && \
    !defined(MBLOB_WITH_RELAX) && !defined(MBLOB_WITH_CONTRIB) && !defined(MBLOB_WITH_FFI)
#define MBLOB_WITH_FFI     /* plugins/ffi; in libmblob a file of its own */
#define MBLOB_WITH_GRAPH   /* exec/graph */
#define MBLOB_WITH_AOT     /* exec/aot */
#define MBLOB_WITH_RELAY   /* exec/relay */
#define MBLOB_WITH_RELAX   /* exec/relax */
#define MBLOB_WITH_CONTRIB /* exec/contrib */
#endif

#if defined(MBLOB_WITH_GRAPH) || defined(MBLOB_WITH_AOT) || defined(MBLOB_WITH_RELAY) || \
    defined(MBLOB_WITH_RELAX) || defined(MBLOB_WITH_CONTRIB)
#define MB_WITH_EXECUTORS /* exec/common */
#endif
#if defined(MBLOB_PROFILE_MINIMAL) && (defined(MB_WITH_EXECUTORS) || defined(MBLOB_WITH_FFI))
#error \
    "MBLOB_PROFILE_MINIMAL has no executors and no ffi dialect: leave it out, and MBLOB_WITH_GRAPH and the like have the core"
#endif

struct mb_class;
struct mb_method;

struct mb_global {
  char name[32];
  TVMPackedCFunc call;
};

struct mb_profile {
  const struct mb_class *classes[9]; /* that open payloads; ends with NULL */
  const struct mb_method
      *methods[12];            /* tables of global functions that need no object; ends with NULL */
  struct mb_global globals[9]; /* others; ends with one without a call */
  void *(*symbol)(
      const char *name); /* the runtime's function of that name; NULL if it is none of its names */
  const mblob_host *plugin_host;       /* what plug-ins get */
  int (*find_device)(int device_type); /* register a kind of device that is not there; MBLOB_OK also
                                          if it is nowhere */
  const char *elsewhere; /* hints (mb_profile_hint) for keys and global functions that other
                            profiles have; may be NULL */
};

/* The program's table; NULL before the first function of entry/ was called. Hidden where it is
 * declared, too: it is read without a detour through the GOT. */
extern __attribute__((visibility("hidden"))) _Atomic(const struct mb_profile *) mb_profile_in_use;

static inline const struct mb_profile *mb_profile_of_program(void) {
  return atomic_load_explicit(&mb_profile_in_use, memory_order_relaxed);
}

/* Address of this runtime's function `name`, NULL if it is none of its names. Never another
 * runtime's, whatever the process has loaded. */
void *mb_profile_symbol(const char *name);
/* True if the list, with commas between its items, has that item. */
bool mb_list_has(const char *list, const char *item);
/* What is known of a key or global function that is not here, in words; NULL if nothing. Hints,
 * those of the profile and the `others`: lists of names, and what is said of them, in turn, up
 * to an empty list. */
const char *mb_profile_hint(const char *name, const char *others);

#endif
