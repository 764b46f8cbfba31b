#define _GNU_SOURCE
#include "exec/graph/pool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/base.h"
#include "core/device/device.h"
#include "exec/common/common.h"

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

int mb_graph_pool_new(DLDevice device, size_t size, DLTensor **out) {
  int64_t extent = (int64_t)size;
  if (!mb_device_is_host((int)device.device_type))
    return mb_array_new(device, 1, &extent, byte_type, out);
  if (size >= MAPPED_FROM) return new_mapped(extent, out);
  int status = mb_array_new(device, 1, &extent, byte_type, out);
  if (!status && size) memset((*out)->data, 0, size);
  return status;
}
