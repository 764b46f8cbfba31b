#define _GNU_SOURCE
#include "exec/common/parameter_bytes.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/device/device.h"
#include "exec/common/names.h"
#include "exec/common/tensors.h"
#include "format/format.h"

void mb_put_number(FILE *out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) (void)fputc((int)(value >> (8 * i) & 0xFF), out);
}

static void put_stored_array(FILE *out, const DLTensor *t) {
  size_t size = 0;
  mb_put_number(out, MB_NDARRAY_MAGIC, 8);
  mb_put_number(out, 0, 8);
  mb_put_number(out, kDLCPU, 4);
  mb_put_number(out, 0, 4);
  mb_put_number(out, (uint64_t)t->ndim, 4);
  mb_put_number(out, t->dtype.code, 1);
  mb_put_number(out, t->dtype.bits, 1);
  mb_put_number(out, t->dtype.lanes, 2);
  for (int32_t i = 0; i < t->ndim; i++) mb_put_number(out, (uint64_t)t->shape[i], 8);
  (void)mb_tensor_size(t, &size); /* was checked when it was read */
  mb_put_number(out, size, 8);
  mb_write_elements(out, t->data, size, t->dtype);
}

char *mb_parameter_bytes(const struct mb_stored_arrays *arrays, size_t *size) {
  char *bytes = NULL;
  FILE *out = open_memstream(&bytes, size);
  if (!out) return NULL;
  mb_put_number(out, MB_PARAMS_MAGIC, 8);
  mb_put_number(out, 0, 8);
  mb_put_number(out, arrays->count, 8);
  for (size_t i = 0; i < arrays->count; i++) {
    mb_put_number(out, strlen(arrays->items[i].name), 8);
    (void)fputs(arrays->items[i].name, out);
  }
  mb_put_number(out, arrays->count, 8);
  for (size_t i = 0; i < arrays->count; i++) put_stored_array(out, &arrays->items[i].view);
  bool failed = ferror(out) != 0;
  if (fclose(out) || failed) {
    free(bytes);
    return NULL;
  }
  return bytes;
}

static int unknown_parameter(const struct mb_stored_arrays *arrays, const char *what,
                             const char *name) {
  const char **names = calloc(arrays->count + 1, sizeof(*names));
  if (!names) return mb_fail_memory(arrays->count * sizeof(*names));
  for (size_t i = 0; i < arrays->count; i++) names[i] = arrays->items[i].name;
  const struct mb_names list = {what, names, arrays->count};
  int status = mb_names_unknown(&list, &(struct mb_name){name, -1});
  free(names);
  return status;
}

/* A counted copy, which the caller may write to. */
static int copy_of_stored(const struct mb_stored_array *stored, DLTensor **out) {
  int status = mb_array_new((DLDevice){kDLCPU, 0}, stored->view.ndim, stored->view.shape,
                            stored->view.dtype, out);
  if (status) return status;
  status = mb_tensor_assign(stored->name, *out, &stored->view);
  if (status) mb_array_release(*out);
  return status;
}

static int return_one(const struct mb_stored_arrays *arrays, const char *what,
                      struct mb_call *call) {
  const char *name = NULL;
  DLTensor *array = NULL;
  int status = mb_call_text(call, 0, &name);
  if (status) return status;
  const struct mb_stored_array *stored = mb_stored_arrays_find(arrays, name);
  if (!stored) return unknown_parameter(arrays, what, name);
  status = copy_of_stored(stored, &array);
  if (!status) mb_call_return_array(call, array);
  return status;
}

static int return_all(const struct mb_stored_arrays *arrays, struct mb_call *call) {
  const char **names = calloc(arrays->count + 1, sizeof(*names));
  DLTensor **copies = calloc(arrays->count + 1, sizeof(*copies));
  int status = names && copies ? MBLOB_OK : mb_fail_memory(arrays->count * sizeof(*names));
  size_t made = 0;
  for (; !status && made < arrays->count; made += !status) {
    names[made] = arrays->items[made].name;
    status = copy_of_stored(&arrays->items[made], &copies[made]);
  }
  if (!status)
    status = mb_object_return_arrays(call, names, copies, made);
  else
    while (made) mb_array_release(copies[--made]);
  free(names);
  free(copies);
  return status;
}

int mb_parameters_return(const struct mb_stored_arrays *arrays, const char *what,
                         struct mb_call *call) {
  int status = mb_call_expect(call, 0, 1);
  if (status) return status;
  return call->count ? return_one(arrays, what, call) : return_all(arrays, call);
}
