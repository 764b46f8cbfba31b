#define _GNU_SOURCE
#include "cl_compile.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_LINES = 3, SHOWN_LENGTH = 240 }; /* of the compiler's log */

static const char tells_arguments[] = MB_CL_TELLS_ARGUMENTS;

const char *mb_cl_options(void) {
  const char *options = getenv("MBLOB_OPENCL_OPTIONS");
  return options ? options : "";
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* The length of `line` in front of the name of a file as drivers make them (PoCL: `error:
 * /FOLDER/tempfile_X.cl:3:5: TEXT`), and where the line goes on behind that name; all of it if
 * there is none. */
static size_t split_at_file(const char *line, const char **rest) {
  const char *end = line, *begin;
  while ((end = strstr(end, ".cl:")) && !isdigit((unsigned char)end[4])) end += 4;
  for (begin = end; begin && begin > line && !isspace((unsigned char)begin[-1]);) begin--;
  const bool named = begin && *begin == '/';
  *rest = named ? end + 3 : "";
  return named ? (size_t)(begin - line) : strlen(line);
}

/* The lines of the log with errors, or if none says so its first ones, as one line; the kernel's
 * name for the temporary file that its source was in. */
static void shorten(const char *kernel, char *log, char *out, size_t size) {
  const bool marked = strcasestr(log, "error") != NULL;
  size_t used = 0, shown = 0;
  char *rest = NULL;
  *out = 0;
  for (char *line = strtok_r(log, "\r\n", &rest); line && shown < SHOWN_LINES && used < size;
       line = strtok_r(NULL, "\r\n", &rest)) {
    line += strspn(line, " \t");
    if (!*line || (marked && !strcasestr(line, "error"))) continue;
    const char *behind;
    const size_t front = split_at_file(line, &behind);
    used += (size_t)snprintf(out + used, size - used, "%s%.*s%.100s%.*s", shown++ ? " | " : "",
                             (int)(front < SHOWN_LENGTH ? front : SHOWN_LENGTH), line,
                             *behind ? kernel : "", SHOWN_LENGTH, behind);
  }
}

int mb_cl_fail_build(const char *kernel, const struct mb_cl_device *device, cl_program program,
                     cl_int code) {
  size_t size = 0;
  char *log = NULL, lines[SHOWN_LINES * (SHOWN_LENGTH + 4)] = "";
  if (!mb_cl.clGetProgramBuildInfo(program, device->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) &&
      size > 1 && (log = calloc(1, size + 1)) &&
      !mb_cl.clGetProgramBuildInfo(program, device->device, CL_PROGRAM_BUILD_LOG, size, log, NULL))
    shorten(kernel, log, lines, sizeof(lines));
  free(log);
  return mb_cl_fail(device, code, "kernel '%s' cannot be built%s%s", kernel, *lines ? ": " : "",
                    lines);
}

/* ---- making ---------------------------------------------------------------------------------- */

/* `more`: text behind the part's own. */
static int from_source(const struct mb_cl_part *part, const char *more,
                       const struct mb_cl_device *device, cl_program *out) {
  const char *texts[] = {(const char *)part->head.data, (const char *)part->code.data, more};
  const size_t sizes[] = {(size_t)part->head.size, (size_t)part->code.size, strlen(more)};
  const cl_uint skipped = sizes[0] ? 0 : 1,
                count = sizes[2] ? 3 : 2; /* a length of 0 means that the text ends with NUL */
  cl_int code = CL_SUCCESS;
  if (!sizes[1])
    return mb_fail_format("payload", -1, MB_UNKNOWN, "opencl: the program of kernel '%s' is empty",
                          part->kernel);
  *out = mb_cl.clCreateProgramWithSource(device->context, count - skipped, texts + skipped,
                                         sizes + skipped, &code);
  return *out ? MBLOB_OK : mb_cl_fail(device, code, "a program cannot be made of its source");
}

int mb_cl_from_binary(const uint8_t *data, size_t size, const struct mb_cl_device *device,
                      cl_program *out) {
  cl_int code = CL_SUCCESS, of_binary = CL_SUCCESS;
  *out = mb_cl.clCreateProgramWithBinary(device->context, 1, &device->device, &size, &data,
                                         &of_binary, &code);
  return *out ? MBLOB_OK
              : mb_cl_fail(
                    device, code,
                    "the program of the payload is not for this device or driver (%s, driver %s)",
                    device->platform_name, device->driver);
}

static mb_cl_with_il function_for_il(const struct mb_cl_device *device) {
  unsigned major = 0, minor = 0;
  (void)sscanf(device->version, "OpenCL %u.%u", &major, &minor);
  if (mb_cl_text_has(device, CL_DEVICE_IL_VERSION, "SPIR-V") &&
      (major > 2 || (major == 2 && minor >= 1)))
    return mb_cl.clCreateProgramWithIL;
  if (!mb_cl_text_has(device, CL_DEVICE_EXTENSIONS, "cl_khr_il_program")) return NULL;
  mb_cl_with_il function = NULL;
  void *address =
      mb_cl.clGetExtensionFunctionAddressForPlatform(device->platform, "clCreateProgramWithILKHR");
  memcpy(&function, &address, sizeof(address)); /* ISO C has no cast from data to functions */
  return function;
}

static int from_il(const struct mb_cl_part *part, const struct mb_cl_device *device,
                   cl_program *out) {
  cl_int code = CL_SUCCESS;
  const mb_cl_with_il create = function_for_il(device);
  if (!create)
    return mb_fail(MBLOB_E_INCOMPATIBLE,
                   "opencl: kernel '%s' is SPIR-V, which device %d (%s, %s) does not take",
                   part->kernel, device->id, device->name, device->version);
  *out = create(device->context, part->code.data, (size_t)part->code.size, &code);
  return *out ? MBLOB_OK
              : mb_cl_fail(device, code, "a program cannot be made of the SPIR-V of kernel '%s'",
                           part->kernel);
}

int mb_cl_create(enum mb_cl_form form, const struct mb_cl_part *part,
                 const struct mb_cl_device *device, cl_program *out) {
  switch (form) {
    case MB_CL_SOURCE: return from_source(part, "", device, out);
    case MB_CL_BINARY:
      return mb_cl_from_binary(part->code.data, (size_t)part->code.size, device, out);
    case MB_CL_SPIRV: break;
  }
  return from_il(part, device, out);
}

cl_int mb_cl_compile(enum mb_cl_form form, cl_program program, const struct mb_cl_device *device) {
  char *options = NULL;
  if (asprintf(&options, "%s%s%s", mb_cl_options(), *mb_cl_options() ? " " : "", tells_arguments) <
      0)
    return CL_OUT_OF_HOST_MEMORY;
  /* A program that is compiled already may have been compiled by a driver that does not know the
   * option. */
  const char *used = form == MB_CL_SOURCE ? options : mb_cl_options();
  const cl_int code = mb_cl.clBuildProgram(program, 1, &device->device, used, NULL, NULL);
  free(options);
  return code;
}

bool mb_cl_is_refused_with(const struct mb_cl_part *part, const char *more,
                           const struct mb_cl_device *device) {
  cl_program program = NULL;
  if (from_source(part, more, device, &program)) return false;
  const bool is_refused = mb_cl_compile(MB_CL_SOURCE, program, device) == CL_BUILD_PROGRAM_FAILURE;
  (void)mb_cl.clReleaseProgram(program);
  return is_refused;
}
