#define _GNU_SOURCE
#include "cl_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl_build.h"
#include "cl_signature.h"

/* ---- programs -------------------------------------------------------------------------------- */

/* The part's program on the device. Its lock is held. */
static int program_of(struct mb_cl_module *m, uint64_t part, const char *kernel,
                      const struct mb_cl_device *device, const struct mb_cl_program **out) {
  for (const struct mb_cl_program *p = m->programs[part]; p; p = p->next)
    if (p->device == device) {
      *out = p;
      return MBLOB_OK;
    }
  struct mb_cl_program *made = calloc(1, sizeof(*made));
  if (!made) return mb_fail_memory(sizeof(*made));
  int status = mb_cl_build(&m->payload, part, kernel, device, &made->program, &made->checked);
  if (status) {
    free(made);
    return status;
  }
  made->device = device;
  made->next = m->programs[part];
  m->programs[part] = made;
  *out = made;
  return MBLOB_OK;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static int fail_without_kernel(const char *kernel, const struct mb_cl_device *device,
                               cl_program program, cl_int code) {
  char names[256] = "";
  if (code != CL_INVALID_KERNEL_NAME)
    return mb_cl_fail(device, code, "kernel '%s' cannot be made", kernel);
  size_t size = 0;
  char *all = NULL;
  if (!mb_cl.clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, 0, NULL, &size) && size &&
      (all = calloc(1, size + 1)) &&
      !mb_cl.clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, size, all, NULL))
    (void)snprintf(names, sizeof(names), "; it has: %s", *all ? all : "none");
  free(all);
  return mb_fail(MBLOB_E_NOT_FOUND,
                 "opencl: kernel '%s' is declared and its program has no kernel of that name%s",
                 kernel, names);
}

/* Against the declaration. `source`: NULL if it is compiled code. */
static int check_kernel(const struct mb_kernel *info, const struct mb_cl_part *source,
                        const struct mb_cl_launcher *l) {
  cl_uint count = 0;
  if (!mb_cl.clGetKernelInfo(l->kernel, CL_KERNEL_NUM_ARGS, sizeof(count), &count, NULL) &&
      count != info->type_count)
    return mb_fail_format(
        "payload", -1, MB_UNKNOWN,
        "opencl: kernel '%s' is declared with %zu arguments and its program has %u", info->name,
        info->type_count, count);
  return mb_cl_check_signature(info, l->kernel, source, l->device);
}

static int make_launcher(const struct mb_kernel *info, const struct mb_cl_part *source,
                         const struct mb_cl_program *program, struct mb_cl_launcher *l) {
  const struct mb_cl_device *device = program->device;
  cl_int code = CL_SUCCESS;
  l->device = device;
  l->kernel = mb_cl.clCreateKernel(program->program, info->name, &code);
  if (!l->kernel) return fail_without_kernel(info->name, device, program->program, code);
  const int status = program->checked ? MBLOB_OK : check_kernel(info, source, l);
  if (!mb_cl.clGetKernelWorkGroupInfo(l->kernel, device->device, CL_KERNEL_WORK_GROUP_SIZE,
                                      sizeof(l->max_group), &l->max_group, NULL))
    l->max_group = l->max_group ? l->max_group : (size_t)device->max_group;
  else
    l->max_group = (size_t)device->max_group;
  if (status) (void)mb_cl.clReleaseKernel(l->kernel);
  return status;
}

static struct mb_cl_launcher *find(struct mb_cl_module *m, uint64_t kernel,
                                   const struct mb_cl_device *device) {
  struct mb_cl_launcher *l = atomic_load_explicit(&m->launchers[kernel], memory_order_acquire);
  while (l && l->device != device) l = l->next;
  return l;
}

/* The lock of the kernel's part is held. */
static int add_launcher(struct mb_cl_module *m, uint64_t kernel, const struct mb_cl_device *device,
                        struct mb_cl_launcher **out) {
  const struct mb_kernel *info = &m->payload.kernels.items[kernel];
  const uint64_t part = m->payload.part_of[kernel];
  const struct mb_cl_part *source =
      m->payload.form == MB_CL_SOURCE ? &m->payload.parts[part] : NULL;
  const struct mb_cl_program *program = NULL;
  int status = program_of(m, part, info->name, device, &program);
  if (status) return status;
  struct mb_cl_launcher *l = calloc(1, sizeof(*l));
  if (!l) return mb_fail_memory(sizeof(*l));
  status = make_launcher(info, source, program, l);
  if (status) {
    free(l);
    return status;
  }
  mb_lock_init_uncounted(&l->lock);
  l->next = atomic_load(&m->launchers[kernel]);
  atomic_store_explicit(&m->launchers[kernel], l, memory_order_release);
  *out = l;
  return MBLOB_OK;
}

int mb_cl_launcher_of(struct mb_cl_module *m, uint64_t kernel, const struct mb_cl_device *device,
                      struct mb_cl_launcher **out) {
  int status = MBLOB_OK;
  *out = find(m, kernel, device);
  if (*out) return MBLOB_OK;
  struct mb_lock *lock = &m->locks[m->payload.part_of[kernel]];
  mb_lock(lock);
  *out = find(m, kernel, device); /* another thread may have been faster */
  if (!*out) status = add_launcher(m, kernel, device, out);
  mb_unlock(lock);
  return status;
}

void mb_cl_launchers_free(struct mb_cl_module *m) {
  const bool gone = mb_cl_gone();
  for (uint64_t i = 0; m->launchers && i < m->payload.kernels.count; i++)
    for (struct mb_cl_launcher *l = atomic_load(&m->launchers[i]), *next; l; l = next) {
      next = l->next;
      if (!gone) (void)mb_cl.clReleaseKernel(l->kernel);
      mb_lock_destroy(&l->lock);
      free(l);
    }
  for (uint64_t i = 0; m->programs && i < m->payload.part_count; i++)
    for (struct mb_cl_program *p = m->programs[i], *next; p; p = next) {
      next = p->next;
      if (!gone) (void)mb_cl.clReleaseProgram(p->program);
      free(p);
    }
}
