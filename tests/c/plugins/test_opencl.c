/* The OpenCL plug-in over fake_opencl.so: libraries and devices, memory, copies and streams. */
#define _GNU_SOURCE
#include "opencl_host.h"

static const char *libraries;

static int count(void) {
  int n = -1;
  return device->count(&n) ? -1 : n;
}

static void name_is(int id, const char *name) {
  char text[64];
  int64_t number;
  CHECK(device->attribute(id, MBLOB_DEVICE_NAME, &number, text, sizeof(text)) == MBLOB_OK);
  CHECK(strcmp(text, name) == 0);
}

/* ---- what is there --------------------------------------------------------------------------- */

static void a_library_that_is_not_there_is_named_and_may_come_later(void) {
  char text[512];
  setenv("MBLOB_OPENCL_LIBRARY", "/nowhere/libOpenCL.so", 1);
  CHECK(count() == -1 && said("/nowhere/libOpenCL.so") && said("MBLOB_OPENCL_LIBRARY"));
  CHECK(__mblob_plugin_opencl.describe(text, sizeof(text)) == MBLOB_E_INCOMPATIBLE);
  setenv("MBLOB_OPENCL_LIBRARY", "libm.so.6", 1);
  CHECK(count() == -1 && said("libm.so.6 has no function cl"));
  use_fake(libraries);
  CHECK(count() == 2);
}

static void no_platform_and_no_device(void) {
  setenv("FAKE_CL_PLATFORMS", "0", 1);
  CHECK(count() == -1 && said("CL_PLATFORM_NOT_FOUND_KHR (-1001)") && said("/etc/OpenCL/vendors"));
  setenv("FAKE_CL_PLATFORMS", "1", 1);
  setenv("FAKE_CL_DEVICES", "", 1);
  CHECK(count() == 0);
  void *memory;
  CHECK(device->allocate(0, 8, 8, &memory) == MBLOB_E_INCOMPATIBLE &&
        said("no device 0; there are 0"));
  setenv("FAKE_CL_DEVICES", "gpu", 1); /* it was plugged in */
  CHECK(count() == 1);
}

static void gpus_come_first(void) {
  setenv("FAKE_CL_PLATFORMS", "2", 1);
  setenv("FAKE_CL_DEVICES", "cpu,accelerator,gpu", 1);
  CHECK(count() == 6);
  name_is(0, "Fake GPU 2");
  name_is(1, "Fake GPU 102");
  name_is(2, "Fake Device 1");
  name_is(5, "Fake Device 100");
}

static void filters(const char *platform, const char *which, int expected, const char *first) {
  setenv("FAKE_CL_PLATFORMS", "2", 1);
  setenv("FAKE_CL_DEVICES", "cpu,gpu", 1);
  setenv("MBLOB_OPENCL_PLATFORM", platform, 1);
  setenv("MBLOB_OPENCL_DEVICE", which, 1);
  CHECK(count() == expected);
  if (expected > 0) name_is(0, first);
}
static void a_platform_by_number(void) { filters("1", "", 2, "Fake GPU 101"); }
static void a_platform_by_name(void) { filters("fake platform 0", "", 2, "Fake GPU 1"); }
static void devices_by_kind(void) { filters("", "CPU", 2, "Fake Device 0"); }
static void a_device_by_number(void) { filters("", "3", 1, "Fake Device 100"); }
static void a_device_by_name(void) { filters("", "gpu 10", 1, "Fake GPU 101"); }
static void none_is_left(void) {
  filters("", "adreno", -1, NULL);
  CHECK(said("no device is left of 4") && said("MBLOB_OPENCL_DEVICE='adreno'"));
}

static void more_devices_than_are_numbered(void) {
  char list[512] = "gpu";
  for (int i = 0; i < 69; i++) strcat(list, ",gpu");
  setenv("FAKE_CL_DEVICES", list, 1);
  CHECK(count() == 64);
}

static void attributes_and_the_line_for_people(void) {
  static const struct {
    int kind;
    int64_t number;
    const char *text;
  } expected[] = {{MBLOB_DEVICE_EXISTS, 1, ""},
                  {MBLOB_DEVICE_MAX_THREADS_PER_BLOCK, 1024, ""},
                  {MBLOB_DEVICE_WARP_SIZE, 1, ""},
                  {MBLOB_DEVICE_MAX_SHARED_MEMORY_PER_BLOCK, 49152, ""},
                  {MBLOB_DEVICE_COMPUTE_VERSION, 0, "2.1"},
                  {MBLOB_DEVICE_MAX_CLOCK_RATE, 1500000, ""},
                  {MBLOB_DEVICE_MULTI_PROCESSOR_COUNT, 12, ""},
                  {MBLOB_DEVICE_MAX_THREAD_DIMENSIONS, 0, "[1024, 512, 64]"},
                  {MBLOB_DEVICE_API_VERSION, 210, ""},
                  {MBLOB_DEVICE_DRIVER_VERSION, 0, "7.5"},
                  {MBLOB_DEVICE_TOTAL_GLOBAL_MEMORY, INT64_C(1) << 33, ""}};
  char text[256];
  for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
    int64_t number = 0;
    *text = 0;
    CHECK(device->attribute(0, expected[i].kind, &number, text, sizeof(text)) == MBLOB_OK);
    CHECK(number == expected[i].number && strcmp(text, expected[i].text) == 0);
  }
  int64_t number;
  CHECK(device->attribute(0, 99, &number, text, sizeof(text)) == MBLOB_E_NOT_FOUND);
  CHECK(__mblob_plugin_opencl.describe(text, sizeof(text)) == MBLOB_OK);
  CHECK(strstr(
      text, ": 2 devices: 0 Fake GPU 1 (gpu, OpenCL 2.1 Fake, driver 7.5), 1 Fake Device 0 (cpu,"));
  CHECK(__mblob_plugin_opencl.describe(text, 10) == MBLOB_OK && strlen(text) == 9);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static const DLDevice host = {kDLCPU, 0};

static int move(const void *from, uint64_t from_offset, int from_id, void *to, uint64_t to_offset,
                int to_id, uint64_t size) {
  const DLDevice from_device = from_id < 0 ? host : (DLDevice){kDLOpenCL, from_id};
  const DLDevice to_device = to_id < 0 ? host : (DLDevice){kDLOpenCL, to_id};
  const mblob_copy copy = {.from = from,
                           .from_offset = from_offset,
                           .to = to,
                           .to_offset = to_offset,
                           .size = size,
                           .from_device = from_device,
                           .to_device = to_device};
  return device->copy(&copy);
}

static void copies_with_offsets(void) {
  char text[16] = "0123456789abcde", got[16] = "";
  void *a, *b, *other;
  CHECK(!device->allocate(0, 16, 64, &a) && !device->allocate(0, 8, 64, &b) &&
        !device->allocate(1, 16, 64, &other));
  CHECK(!move(text, 2, -1, a, 0, 0, 14));
  CHECK(!move(a, 4, 0, b, 1, 0, 7)); /* on one device */
  CHECK(!move(b, 1, 0, got, 0, -1, 7) && strcmp(got, "6789abc") == 0);
  CHECK(!move(a, 0, 0, other, 2, 1, 14)); /* from one to the other */
  CHECK(!move(other, 3, 1, got, 1, -1, 13) && strcmp(got, "63456789abcde") == 0);
  CHECK(!move(a, 0, 0, a, 2, 0, 8)); /* over itself */
  CHECK(!move(a, 2, 0, got, 0, -1, 8) && memcmp(got, "23456789", 8) == 0);
  CHECK(!move(a, 16, 0, got, 0, -1, 0));
  CHECK(!device->free(0, a) && !device->free(0, b) && !device->free(1, other));
}

static void a_large_copy_between_devices(void) {
  enum { SIZE = (9 << 20) + 5 };
  uint8_t *bytes = malloc(SIZE), *got = malloc(SIZE);
  void *a, *b;
  for (size_t i = 0; i < SIZE; i++) bytes[i] = (uint8_t)(i * 7 + (i >> 13));
  CHECK(!device->allocate(0, SIZE, 64, &a) && !device->allocate(1, SIZE, 64, &b));
  CHECK(!move(bytes, 0, -1, a, 0, 0, SIZE) && !move(a, 0, 0, b, 0, 1, SIZE) &&
        !move(b, 0, 1, got, 0, -1, SIZE));
  CHECK(memcmp(bytes, got, SIZE) == 0);
  CHECK(!device->free(0, a) && !device->free(1, b));
  free(bytes), free(got);
}

static void nothing_outside_of_the_memory_is_touched(void) {
  char bytes[16] = "";
  void *a, *empty;
  CHECK(!device->allocate(0, 16, 64, &a) && !device->allocate(0, 0, 64, &empty) && empty);
  CHECK(move(a, 9, 0, bytes, 0, -1, 8) == MBLOB_E_ARGUMENT &&
        said("8 bytes at offset 9 of memory of 16 bytes"));
  CHECK(move(bytes, 0, -1, a, UINT64_MAX, 0, 2) == MBLOB_E_ARGUMENT &&
        said("destination of a copy"));
  CHECK(move(a, 0, 0, bytes, 0, -1, UINT64_MAX) == MBLOB_E_ARGUMENT);
  CHECK(move(empty, 0, 0, bytes, 0, -1, 1) == MBLOB_E_ARGUMENT &&
        !move(empty, 0, 0, bytes, 0, -1, 0));
  CHECK(move(a, 0, 1, bytes, 0, -1, 1) == MBLOB_E_ARGUMENT &&
        said("memory of device 0, said to be of device 1"));
  CHECK(!device->free(0, a) && !device->free(0, empty));
}

static void pointers_that_are_no_memory(void) {
  char bytes[64] = "";
  void *a, *b;
  CHECK(!device->allocate(0, 16, 64, &a));
  const void *wrong[] = {
      NULL, bytes, (void *)16, (char *)a + 1, (char *)a - 4096, (void *)UINTPTR_MAX};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
    CHECK(device->free(0, (void *)(uintptr_t)wrong[i]) == MBLOB_E_ARGUMENT &&
          said("is no memory of an OpenCL device"));
    CHECK(move(wrong[i], 0, 0, bytes, 0, -1, 1) == MBLOB_E_ARGUMENT);
  }
  CHECK(device->free(1, a) == MBLOB_E_ARGUMENT && said("of device 0 as if it were of device 1"));
  CHECK(!device->free(0, a));
  CHECK(device->free(0, a) == MBLOB_E_ARGUMENT); /* twice */
  CHECK(!device->allocate(0, 16, 64, &b) && !device->free(0, b));
}

static void many_allocations(void) {
  enum { MANY = 5000 };
  static void *all[MANY];
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < MANY; i++)
      CHECK(!device->allocate(i % 2, 4, 4, &all[i]) && !move(&i, 0, -1, all[i], 0, i % 2, 4));
    for (int i = 0, got; i < MANY; i++) CHECK(!move(all[i], 0, i % 2, &got, 0, -1, 4) && got == i);
    for (int i = 0; i < MANY; i++) CHECK(!device->free(i % 2, all[i]));
  }
  CHECK(fake->live == 4); /* contexts and queues */
}

static void memory_that_is_not_there(void) {
  void *memory = &memory;
  CHECK(device->allocate(0, UINT64_C(1) << 40, 64, &memory) == MBLOB_E_MEMORY && !memory);
  CHECK(said("1099511627776 bytes on device 0 (Fake GPU 1)") && said("up to 67108864 bytes"));
  fail("clCreateBuffer", 0, 0, CL_MEM_OBJECT_ALLOCATION_FAILURE);
  CHECK(device->allocate(0, 512, 64, &memory) == MBLOB_E_MEMORY);
  CHECK(
      said("allocating 512 bytes on device 0 (Fake GPU 1): CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)"));
  fail("clCreateBuffer", 0, 1,
       CL_OUT_OF_RESOURCES); /* what was freed is still in use by work that ends soon */
  CHECK(!device->allocate(0, 512, 64, &memory) && !device->free(0, memory));
}

/* ---- streams --------------------------------------------------------------------------------- */

static void work_goes_to_the_stream_of_the_thread(void) {
  void *stream, *memory, *of_default, *of_stream;
  char byte = 1;
  CHECK(!device->allocate(0, 16, 64, &memory) && !device->stream_create(0, &stream) && stream);
  CHECK(!device->synchronize(0, NULL) && (of_default = fake->last_queue));
  CHECK(!device->set_stream(0, stream) && !move(&byte, 0, -1, memory, 0, 0, 1) &&
        (of_stream = fake->last_queue) != of_default);
  CHECK(!device->synchronize(0, NULL) && fake->last_queue == of_stream);
  CHECK(!device->stream_wait(0, NULL, stream) &&
        fake->last_queue == of_default); /* NULL is not the one that was chosen */
  CHECK(!device->stream_wait(0, stream, NULL) && fake->last_queue == of_stream);
  CHECK(!device->set_stream(0, NULL) && !move(&byte, 0, -1, memory, 0, 0, 1) &&
        fake->last_queue == of_default);
  CHECK(!device->stream_wait(0, stream, NULL) && fake->last_queue == of_stream);
  CHECK(!device->stream_wait(0, stream, stream));
  CHECK(device->set_stream(1, stream) == MBLOB_E_ARGUMENT &&
        said("no stream of device 1 (Fake Device 0), but of another"));
  CHECK(device->synchronize(0, memory) == MBLOB_E_ARGUMENT && said("no stream of device 0"));
  const mblob_copy copy = {.from = &byte,
                           .from_device = host,
                           .to = memory,
                           .to_device = {kDLOpenCL, 0},
                           .size = 1,
                           .stream = stream};
  CHECK(!device->copy(&copy) && fake->last_queue == of_stream);
  CHECK(!device->set_stream(0, stream) &&
        !device->stream_free(0, stream)); /* the thread is back on its default one */
  CHECK(!device->synchronize(0, NULL) && fake->last_queue == of_default);
  CHECK(device->set_stream(0, stream) == MBLOB_E_ARGUMENT && said("it may have been freed"));
  CHECK(!device->stream_free(0, NULL) && !device->free(0, memory));
}

/* ---- the process ----------------------------------------------------------------------------- */

static void *left_module, *left_memory, *left_queue;

static void at_exit_before_opencl(void) { /* registered first, so it runs last */
  CHECK(fake->last_queue == left_queue);  /* its work was waited for */
  fake->unloaded = 1;
  runtime->close(left_module);
  CHECK(device->free(0, left_memory) == MBLOB_OK);
  _exit(0); /* the driver's objects are left to the system, which would be told as leaks */
}

static void releasing_late_leaves_the_driver_alone(void) {
  const struct payload p = vadd_payload();
  CHECK(atexit(at_exit_before_opencl) == 0);
  left_module = open_payload(&p);
  CHECK(add_vectors(left_module, 0) == MBLOB_OK && !device->allocate(0, 8, 8, &left_memory));
  CHECK(!device->synchronize(0, NULL) && (left_queue = fake->last_queue));
  fake->last_queue = NULL;
}

static void a_forked_child_is_told(void) {
  const struct payload p = vadd_payload();
  void *module = open_payload(&p), *memory;
  CHECK(add_vectors(module, 0) == MBLOB_OK && !device->allocate(0, 8, 8, &memory));
  (void)fflush(stdout);
  const pid_t child = fork();
  int status = 1;
  if (!child) {
    fake->unloaded = 1; /* no call of the driver any more */
    CHECK(add_vectors(module, 0) == MBLOB_E_INCOMPATIBLE && said("forked") && said("spawn"));
    CHECK(count() == -1 && device->free(0, memory) == MBLOB_OK);
    runtime->close(module);
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(add_vectors(module, 0) == MBLOB_OK && !device->free(0, memory));
  runtime->close(module);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  libraries = argv[1];
  use_fake(libraries);
  APART(a_library_that_is_not_there_is_named_and_may_come_later);
  APART(no_platform_and_no_device);
  APART(gpus_come_first);
  APART(a_platform_by_number);
  APART(a_platform_by_name);
  APART(devices_by_kind);
  APART(a_device_by_number);
  APART(a_device_by_name);
  APART(none_is_left);
  APART(more_devices_than_are_numbered);
  APART(attributes_and_the_line_for_people);
  APART(copies_with_offsets);
  APART(a_large_copy_between_devices);
  APART(nothing_outside_of_the_memory_is_touched);
  APART(pointers_that_are_no_memory);
  APART(many_allocations);
  APART(memory_that_is_not_there);
  APART(work_goes_to_the_stream_of_the_thread);
  APART(releasing_late_leaves_the_driver_alone);
  APART(a_forked_child_is_told);
  return 0;
}
