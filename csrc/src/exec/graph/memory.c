/* Memory of the values of a graph: finds or allocates the bytes of each. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/base.h"
#include "core/call/call.h"
#include "core/library/library.h"
#include "core/device/device.h"
#include "exec/common/common.h"
#include "exec/graph/executor.h"

/* `input 'data'`, for errors. */
#define LABEL 96
static const char *entry_label_of(const struct mb_graph *g, const char *what, uint32_t entry,
                                  char text[LABEL]) {
  (void)snprintf(text, LABEL, "%s '%.64s'", what, g->nodes[g->entries[entry].node].name);
  return text;
}

static uint32_t root_of(const struct mb_graph_executor *x, uint32_t entry) {
  return x->graph.entries[entry].root;
}

static bool is_input(const struct mb_graph_executor *x, uint32_t root) {
  return x->graph.nodes[x->graph.entries[root].node].op == MB_GRAPH_INPUT;
}

/* ---- memory of its own ---- */

enum { MAPPED_FROM = 1 << 16 }; /* bytes; below, the heap is cheaper */

static const DLDataType byte_type = {kDLUInt, 8, 1};

struct mapping {
  void *start;
  size_t size;
};

static void unmap(void *owner) {
  struct mapping *mapping = owner;
  (void)munmap(mapping->start, mapping->size);
  free(mapping);
}

static int new_mapped(int64_t size, DLTensor **out) {
  struct mapping *mapping = malloc(sizeof(*mapping));
  if (!mapping) return mb_fail_memory(sizeof(*mapping));
  mapping->size = (size_t)size;
  mapping->start =
      mmap(NULL, mapping->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping->start == MAP_FAILED) {
    free(mapping);
    return mb_fail_memory((size_t)size);
  }
  const DLTensor view = {
      .data = mapping->start, .device = {kDLCPU, 0}, .ndim = 1, .dtype = byte_type, .shape = &size};
  int status = mb_array_view(&view, mapping, unmap, out);
  if (status) unmap(mapping);
  return status;
}

/* A counted array of `size` bytes on the device, on the host aligned to MB_TENSOR_ALIGNMENT and
 * all 0; pages of it that nobody touches cost nothing, however large a graph says it is. A
 * mblob_status. */
static int new_pool(DLDevice device, size_t size, DLTensor **out) {
  int64_t extent = (int64_t)size;
  if (!mb_device_is_host((int)device.device_type))
    return mb_array_new(device, 1, &extent, byte_type, out);
  if (size >= MAPPED_FROM) return new_mapped(extent, out);
  int status = mb_array_new(device, 1, &extent, byte_type, out);
  if (!status && size) memset((*out)->data, 0, size);
  return status;
}

/* ---- moving a root ---- */

/* Let all views with this root point to `data`; the reference in `array` (may be NULL) is taken
 * over. */
static void move_storage(struct mb_graph_executor *x, uint32_t root, enum mb_memory_kind kind,
                         void *data, DLTensor *array) {
  struct mb_graph_memory *memory = &x->memory[root];
  if (memory->array) mb_array_release(memory->array);
  memory->kind = kind;
  memory->array = array;
  uint32_t i = root;
  do {
    x->views[i].data = data;
    if (x->flat) x->flat[i].data = data;
    i = x->next[i];
  } while (i != root);
  mb_thread_choice_moved(x);
}

/* What failed says of which value it was. */
static int name_value_in_error(const struct mb_graph_executor *x, const char *what, uint32_t entry,
                               int status) {
  char label[LABEL];
  if (status) mb_error_prefix(entry_label_of(&x->graph, what, entry, label));
  return status;
}

static int copy_of_array(const struct mb_graph_executor *x, const char *what, uint32_t entry,
                         const DLTensor *from, const DLTensor *to) {
  return name_value_in_error(x, what, entry,
                             mb_device_copy_tensor(from, to, x->graph.entries[entry].size, NULL));
}

/* Move a root to the pool of its storage; what it holds is kept if `keep`. */
static int make_own(struct mb_graph_executor *x, uint32_t root, bool keep) {
  const struct mb_graph_entry *e = &x->graph.entries[root];
  if (x->memory[root].kind == MB_OWN && x->views[root].data) return MBLOB_OK;
  DLTensor **pool = &x->pools[e->storage];
  const DLDevice device = x->views[root].device;
  int status = *pool ? MBLOB_OK : new_pool(device, x->pool_sizes[e->storage], pool);
  if (status) return name_value_in_error(x, "graph: memory of", root, status);
  if (keep && x->views[root].data)
    status = mb_device_copy_tensor(&x->views[root], *pool, e->size, NULL);
  if (!status) move_storage(x, root, MB_OWN, (*pool)->data, NULL);
  return status;
}

/* Where the elements of a tensor begin; what devices allocate has no addresses, and is used from
 * its beginning. */
static void *start_of(const DLTensor *t) {
  return mb_device_is_host((int)t->device.device_type) ? (char *)t->data + t->byte_offset : t->data;
}

static bool is_memory_aligned(const struct mb_graph_executor *x, uint32_t root, const void *data) {
  uint32_t needed = x->memory[root].alignment;
  if (!mb_device_is_host((int)x->views[root].device.device_type)) return true;
  return needed < 2 || (uintptr_t)data % needed == 0;
}

/* True if the functions of the graph can use the array where it is. */
static bool is_placed_there(const struct mb_graph_executor *x, uint32_t root,
                            const DLTensor *array) {
  DLDevice wanted = x->views[root].device, found = array->device;
  if (mb_device_is_host((int)wanted.device_type)) return mb_device_is_host((int)found.device_type);
  return wanted.device_type == found.device_type && wanted.device_id == found.device_id &&
         !array->byte_offset;
}

/* Use `array` read-only if that is possible, else copy it. The reference is taken over. */
static int place_parameter(struct mb_graph_executor *x, uint32_t root, DLTensor *array) {
  void *data = start_of(array);
  if (is_input(x, root) && x->memory[root].is_alone && is_placed_there(x, root, array) &&
      is_memory_aligned(x, root, data)) {
    move_storage(x, root, MB_SHARED, data, array);
    return MBLOB_OK;
  }
  int status = make_own(x, root, false);
  if (!status) status = copy_of_array(x, "graph: parameter", root, array, &x->views[root]);
  mb_array_release(array);
  return status;
}

/* ---- at the beginning ---- */

static int place_parameters(struct mb_graph_executor *x, const struct mb_graph_source *source) {
  for (uint32_t i = 0; source->parameters && i < x->graph.input_count; i++) {
    uint32_t entry = x->graph.inputs[i];
    const char *name = x->graph.nodes[x->graph.entries[entry].node].name;
    const struct mb_stored_array *stored = mb_stored_arrays_find(source->parameters, name);
    char label[LABEL];
    if (!stored) continue;
    DLTensor *array = NULL;
    int status = mb_tensor_match(entry_label_of(&x->graph, "graph: parameter", entry, label),
                                 &x->views[entry], &stored->view);
    if (!status) status = mb_stored_array_share(stored, source->parameters_module, &array);
    if (!status) status = place_parameter(x, entry, array);
    if (status) return status;
    x->input_flags[i] = MBLOB_TENSOR_PARAMETER;
  }
  return MBLOB_OK;
}

static void release_factory(void *module) { mblob_module_release(module); }

/* What `_lookup_linked_param(storage id)` gave: data in the library, or nothing: then `*flags`
 * stays. */
static int place_linked(struct mb_graph_executor *x, uint32_t entry, mblob_function *lookup,
                        uint8_t *flags) {
  TVMValue id = {.v_int64 = (int64_t)x->graph.storage_ids[x->graph.entries[entry].storage]}, found;
  int code = kTVMArgInt, found_code = kTVMNullptr;
  int status = mblob_function_call(lookup, &id, &code, 1, &found, &found_code);
  if (status || found_code == kTVMNullptr || !found.v_handle) return status;
  if (found_code != kTVMOpaqueHandle)
    return mb_fail_coded(MBLOB_E_KERNEL, MB_ARGUMENT_TYPE,
                         "_lookup_linked_param: " MB_TEXT_EXPECTED, "a handle",
                         mb_type_code_name(found_code));
  DLTensor view = x->views[entry], *array = NULL;
  view.data = found.v_handle;
  view.device = (DLDevice){kDLCPU, 0};
  status = mb_array_view(&view, x->kernels, release_factory, &array);
  if (status) return status;
  (void)mblob_module_retain(x->kernels);
  *flags = MBLOB_TENSOR_PARAMETER;
  return place_parameter(x, entry, array);
}

/* The caller's lookup: (module, storage id, tensor of that shape, device) -> array, or nothing. */
static int place_looked_up(struct mb_graph_executor *x, uint32_t entry, mblob_function *lookup,
                           uint8_t *flags) {
  uint64_t id = x->graph.storage_ids[x->graph.entries[entry].storage];
  TVMValue args[] = {{.v_handle = x->kernels},
                     {.v_int64 = (int64_t)id},
                     {.v_handle = &x->views[entry]},
                     {.v_device = x->views[entry].device}};
  const int codes[] = {kTVMModuleHandle, kTVMArgInt, kTVMDLTensorHandle, kDLDevice};
  TVMValue found;
  int found_code = kTVMNullptr;
  char label[LABEL];
  int status = mblob_function_call(lookup, args, codes, 4, &found, &found_code);
  if (status || found_code == kTVMNullptr || !found.v_handle) return status;
  if (found_code != kTVMNDArrayHandle) {
    mblob_value_release(found, found_code);
    return mb_fail_argument(MB_ARGUMENT_TYPE, "graph: the lookup function: " MB_TEXT_EXPECTED,
                            "an array", mb_type_code_name(found_code));
  }
  size_t size = 0;
  status = mb_tensor_check(found.v_handle, &size);
  if (!status)
    status = mb_tensor_match(entry_label_of(&x->graph, "graph: parameter", entry, label),
                             &x->views[entry], found.v_handle);
  if (!status) *flags = MBLOB_TENSOR_PARAMETER;
  if (!status) return place_parameter(x, entry, found.v_handle);
  mb_array_release(found.v_handle);
  return status;
}

static int place_linked_parameters(struct mb_graph_executor *x,
                                   const struct mb_graph_source *source) {
  mblob_function *own = NULL;
  int status = source->lookup ? MBLOB_OK
                              : mb_module_find_if_open(x->kernels, "_lookup_linked_param",
                                                       source->kernels_scope, &own);
  for (uint32_t i = 0; !status && (own || source->lookup) && i < x->graph.input_count; i++) {
    uint32_t entry = x->graph.inputs[i];
    if (x->input_flags[i]) continue;
    status = source->lookup ? place_looked_up(x, entry, source->lookup, &x->input_flags[i])
                            : place_linked(x, entry, own, &x->input_flags[i]);
  }
  return status;
}

int mb_graph_memory_new(struct mb_graph_executor *x, const struct mb_graph_source *source) {
  const struct mb_graph *g = &x->graph;
  uint32_t *roots = calloc(g->storage_count ? g->storage_count : 1, sizeof(*roots));
  if (!roots) return mb_fail_memory(g->storage_count * sizeof(*roots));
  for (uint32_t i = 0; i < g->entry_count; i++)
    roots[g->entries[i].storage] += g->entries[i].root == i;
  for (uint32_t i = 0; i < g->entry_count; i++)
    x->memory[i].is_alone = roots[g->entries[i].storage] == 1;
  free(roots);
  int status = place_parameters(x, source);
  if (!status) status = place_linked_parameters(x, source);
  for (uint32_t i = 0; !status && i < g->entry_count; i++)
    if (g->entries[i].root == i)
      status = x->memory[i].kind == MB_OWN ? make_own(x, i, false) : MBLOB_OK;
  return status;
}

/* ---- inputs and outputs ---- */

/* Dtype, shape and layout of a caller's tensor. */
static int check_value(const struct mb_graph_executor *x, const char *what, uint32_t entry,
                       const DLTensor *value, size_t *size) {
  char label[LABEL];
  (void)entry_label_of(&x->graph, what, entry, label);
  int status = mb_tensor_check(value, size);
  if (status) {
    mb_error_prefix(label);
    return status;
  }
  return mb_tensor_match(label, &x->views[entry], value);
}

int mb_graph_check_input(const struct mb_graph_executor *x, uint32_t input, const DLTensor *value) {
  size_t size = 0;
  return check_value(x, "input", x->graph.inputs[input], value, &size);
}

int mb_graph_set_input(struct mb_graph_executor *x, uint32_t input, const DLTensor *value) {
  uint32_t entry = x->graph.inputs[input];
  size_t size = 0;
  int status = check_value(x, "input", entry, value, &size);
  if (!status) status = make_own(x, entry, false);
  return status ? status : copy_of_array(x, "graph: input", entry, value, &x->views[entry]);
}

int mb_graph_copy_out(const struct mb_graph_executor *x, const char *what, uint32_t entry,
                      DLTensor *to) {
  size_t size = 0;
  int status = check_value(x, what, entry, to, &size);
  return status ? status : copy_of_array(x, what, entry, &x->views[entry], to);
}

static int bind_array(struct mb_graph_executor *x, const char *what, uint32_t entry,
                      DLTensor *value, bool is_counted) {
  uint32_t root = root_of(x, entry);
  size_t size = 0;
  char label[LABEL];
  int status = check_value(x, what, entry, value, &size);
  if (!status)
    status = mb_tensor_is_on(entry_label_of(&x->graph, what, entry, label), x->views[entry].device,
                             value);
  if (status) return status;
  void *data = start_of(value);
  if (size && !is_memory_aligned(x, root, data))
    return mb_fail(MBLOB_E_ARGUMENT,
                   "%s: its data is at %p, expected an address aligned to %u bytes",
                   entry_label_of(&x->graph, what, entry, label), data, x->memory[root].alignment);
  if (is_counted) mb_array_retain(value);
  move_storage(x, root, MB_BOUND, data, is_counted ? value : NULL);
  return MBLOB_OK;
}

int mb_graph_bind_input(struct mb_graph_executor *x, uint32_t input, DLTensor *value,
                        bool is_counted) {
  return bind_array(x, "input", x->graph.inputs[input], value, is_counted);
}

int mb_graph_bind_output(struct mb_graph_executor *x, uint32_t output, DLTensor *value,
                         bool is_counted) {
  uint32_t entry = x->graph.outputs[output], root = root_of(x, entry);
  const void *data = start_of(value);
  char label[LABEL];
  (void)entry_label_of(&x->graph, "output", entry, label);
  if (is_input(x, root))
    return mb_fail(MBLOB_E_ARGUMENT,
                   "%s is input '%s': no function writes it; bind it with set_input_zero_copy",
                   label, x->graph.nodes[x->graph.entries[root].node].name);
  for (uint32_t i = 0; !x->bound[output] && i < x->graph.output_count; i++)
    if (x->bound[i] && x->bound[i] != data && root_of(x, x->graph.outputs[i]) == root)
      return mb_fail(MBLOB_E_ARGUMENT,
                     "%s has the same bytes as output %u, which is bound to other memory", label,
                     i);
  int status = bind_array(x, "output", entry, value, is_counted);
  if (status) return status;
  x->rebound |= x->bound[output] != NULL; /* the others may follow */
  x->bound[output] = data;
  return MBLOB_OK;
}

int mb_graph_check_bound(struct mb_graph_executor *x) {
  for (uint32_t i = 0; x->rebound && i < x->graph.output_count; i++) {
    uint32_t entry = x->graph.outputs[i];
    char label[LABEL];
    if (x->bound[i] && x->bound[i] != x->views[entry].data)
      return mb_fail(
          MBLOB_E_ARGUMENT,
          "%s has the same bytes as an output that was bound to other memory since; bind "
          "both to the same",
          entry_label_of(&x->graph, "output", entry, label));
  }
  x->rebound = false;
  return MBLOB_OK;
}

int mb_graph_expose(struct mb_graph_executor *x, uint32_t entry, DLTensor **out) {
  uint32_t root = root_of(x, entry);
  const struct mb_graph_memory *memory = &x->memory[root];
  int status = memory->kind == MB_SHARED ? make_own(x, root, true) : MBLOB_OK;
  if (status) return status;
  DLTensor *keeper =
      memory->kind == MB_OWN ? x->pools[x->graph.entries[root].storage] : memory->array;
  status = mb_array_view(&x->views[entry], keeper, mb_array_release_owner, out);
  if (!status && keeper) mb_array_retain(keeper);
  return status;
}

int mb_graph_share_input(struct mb_graph_executor *x, uint32_t input,
                         struct mb_graph_executor *other, uint32_t other_input) {
  uint32_t entry = x->graph.inputs[input], from = other->graph.inputs[other_input];
  struct mb_graph_memory *memory = &other->memory[from];
  DLTensor **pool = &other->pools[other->graph.entries[from].storage];
  char label[LABEL];
  int status = mb_tensor_match(entry_label_of(&x->graph, "parameter", entry, label),
                               &x->views[entry], &other->views[from]);
  if (status) return status;
  if (memory->kind == MB_BOUND || !memory->is_alone)
    return mb_graph_set_input(x, input, &other->views[from]);
  if (memory->kind == MB_OWN) { /* the pool is from now on what both share */
    DLTensor *array = *pool;
    *pool = NULL;
    move_storage(other, from, MB_SHARED, array->data, array);
  }
  DLTensor *array = NULL;
  status = mb_array_view(&other->views[from], memory->array, mb_array_release_owner, &array);
  if (status) return status;
  mb_array_retain(memory->array);
  return place_parameter(x, entry, array);
}
