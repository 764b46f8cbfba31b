/* Constants that leave the code of a program: their data goes to a dictionary, and what `save`
 * gives only names them. The program itself keeps them, so that its machines run on. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "exec/common/common.h"
#include "exec/relay/executable.h"

/* What a move makes, before anything changes. */
struct move {
  struct mb_stored_arrays gone; /* names are its own, data and shapes the program's */
  char *bytes, *code;           /* of the dictionary, and the new code */
  size_t byte_count, code_size;
  uint64_t *places; /* of constants in the new code */
};

static void end_move(struct move *m) {
  mb_map_free(&m->gone.by_name);
  for (size_t i = 0; i < m->gone.count; i++) free(m->gone.items[i].name);
  free(m->gone.items);
  free(m->bytes);
  free(m->code);
  free(m->places);
}

/* Those of at least `limit` bytes, and those that were bound late, under their name. */
static bool is_leaving(const struct mb_stored_array *constant, int64_t limit) {
  size_t size = 0;
  return constant->name || mb_tensor_size(&constant->view, &size) || size >= (uint64_t)limit;
}

static int add_constant(struct move *m, const struct mb_stored_array *constant, size_t i) {
  struct mb_stored_array *item = &m->gone.items[m->gone.count];
  char name[32];
  (void)snprintf(name, sizeof(name), "const_%zu", i); /* as TVM calls them */
  item->view = constant->view;
  item->name = strdup(constant->name ? constant->name : name);
  if (!item->name) return mb_fail_memory(sizeof(name));
  m->gone.count++;
  if (mb_map_get(&m->gone.by_name, item->name))
    return mb_fail(MBLOB_E_FORMAT, "two constants would be called '%s'", item->name);
  return mb_map_put(&m->gone.by_name, item->name, item) ? MBLOB_OK : MBLOB_E_MEMORY;
}

static int make_dictionary(const struct vm_executable *exec, int64_t limit, struct move *m) {
  int status = MBLOB_OK;
  m->gone.items = calloc(exec->constant_count + 1, sizeof(*m->gone.items));
  if (!m->gone.items) return mb_fail_memory(exec->constant_count * sizeof(*m->gone.items));
  for (size_t i = 0; !status && i < exec->constant_count; i++)
    if (is_leaving(&exec->constants[i], limit)) status = add_constant(m, &exec->constants[i], i);
  if (!status && !(m->bytes = mb_parameter_bytes(&m->gone, &m->byte_count)))
    status = mb_fail_memory(m->byte_count);
  return status;
}

/* The code with names in place of what is gone. */
static int make_code(const struct vm_executable *exec, int64_t limit, struct move *m) {
  const uint64_t *from = exec->constant_places;
  size_t named = 0;
  m->places = calloc(exec->constant_count + 1, sizeof(*m->places));
  FILE *out = m->places ? open_memstream(&m->code, &m->code_size) : NULL;
  if (!out) return mb_fail_memory(mb_size(exec->code_size));
  (void)fwrite(exec->code, 1, mb_size(from[0]), out);
  for (size_t i = 0; i < exec->constant_count; i++) {
    m->places[i] = (uint64_t)ftello(out);
    if (is_leaving(&exec->constants[i], limit)) {
      const char *name = m->gone.items[named++].name;
      mb_put_number(out, VM_LATE_BOUND, 4);
      mb_put_number(out, strlen(name), 8);
      (void)fputs(name, out);
    } else {
      (void)fwrite(exec->code + from[i], 1, mb_size(from[i + 1] - from[i]), out);
    }
  }
  m->places[exec->constant_count] = (uint64_t)ftello(out);
  uint64_t rest = from[exec->constant_count];
  (void)fwrite(exec->code + rest, 1, mb_size(exec->code_size - rest), out);
  bool failed = ferror(out) != 0;
  return fclose(out) || failed ? mb_fail_memory(mb_size(exec->code_size)) : MBLOB_OK;
}

static void take_code(struct vm_executable *exec, struct move *m) {
  free(exec->rewritten);
  free(exec->constant_places);
  exec->code = (const uint8_t *)(exec->rewritten = m->code);
  exec->code_size = m->code_size;
  exec->constant_places = m->places;
  m->code = NULL;
  m->places = NULL;
}

static int write_file(const struct move *m, const char *path) {
  const struct mb_slice all = {(const uint8_t *)m->bytes, m->byte_count};
  const int number = mb_whole_file_put(path, 0666, &all, 1);
  return number ? mb_fail_errno(number, "%s", path) : MBLOB_OK;
}

/* `path` NULL: the bytes are the result of the call. */
static int move_constants(struct vm_executable *exec, struct mb_call *call, int64_t limit,
                          const char *path) {
  struct move m = {.bytes = NULL};
  if (limit < 0)
    return mb_fail(MBLOB_E_ARGUMENT, "byte_limit %lld, expected at least 0", (long long)limit);
  if (!exec->has_devices)
    return mb_fail(MBLOB_E_INCOMPATIBLE,
                   "bytecode of %s has no constants that are bound late; 0.9 is the first that has",
                   exec->written_as);
  int status = vm_late_bound_check(exec);
  mb_lock(&exec->lock);
  if (!status) status = make_dictionary(exec, limit, &m);
  if (!status) status = make_code(exec, limit, &m);
  TVMByteArray bytes = {m.bytes, m.byte_count};
  if (!status)
    status = path ? write_file(&m, path)
                  : mb_return_set(call->result, (TVMValue){.v_handle = &bytes}, kTVMBytes);
  if (!status) take_code(exec, &m);
  mb_unlock(&exec->lock);
  end_move(&m);
  return status;
}

int vm_move_late_bound_consts(void *executable, struct mb_call *call) {
  const char *path = NULL;
  int64_t limit = 0;
  int status = mb_call_expect(call, 2, 2);
  if (!status) status = mb_call_text(call, 0, &path);
  if (!status) status = mb_call_int(call, 1, &limit);
  return status ? status : move_constants(executable, call, limit, path);
}

int vm_get_late_bound_consts(void *executable, struct mb_call *call) {
  int64_t limit = 0;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_call_int(call, 0, &limit);
  return status ? status : move_constants(executable, call, limit, NULL);
}
