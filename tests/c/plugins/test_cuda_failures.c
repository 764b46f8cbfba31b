/* The CUDA plug-in where the driver fails: every single call of a whole use, and a context that
 * is lost at any moment. The argument is the folder with the double of the driver, libcuda.so.1. */
#define _GNU_SOURCE
#include "cuda_plugin.h"
#include "failing.h"

static int keep(int status, int *first) {
  if (status && !*first) *first = status;
  return status;
}

static void use_streams(int *first) {
  void *one = NULL, *two = NULL;
  if (keep(device->stream_create(0, &one), first) || keep(device->stream_create(0, &two), first)) {
    if (one) (void)keep(device->stream_free(0, one), first);
    return;
  }
  (void)keep(device->set_stream(0, one), first);
  (void)keep(device->stream_wait(0, two, one), first);
  (void)keep(device->synchronize(0, two), first);
  (void)keep(device->stream_free(0, two), first);
  (void)keep(device->stream_free(0, one), first);
}

static void use_memory(int *first) {
  static const mblob_copy between = {
      .from_device = {kDLCUDA, 0}, .to_device = {kDLCUDA, 1}, .size = 64};
  char bytes[64] = "";
  void *here = NULL, *there = NULL, *host = NULL, *both = NULL;
  if (!keep(device->allocate(0, 64, 0, &here), first) &&
      !keep(device->allocate(1, 64, 0, &there), first)) {
    mblob_copy copy = between;
    copy.from = here, copy.to = there;
    (void)keep(device->copy(&copy), first);
    copy.from = bytes, copy.from_device = (DLDevice){kDLCPU, 0};
    (void)keep(device->copy(&copy), first);
    copy.to = here, copy.to_device.device_id = 0, copy.from = here,
    copy.from_device = copy.to_device;
    (void)keep(device->copy(&copy), first);
  }
  (void)keep(pinned->allocate(0, 64, 0, &host), first);
  (void)keep(managed->allocate(0, 64, 0, &both), first);
  if (here) (void)keep(device->free(0, here), first);
  if (there) (void)keep(device->free(1, there), first);
  if (host) (void)keep(pinned->free(0, host), first);
  if (both) (void)keep(managed->free(0, both), first);
}

/* A whole use; the first status that is no success. Everything is given back. */
static int use(void) {
  struct bytes payload;
  char text[256];
  int64_t number;
  int first = MBLOB_OK;
  void *self = open_ptx(&payload);
  (void)keep(__mblob_plugin_cuda.describe(text, sizeof(text)), &first);
  (void)keep(device->attribute(0, MBLOB_DEVICE_WARP_SIZE, &number, text, sizeof(text)), &first);
  (void)keep(launch_shared(self, 60 << 10), &first);
  (void)keep(device->set_device(1), &first);
  (void)keep(launch_shared(self, 0), &first);
  (void)keep(device->set_device(0), &first);
  use_memory(&first);
  use_streams(&first);
  runtime->close(self);
  return first;
}

static int calls_of_a_use(void) {
  begin();
  CHECK(use() == MBLOB_OK);
  return fake->calls.count;
}

/* An error of the driver's name, or none where a call is not essential; nothing is left over;
 * and the next use works. */
static void fails_and_works_again(void) {
  begin();
  fake_fail(&fake->calls, failing.function, failing.after, failing.times, failing.code);
  host_error[0] = 0;
  CHECK(use() == MBLOB_OK || strstr(host_error, "CUDA_ERROR_NO_BINARY_FOR_GPU") ||
        strstr(host_error, "CUDA_ERROR_OUT_OF_MEMORY"));
  /* Without its context nothing can be given back: what was to go then stays, and all else goes. */
  const bool was_shut_out = strstr(host_error, "its context cannot be made current");
  const int left = fake->live_memory + fake->live_modules + fake->live_streams;
  CHECK(was_shut_out ? left <= 2 : left == 0);
  fake_succeed(&fake->calls);
  CHECK(use() == MBLOB_OK);
  if (!was_shut_out) nothing_is_left();
  CHECK(fake->live_memory + fake->live_modules + fake->live_streams == left &&
        fake->live_events == 0 && fake->pushed == 0);
}

/* What is given back then is lost with the driver. */
static void fails_from_then_on(void) {
  begin();
  fake_fail(&fake->calls, NULL, failing.after, 0, failing.code);
  host_error[0] = 0;
  CHECK(use() == MBLOB_OK || strstr(host_error, "CUDA_ERROR_OUT_OF_MEMORY"));
  const int left = fake->live_memory + fake->live_modules + fake->live_streams;
  fake_succeed(&fake->calls);
  CHECK(use() == MBLOB_OK && fake->live_memory + fake->live_modules + fake->live_streams == left &&
        fake->pushed == 0);
}

static void every_call_in_its_turn(void) {
  const int count = counted_apart(calls_of_a_use);
  CHECK(count > 100);
  for (int n = 0; n < count; n += failing_step())
    fails_apart((struct failing){NULL, n, 1, n % 2 ? 2 : 209}, fails_and_works_again);
}

/* From that call on nothing works, and then everything again: a driver that was replaced while
 * the process ran. */
static void all_calls_from_one_on(void) {
  const int count = counted_apart(calls_of_a_use);
  for (int n = 0; n < count; n += 3 * failing_step())
    fails_apart((struct failing){NULL, n, 0, 2}, fails_from_then_on);
}

/* Every later error says which it was; what is given back is taken; contexts are popped. */
static void loses_its_context(void) {
  begin();
  fake_fail(&fake->calls, failing.function, failing.after, failing.times, failing.code);
  CHECK(use() == MBLOB_OK || strstr(host_error, "CUDA_ERROR_ILLEGAL_ADDRESS"));
  host_error[0] = 0;
  const int status = use();
  CHECK(status == MBLOB_OK || strstr(host_error, "CUDA_ERROR_ILLEGAL_ADDRESS"));
  CHECK(fake->pushed == 0);
}

static void a_context_lost_at_any_moment(void) {
  const int count = counted_apart(calls_of_a_use);
  for (int n = 0; n < count; n += failing_step())
    fails_apart((struct failing){NULL, n, 1, 700}, loses_its_context);
}

static void a_lost_device_is_told_as_such(void) {
  struct bytes payload;
  void *data, *other, *stream;
  int count;
  begin();
  void *self = open_ptx(&payload);
  CHECK(device->allocate(0, 64, 0, &data) == MBLOB_OK &&
        device->stream_create(0, &stream) == MBLOB_OK && launch_shared(self, 0) == MBLOB_OK);
  fail("cuStreamSynchronize", 0, 700);
  REFUSES(device->synchronize(0, NULL), MBLOB_E_KERNEL, "CUDA_ERROR_ILLEGAL_ADDRESS");
  CHECK(strstr(host_error, "the device and all memory on it are lost") &&
        strstr(host_error, "started anew"));
  REFUSES(launch_shared(self, 0), MBLOB_E_KERNEL,
          "lost to this process before, by CUDA_ERROR_ILLEGAL_ADDRESS");
  REFUSES(device->allocate(0, 64, 0, &other), MBLOB_E_KERNEL, "lost to this process before");
  CHECK(device->free(0, data) == MBLOB_OK &&
        device->stream_free(0, stream) == MBLOB_OK); /* went with the device */
  CHECK(device->count(&count) == MBLOB_OK && count == 2);
  CHECK(fake->pushed == 0);
  runtime->close(self);
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  if (!cuda_tables(argv[1])) return 0;
  RUN_ALONE(a_lost_device_is_told_as_such);
  RUN_ALONE(every_call_in_its_turn);
  RUN_ALONE(all_calls_from_one_on);
  RUN_ALONE(a_context_lost_at_any_moment);
  return 0;
}
