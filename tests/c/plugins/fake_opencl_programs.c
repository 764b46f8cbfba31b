/* Programs and kernels of the OpenCL library for tests. */
#define _GNU_SOURCE
#include "fake_opencl_inside.h"

/* ---- programs: a binary is "FAKEBIN " and the source ----------------------------------------- */

static void add_text(cl_program program, const char *text, size_t size) {
  program->text = realloc(program->text, program->size + size + 1);
  memcpy(program->text + program->size, text, size);
  program->size += size;
  program->text[program->size] = 0;
}

static cl_program program_of(const char *text, size_t size) {
  cl_program program = fake_cl_new(sizeof(*program));
  add_text(program, text, size);
  return program;
}

EXPORT cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char **texts,
                                            const size_t *sizes, cl_int *error) {
  MAY_FAIL_OBJECT(error);
  (void)context;
  cl_program program = program_of(texts[0], sizes[0]);
  for (cl_uint i = 1; i < count; i++) add_text(program, texts[i], sizes[i]);
  return program;
}

EXPORT cl_program clCreateProgramWithBinary(cl_context context, cl_uint count,
                                            const cl_device_id *list, const size_t *sizes,
                                            const unsigned char **data, cl_int *of_binary,
                                            cl_int *error) {
  MAY_FAIL_OBJECT(error);
  if (count != 1 || list[0] != context->device) abort();
  if (sizes[0] < 8 || memcmp(data[0], "FAKEBIN ", 8) != 0) {
    *of_binary = *error = -42;
    return NULL;
  }
  *of_binary = CL_SUCCESS;
  cl_program program = program_of((const char *)data[0] + 8, sizes[0] - 8);
  program->is_binary = 1;
  return program;
}

/* Behind the five words of SPIR-V's header: source. */
EXPORT cl_program clCreateProgramWithIL(cl_context context, const void *words, size_t size,
                                        cl_int *error) {
  MAY_FAIL_OBJECT(error);
  (void)context;
  return program_of((const char *)words + 20, size - 20);
}

EXPORT cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id *list,
                             const char *options, void (*notify)(cl_program, void *), void *data) {
  MAY_FAIL();
  (void)list, (void)notify, (void)data;
  if (count != 1) abort();
  /* Of a type that the source defines the compiler is asked, in a line more: own_t is a float. */
  if (strstr(program->text, "sizeof(own_t)") &&
      !strstr(program->text, "sizeof(own_t) == 4 && sizeof(\"\"[(int)"))
    return -11;
  if (strstr(program->text, "#error") || strstr(options, "-bad")) return -11;
  program->built = 1;
  program->told =
      strstr(options, "-cl-kernel-arg-info") && !(program->is_binary && getenv("FAKE_CL_FORGETS"));
  return CL_SUCCESS;
}

/* The kernel that is declared at or behind `at`: its name, and how many parameters it has. */
static const char *next_kernel(const char *at, char *name, size_t size, cl_uint *count) {
  static const char word[] = "__kernel void ";
  at = strstr(at, word);
  if (!at) return NULL;
  at += sizeof(word) - 1;
  const size_t length = strcspn(at, "(");
  snprintf(name, size, "%.*s", (int)length, at);
  at += length + (at[length] == '(');
  *count = *at != ')' && *at;
  for (; *at && *at != ')'; at++) *count += *at == ',';
  return at;
}

EXPORT cl_int clGetProgramInfo(cl_program program, cl_uint what, size_t room, void *out,
                               size_t *needed) {
  MAY_FAIL();
  const size_t size = program->size + 8;
  char names[512] = "", name[64];
  cl_uint count;
  if (what == CL_PROGRAM_BINARY_SIZES) return answer(&size, sizeof(size), room, out, needed);
  if (what == CL_PROGRAM_BINARIES) {
    unsigned char *to = *(unsigned char **)out;
    memcpy(to, "FAKEBIN ", 8);
    memcpy(to + 8, program->text, program->size);
    return CL_SUCCESS;
  }
  for (const char *at = program->text; (at = next_kernel(at, name, sizeof(name), &count));) {
    if (*names) strcat(names, ";");
    strcat(names, name);
  }
  return what == CL_PROGRAM_KERNEL_NAMES ? answer_text(names, room, out, needed) : -30;
}

EXPORT cl_int clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_uint what,
                                    size_t room, void *out, size_t *needed) {
  MAY_FAIL();
  (void)program, (void)device;
  return what == CL_PROGRAM_BUILD_LOG
             ? answer_text(
                   "in file:\n  line 1: warning: odd\r\n  line 3: error: one\nline 4: error: two\n\nline 5: "
                   "error: three\nline 6: error: four\n4 errors\n",
                   room, out, needed)
             : -30;
}

EXPORT cl_int clReleaseProgram(cl_program program) {
  free(program->text);
  return fake_cl_end(program, __func__);
}

/* ---- kernels --------------------------------------------------------------------------------- */

EXPORT cl_kernel clCreateKernel(cl_program program, const char *wanted, cl_int *error) {
  MAY_FAIL_OBJECT(error);
  char name[64];
  cl_uint count;
  if (!program->built) abort();
  for (const char *at = program->text; (at = next_kernel(at, name, sizeof(name), &count));)
    if (strcmp(name, wanted) == 0) {
      cl_kernel kernel = fake_cl_new(sizeof(*kernel));
      memcpy(kernel->name, name, sizeof(name));
      kernel->count = count;
      const char *from = at;
      while (from > program->text && *from != '(') from--;
      if (program->told)
        snprintf(kernel->parameters, sizeof(kernel->parameters), "%.*s", (int)(at - from), from);
      return kernel;
    }
  *error = CL_INVALID_KERNEL_NAME;
  return NULL;
}

EXPORT cl_int clReleaseKernel(cl_kernel kernel) { return fake_cl_end(kernel, __func__); }

EXPORT cl_int clGetKernelInfo(cl_kernel kernel, cl_uint what, size_t room, void *out,
                              size_t *needed) {
  MAY_FAIL();
  return what == CL_KERNEL_NUM_ARGS
             ? answer(&kernel->count, sizeof(kernel->count), room, out, needed)
             : -30;
}

/* "__global float *x": the qualifier by its word, the type without name and qualifiers. Of
 * parameters without a type nothing is told. */
EXPORT cl_int clGetKernelArgInfo(cl_kernel kernel, cl_uint i, cl_uint what, size_t room, void *out,
                                 size_t *needed) {
  MAY_FAIL();
  char copy[256], type[256] = "", *rest = NULL, *word;
  cl_uint address = CL_KERNEL_ARG_ADDRESS_PRIVATE, access = CL_KERNEL_ARG_ACCESS_NONE;
  const char *at = kernel->parameters;
  for (cl_uint skipped = 0; at && skipped < i; skipped++)
    if ((at = strchr(at, ','))) at++;
  if (!at || !*at) return CL_KERNEL_ARG_INFO_NOT_AVAILABLE;
  at += *at == '(';
  snprintf(copy, sizeof(copy), "%.*s", (int)strcspn(at, ",)"), at);
  for (word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    if (!strcmp(word, "__global"))
      address = CL_KERNEL_ARG_ADDRESS_GLOBAL;
    else if (!strcmp(word, "__constant"))
      address = CL_KERNEL_ARG_ADDRESS_CONSTANT;
    else if (!strcmp(word, "__local"))
      address = CL_KERNEL_ARG_ADDRESS_LOCAL;
    else if (!strcmp(word, "read_only"))
      access = CL_KERNEL_ARG_ACCESS_READ_ONLY, address = CL_KERNEL_ARG_ADDRESS_GLOBAL;
    else if (rest && *rest) /* not the last word, for which it may be NULL */
      strcat(strcat(type, *type ? " " : ""), word);
    else if (*word == '*')
      strcat(type, "*");
  }
  if (!*type) return CL_KERNEL_ARG_INFO_NOT_AVAILABLE;
  if (what == CL_KERNEL_ARG_ADDRESS_QUALIFIER)
    return answer(&address, sizeof(address), room, out, needed);
  if (what == CL_KERNEL_ARG_ACCESS_QUALIFIER)
    return answer(&access, sizeof(access), room, out, needed);
  return what == CL_KERNEL_ARG_TYPE_NAME ? answer_text(type, room, out, needed) : -30;
}

EXPORT cl_int clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device, cl_uint what,
                                       size_t room, void *out, size_t *needed) {
  MAY_FAIL();
  const size_t size = strcmp(kernel->name, "heavy") == 0 ? 64 : 1024;
  (void)device;
  return what == CL_KERNEL_WORK_GROUP_SIZE ? answer(&size, sizeof(size), room, out, needed) : -30;
}

EXPORT cl_int clSetKernelArg(cl_kernel kernel, cl_uint i, size_t size, const void *value) {
  MAY_FAIL();
  if (i >= kernel->count || i >= ARGUMENTS || size > 8) return -49;
  kernel->args[i].size = size;
  memcpy(kernel->args[i].bytes, value, size);
  return CL_SUCCESS;
}

static char *memory_at(const struct _cl_kernel *kernel, int i) {
  cl_mem mem;
  memcpy(&mem, kernel->args[i].bytes, sizeof(mem));
  return mem ? mem->data : NULL;
}

static void run(const struct _cl_kernel *kernel, const size_t *global) {
  if (strcmp(kernel->name, "vadd") == 0) {
    const float *a = (float *)memory_at(kernel, 0), *b = (float *)memory_at(kernel, 1);
    float *c = (float *)memory_at(kernel, 2);
    for (size_t i = 0; i < global[0]; i++) c[i] = a[i] + b[i];
  }
  if (strcmp(kernel->name, "same") == 0 &&
      memcmp(kernel->args[0].bytes, kernel->args[1].bytes, 8) != 0)
    fake_cl.mixed++; /* arguments of two calls */
}

EXPORT cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                     const size_t *offset, const size_t *global,
                                     const size_t *local, cl_uint waits, const cl_event *list,
                                     cl_event *event) {
  MAY_FAIL();
  if (offset || waits || list || event || dimensions < 1 || dimensions > 3) abort();
  for (cl_uint i = 0; i < dimensions; i++)
    if (!local[i] || global[i] % local[i]) return -54;
  pthread_mutex_lock(&fake_cl_lock);
  fake_cl.launches++;
  fake_cl.dimensions = dimensions;
  memcpy(fake_cl.global, global, dimensions * sizeof(*global));
  memcpy(fake_cl.local, local, dimensions * sizeof(*local));
  memcpy(fake_cl.args, kernel->args, sizeof(kernel->args));
  fake_cl.last_queue = queue;
  run(kernel, global);
  pthread_mutex_unlock(&fake_cl_lock);
  return CL_SUCCESS;
}
