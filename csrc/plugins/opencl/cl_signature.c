#define _GNU_SOURCE
#include "cl_signature.h"

#include <stdio.h>
#include <string.h>

#include "cl_compile.h"

/* As the driver tells it. */
struct parameter {
  cl_uint address, access;
  char type[128]; /* "" if the driver does not tell it, or it does not fit */
};

static const struct {
  const char *name, *other; /* as compilers spell it */
  uint8_t code, bits;
} scalars[] = {{"char", "signed char", kDLInt, 8},    {"uchar", "unsigned char", kDLUInt, 8},
               {"short", "signed short", kDLInt, 16}, {"ushort", "unsigned short", kDLUInt, 16},
               {"int", "signed int", kDLInt, 32},     {"uint", "unsigned int", kDLUInt, 32},
               {"long", "signed long", kDLInt, 64},   {"ulong", "unsigned long", kDLUInt, 64},
               {"float", "float", kDLFloat, 32},      {"double", "double", kDLFloat, 64},
               {"half", "__fp16", kDLFloat, 16}};

/* ---- asking ---------------------------------------------------------------------------------- */

static bool ask(cl_kernel kernel, cl_uint i, struct parameter *out) {
  size_t size = 0;
  *out = (struct parameter){.access = CL_KERNEL_ARG_ACCESS_NONE};
  if (mb_cl.clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof(out->address),
                               &out->address, NULL))
    return false;
  if (mb_cl.clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_ACCESS_QUALIFIER, sizeof(out->access),
                               &out->access, NULL))
    out->access = CL_KERNEL_ARG_ACCESS_NONE;
  if (mb_cl.clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_NAME, 0, NULL, &size) ||
      size > sizeof(out->type) - 1 ||
      mb_cl.clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_NAME, size, out->type, NULL))
    *out->type = 0;
  return true;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

/* Images and pipes, which are in global memory for drivers. */
static bool is_image(const struct parameter *p) {
  return p->access != CL_KERNEL_ARG_ACCESS_NONE || begins(p->type, "image") ||
         begins(p->type, "pipe ");
}

/* Objects that are no values although they are in private memory. */
static bool is_object(const char *type) {
  static const char *const objects[] = {"sampler_t", "event_t",     "queue_t",
                                        "ndrange_t", "clk_event_t", "reserve_id_t"};
  for (size_t i = 0; i < sizeof(objects) / sizeof(*objects); i++)
    if (strcmp(type, objects[i]) == 0) return true;
  return strchr(type, '*') || begins(type, "struct ") || begins(type, "union ");
}

/* The scalar's index in `scalars`, or of a vector that of its elements; -1 if the name is
 * neither. */
static int scalar_of(const char *type, bool *is_vector) {
  for (size_t i = 0; i < sizeof(scalars) / sizeof(*scalars); i++) {
    if (strcmp(type, scalars[i].other) == 0) return (int)i;
    if (!begins(type, scalars[i].name)) continue;
    const char *lanes = type + strlen(scalars[i].name);
    *is_vector = *lanes != 0;
    if (lanes[strspn(lanes, "0123456789")] == 0) return (int)i;
  }
  *is_vector = false;
  return -1;
}

static bool is_integer(DLDataType type) { return type.code != kDLFloat; }

/* A bool is a byte. */
static unsigned bytes_of(DLDataType type) { return (type.bits + 7u) / 8u; }

/* What it is compiled from, if it was here. */
struct origin {
  const struct mb_cl_part *source;
  const struct mb_cl_device *device;
};

/* A type that the source names itself: only the compiler knows it, so it is asked, in a program
 * with a line more. The expressions have no value for other types (a vector or a structure
 * cannot be an index nor become an int), or another size: an integer and a float together are a
 * float, whatever their sizes. */
static bool is_named_type(DLDataType declared, const char *type, const struct origin *from) {
  char line[512];
  static const char head[] = "\ntypedef char mblob_asks[sizeof(%s) == %u && ",
                    whole[] = "sizeof(\"\"[(%s)0]) == 1 ? 1 : -1];\n",
                    single[] =
                        "sizeof(\"\"[(int)(%s)0]) == 1 && sizeof((%s)0 + 0UL) == 4 ? 1 : -1];\n",
                    twice[] =
                        "sizeof(\"\"[(int)(%s)0]) == 1 && sizeof((%s)0 + 0.0f) == 8 ? 1 : -1];\n";
  if (!from->source ||
      type[strspn(type, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_ ")])
    return true;
  const size_t used = (size_t)snprintf(line, sizeof(line), head, type, bytes_of(declared));
  if (is_integer(declared))
    (void)snprintf(line + used, sizeof(line) - used, whole, type);
  else
    (void)snprintf(line + used, sizeof(line) - used, declared.bits == 32 ? single : twice, type,
                   type);
  return !mb_cl_is_refused_with(from->source, line, from->device);
}

static bool is_declared_value(DLDataType declared, const char *type, const struct origin *from) {
  bool is_vector = false;
  if (is_object(type)) return false;
  if (!*type) return true; /* not told */
  const int scalar = scalar_of(type, &is_vector);
  if (scalar < 0) return is_named_type(declared, type, from);
  return !is_vector && (scalars[scalar].code == kDLFloat) == !is_integer(declared) &&
         scalars[scalar].bits == 8 * bytes_of(declared);
}

static bool agrees(DLDataType declared, const struct parameter *p, const struct origin *from) {
  switch (p->address) {
    case CL_KERNEL_ARG_ADDRESS_GLOBAL:
    case CL_KERNEL_ARG_ADDRESS_CONSTANT: return mb_is_pointer(declared) && !is_image(p);
    case CL_KERNEL_ARG_ADDRESS_PRIVATE:
      return !mb_is_pointer(declared) && !is_image(p) && is_declared_value(declared, p->type, from);
    default: return false;
  }
}

/* ---- telling --------------------------------------------------------------------------------- */

static const char *kind_of(const struct parameter *p) {
  if (begins(p->type, "pipe ")) return "a pipe";
  if (is_image(p)) return "an image";
  switch (p->address) {
    case CL_KERNEL_ARG_ADDRESS_GLOBAL: return "a pointer to global memory";
    case CL_KERNEL_ARG_ADDRESS_CONSTANT: return "a pointer to constant memory";
    case CL_KERNEL_ARG_ADDRESS_LOCAL: return "a pointer to local memory";
    default: return strcmp(p->type, "sampler_t") == 0 ? "a sampler" : "a value";
  }
}

/* The first parameter that is not as declared, in *out; false if there is none. */
static bool find_other(const struct mb_kernel *declared, cl_kernel kernel,
                       const struct origin *from, size_t *index, struct parameter *out) {
  for (size_t i = 0; mb_cl.clGetKernelArgInfo && i < declared->type_count; i++) {
    if (!ask(kernel, (cl_uint)i, out)) return false;
    *index = i;
    if (!agrees(declared->types[i], out, from)) return true;
  }
  return false;
}

bool mb_cl_is_as_declared(const struct mb_kernel *declared, cl_program program,
                          const struct mb_cl_part *source, const struct mb_cl_device *device) {
  struct parameter p;
  size_t index;
  cl_uint count = 0;
  cl_int code = CL_SUCCESS;
  cl_kernel kernel = mb_cl.clCreateKernel(program, declared->name, &code);
  if (!kernel) return false;
  const bool is = !mb_cl.clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof(count), &count, NULL) &&
                  count == declared->type_count &&
                  !find_other(declared, kernel, &(struct origin){source, device}, &index, &p);
  (void)mb_cl.clReleaseKernel(kernel);
  return is;
}

int mb_cl_check_signature(const struct mb_kernel *declared, cl_kernel kernel,
                          const struct mb_cl_part *source, const struct mb_cl_device *device) {
  struct parameter p;
  size_t i;
  char text[32];
  if (!find_other(declared, kernel, &(struct origin){source, device}, &i, &p)) return MBLOB_OK;
  return mb_fail_format(
      "payload", -1, MB_UNKNOWN,
      "opencl: kernel '%s': argument %zu is declared %s and in its program %s%s%s%s",
      declared->name, i, mb_kernel_type_text(declared->types[i], text), kind_of(&p),
      *p.type ? " (" : "", p.type, *p.type ? ")" : "");
}
