/* closure.h - functions of the program as values. */
#ifndef MB_RELAX_CLOSURE_H
#define MB_RELAX_CLOSURE_H

#include "exec/relax/executable.h"
#include "exec/relax/values.h"

struct relax_closure;

/* What closures that are part of their machine's module point to it by: it is NULL once the machine
 * has gone. */
struct relax_link {
  atomic_size_t references;
  struct relax_machine *machine;
  int (*call)(struct relax_machine *m, const struct relax_closure *closure, const TVMValue *args,
              const int *codes, int count, struct mb_return *out);
};

/* A function of the program, with the values that stand behind its arguments. */
struct relax_closure {
  struct relax_link *link;
  mblob_module *module; /* of the machine, counted; NULL in one that is part of it */
  const struct relax_function *function;
  bool drops_result;
  bool is_block; /* `bound` is one of block_cache.h */
  size_t count;
  struct relax_value *bound;
};

/* A closure as a function; values are retained. `weak`: it is part of the machine's module. */
int relax_closure_new(struct relax_machine *m, const struct relax_function *f,
                      const struct relax_value *bound, size_t count, bool weak,
                      mblob_function **out);
/* The closure behind a function, NULL of any other. */
struct relax_closure *relax_closure_of(const mblob_function *function);
void relax_closure_rebind(struct relax_closure *closure, const struct relax_function *f,
                          struct relax_value *bound, size_t count, bool drops_result);
void relax_link_release(struct relax_link *link);

#endif
