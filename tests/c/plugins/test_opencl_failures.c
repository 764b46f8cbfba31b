/* The OpenCL plug-in where its library fails: every single call of a whole use, each with
 * several codes, and a device that is lost at any moment. */
#define _GNU_SOURCE
#include "failing.h"
#include "opencl_host.h"

static const char own_text[] =
    "// Function: vadd\n__kernel void vadd(__global float *a, __global float *b, __global float *c) {}\n"
    "// Function: own\n__kernel void own(own_t x) {}\n";

static struct payload two_kernels(void) {
  struct payload p = {.size = 0};
  put_text(&p, "cl");
  put_number(&p, 2, 8);
  put_kernel(&p, "vadd", "ppp", "blockIdx.x,threadIdx.x");
  put_kernel(&p, "own", "f", "");
  put_text(&p, own_text);
  return p;
}

static int keep(int status, int *first) {
  if (status && !*first) *first = status;
  return status;
}

/* A stream, a copy on the device and one to another, memory that begins inside of its buffer, a
 * wait. */
static int use_streams(int id, int *first) {
  void *stream = NULL, *here = NULL, *there = NULL;
  char bytes[256] = "";
  const mblob_copy on = {.from = NULL,
                         .from_device = {kDLOpenCL, id},
                         .to_device = {kDLOpenCL, id},
                         .to_offset = 128,
                         .size = 128};
  if (!keep(device->allocate(id, 256, 64, &here), first) &&
      !keep(device->allocate(!id, 256, 64, &there), first)) {
    mblob_copy copy = on;
    copy.from = here, copy.to = here;
    (void)keep(device->copy(&copy), first);
    copy.to_offset = 100; /* over itself */
    (void)keep(device->copy(&copy), first);
    copy.to = there, copy.to_device.device_id = !id;
    (void)keep(device->copy(&copy), first);
    copy.to = bytes, copy.to_device = (DLDevice){kDLCPU, 0}, copy.to_offset = 0;
    (void)keep(device->copy(&copy), first);
  }
  if (!keep(device->stream_create(id, &stream), first)) {
    (void)keep(device->set_stream(id, stream), first);
    (void)keep(device->stream_wait(id, stream, NULL), first);
    (void)keep(device->set_stream(id, NULL), first);
    (void)keep(device->stream_wait(id, NULL, stream), first);
    (void)keep(device->stream_free(id, stream), first);
  }
  if (here) (void)keep(device->free(id, here), first);
  if (there) (void)keep(device->free(!id, there), first);
  return *first;
}

/* A whole use of a device; the first status that is no success. Everything is given back. */
static int use(int id) {
  const struct payload p = two_kernels();
  int first = MBLOB_OK;
  char text[256];
  void *module = open_payload(&p);
  CHECK(module);
  (void)keep(__mblob_plugin_opencl.describe(text, sizeof(text)), &first);
  (void)keep(device->set_device(id), &first);
  (void)keep(add_vectors(module, id), &first);
  (void)keep(call(module, "own", &(TVMValue){.v_float64 = 1}, &(int){kTVMArgFloat}, 1), &first);
  (void)use_streams(id, &first);
  (void)keep(device->set_device(0), &first);
  runtime->close(module);
  return first;
}

/* ---- one call fails -------------------------------------------------------------------------- */

static int calls_of_a_use(void) {
  CHECK(use(0) == MBLOB_OK);
  return fake->calls.count;
}

/* An error that says so, or none where a call is not essential; nothing is left over; and the
 * next use works. */
static void fails_and_works_again(void) {
  char expected[32];
  snprintf(expected, sizeof(expected), "(%d)", failing.code);
  fail(failing.function, failing.after, failing.times, failing.code);
  CHECK(use(0) == MBLOB_OK || said(expected));
  fake_succeed(&fake->calls);
  CHECK(use(0) == MBLOB_OK && use(1) == MBLOB_OK);
  CHECK(fake->live == 4); /* contexts and queues */
}

/* The call with each number, whichever it is. */
static void every_call_in_its_turn(void) {
  const int count = counted_apart(calls_of_a_use);
  CHECK(count > 80);
  for (int n = 0; n < count; n += failing_step())
    fails_apart((struct failing){NULL, n, 1, n % 2 ? CL_OUT_OF_HOST_MEMORY : CL_OUT_OF_RESOURCES},
                fails_and_works_again);
}

static void every_function_by_name(void) {
#define NAME(result, name, parameters) #name,
  static const char *const names[] = {MB_CL_FUNCTIONS(NAME) "clGetKernelArgInfo"};
#undef NAME
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
    for (int after = 0; after < 3; after += failing_step())
      fails_apart((struct failing){names[i], after, 1, -12345}, fails_and_works_again);
}

/* ---- a device is lost ------------------------------------------------------------------------ */

/* From that call on nothing works; what is given back is; and when the driver is well again so
 * is the plug-in. */
static void a_device_lost_at_any_moment(void) {
  const int count = counted_apart(calls_of_a_use);
  for (int n = 0; n < count; n += 2 * failing_step())
    fails_apart((struct failing){NULL, n, 0, CL_DEVICE_NOT_AVAILABLE}, fails_and_works_again);
}

static void a_lost_device_is_named(void) {
  const struct payload p = vadd_payload();
  void *module = open_payload(&p);
  fail("clEnqueueNDRangeKernel", 0, 1, CL_DEVICE_NOT_AVAILABLE);
  CHECK(add_vectors(module, 0) == MBLOB_E_KERNEL);
  CHECK(said(
      "launching kernel 'vadd' on device 0 (Fake GPU 1): CL_DEVICE_NOT_AVAILABLE (-2); the device is lost"));
  fail("clFinish", 0, 1, CL_OUT_OF_RESOURCES);
  CHECK(add_vectors(module, 0) == MBLOB_E_KERNEL &&
        said("running kernel 'vadd' on device 0")); /* the first: waited for */
  fail("clFinish", 0, 1, CL_OUT_OF_RESOURCES);
  CHECK(add_vectors(module, 0) == MBLOB_E_KERNEL && said("waiting") &&
        said("reached outside of its memory"));
  fail("clFinish", 0, 1, -12345);
  CHECK(add_vectors(module, 0) == MBLOB_E_KERNEL && said("an error of the driver (-12345)"));
  CHECK(add_vectors(module, 1) == MBLOB_OK);
  runtime->close(module);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  use_fake(argv[1]);
  setenv("MBLOB_CACHE", "1", 1);
  setenv("MBLOB_CACHE_DIR", "/proc/nowhere", 1);
  APART(a_lost_device_is_named);
  RUN(every_call_in_its_turn);
  RUN(every_function_by_name);
  RUN(a_device_lost_at_any_moment);
  return 0;
}
