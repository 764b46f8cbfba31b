#define _GNU_SOURCE
#include "code.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cubin.h"
#include "ptx.h"

enum { LOG_SIZE = 8192 };
static const uint8_t fatbin_magic[4] = {0x50, 0xed, 0x55, 0xba};

/* ---- fatbin ---------------------------------------------------------------------------------- */

/* u32 magic, u16 version, u16 header size, u64 size of the images that follow; of each image u16
 * kind, u16 version, u32 header size, u64 size, ..., at 40 u64 flags, where the header is whole. */

enum {
  KIND_PTX = 1,
  KIND_ELF = 2,
  FLAGS_AT = 40,
  COMPRESSED = 0xb000
}; /* LZ4, and what came after it */

struct image {
  struct mb_slice header, code;
};

/* The images one after the other, `*at` from 0 on; false at the end, or with an error in *status
 * where it is damaged. */
static bool next_image(struct mb_slice code, uint64_t *at, struct image *out, int *status) {
  *status = MBLOB_OK;
  if (code.size < 16) return *status = cuda_cut_short("fatbin", 16, code.size), false;
  uint64_t header = (uint64_t)code.data[6] | (uint64_t)code.data[7] << 8,
           size = mb_u64_at(code.data + 8);
  if (header < 16 || !cuda_lies_inside(header, size, code.size))
    return *status = cuda_cut_short("fatbin", size, code.size), false;
  const uint64_t left = size - *at;
  if (!left) return false;
  if (left < 16) return *status = cuda_cut_short("fatbin", *at + 16, size), false;
  const uint8_t *image = code.data + header + *at;
  const uint64_t head = mb_u32_at(image + 4), body = mb_u64_at(image + 8);
  if (head < 16 || !cuda_lies_inside(head, body, left))
    return *status = cuda_cut_short("fatbin", body, left), false;
  *out = (struct image){{image, head}, {image + head, body}};
  *at += head + body;
  return true;
}

static int check_fatbin(struct mb_slice code) {
  struct image image;
  uint64_t at = 0;
  int status;
  while (next_image(code, &at, &image, &status)) continue;
  return status;
}

static void read_image(const struct image *image, struct cuda_code_kernel *found) {
  const unsigned kind = (unsigned)image->header.data[0] | (unsigned)image->header.data[1] << 8;
  const bool packed =
      image->header.size >= FLAGS_AT + 8 && (mb_u64_at(image->header.data + FLAGS_AT) & COMPRESSED);
  if (!packed && kind == KIND_ELF && cubin_is(image->code) && !cubin_check(image->code))
    cubin_read_kernels(image->code, found);
  else if (!packed && kind == KIND_PTX && ptx_is(image->code))
    ptx_read_kernels(image->code, found);
  else
    found->has_unreadable_parts = true;
}

static void read_fatbin(struct mb_slice code, struct cuda_code_kernel *found) {
  struct image image;
  uint64_t at = 0;
  int status;
  while (next_image(code, &at, &image, &status)) read_image(&image, found);
}

/* ---- any code -------------------------------------------------------------------------------- */

int cuda_code_check(struct mb_slice fmt, struct mb_slice code, enum cuda_code_kind *out) {
  if (cubin_is(code)) return *out = CUDA_CUBIN, cubin_check(code);
  if (code.size >= 4 && memcmp(code.data, fatbin_magic, 4) == 0)
    return *out = CUDA_FATBIN, check_fatbin(code);
  *out = CUDA_PTX;
  if ((mb_slice_is(fmt, "cuda") || mb_slice_is(fmt, "cu")) && !ptx_is(code))
    return mb_fail(
        MBLOB_E_INCOMPATIBLE,
        "cuda: the module holds CUDA C++ source, which the driver cannot compile; pack it compiled: "
        "mblob.device_module('cuda', 'kernels.cu', compile=True)");
  return ptx_check(code);
}

int cuda_code_check_kernel(struct mb_slice code, enum cuda_code_kind kind,
                           const struct mb_kernel *kernel, const char *module) {
  struct cuda_code_kernel found = {.kernel = kernel, .mismatch = SIZE_MAX};
  switch (kind) {
    case CUDA_PTX: ptx_read_kernels(code, &found); break;
    case CUDA_CUBIN: cubin_read_kernels(code, &found); break;
    case CUDA_FATBIN: read_fatbin(code, &found); break;
  }
  return cuda_check_code_kernel(&found, module);
}

/* ---- loading --------------------------------------------------------------------------------- */

/* What is needed to understand why code of that kind does not load here. */
static void describe(const struct cuda_scope *scope, struct mb_slice code, enum cuda_code_kind kind,
                     CUresult error, char *text, size_t size) {
  char version[32] = "", target[64] = "";
  int driver = 0;
  const struct cuda_device *d = scope->device;
  if (kind == CUDA_PTX) {
    ptx_word(code, ".version", version, sizeof(version));
    ptx_word(code, ".target", target, sizeof(target));
  }
  (void)scope->driver->driver_version(&driver);
  size_t used = (size_t)snprintf(
      text, size,
      "; the code is %s%s%s%s%s, the device %s of compute capability %d.%d, the driver "
      "knows CUDA %d.%d",
      kind == CUDA_PTX     ? "PTX"
      : kind == CUDA_CUBIN ? "a cubin"
                           : "a fatbin",
      *version ? " " : "", version, *target ? " for " : "", target, d->name, d->compute_major,
      d->compute_minor, driver / 1000, driver % 1000 / 10);
  if (used >= size) return;
  if (error == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
    (void)snprintf(text + used, size - used,
                   ": install a newer driver, or compile with an older toolkit");
  if (error == CUDA_ERROR_NO_BINARY_FOR_GPU)
    (void)snprintf(text + used, size - used,
                   ": compile for sm_%d%d, or to PTX of compute_%d%d or below", d->compute_major,
                   d->compute_minor, d->compute_major, d->compute_minor);
}

/* The log of the driver's compiler as one line. */
static void flatten(char *log) {
  size_t used = 0;
  for (const char *at = log; *at; at++) {
    if (!isspace((unsigned char)*at))
      log[used++] = *at;
    else if (used && log[used - 1] != ' ')
      log[used++] = ' ';
  }
  while (used && log[used - 1] == ' ') used--;
  log[used] = 0;
}

static int refused(const struct cuda_scope *scope, const char *module, struct mb_slice code,
                   enum cuda_code_kind kind, CUresult error, char *log) {
  char more[512];
  describe(scope, code, kind, error, more, sizeof(more));
  flatten(log);
  return cuda_check(scope, error, "%s does not load%s%s%.300s", module, more,
                    *log ? "; the driver's compiler says: " : "", log);
}

int cuda_code_load(const struct cuda_scope *scope, const char *module, struct mb_slice code,
                   enum cuda_code_kind kind, CUmodule *out) {
  /* A copy of its own: ended by NUL for PTX, aligned for the others. */
  char *image = aligned_alloc(64, ((size_t)code.size + 64) / 64 * 64), *log = calloc(1, LOG_SIZE);
  if (!image || !log) {
    free(image);
    free(log);
    return mb_fail_memory((size_t)code.size + LOG_SIZE);
  }
  memcpy(image, code.data, (size_t)code.size);
  memset(image + code.size, 0, ((size_t)code.size + 64) / 64 * 64 - (size_t)code.size);
  int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)(uintptr_t)(LOG_SIZE - 1)};
  CUresult error = scope->driver->module_load(out, image, 2, options, values);
  int status = error ? refused(scope, module, code, kind, error, log) : MBLOB_OK;
  free(image);
  free(log);
  return status;
}
