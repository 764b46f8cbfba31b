#include "run.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "host.h"

#define ALIGNMENT 64

static const DLDevice processor = {kDLCPU, 0};

struct dn_context {
  struct dn_context *next;
  void *stream, *arena;
  void **memories;          /* of each slot */
  struct dn_exec_arg *args; /* of all steps, one after another */
};

/* ---- threads ---- */

/* As many as loops of kernels may have (runtime.NumThreads), 0 if nobody tells. */
static int threads_of_host(void) {
  const mblob_host *host = mb_plugin_host();
  struct mblob_function *function;
  TVMValue value = {0};
  int code = kTVMNullptr;
  if (host->global_function("runtime.NumThreads", &function)) return 0;
  bool told = !host->function_call(function, NULL, NULL, 0, &value, &code) && code == kTVMArgInt;
  host->function_release(function);
  return told && value.v_int64 > 0 && value.v_int64 <= 4096 ? (int)value.v_int64 : 0;
}

/* OpenMP's threads stay behind when a process forks, and the child would wait for them for ever. */
static atomic_bool threads_ran, threads_lost;

static void in_child(void) {
  if (atomic_load(&threads_ran)) atomic_store(&threads_lost, true);
}

static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, in_child); }

int dn_threads_use(const struct dn_library *library, int wanted, int *before) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, watch_forks);
  if (!library->get_threads || !library->set_threads) return *before = 0;
  *before = library->get_threads();
  if (!wanted) wanted = threads_of_host();
  if (!wanted) wanted = *before;
  if (atomic_load(&threads_lost)) wanted = 1;
  if (wanted > 1) atomic_store(&threads_ran, true);
  if (wanted != *before) library->set_threads(wanted);
  return wanted;
}

void dn_threads_restore(const struct dn_library *library, int now, int before) {
  if (now != before) library->set_threads(before);
}

/* ---- contexts ---- */

static void free_context(const struct dn_plan *plan, struct dn_context *context) {
  const struct dn_library *lib = plan->library;
  if (!context) return;
  for (size_t i = 0; i < plan->slot_count && context->memories; ++i)
    if (context->memories[i]) (void)lib->memory_destroy(context->memories[i]);
  if (context->stream) (void)lib->stream_destroy(context->stream);
  if (context->arena) (void)mb_plugin_host()->free(processor, context->arena);
  free(context->memories);
  free(context->args);
  free(context);
}

/* The bytes of a slot, NULL of an argument: each call sets it. */
static void *address(const struct dn_plan *plan, const struct dn_context *context, const struct dn_slot *slot) {
  if (slot->place == DN_CONSTANT) return plan->constants[slot->number].data;
  return slot->place == DN_ARENA ? (char *)context->arena + plan->buffers[slot->number].offset : NULL;
}

static int fill_context(const struct dn_plan *plan, struct dn_context *context) {
  const struct dn_library *lib = plan->library;
  size_t count = 0;
  for (size_t i = 0; i < plan->step_count; ++i) count += plan->steps[i].count;
  context->memories = calloc(plan->slot_count + 1, sizeof(*context->memories));
  context->args = calloc(count + 1, sizeof(*context->args));
  if (!context->memories || !context->args) return mb_fail_memory(count * sizeof(*context->args));
  if (plan->arena_size) {
    int status = mb_plugin_host()->allocate(processor, plan->arena_size, ALIGNMENT, &context->arena);
    if (status) return status;
  }
  int told = lib->stream_create(&context->stream, lib->engine, DN_IN_ORDER);
  for (size_t i = 0; i < plan->slot_count && !told; ++i)
    told = lib->memory_create(&context->memories[i], plan->slots[i].md, lib->engine,
                              address(plan, context, &plan->slots[i]));
  if (told)
    return mb_fail(told == DN_OUT_OF_MEMORY ? MBLOB_E_MEMORY : MBLOB_E_KERNEL,
                   "oneDNN cannot make what a call needs: %s", dn_status_text(told));
  struct dn_exec_arg *arg = context->args;
  for (size_t i = 0; i < plan->step_count; ++i)
    for (size_t k = 0; k < plan->steps[i].count; ++k, ++arg)
      *arg = (struct dn_exec_arg){plan->steps[i].arguments[k].argument,
                                  context->memories[plan->steps[i].arguments[k].slot]};
  return MBLOB_OK;
}

static struct dn_context *take_context(struct dn_runner *runner) {
  (void)pthread_mutex_lock(&runner->lock);
  struct dn_context *context = runner->idle;
  if (context) runner->idle = context->next;
  (void)pthread_mutex_unlock(&runner->lock);
  if (context) return context;
  context = calloc(1, sizeof(*context));
  if (!context) {
    (void)mb_fail_memory(sizeof(*context));
    return NULL;
  }
  if (!fill_context(runner->plan, context)) return context;
  free_context(runner->plan, context);
  return NULL;
}

static void give_context(struct dn_runner *runner, struct dn_context *context) {
  (void)pthread_mutex_lock(&runner->lock);
  context->next = runner->idle;
  runner->idle = context;
  (void)pthread_mutex_unlock(&runner->lock);
}

int dn_runner_begin(struct dn_runner *runner, const struct dn_plan *plan, const struct dn_graph *graph) {
  *runner = (struct dn_runner){.plan = plan, .graph = graph};
  return pthread_mutex_init(&runner->lock, NULL) ? mb_fail_memory(sizeof(runner->lock)) : MBLOB_OK;
}

void dn_runner_end(struct dn_runner *runner) {
  while (runner->idle) {
    struct dn_context *next = runner->idle->next;
    free_context(runner->plan, runner->idle);
    runner->idle = next;
  }
  (void)pthread_mutex_destroy(&runner->lock);
}

/* ---- calls ---- */

static int fail_step(const struct dn_runner *runner, size_t node, int told) {
  if (node != SIZE_MAX)
    return dn_fail_node(runner->graph, &runner->graph->nodes[node], MBLOB_E_KERNEL, "oneDNN failed: %s", dn_status_text(told));
  return mb_fail(MBLOB_E_KERNEL, "dnnl_json %s: oneDNN failed to write an output: %s", runner->graph->symbol,
                 dn_status_text(told));
}

static int run_steps(const struct dn_runner *runner, struct dn_context *context, void *const *arguments) {
  const struct dn_plan *plan = runner->plan;
  const struct dn_library *lib = plan->library;
  const struct dn_exec_arg *arg = context->args;
  int told = DN_SUCCESS;
  for (size_t i = 0; i < plan->slot_count && !told; ++i)
    if (plan->slots[i].place == DN_ARGUMENT)
      told = lib->memory_set_data_handle(context->memories[i], arguments[plan->slots[i].number]);
  if (told) return fail_step(runner, SIZE_MAX, told);
  for (size_t i = 0; i < plan->step_count; ++i) {
    const struct dn_step *step = &plan->steps[i];
    if ((told = lib->primitive_execute(step->primitive, context->stream, (int)step->count, arg)))
      return fail_step(runner, step->node, told);
    arg += step->count;
  }
  told = lib->stream_wait(context->stream);
  return told ? fail_step(runner, SIZE_MAX, told) : MBLOB_OK;
}

int dn_run(struct dn_runner *runner, void *const *arguments) {
  const struct dn_plan *plan = runner->plan;
  if (plan->threads > 1 && atomic_load_explicit(&threads_lost, memory_order_relaxed))
    return mb_fail(MBLOB_E_INCOMPATIBLE,
                   "dnnl_json %s: the process was forked after oneDNN ran on %d threads, which the child has not; start "
                   "it afresh (multiprocessing with \"spawn\"), open the model in the child, or set OMP_NUM_THREADS=1",
                   runner->graph->symbol, plan->threads);
  struct dn_context *context = take_context(runner);
  if (!context) return MBLOB_E_MEMORY;
  int before, now = plan->threads ? dn_threads_use(plan->library, plan->threads, &before) : (before = 0);
  int status = run_steps(runner, context, arguments);
  dn_threads_restore(plan->library, now, before);
  give_context(runner, context);
  return status;
}
