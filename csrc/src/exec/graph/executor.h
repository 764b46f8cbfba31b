/* executor.h - a graph with memory and functions, ready to run: TVM's graph executor.
 *
 * Values of the graph live in pools, one per storage of the graph; each value is a view of its
 * pool. The bytes of a value can instead be others': parameters where the file has them, or
 * memory of the caller ("zero copy"). The values made of one value by `__nop` move with it, so
 * everything here is about roots (checked_graph.h).
 */
#ifndef MB_GRAPH_EXECUTOR_H
#define MB_GRAPH_EXECUTOR_H

#include "core/call/call.h"
#include "core/library/library.h"
#include "core/loaded/loaded.h"
#include "exec/common/common.h"
#include "exec/graph/checked_graph.h"

enum mb_memory_kind {
  MB_OWN,    /* in the pool of the storage */
  MB_SHARED, /* read-only: in a file, or shared with other executors */
  MB_BOUND   /* the caller's */
};

/* The bytes of one root. */
struct mb_graph_memory {
  enum mb_memory_kind kind;
  DLTensor *array;    /* counted: keeps them; NULL in the own pool, or if the caller keeps them */
  uint32_t alignment; /* bytes, what the functions that use it need */
  bool is_alone;      /* no other root has its storage */
};

/* An operator in the order of the graph; a `__nop` is none. */
struct mb_graph_step {
  uint32_t node;
  mblob_function *function; /* a reference; NULL copies the first value to the second */
  TVMValue *values;         /* views: inputs, then outputs */
  int count;
};

#define MB_NO_STEP UINT32_MAX

/* When a step ran last. */
struct mb_graph_time {
  double start, end; /* of mb_seconds_now() */
  int thread;        /* 0: the one that called */
};

struct mb_schedule;

/* The choice of a run without a number of threads: one thread, or several (thread_choice.c). */
struct mb_thread_choice {
  enum {
    MB_THREADS_LEARNS,
    MB_THREADS_CHAIN, /* there is nothing to learn: memory orders all steps */
    MB_THREADS_SERIAL,
    MB_THREADS_TOGETHER
  } is;
  unsigned runs;          /* that were looked at */
  unsigned looks;         /* at schedules that were chains */
  int threads;            /* that had something to do at the same time */
  bool loops;             /* kernels use several threads themselves */
  double together, build; /* seconds of the quickest run, and of making the schedule */
  double saved;           /* seconds that the other threads save, about */
  double *least;          /* seconds of each step, the least so far; NULL once it is known */
};

struct mb_graph_executor {
  struct mb_graph graph;
  mblob_module *kernels; /* a reference */
  DLTensor *views;       /* of all entries */
  DLTensor *flat;        /* the same with one dimension; NULL if no operator wants them */
  int64_t *flat_extents;
  DLDevice *devices; /* those other than the host that have values */
  size_t device_count;
  uint32_t *next; /* entry -> the next one with the same root, in a ring */
  struct mb_graph_memory *memory;
  DLTensor **pools; /* of all storages; counted, NULL until needed */
  size_t *pool_sizes;
  char **output_names;  /* of all outputs: `NODE:POSITION` */
  uint8_t *input_flags; /* of all inputs: MBLOB_TENSOR_* */
  const void **bound;   /* of all outputs: the caller's memory, NULL if there is none */
  bool rebound;         /* an output was bound again, and other outputs may have the same bytes */
  struct mb_graph_step *steps;
  uint32_t step_count;
  TVMValue *values;
  int *codes;                   /* enough kTVMDLTensorHandle for any step */
  struct mb_schedule *schedule; /* of parallel runs; NULL when memory moved */
  struct mb_thread_choice thread_choice;
  struct mb_graph_time *times; /* of all steps in the last run; NULL where nobody asks */
  bool is_profiled;            /* steps of devices are waited for */
  uint32_t executed;           /* steps that mb_graph_run_to has done since the last whole run */
  struct mb_lock lock;
};

struct mb_graph_source {
  const char *json;
  size_t json_size;
  mblob_module *kernels;
  enum mb_scope kernels_scope; /* where they are looked for */
  const DLDevice *devices;
  size_t device_count;
  mblob_function *lookup; /* of linked parameters; NULL: `_lookup_linked_param` of the kernels */
  const struct mb_stored_arrays *parameters; /* may be NULL */
  mblob_module *parameters_module;           /* which keeps them */
};

int mb_graph_executor_new(const struct mb_graph_source *source, struct mb_graph_executor **out);
void mb_graph_executor_free(void *executor);

/* One call at a time: other threads wait; a function of the graph that calls its own executor is
 * refused. Every enter that returned MBLOB_OK has its leave, with the same `frame`. */
struct mb_graph_frame {
  const struct mb_graph_executor *executor;
  const struct mb_graph_frame *outer;
};
int mb_graph_enter(struct mb_graph_executor *executor, struct mb_graph_frame *frame);
void mb_graph_leave(struct mb_graph_executor *executor, struct mb_graph_frame *frame);
/* What this thread is inside of; workers of a parallel run take it over from the caller. */
const struct mb_graph_frame *mb_graph_frames(void);
void mb_graph_set_frames(const struct mb_graph_frame *frames);

/* ---- memory.c: all of these with the lock ---- */

/* Give every root its bytes: parameters and linked ones in place, pools for the rest. */
int mb_graph_memory_new(struct mb_graph_executor *executor, const struct mb_graph_source *source);
/* Check that a tensor can be copied into an input. */
int mb_graph_check_input(const struct mb_graph_executor *executor, uint32_t input,
                         const DLTensor *value);
/* Copy into an input; it is in the executor's own memory then. */
int mb_graph_set_input(struct mb_graph_executor *executor, uint32_t input, const DLTensor *value);
/* Use the caller's memory. `is_counted`: `value` is an array, a reference is kept; else the
 * caller keeps it.
 */
int mb_graph_bind_input(struct mb_graph_executor *executor, uint32_t input, DLTensor *value,
                        bool is_counted);
int mb_graph_bind_output(struct mb_graph_executor *executor, uint32_t output, DLTensor *value,
                         bool is_counted);
/* Before a run: outputs of the same bytes are bound to the same memory, or not at all. */
int mb_graph_check_bound(struct mb_graph_executor *executor);
/* Copy an entry to the caller's tensor; `what` is its name in errors. */
int mb_graph_copy_out(const struct mb_graph_executor *executor, const char *what, uint32_t entry,
                      DLTensor *to);
/* A counted view of an entry, writable. */
int mb_graph_expose(struct mb_graph_executor *executor, uint32_t entry, DLTensor **out);
/* Use the bytes of a parameter of another executor, read-only in both from now on. */
int mb_graph_share_input(struct mb_graph_executor *executor, uint32_t input,
                         struct mb_graph_executor *other, uint32_t other_input);

/* ---- run.c, thread_choice.c: with the lock ---- */

int mb_graph_step_run(struct mb_graph_executor *executor, uint32_t step);
/* All steps. The results are those of one step after the other, bit for bit: loops of kernels have as
 * many tasks (mb_parallel_launch_steps). */
enum { MB_THREADS_AS_MEASURED = -1 };
/* `threads`: that run steps at the same time; 0: as many as kernels get; 1: one step after the other;
 * MB_THREADS_AS_MEASURED. */
int mb_graph_run(struct mb_graph_executor *executor, int threads);
/* Memory moved: forget what depends on it. */
void mb_thread_choice_moved(struct mb_graph_executor *executor);
void mb_schedule_free(struct mb_schedule *schedule);
/* Wait for what the calling thread gave to devices. */
int mb_graph_wait(const struct mb_graph_executor *executor);
/* Run the steps up to and with `node` that were not run since the last whole run. */
int mb_graph_run_to(struct mb_graph_executor *executor, uint32_t node);

#endif
