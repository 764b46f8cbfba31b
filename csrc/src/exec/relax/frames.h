/* frames.h - calls of functions of the program, as frames on the heap, and calls from outside. */
#ifndef MB_RELAX_FRAMES_H
#define MB_RELAX_FRAMES_H

#include "exec/relax/executable.h"
#include "exec/relax/values.h"

struct relax_frame {
  struct relax_frame *below; /* also: the next one that is idle */
  const struct relax_function *function;
  size_t pc;
  int64_t result; /* register of the frame below; RELAX_VOID and above: none */
  bool is_base;   /* called from outside */
  mblob_any *row; /* room for the operands of any of its calls: of kernels, */
  TVMValue *args; /* and of others */
  int *codes;
  struct relax_value registers[];
};

/* A call from outside, on the stack of its thread. */
struct relax_activation {
  struct relax_machine *machine;
  struct relax_activation *outer;
};

/* A frame on top, its registers empty but for the arguments, which are copied with references:
 * `args` first, then `bound`. */
struct relax_arguments {
  const TVMValue *args;
  const int *codes;
  size_t count;
  const struct relax_value *bound;
  size_t bound_count;
};
int relax_push(struct relax_machine *m, const struct relax_function *f,
               const struct relax_arguments *arguments, int64_t result);
void relax_pop(struct relax_machine *m);
void relax_frames_free(struct relax_machine *m);
/* A frame that is nobody's, with empty registers, which are those of compiled code, too; NULL when
 * memory is out (recorded). And one back, emptied. */
struct relax_frame *relax_frame_take(struct relax_machine *m, const struct relax_function *f);
void relax_frame_give(struct relax_machine *m, struct relax_frame *frame);
/* MBLOB_OK if a function of the program takes so many arguments. */
int relax_check_count(const struct relax_function *f, size_t count);

/* Begin and end a call from outside: one thread at a time, which may come again from below. */
int relax_enter(struct relax_machine *m, struct relax_activation *activation);
void relax_leave(struct relax_activation *activation);
/* The innermost call of this thread, NULL if there is none. */
struct relax_activation *relax_running(void);

#endif
