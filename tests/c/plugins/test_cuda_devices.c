/* Devices of the CUDA plug-in: memory, copies, streams, and what is told when the driver or a
 * device is missing or fails. The argument is the folder with the double of the driver,
 * libcuda.so.1. */
#define _GNU_SOURCE
#include <pthread.h>

#include "cuda_plugin.h"

/* ---- memory ---------------------------------------------------------------------------------- */

static void memory_goes_there_and_back(void) {
  char there[300], back[300] = {0};
  void *a, *b, *other, *host, *both;
  begin();
  memset(there, 7, sizeof(there));
  CHECK(device->allocate(0, 300, 0, &a) == MBLOB_OK &&
        device->allocate(0, 300, 256, &b) == MBLOB_OK);
  CHECK(device->allocate(1, 300, 0, &other) == MBLOB_OK &&
        pinned->allocate(0, 300, 0, &host) == MBLOB_OK);
  CHECK(managed->allocate(0, 300, 0, &both) == MBLOB_OK && fake->live_memory == 5);
  upload(a, 0, there, 300);
  int before = fake->synchronized;
  const mblob_copy on = {.from = a,
                         .from_offset = 100,
                         .from_device = {kDLCUDA, 0},
                         .to = b,
                         .to_device = {kDLCUDA, 0},
                         .size = 200};
  CHECK(device->copy(&on) == MBLOB_OK && fake->synchronized == before); /* ordered by its stream */
  const mblob_copy across = {
      .from = b, .from_device = {kDLCUDA, 0}, .to = other, .to_device = {kDLCUDA, 1}, .size = 200};
  CHECK(device->copy(&across) == MBLOB_OK && device->copy(&across) == MBLOB_OK);
  CHECK(fake->synchronized == before + 4 && fake->peers_enabled == 1);
  download(other, 1, back, 200);
  CHECK(memcmp(there, back, 200) == 0 && back[200] == 0 && fake->synchronized == before + 5);
  const mblob_copy pinned_to_device = {.from = host,
                                       .from_device = {kDLCUDAHost, 0},
                                       .to = a,
                                       .to_device = {kDLCUDA, 0},
                                       .size = 300};
  memset(host, 9, 300);
  CHECK(device->copy(&pinned_to_device) == MBLOB_OK && ((char *)a)[299] == 9);
  const mblob_copy to_managed = {.from = there,
                                 .from_device = {kDLCPU, 0},
                                 .to = both,
                                 .to_device = {kDLCUDAManaged, 0},
                                 .size = 300};
  CHECK(managed->copy(&to_managed) == MBLOB_OK && ((char *)both)[299] == 7);
  CHECK(device->free(0, a) == MBLOB_OK && device->free(0, b) == MBLOB_OK &&
        device->free(1, other) == MBLOB_OK);
  CHECK(pinned->free(0, host) == MBLOB_OK && managed->free(0, both) == MBLOB_OK);
  nothing_is_left();
}

static void memory_that_is_not_there_is_told(void) {
  void *a;
  begin();
  REFUSES(device->allocate(0, 1 << 21, 0, &a), MBLOB_E_MEMORY,
          "2097152 bytes of memory (1048576 of 1048576 are free): CUDA_ERROR_OUT_OF_MEMORY");
  CHECK(!a);
  REFUSES(pinned->allocate(0, 1 << 21, 0, &a), MBLOB_E_MEMORY, "2097152 bytes of pinned memory");
  REFUSES(device->allocate(0, 64, 512, &a), MBLOB_E_ARGUMENT, "aligned to 512 bytes");
  CHECK(device->allocate(0, 0, 0, &a) == MBLOB_OK && a && device->free(0, a) == MBLOB_OK);
  REFUSES(device->free(0, &a), MBLOB_E_KERNEL, "CUDA_ERROR_INVALID_VALUE");
  REFUSES(device->allocate(2, 1, 0, &a), MBLOB_E_INCOMPATIBLE, "no device 2; there are 2");
  REFUSES(device->allocate(-1, 1, 0, &a), MBLOB_E_INCOMPATIBLE, "no device -1");
  nothing_is_left();
}

static void *has_no_stream(void *self) {
  CHECK(launch_shared(self, 0) == MBLOB_OK && !fake->last.stream);
  return NULL;
}

static void streams_belong_to_the_thread(void) {
  struct bytes payload;
  pthread_t thread;
  void *one, *two;
  begin();
  void *self = open_ptx(&payload);
  CHECK(device->stream_create(0, &one) == MBLOB_OK && device->stream_create(0, &two) == MBLOB_OK);
  CHECK(device->set_stream(0, one) == MBLOB_OK && launch_shared(self, 0) == MBLOB_OK &&
        fake->last.stream == one);
  CHECK(pthread_create(&thread, NULL, has_no_stream, self) == 0 && pthread_join(thread, NULL) == 0);
  CHECK(device->stream_wait(0, one, two) == MBLOB_OK && device->synchronize(0, NULL) == MBLOB_OK);
  CHECK(fake->recorded == two && fake->waiting == one);
  CHECK(device->stream_wait(0, NULL, one) == MBLOB_OK && fake->recorded == one &&
        !fake->waiting); /* not the chosen one */
  CHECK(device->stream_wait(0, one, NULL) == MBLOB_OK && !fake->recorded && fake->waiting == one);
  fail("cuEventRecord", 0, 1);
  REFUSES(device->stream_wait(0, one, two), MBLOB_E_KERNEL, "letting a stream wait");
  CHECK(device->stream_free(0, one) == MBLOB_OK); /* the thread is on the default one again */
  CHECK(launch_shared(self, 0) == MBLOB_OK && !fake->last.stream);
  CHECK(device->stream_free(0, two) == MBLOB_OK);
  REFUSES(device->set_stream(5, NULL), MBLOB_E_INCOMPATIBLE, "no device 5");
  runtime->close(self);
  nothing_is_left();
}

static void a_context_of_the_caller_is_left_as_it_was(void) {
  struct bytes payload;
  int (*retain)(void **, int), (*push)(void *), (*get)(void **);
  void *mine, *now = NULL;
  begin();
  void *opened = dlopen(library, RTLD_NOW);
  *(void **)&retain = dlsym(opened, "cuDevicePrimaryCtxRetain");
  *(void **)&push = dlsym(opened, "cuCtxPushCurrent_v2");
  *(void **)&get = dlsym(opened, "cuCtxGetCurrent");
  CHECK(retain(&mine, 11) == 0 && push(mine) == 0);
  void *self = open_ptx(&payload);
  CHECK(launch_shared(self, 0) == MBLOB_OK && fake->last.device == 0);
  CHECK(get(&now) == 0 && now == mine && fake->pushed == 1);
  runtime->close(self);
}

static void attributes_are_told(void) {
  static const struct {
    int kind;
    int64_t number;
    const char *text;
  } known[] = {{MBLOB_DEVICE_MAX_THREADS_PER_BLOCK, 1024, ""},
               {MBLOB_DEVICE_WARP_SIZE, 32, ""},
               {MBLOB_DEVICE_MAX_SHARED_MEMORY_PER_BLOCK, 49152, ""},
               {MBLOB_DEVICE_COMPUTE_VERSION, 0, "9.0"},
               {MBLOB_DEVICE_NAME, 0, "Fake 1"},
               {MBLOB_DEVICE_MAX_CLOCK_RATE, 1500000, ""},
               {MBLOB_DEVICE_MULTI_PROCESSOR_COUNT, 80, ""},
               {MBLOB_DEVICE_MAX_THREAD_DIMENSIONS, 0, "[1024, 1024, 64]"},
               {MBLOB_DEVICE_API_VERSION, 12040, ""},
               {MBLOB_DEVICE_DRIVER_VERSION, 0, "12.4"},
               {MBLOB_DEVICE_TOTAL_GLOBAL_MEMORY, 1 << 20, ""}};
  int count;
  char text[128];
  begin();
  CHECK(device->count(&count) == MBLOB_OK && count == 2);
  for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
    int64_t number = 0;
    *text = 0;
    CHECK(device->attribute(1, known[i].kind, &number, text, sizeof(text)) == MBLOB_OK);
    CHECK(number == known[i].number && strcmp(text, known[i].text) == 0);
  }
  REFUSES(device->attribute(1, 99, &(int64_t){0}, text, sizeof(text)), MBLOB_E_NOT_FOUND,
          "attribute 99");
  CHECK(__mblob_plugin_cuda.describe(text, sizeof(text)) == MBLOB_OK);
  CHECK(strcmp(text, "CUDA 12.4, 2 devices: Fake 0 (sm_90), Fake 1 (sm_90)") == 0);
  nothing_is_left();
}

/* ---- what may be missing or break ------------------------------------------------------------ */

static void no_driver_is_told_and_tried_again(void) {
  int count;
  char text[128];
  begin();
  setenv("MBLOB_CUDA_LIBRARY", "/nowhere/libcuda.so.1", 1);
  REFUSES(device->count(&count), MBLOB_E_INCOMPATIBLE, "cuda: no driver: ");
  CHECK(strstr(host_error, "/nowhere/libcuda.so.1") && strstr(host_error, "MBLOB_CUDA_LIBRARY"));
  REFUSES(__mblob_plugin_cuda.describe(text, sizeof(text)), MBLOB_E_INCOMPATIBLE, "no driver");
  setenv("MBLOB_CUDA_LIBRARY", "libc.so.6", 1);
  REFUSES(device->count(&count), MBLOB_E_INCOMPATIBLE, "libc.so.6 has no function cuInit");
  setenv("MBLOB_CUDA_LIBRARY", library, 1);
  fail("cuInit", 0, 3);
  REFUSES(device->count(&count), MBLOB_E_INCOMPATIBLE,
          "does not start: CUDA_ERROR_NOT_INITIALIZED");
  CHECK(device->count(&count) == MBLOB_OK && count == 2);
}

static void no_device_is_none(void) {
  int count = 5;
  void *a;
  char text[128];
  setenv("FAKE_CUDA_DEVICES", "0", 1);
  begin();
  CHECK(device->count(&count) == MBLOB_OK && count == 0);
  REFUSES(device->allocate(0, 1, 0, &a), MBLOB_E_INCOMPATIBLE,
          "the driver finds no device on this machine");
  REFUSES(__mblob_plugin_cuda.describe(text, sizeof(text)), MBLOB_E_INCOMPATIBLE,
          "finds no device");
}

static void a_child_of_a_fork_is_told(void) {
  int count, status;
  begin();
  CHECK(device->count(&count) == MBLOB_OK);
  pid_t child = fork();
  if (child == 0) {
    void *a;
    REFUSES(device->allocate(0, 1, 0, &a), MBLOB_E_INCOMPATIBLE,
            "forked from one that had used CUDA");
    exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(device->count(&count) == MBLOB_OK);
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  if (!cuda_tables(argv[1])) return 0;
  RUN_ALONE(memory_goes_there_and_back);
  RUN_ALONE(memory_that_is_not_there_is_told);
  RUN_ALONE(streams_belong_to_the_thread);
  RUN_ALONE(a_context_of_the_caller_is_left_as_it_was);
  RUN_ALONE(attributes_are_told);
  RUN_ALONE(no_driver_is_told_and_tried_again);
  RUN_ALONE(no_device_is_none);
  RUN_ALONE(a_child_of_a_fork_is_told);
  return 0;
}
