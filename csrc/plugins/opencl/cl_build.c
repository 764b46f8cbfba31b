#define _GNU_SOURCE
#include "cl_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl_cache.h"
#include "cl_signature.h"
#include "digest.h"

enum { SHOWN_LINES = 3, SHOWN_LENGTH = 240 }; /* of the compiler's log */

/* Keeps what cl_signature.c asks for. */
static const char tells_arguments[] = "-cl-kernel-arg-info";

static const char *user_options(void) {
  const char *options = getenv("MBLOB_OPENCL_OPTIONS");
  return options ? options : "";
}

/* ---- errors ----------------------------------------------------------------------------------- */

/* The lines of the log with errors, or if none says so its first ones, as one line. */
static void shorten(char *log, char *out, size_t size) {
  const bool marked = strcasestr(log, "error") != NULL;
  size_t used = 0, shown = 0;
  char *rest = NULL;
  *out = 0;
  for (char *line = strtok_r(log, "\r\n", &rest); line && shown < SHOWN_LINES && used < size; line = strtok_r(NULL, "\r\n", &rest)) {
    line += strspn(line, " \t");
    if (!*line || (marked && !strcasestr(line, "error"))) continue;
    used += (size_t)snprintf(out + used, size - used, "%s%.*s", shown++ ? " | " : "", SHOWN_LENGTH, line);
  }
}

static int fail_build(const char *kernel, const struct mb_cl_device *device, cl_program program, cl_int code) {
  size_t size = 0;
  char *log = NULL, lines[SHOWN_LINES * (SHOWN_LENGTH + 4)] = "";
  if (!mb_cl.clGetProgramBuildInfo(program, device->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) && size > 1 &&
      (log = calloc(1, size + 1)) &&
      !mb_cl.clGetProgramBuildInfo(program, device->device, CL_PROGRAM_BUILD_LOG, size, log, NULL))
    shorten(log, lines, sizeof(lines));
  free(log);
  return mb_cl_fail(device, code, "kernel '%s' cannot be built%s%s", kernel, *lines ? ": " : "", lines);
}

/* ---- making ----------------------------------------------------------------------------------- */

static int from_source(const struct mb_cl_part *part, const struct mb_cl_device *device, cl_program *out) {
  const char *texts[] = {(const char *)part->head.data, (const char *)part->code.data};
  const size_t sizes[] = {(size_t)part->head.size, (size_t)part->code.size};
  const cl_uint skipped = sizes[0] ? 0 : 1; /* a length of 0 means that the text ends with NUL */
  cl_int code = CL_SUCCESS;
  if (!sizes[1]) return mb_fail_format("payload", -1, MB_UNKNOWN, "opencl: the program of kernel '%s' is empty", part->kernel);
  *out = mb_cl.clCreateProgramWithSource(device->context, 2 - skipped, texts + skipped, sizes + skipped, &code);
  return *out ? MBLOB_OK : mb_cl_fail(device, code, "a program cannot be made of its source");
}

static int from_binary(const uint8_t *data, size_t size, const struct mb_cl_device *device, cl_program *out) {
  cl_int code = CL_SUCCESS, of_binary = CL_SUCCESS;
  *out = mb_cl.clCreateProgramWithBinary(device->context, 1, &device->device, &size, &data, &of_binary, &code);
  return *out ? MBLOB_OK
              : mb_cl_fail(device, code, "the program of the payload is not for this device or driver (%s, driver %s)",
                           device->platform_name, device->driver);
}

static mb_cl_with_il function_for_il(const struct mb_cl_device *device) {
  unsigned major = 0, minor = 0;
  (void)sscanf(device->version, "OpenCL %u.%u", &major, &minor);
  if (mb_cl_text_has(device, CL_DEVICE_IL_VERSION, "SPIR-V") && (major > 2 || (major == 2 && minor >= 1)))
    return mb_cl.clCreateProgramWithIL;
  if (!mb_cl_text_has(device, CL_DEVICE_EXTENSIONS, "cl_khr_il_program")) return NULL;
  mb_cl_with_il function = NULL;
  void *address = mb_cl.clGetExtensionFunctionAddressForPlatform(device->platform, "clCreateProgramWithILKHR");
  memcpy(&function, &address, sizeof(address)); /* ISO C has no cast from data to functions */
  return function;
}

static int from_il(const struct mb_cl_part *part, const struct mb_cl_device *device, cl_program *out) {
  cl_int code = CL_SUCCESS;
  const mb_cl_with_il create = function_for_il(device);
  if (!create)
    return mb_fail(MBLOB_E_INCOMPATIBLE, "opencl: kernel '%s' is SPIR-V, which device %d (%s, %s) does not take",
                   part->kernel, device->id, device->name, device->version);
  *out = create(device->context, part->code.data, (size_t)part->code.size, &code);
  return *out ? MBLOB_OK : mb_cl_fail(device, code, "a program cannot be made of the SPIR-V of kernel '%s'", part->kernel);
}

static int create(enum mb_cl_form form, const struct mb_cl_part *part, const struct mb_cl_device *device, cl_program *out) {
  switch (form) {
    case MB_CL_SOURCE: return from_source(part, device, out);
    case MB_CL_BINARY: return from_binary(part->code.data, (size_t)part->code.size, device, out);
    case MB_CL_SPIRV: break;
  }
  return from_il(part, device, out);
}

static cl_int build(enum mb_cl_form form, cl_program program, const struct mb_cl_device *device) {
  char *options = NULL;
  if (asprintf(&options, "%s%s%s", user_options(), *user_options() ? " " : "", tells_arguments) < 0)
    return CL_OUT_OF_HOST_MEMORY;
  /* A program that is compiled already may have been compiled by a driver that does not know the option. */
  const char *used = form == MB_CL_SOURCE ? options : user_options();
  const cl_int code = mb_cl.clBuildProgram(program, 1, &device->device, used, NULL, NULL);
  free(options);
  return code;
}

/* ---- the cache -------------------------------------------------------------------------------- */

/* Programs from the cache are taken as declared, because not all drivers tell the arguments of a binary: so the declarations are
 * a part of the key, and only what agrees with them is kept. */
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

static bool are_as_declared(const struct mb_cl_payload *payload, uint64_t part, cl_program program) {
  bool are = true;
  for (size_t i = 0; are && i < payload->kernels.count; i++)
    are = payload->part_of[i] != part || mb_cl_is_as_declared(&payload->kernels.items[i], program);
  return are;
}

static bool key_of(const struct mb_cl_payload *payload, uint64_t index, const struct mb_cl_device *device, struct mb_cl_key *out) {
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
  const char *texts[] = {device->platform_name, device->name, device->version, device->driver, user_options(),
                         tells_arguments};
  for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) (void)fwrite(texts[i], 1, strlen(texts[i]) + 1, all);
  write_declarations(payload, index, all);
  (void)fclose(all);
  if (text) mb_sha256((const uint8_t *)text, size, out->digest);
  free(text);
  return text != NULL;
}

static cl_program load(enum mb_cl_form form, const struct mb_cl_key *key, const struct mb_cl_device *device) {
  uint8_t *data = NULL;
  size_t size = 0;
  cl_program program = NULL;
  cl_int code = CL_SUCCESS, of_binary = CL_SUCCESS;
  if (!mb_cl_cache_load(key, &data, &size)) return NULL;
  const uint8_t *binary = data;
  program = mb_cl.clCreateProgramWithBinary(device->context, 1, &device->device, &size, &binary, &of_binary, &code);
  free(data);
  if (program && build(form, program, device)) {
    (void)mb_cl.clReleaseProgram(program);
    program = NULL;
  }
  return program;
}

static void store(const struct mb_cl_key *key, cl_program program) {
  size_t size = 0;
  if (mb_cl.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(size), &size, NULL) || !size) return;
  uint8_t *data = malloc(size);
  if (data && !mb_cl.clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(data), &data, NULL))
    mb_cl_cache_store(key, data, size);
  free(data);
}

int mb_cl_build(const struct mb_cl_payload *payload, uint64_t part, const char *kernel, const struct mb_cl_device *device,
                cl_program *out) {
  struct mb_cl_key key;
  const enum mb_cl_form form = payload->form;
  const bool cached = form != MB_CL_BINARY && mb_cl_cache_is_on() && key_of(payload, part, device, &key);
  if (cached && (*out = load(form, &key, device))) return MBLOB_OK;
  int status = create(form, &payload->parts[part], device, out);
  if (status) return status;
  const cl_int code = build(form, *out, device);
  if (code) {
    status = fail_build(kernel, device, *out, code);
    (void)mb_cl.clReleaseProgram(*out);
    *out = NULL;
    return status;
  }
  if (cached && are_as_declared(payload, part, *out)) store(&key, *out);
  return MBLOB_OK;
}
