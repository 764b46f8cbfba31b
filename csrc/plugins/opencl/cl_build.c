#define _GNU_SOURCE
#include "cl_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cl_cache.h"
#include "cl_compile.h"
#include "cl_signature.h"

/* ---- the cache ------------------------------------------------------------------------------- */

/* Programs from the cache are taken as declared, because not all drivers tell the arguments of a
 * binary: so the declarations are a part of the key, and only what agrees with them is kept. */
static void write_declarations(const struct mb_cl_payload *payload, uint64_t part, FILE *out) {
  for (size_t i = 0; i < payload->kernels.count; i++) {
    const struct mb_kernel *k = &payload->kernels.items[i];
    const uint64_t count = k->type_count;
    if (payload->part_of[i] != part) continue;
    (void)fwrite(k->name, 1, strlen(k->name) + 1, out);
    (void)fwrite(&count, sizeof(count), 1, out);
    (void)fwrite(k->types, sizeof(*k->types), k->type_count, out);
  }
}

static bool are_as_declared(const struct mb_cl_payload *payload, uint64_t part,
                            const struct mb_cl_device *device, cl_program program) {
  const struct mb_cl_part *source = payload->form == MB_CL_SOURCE ? &payload->parts[part] : NULL;
  bool are = true;
  for (size_t i = 0; are && i < payload->kernels.count; i++)
    are = payload->part_of[i] != part ||
          mb_cl_is_as_declared(&payload->kernels.items[i], program, source, device);
  return are;
}

static bool key_of(const struct mb_cl_payload *payload, uint64_t index,
                   const struct mb_cl_device *device, struct mb_cl_key *out) {
  const struct mb_cl_part *part = &payload->parts[index];
  uint8_t digests[64];
  char *text = NULL;
  size_t size = 0;
  FILE *all = open_memstream(&text, &size);
  if (!all) return false;
  mb_sha256(part->head.data, part->head.size, digests);
  mb_sha256(part->code.data, part->code.size, digests + 32);
  (void)fwrite(digests, 1, sizeof(digests), all);
  /* With the NUL of each text, so that no two sets of them are the same bytes. */
  const char *texts[] = {device->platform_name, device->name,    device->version,
                         device->driver,        mb_cl_options(), MB_CL_TELLS_ARGUMENTS};
  for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
    (void)fwrite(texts[i], 1, strlen(texts[i]) + 1, all);
  write_declarations(payload, index, all);
  (void)fclose(all);
  if (text) mb_sha256((const uint8_t *)text, size, out->digest);
  free(text);
  return text != NULL;
}

static cl_program load(enum mb_cl_form form, const struct mb_cl_key *key,
                       const struct mb_cl_device *device) {
  uint8_t *data = NULL;
  size_t size = 0;
  cl_int code = CL_SUCCESS, of_binary = CL_SUCCESS;
  if (!mb_cl_cache_load(key, &data, &size)) return NULL;
  const uint8_t *binary = data;
  cl_program program = mb_cl.clCreateProgramWithBinary(device->context, 1, &device->device, &size,
                                                       &binary, &of_binary, &code);
  free(data);
  if (program && mb_cl_compile(form, program, device)) {
    (void)mb_cl.clReleaseProgram(program);
    program = NULL;
  }
  return program;
}

static void store(const struct mb_cl_key *key, cl_program program) {
  size_t size = 0;
  if (mb_cl.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(size), &size, NULL) || !size)
    return;
  uint8_t *data = malloc(size);
  if (data && !mb_cl.clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(data), &data, NULL))
    mb_cl_cache_store(key, data, size);
  free(data);
}

int mb_cl_build(const struct mb_cl_payload *payload, uint64_t part, const char *kernel,
                const struct mb_cl_device *device, cl_program *out, bool *checked) {
  struct mb_cl_key key;
  const enum mb_cl_form form = payload->form;
  const bool cached =
      form != MB_CL_BINARY && mb_cl_cache_is_on() && key_of(payload, part, device, &key);
  *checked = cached && (*out = load(form, &key, device));
  if (*checked) return MBLOB_OK;
  int status = mb_cl_create(form, &payload->parts[part], device, out);
  if (status) return status;
  const cl_int code = mb_cl_compile(form, *out, device);
  if (code) {
    status = mb_cl_fail_build(kernel, device, *out, code);
    (void)mb_cl.clReleaseProgram(*out);
    *out = NULL;
    return status;
  }
  *checked = cached && are_as_declared(payload, part, device, *out);
  if (*checked) store(&key, *out);
  return MBLOB_OK;
}
