/* Making modules of the key relax.VirtualMachine; calls from outside. */
#define _GNU_SOURCE
#include "exec/relax/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/plugin/plugin.h"

/* ---- what the table names -------------------------------------------------------------------- */

static int find_in_machine_imports(const struct relax_executable *exec, const char *name,
                                   mblob_function **out) {
  return mb_module_find(exec->module, name, MB_IMPORTS_ONLY, out);
}

/* A kernel of the program comes first, then what is registered in the process. */
static int find_packed(struct relax_machine *m, const char *name, struct relax_target *out) {
  int status = find_in_machine_imports(m->exec, name, &out->function);
  if (out->function) {
    out->function = mblob_function_retain(out->function);
    out->borrows = mblob_function_argument_mode(out->function) == MBLOB_ARGUMENTS_FFI;
    if (out->function->kind == MB_SAFE_CALL && out->function->library->convention) {
      out->address = out->function->u.address;
      out->library = out->function->library;
      if (out->library->convention->struct_size >= sizeof(mblob_convention))
        out->call_row = out->library->convention->call_row;
    }
    return MBLOB_OK;
  }
  if (status) return status;
  status = mb_global_get(name, &out->function);
  if (out->function) out->builtin = mb_method_of(out->function);
  return status;
}

static int find_compiled(struct relax_machine *m, const char *name, struct relax_target *out) {
  char *symbol = NULL;
  if (asprintf(&symbol, "__vmtir__%s", name) < 0) return mb_fail_memory(strlen(name));
  int status = find_in_machine_imports(m->exec, symbol, &out->function);
  out->function = mblob_function_retain(out->function);
  if (!status && !out->function)
    status = mb_fail(MBLOB_E_KERNEL,
                     "InternalError: Cannot find underlying compiled tirx function of VMTIRFunc %s",
                     name);
  free(symbol);
  return status;
}

static int find_targets(struct relax_machine *m) {
  int status = MBLOB_OK;
  for (size_t i = 0; !status && i < m->exec->function_count; i++) {
    const struct relax_function *f = &m->exec->functions[i];
    struct relax_target *target = &m->targets[i];
    if (f->kind == RELAX_COMPILED) status = find_compiled(m, f->name, target);
    if (f->kind == RELAX_PACKED) status = find_packed(m, f->name, target);
  }
  return status;
}

/* ---- ready ----------------------------------------------------------------------------------- */

static void clear_targets(struct relax_machine *m) {
  for (size_t i = 0; i < m->exec->function_count; i++) {
    mblob_function_release(m->targets[i].function);
    m->targets[i] = (struct relax_target){.function = NULL};
  }
}

/* What compiled functions of the ffi dialect are given values by. */
static int find_convention(struct relax_machine *m) {
  bool needed = m->exec->dialect != MB_CLASSIC && !m->convention, compiled = false;
  for (size_t i = 0; i < m->exec->function_count; i++)
    compiled |= m->exec->functions[i].kind == RELAX_COMPILED;
  if (!needed || !compiled) return MBLOB_OK;
  int status = mb_plugin_convention(&m->convention);
  if (!status && m->convention->struct_size < sizeof(*m->convention))
    status = mb_fail(MBLOB_E_INCOMPATIBLE, "libmblob-ffi.so is of an older mblob than libmblob");
  return status;
}

static void forget_quick(struct relax_machine *m) {
  for (size_t i = 0; i < m->placed_count; i++) free(m->placed[i].like.shape);
  free(m->placed);
  m->placed = NULL;
  m->placed_count = 0;
  memset(m->quick, 0, m->exec->code_count * sizeof(*m->quick));
}

static bool is_same_place(const int64_t *a, const int64_t *b) {
  return a[1] == b[1] && a[2] == b[2] && a[3] == b[3]; /* the register may be another */
}

/* The call of alloc_tensor that the instruction is; programs have few that differ. */
static int find_place(struct relax_machine *m, const struct relax_instruction *in,
                      uint32_t *quick) {
  enum { LOOKED_AT = 64 };
  struct relax_placed found = {.operands = in->operands};
  size_t i = m->placed_count > LOOKED_AT ? m->placed_count - LOOKED_AT : 0;
  for (; in->count >= 4 && i < m->placed_count; i++)
    if (relax_operand_kind(in->operands[0]) == RELAX_REGISTER &&
        relax_operand_value(in->operands[0]) < RELAX_VOID &&
        is_same_place(m->placed[i].operands, in->operands)) {
      *quick = (uint32_t)(RELAX_PLACED + i);
      return MBLOB_OK;
    }
  int status = relax_placed_read(m, in, &found);
  if (status || !found.like.shape) return status;
  if ((m->placed_count & (m->placed_count - 1)) == 0) {
    const size_t room = m->placed_count ? 2 * m->placed_count : 1;
    struct relax_placed *grown = realloc(m->placed, room * sizeof(*grown));
    if (!grown) {
      free(found.like.shape);
      return mb_fail_memory(room * sizeof(*grown));
    }
    m->placed = grown;
  }
  *quick = (uint32_t)(RELAX_PLACED + m->placed_count);
  m->placed[m->placed_count++] = found;
  return MBLOB_OK;
}

static int find_quick(struct relax_machine *m) {
  int status = MBLOB_OK;
  forget_quick(m);
  for (size_t i = 0; !status && i < m->exec->code_count; i++) {
    const struct relax_instruction *in = &m->exec->code[i];
    const struct mb_method *builtin =
        in->opcode == RELAX_CALL ? m->targets[in->target].builtin : NULL;
    if (in->opcode == RELAX_CALL && m->targets[in->target].call_row) m->quick[i] = RELAX_KERNEL;
    if (!builtin) continue;
    if (builtin->call == relax_null_value && !in->count)
      m->quick[i] = RELAX_NULL;
    else if (builtin->call == relax_alloc_tensor)
      status = find_place(m, in, &m->quick[i]);
  }
  return status;
}

int relax_machine_prepare(struct relax_machine *m, bool pooled) {
  int status = MBLOB_OK;
  relax_rows_free(m);
  clear_targets(m);
  status = find_convention(m);
  for (size_t i = 0; !status && i < m->exec->constant_count; i++) {
    struct relax_value value;
    status = relax_constant_value(m->exec, i, &value.value, &value.code);
    if (!status) relax_set(&m->constants[i], value);
  }
  if (!status) status = find_targets(m);
  if (!status) status = find_quick(m);
  if (!status) vm_pool_keep(m->pool, pooled);
  m->ready = !status;
  return status;
}

/* ---- functions by name ----------------------------------------------------------------------- */

const struct relax_function *relax_function_find(const struct relax_machine *m, const char *name) {
  const struct relax_function *found = name ? mb_map_get(&m->exec->by_name, name) : m->model;
  if (found) return found;
  if (name) {
    (void)mb_fail_coded(MBLOB_E_KERNEL, MB_ARGUMENT_NAME, "ValueError: Unknown function: %s", name);
    return NULL;
  }
  struct mb_names names;
  const struct mb_name model = {RELAX_MODEL, -1};
  if (!relax_function_names(m->exec, &names)) (void)mb_names_unknown(&names, &model);
  free((void *)(uintptr_t)names.names);
  return NULL;
}

/* The function that machines have under that name, made if there is none; NULL in *out and
 * MBLOB_OK: no such function. Borrowed. */
static int find_named_program(struct relax_machine *m, const char *name, mblob_function **out) {
  *out = mb_map_get(&m->named, name);
  if (*out) return MBLOB_OK;
  const struct relax_function *f = mb_map_get(&m->exec->by_name, name);
  if (!f) return MBLOB_OK;
  if (f->kind == RELAX_PACKED)
    return mb_fail(
        MBLOB_E_KERNEL,
        "InternalError: Cannot support closure with function kind 0: '%s' is no function of "
        "the program; get it from its library",
        name);
  int status = relax_closure_new(m, f, NULL, 0, true, out);
  if (!status && !mb_map_put(&m->named, f->name, *out)) {
    mblob_function_release(*out);
    *out = NULL;
    status = MBLOB_E_MEMORY;
  }
  return status;
}

static int find_machine_function(void *object, const char *name, mblob_function **out) {
  int status = find_named_program(object, name, out);
  if (!status) *out = mblob_function_retain(*out);
  return status;
}

static const char *program_function(void *object, size_t i) {
  const struct relax_executable *exec = ((struct relax_machine *)object)->exec;
  if (i >= exec->function_count) return NULL;
  return exec->functions[i].kind == RELAX_PACKED ? "" : exec->functions[i].name;
}

/* ---- calls from outside ---------------------------------------------------------------------- */

static struct vm_pool *pool_of_running(void) {
  const struct relax_activation *innermost = relax_running();
  return innermost ? innermost->machine->pool : NULL;
}

#define INLINE_KERNEL_ARGUMENTS 12
#define NO_PROVIDER "of the names in the program, nobody provides"

/* Arguments of a caller as the machine has them. */
struct taken {
  TVMValue *args;
  int *codes;
  DLTensor **borrowed; /* of each argument that was made a view of the caller's memory */
  bool *made;          /* whether there is a reference to give back */
  TVMValue inline_args[INLINE_KERNEL_ARGUMENTS];
  int inline_codes[INLINE_KERNEL_ARGUMENTS];
  DLTensor *inline_borrowed[INLINE_KERNEL_ARGUMENTS];
  bool inline_made[INLINE_KERNEL_ARGUMENTS];
  void *heap;
  int count;
  struct mb_aligned copies; /* of tensors that are less aligned than kernels assume */
};

static int make_argument_room(struct taken *t, int count) {
  t->args = t->inline_args;
  t->codes = t->inline_codes;
  t->borrowed = t->inline_borrowed;
  t->made = t->inline_made;
  t->heap = NULL;
  t->count = 0;
  t->copies = (struct mb_aligned){.count = 0};
  if (count <= INLINE_KERNEL_ARGUMENTS) return MBLOB_OK;
  const size_t n = (size_t)count;
  t->heap = malloc(n * (sizeof(*t->args) + sizeof(*t->borrowed) + sizeof(*t->codes) + 1));
  if (!t->heap) return mb_fail_memory(n * sizeof(*t->args));
  t->args = t->heap;
  t->borrowed = (DLTensor **)(void *)(t->args + n);
  t->codes = (int *)(void *)(t->borrowed + n);
  t->made = (bool *)(t->codes + n);
  return MBLOB_OK;
}

static bool is_kept_as_it_is(TVMValue value, int code) {
  if (relax_is_counted(code)) return value.v_handle != NULL;
  return code != kTVMStr && code != kTVMBytes && code != kTVMDLTensorHandle;
}

/* An aligned copy in place of an argument, for the length of the call. */
static int align(struct taken *t, int i, struct relax_value *value) {
  struct relax_value given = *value;
  int status = mb_value_align(&t->copies, &value->value, value->code);
  if (status) return status;
  if (t->made[i]) relax_clear(&given);
  t->made[i] = true;
  t->borrowed[i] = NULL;
  return MBLOB_OK;
}

static int take_arguments(const struct relax_machine *m, const struct relax_function *f,
                          const TVMValue *args, const int *codes, int count, struct taken *t) {
  int status = make_argument_room(t, count);
  for (int i = 0; !status && i < count; i++, t->count++) {
    struct relax_value value = {args[i], codes[i]};
    t->borrowed[i] = NULL;
    t->made[i] = !is_kept_as_it_is(args[i], codes[i]);
    if (t->made[i]) status = relax_take(m, args[i], codes[i], &value, &t->borrowed[i]);
    if (!status && !mb_value_is_aligned(value.value, value.code)) status = align(t, i, &value);
    if (status) {
      char place[160];
      (void)snprintf(place, sizeof(place), "%.80s, argument %d%s%.40s", f->name, i,
                     (size_t)i < f->param_count ? " " : "",
                     (size_t)i < f->param_count ? f->params[i] : "");
      mb_error_place(place);
    }
    t->args[i] = value.value;
    t->codes[i] = value.code;
  }
  return status;
}

/* A tensor whose memory is the caller's must not outlive the call: if it is the result itself,
 * that is copied. */
static int check_borrowed(const struct taken *t, struct relax_value *result) {
  int status = MBLOB_OK;
  for (int i = 0; !status && i < t->count; i++) {
    DLTensor *array = t->borrowed[i], *copy = NULL;
    if (!array || mb_array_references(array) == 1) continue;
    if (result->code == kTVMNDArrayHandle && result->value.v_handle == array &&
        mb_array_references(array) == 2) {
      status = mb_array_new(array->device, array->ndim, array->shape, array->dtype, &copy);
      if (!status) status = mb_array_copy(array, copy, NULL);
      if (!status)
        relax_set(result, (struct relax_value){{.v_handle = copy}, kTVMNDArrayHandle});
      else if (copy)
        mb_array_release(copy);
      continue;
    }
    status =
        mb_fail(MBLOB_E_ARGUMENT,
                "argument %d: the program keeps the tensor, whose memory is only borrowed; pass a "
                "counted one (kTVMNDArrayHandle)",
                i);
  }
  return status;
}

static void give_back_arguments(struct taken *t, int status) {
  if (t->copies.count) mb_aligned_end(&t->copies, !status);
  for (int i = 0; i < t->count; i++) {
    struct relax_value value = {t->args[i], t->codes[i]};
    if (t->made[i]) relax_clear(&value);
  }
  free(t->heap);
}

void relax_tell_failure(const struct relax_machine *m) {
  const char *text = mblob_last_error();
  mb_error_of_arguments();
  /* The words of TVM; a call inside may have told. */
  if (!strstr(text, " registry") || strstr(text, NO_PROVIDER)) return;
  char *all = relax_list_missing(m->exec, " '", "'");
  if (all && *all) mb_error_hint(NO_PROVIDER "%s", all);
  free(all);
}

/* Call a function of the program on values of a caller, then on those that are bound. */
static int call_outside(struct relax_machine *m, const struct relax_closure *closure,
                        const TVMValue *args, const int *codes, int count, struct mb_return *out) {
  const struct relax_function *f = closure->function;
  struct relax_activation activation;
  struct relax_value result = {.code = kTVMNullptr};
  struct taken taken;
  if (!m->ready)
    return mb_fail(MBLOB_E_KERNEL,
                   "RuntimeError: %s: the machine is not ready; call vm_initialization first",
                   f->name);
  int status = relax_check_stack();
  if (!status) status = relax_enter(m, &activation);
  if (status) return status;
  status = take_arguments(m, f, args, codes, count, &taken);
  if (!status) {
    const struct relax_arguments all = {taken.args, taken.codes, (size_t)count, closure->bound,
                                        closure->count};
    status = relax_run(m, f, &all, &result);
  }
  if (!status) status = check_borrowed(&taken, &result);
  give_back_arguments(&taken, status);
  relax_leave(&activation);
  if (!status && !closure->drops_result) return relax_give(result, out);
  if (status) relax_tell_failure(m);
  relax_clear(&result);
  return status;
}

/* ---- making ---------------------------------------------------------------------------------- */

static void clear_slots(struct relax_machine *m) {
  for (size_t i = 0; m->slots && i < m->exec->function_count; i++) {
    struct relax_slots *slots = &m->slots[i];
    for (int64_t k = 0; slots->inputs && k < m->exec->functions[i].num_args; k++)
      relax_clear(&slots->inputs[k]);
    free(slots->inputs);
    relax_clear(&slots->output);
  }
  free(m->slots);
}

static void release_named(struct relax_machine *m) {
  const struct mb_map_item *item;
  for (size_t i = 0; (item = mb_map_next(&m->named, &i));) {
    struct relax_closure *closure = relax_closure_of(item->value);
    if (mb_map_get(&m->exec->by_name, item->key) == NULL) free((char *)(uintptr_t)item->key);
    relax_closure_rebind(closure, closure->function, NULL, 0, false);
    mblob_function_release(item->value);
  }
  mb_map_free(&m->named);
}

static void close_relax_machine(void *object) {
  struct relax_machine *m = object;
  if (m->link) m->link->machine = NULL;
  clear_slots(m);
  release_named(m);
  if (m->rows) relax_rows_free(m);
  if (m->targets) clear_targets(m);
  for (size_t i = 0; m->constants && i < m->exec->constant_count; i++)
    relax_clear(&m->constants[i]);
  if (m->quick) forget_quick(m);
  free(m->quick);
  free(m->targets);
  free(m->constants);
  free(m->devices);
  relax_frames_free(m);
  vm_pool_close(m->pool);
  mblob_function_release(m->instrument);
  mb_return_drop(&m->params);
  mb_map_free(&m->stored_by_name);
  free(m->stored);
  relax_link_release(m->link);
  mblob_module_release(m->module);
  free(m);
}

static int fill_instance(struct relax_machine *m) {
  const struct relax_executable *exec = m->exec;
  vm_pool_running(pool_of_running);
  int status = vm_pool_new(&m->pool);
  if (!status) vm_pool_times(m->pool, 4);
  m->link = calloc(1, sizeof(*m->link));
  m->targets = calloc(exec->function_count + 1, sizeof(*m->targets));
  m->constants = calloc(exec->constant_count + 1, sizeof(*m->constants));
  m->quick = calloc(exec->code_count + 1, sizeof(*m->quick));
  m->slots = calloc(exec->function_count + 1, sizeof(*m->slots));
  m->idle = calloc(exec->function_count + 1, sizeof(struct relax_frame *));
  if (!status && (!m->link || !m->targets || !m->constants || !m->quick || !m->slots || !m->idle))
    status = mb_fail_memory(exec->function_count * sizeof(*m->slots));
  for (size_t i = 0; m->constants && i < exec->constant_count; i++)
    m->constants[i].code = kTVMNullptr;
  for (size_t i = 0; m->slots && i < exec->function_count; i++)
    m->slots[i].output.code = kTVMNullptr;
  if (m->link) {
    atomic_init(&m->link->references, 1);
    m->link->machine = m;
    m->link->call = call_outside;
  }
  return status;
}

static const struct mb_class relax_machine_class = {.type_key = "relax.VirtualMachine",
                                                    .methods = relax_machine_methods,
                                                    .function = find_machine_function,
                                                    .extra_name = program_function,
                                                    .describe = relax_machine_describe,
                                                    .close = close_relax_machine,
                                                    .takes = MBLOB_ARGUMENTS_KEPT};

int relax_machine_create(const struct relax_executable *exec, const struct relax_function *model,
                         mblob_module **out) {
  struct relax_machine *m = calloc(1, sizeof(*m));
  *out = NULL;
  if (!m) return mb_fail_memory(sizeof(*m));
  m->exec = exec;
  m->model = model;
  m->module = mblob_module_retain(exec->module);
  m->call_limit = RELAX_CALL_LIMIT;
  m->params = (struct mb_return)MB_RETURN_NOTHING;
  int status = fill_instance(m);
  if (!status) status = relax_parameters_make(m);
  if (!status) status = mb_builtin_create(&relax_machine_class, m, out);
  if (status)
    close_relax_machine(m);
  else
    m->self = *out;
  return status;
}
