/* Making modules of the key VirtualMachine. */
#define _GNU_SOURCE
#include "exec/relay/machine.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "core/call/call.h"
#include "core/library/library.h"
#include "core/loaded/loaded.h"
#include "core/device/device.h"

/* ---- devices --------------------------------------------------------------------------------- */

static void put_needed(FILE *out, const struct vm_executable *exec) {
  char name[MB_DEVICE_TEXT];
  if (!exec->has_devices) { /* forms without a list of them name types in instructions */
    (void)fputs("cpu", out);
    if (exec->foreign_device)
      (void)fprintf(out, ", %s", mb_device_text((DLDevice){exec->foreign_device, 0}, name));
  }
  for (size_t i = 0; i < exec->device_count; i++)
    (void)fprintf(out, "%s%s", i ? ", " : "", mb_device_text(exec->devices[i], name));
}

int vm_machine_check_device(const struct vm_executable *exec, DLDevice device) {
  char name[MB_DEVICE_TEXT], *needed = NULL;
  size_t size = 0;
  if (mb_device_is_host((int)device.device_type)) return MBLOB_OK;
  FILE *out = open_memstream(&needed, &size);
  if (!out) return mb_fail_memory(0);
  put_needed(out, exec);
  (void)fclose(out);
  int status =
      mb_fail(MBLOB_E_INCOMPATIBLE,
              "device %s (type %d): virtual machines run on the cpu only; the program needs: %s",
              mb_device_text(device, name), (int)device.device_type, needed ? needed : "");
  free(needed);
  return status;
}

int vm_machine_check_devices(const struct vm_executable *exec) {
  if (!exec->foreign_device) return MBLOB_OK;
  DLDevice device = {exec->foreign_device, 0};
  for (size_t i = exec->device_count; i-- > 0;)
    if (exec->devices[i].device_type == exec->foreign_device) device = exec->devices[i];
  return vm_machine_check_device(exec, device);
}

/* ---- making ---------------------------------------------------------------------------------- */

static void close_vm_machine(void *object) {
  struct vm_machine *m = object;
  vm_value_clear(&m->result);
  for (size_t i = 0; m->slots && i < m->exec->function_count; i++)
    vm_slots_clear(&m->slots[i], m->exec->functions[i].param_count);
  for (size_t i = 0; m->constants && i < m->exec->constant_count; i++)
    if (m->constants[i]) mb_array_release(m->constants[i]);
  free(m->slots);
  free(m->constants);
  free(m->primitives);
  free(m->registers);
  free(m->frames);
  free(m->args);
  free(m->codes);
  vm_pool_close(m->pool);
  mblob_module_release(m->module);
  free(m);
}

static int find_primitive(const struct vm_executable *exec, const char *name,
                          mblob_function **out) {
  int status = MBLOB_OK, first = MBLOB_OK;
  struct mb_saved_error error = {0};
  *out = NULL;
  for (size_t i = 0; !*out && i < mblob_module_import_count(exec->module); i++) {
    status = mb_module_find(mblob_module_import_at(exec->module, i), name, MB_WITH_IMPORTS, out);
    if (status && !first) {
      first = status;
      mb_error_save(&error);
    }
  }
  if (!*out)
    status = first ? mb_error_restore(&error)
                   : mb_fail(MBLOB_E_NOT_FOUND,
                             "no primitive function '%s' in what the program imports", name);
  if (first) mb_saved_error_free(&error);
  return *out ? MBLOB_OK : status;
}

static int fill_machine(struct vm_machine *m) {
  const struct vm_executable *exec = m->exec;
  int status = vm_pool_new(&m->pool);
  m->slots = calloc(exec->function_count + 1, sizeof(*m->slots));
  m->constants = calloc(exec->constant_count + 1, sizeof(*m->constants));
  m->primitives = calloc(exec->primitives.count + 1, sizeof(*m->primitives));
  if (!status && (!m->slots || !m->constants || !m->primitives))
    status = mb_fail_memory(exec->constant_count * sizeof(*m->constants));
  for (size_t i = 0; !status && i < exec->primitives.count; i++)
    status = find_primitive(exec, exec->primitives.names[i], &m->primitives[i]);
  return status;
}

int vm_machine_alone(void *machine, struct mb_call *call, vm_machine_body body) {
  struct vm_machine *m = machine;
  if (atomic_flag_test_and_set_explicit(&m->busy, memory_order_acquire))
    return mb_fail(MBLOB_E_ARGUMENT,
                   "the machine is in another call; use one VirtualMachine per thread");
  int status = body(m, call);
  atomic_flag_clear_explicit(&m->busy, memory_order_release);
  return status;
}

static const struct mb_class vm_machine_class = {.type_key = "VirtualMachine",
                                                 .methods = vm_machine_methods,
                                                 .describe = vm_machine_describe,
                                                 .close = close_vm_machine};

int vm_machine_create(struct vm_executable *exec, mblob_module **out) {
  struct vm_machine *m = calloc(1, sizeof(*m));
  *out = NULL;
  if (!m) return mb_fail_memory(sizeof(*m));
  m->exec = exec;
  m->module = mblob_module_retain(exec->module);
  atomic_flag_clear(&m->busy);
  int status = fill_machine(m);
  if (!status) status = mb_builtin_create(&vm_machine_class, m, out);
  if (status) close_vm_machine(m);
  return status;
}
