/* Sections of a program: header, devices, globals, constants, primitives, functions (classic
 * TVM, 0.7 to 0.19).
 *
 * TVM writes its version into the header and refuses every other. What differs between releases
 * is how the sections are laid out, so all known layouts are tried, the one of the version
 * first: builds between releases carry the next version and the layout of the last. A wrong
 * layout does not read to the end without an error. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "core/device/device.h"
#include "exec/relay/executable.h"
#include "format/format.h"

#define MAGIC UINT64_C(0xD225DE2F4214151D)

static const struct payload_layout {
  int minor; /* of the first 0.x release */
  char release[12];
  bool devices, scopes; /* a list of devices; with memory scopes */
  bool tags;            /* constants may be bound late */
  bool const_devices, attributes, param_devices;
} layouts[] = {
    {14, "0.14", true, true, true, true, true, true},
    {9, "0.9", true, false, true, true, true, true},
    {8, "0.8", false, false, false, true, true, true},
    {8, "0.8 (early)", false, false, false, true, false, true},
    {0, "0.7", false, false, false, false, false, false},
};
#define LAYOUTS (sizeof(layouts) / sizeof(*layouts))

static bool bad_executable(const struct mb_cursor *c, uint64_t at, const char *text) {
  (void)mb_fail_format("payload", (int64_t)at, c->entry, "bytecode: %s", text);
  return false;
}

/* ---- names ----------------------------------------------------------------------------------- */

bool vm_names_read(struct mb_cursor *c, struct vm_names *out, const char *what) {
  uint64_t count = 0;
  if (!mb_read_count(c, &count, 8, what)) return false;
  out->names = mb_new_items(count, sizeof(*out->names));
  if (!out->names) return false;
  while (out->count < count) {
    struct mb_slice name;
    if (!mb_read_string(c, &name, what)) return false;
    if (memchr(name.data, 0, mb_size(name.size)))
      return bad_executable(c, c->pos - name.size, "a name has a NUL byte");
    out->names[out->count] = strndup((const char *)name.data, mb_size(name.size));
    if (!out->names[out->count++]) return !mb_fail_memory(mb_size(name.size));
  }
  return true;
}

void vm_names_free(struct vm_names *names) {
  for (size_t i = 0; i < names->count; i++) free(names->names[i]);
  free(names->names);
  *names = (struct vm_names){0};
}

/* ---- sections -------------------------------------------------------------------------------- */

static bool is_host_index(int64_t type) { return mb_device_is_host((int)type); }

static bool read_devices(struct mb_cursor *c, struct vm_executable *exec, bool scopes) {
  uint64_t count = 0, start = c->pos;
  uint32_t type = 0, id = 0, host = 0;
  if (!mb_read_count(c, &count, scopes ? 16 : 8, "devices")) return false;
  exec->devices = mb_new_items(count, sizeof(*exec->devices));
  if (!exec->devices) return false;
  exec->scopes = mb_new_items(count, sizeof(*exec->scopes));
  if (!exec->scopes) return false;
  for (; exec->device_count < count; exec->device_count++) {
    if (!mb_read_u32(c, &type, "device") || !mb_read_u32(c, &id, "device")) return false;
    if (scopes && !mb_read_string(c, &exec->scopes[exec->device_count], "device.scope"))
      return false;
    if (type < 1 || type > INT16_MAX)
      return bad_executable(c, start, "a device has an impossible type");
    exec->devices[exec->device_count] = (DLDevice){(DLDeviceType)type, (int32_t)id};
    if (!is_host_index(type) && !exec->foreign_device) exec->foreign_device = (DLDeviceType)type;
  }
  if (!mb_read_u32(c, &host, "host_device_index")) return false;
  exec->has_devices = true;
  return host < count ||
         bad_executable(c, start, "the index of the host device is outside of the devices");
}

bool vm_device_check(struct mb_cursor *c, struct vm_executable *exec, int64_t device) {
  if (exec->has_devices)
    return (device >= 0 && (uint64_t)device < exec->device_count) ||
           bad_executable(c, c->pos, "no device of that index");
  if (device < 0 || device > INT16_MAX)
    return bad_executable(c, c->pos, "a device has an impossible type");
  if (device && !is_host_index(device) && !exec->foreign_device)
    exec->foreign_device = (DLDeviceType)device;
  return true;
}

static bool read_vm_constant(struct mb_cursor *c, struct mb_stored_array *out, bool tags) {
  uint32_t tag = 0;
  struct mb_slice name;
  uint64_t start = c->pos;
  if (tags && !mb_read_u32(c, &tag, "constant.tag")) return false;
  if (tag == 0) return mb_array_read(c, &out->view);
  if (tag != VM_LATE_BOUND) return bad_executable(c, start, "a constant has an unknown tag");
  if (!mb_read_string(c, &name, "constant.name")) return false;
  out->name = strndup((const char *)name.data, mb_size(name.size));
  return out->name || !mb_fail_memory(mb_size(name.size));
}

static bool read_vm_constants(struct mb_cursor *c, struct vm_executable *exec,
                              const struct payload_layout *layout) {
  uint64_t count = 0, devices = 0, device = 0;
  if (!mb_read_count(c, &count, layout->tags ? 12 : 40, "constants")) return false;
  exec->constants = mb_new_items(count, sizeof(*exec->constants));
  if (!exec->constants) return false;
  exec->constant_places = mb_new_items(count + 1, sizeof(*exec->constant_places));
  if (!exec->constant_places) return false;
  exec->constant_places[0] = c->pos;
  while (exec->constant_count < count) {
    if (!read_vm_constant(c, &exec->constants[exec->constant_count++], layout->tags)) return false;
    exec->constant_places[exec->constant_count] = c->pos;
  }
  if (!layout->const_devices) return true;
  if (!mb_read_count(c, &devices, 8, "constants.devices")) return false;
  if (devices != count)
    return bad_executable(c, c->pos - 8, "counts of constants and of their devices differ");
  for (uint64_t i = 0; i < devices; i++)
    if (!mb_read_u64(c, &device, "constants.devices") || !vm_device_check(c, exec, (int64_t)device))
      return false;
  return true;
}

/* map<u64, map<string, string>>: about primitives; nothing here depends on it. */
static bool skip_attributes(struct mb_cursor *c) {
  uint64_t outer = 0, inner = 0;
  struct mb_slice ignored;
  if (!mb_read_count(c, &outer, 16, "attributes")) return false;
  for (uint64_t i = 0; i < outer; i++) {
    if (!mb_skip(c, 8, "attributes") || !mb_read_count(c, &inner, 16, "attributes")) return false;
    for (uint64_t k = 0; k < 2 * inner; k++)
      if (!mb_read_string(c, &ignored, "attributes")) return false;
  }
  return true;
}

static bool read_sections(struct mb_cursor *c, struct vm_executable *exec,
                          const struct payload_layout *layout) {
  exec->written_as = layout->release;
  if ((layout->devices && !read_devices(c, exec, layout->scopes)) ||
      !vm_names_read(c, &exec->globals, "globals") || !read_vm_constants(c, exec, layout) ||
      !vm_names_read(c, &exec->primitives, "primitives") ||
      (layout->attributes && !skip_attributes(c)) || !vm_code_read(c, exec, layout->param_devices))
    return false;
  return !mb_left(c) || bad_executable(c, c->pos, "bytes follow the last function");
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* The layout that a version like "0.14.0" or "0.9.dev12+g1234" names. */
static size_t layout_of(const char *version) {
  int major = 0, minor = INT16_MAX;
  (void)sscanf(version, "%d.%d", &major, &minor);
  if (major > 0) minor = INT16_MAX;
  size_t i = 0;
  while (i + 1 < LAYOUTS && layouts[i].minor > minor) i++;
  return i;
}

static bool read_vm_header(struct mb_cursor *c, struct vm_executable *exec) {
  uint64_t magic = 0;
  struct mb_slice version;
  if (!mb_read_u64(c, &magic, "bytecode.magic")) return false;
  if (magic != MAGIC)
    return bad_executable(c, c->pos - 8, "it does not start as a program of the virtual machine");
  if (!mb_read_string(c, &version, "bytecode.version")) return false;
  exec->version = strndup((const char *)version.data, mb_size(version.size));
  return exec->version || !mb_fail_memory(mb_size(version.size));
}

/* Free what was read behind the header. */
static void forget_executable(struct vm_executable *exec) {
  mb_map_free(&exec->by_name);
  for (size_t i = 0; i < exec->function_count; i++) {
    struct vm_function *f = &exec->functions[i];
    struct vm_names params = {f->params, f->param_count};
    vm_names_free(&params);
    free(f->name);
    free(f->code);
    free(f->fields);
  }
  free(exec->functions);
  for (size_t i = 0; i < exec->constant_count; i++) {
    free(exec->constants[i].name);
    free(exec->constants[i].view.shape);
  }
  free(exec->constants);
  free(exec->constant_places);
  free(exec->devices);
  free(exec->scopes);
  vm_names_free(&exec->globals);
  vm_names_free(&exec->primitives);
  exec->functions = NULL;
  exec->constants = NULL;
  exec->constant_places = NULL;
  exec->devices = NULL;
  exec->scopes = NULL;
  exec->function_count = exec->constant_count = exec->device_count = 0;
  exec->has_devices = false;
  exec->foreign_device = 0;
}

int vm_executable_read(struct vm_executable *out, const void *code, uint64_t size, int64_t entry) {
  struct mb_cursor c = {code, 0, size, entry};
  out->code = code;
  out->code_size = size;
  if (!read_vm_header(&c, out)) return mblob_last_error_info()->status;
  size_t named = layout_of(out->version);
  struct mb_saved_error first = {0};
  for (size_t i = 0; i < LAYOUTS; i++) {
    struct mb_cursor sections = c;
    if (read_sections(&sections, out, &layouts[(named + i) % LAYOUTS])) {
      if (i) mb_saved_error_free(&first);
      return MBLOB_OK;
    }
    if (!i) mb_error_save(&first);
    forget_executable(out);
  }
  int status = mb_error_restore(&first);
  mb_saved_error_free(&first);
  return status;
}

void vm_executable_free(struct vm_executable *exec) {
  forget_executable(exec);
  free(exec->version);
}
