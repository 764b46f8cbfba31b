/* A double of NVIDIA's driver: memory of the heap, kernels that are C functions, errors on request. Tests of the CUDA
 * plug-in run against it where there is no GPU. It knows the functions that the plug-in calls, and checks what the real
 * one would: that a context is current, that memory and streams are its own. */
#define _GNU_SOURCE
#include "fake_cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

enum { INVALID = 1, NO_MEMORY = 2, NOT_STARTED = 3, NO_DEVICE = 100, BAD_DEVICE = 101, BAD_IMAGE = 200, NO_CONTEXT = 201,
       BAD_PTX = 218, BAD_HANDLE = 400, NOT_FOUND = 500, TOO_MUCH = 701, DEVICES = 4, BLOCKS = 256, KERNELS = 16 };

struct function;

API struct fake_cuda fake_cuda_state;
#define S fake_cuda_state

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char context_marks[DEVICES]; /* addresses that stand for contexts */
static _Thread_local void *stack[16];
static _Thread_local int depth;
static struct block {
  char *data;
  size_t size;
  int device;
} blocks[BLOCKS];
static struct {
  char name[64];
  fake_kernel run;
} kernels[KERNELS];
static struct {
  char name[64];
  int countdown, error;
} failures[8];

struct module {
  char *ptx; /* a copy; NULL for other code */
  int device;
  struct function *functions;
};
struct function {
  char name[64];
  struct module *module;
  fake_kernel run;
  int allowed;
  struct function *next;
};
struct stream {
  int device;
};

/* ---- errors ---------------------------------------------------------------------------------- */

static void fail_later(const char *function, int countdown, int error) {
  for (size_t i = 0; i < sizeof(failures) / sizeof(*failures); i++)
    if (!failures[i].error) {
      snprintf(failures[i].name, sizeof(failures[i].name), "%s", function);
      failures[i].countdown = countdown, failures[i].error = error;
      return;
    }
  abort();
}

static int is_sticky(int error) { return error == 214 || error == 700 || error == 702 || error == 710 || (error >= 714 && error <= 719); }

/* What a call must fail with: on request, or because the context is lost. */
static int wanted(const char *function) {
  for (size_t i = 0; i < sizeof(failures) / sizeof(*failures); i++)
    if (failures[i].error && strcmp(failures[i].name, function) == 0 && failures[i].countdown-- == 0) {
      int error = failures[i].error;
      failures[i].error = 0;
      if (is_sticky(error)) S.lost = error;
      return error;
    }
  return 0;
}

#define ENTER_ANY()                      \
  do {                                   \
    int error_ = wanted(__func__);       \
    if (error_) return error_;           \
  } while (0)
#define ENTER()                          \
  do {                                   \
    ENTER_ANY();                         \
    if (!depth) return NO_CONTEXT;       \
    if (S.lost) return S.lost;           \
  } while (0)

static int current(void) { return (int)((char *)stack[depth - 1] - context_marks); }

static void define(const char *kernel, fake_kernel run) {
  for (size_t i = 0; i < KERNELS; i++)
    if (!*kernels[i].name || strcmp(kernels[i].name, kernel) == 0) {
      snprintf(kernels[i].name, sizeof(kernels[i].name), "%s", kernel);
      kernels[i].run = run;
      return;
    }
  abort();
}

__attribute__((constructor)) static void start(void) {
  const char *count = getenv("FAKE_CUDA_DEVICES");
  S.devices = count ? atoi(count) : 2;
  S.bytes_free = 1 << 20;
  S.fail = fail_later;
  S.define = define;
}

/* What a lost context never gives back is the double's, not a leak of the plug-in: the counts in S tell those. */
static void *kept[64];
static void keep(void *old, void *new) {
  pthread_mutex_lock(&lock);
  size_t i = 0;
  while (i < 64 && kept[i] != old) i++;
  if (i == 64) abort();
  kept[i] = new;
  pthread_mutex_unlock(&lock);
}

/* For callers without C structures. */
API void fake_cuda_define(const char *kernel, fake_kernel run);
API void fake_cuda_define(const char *kernel, fake_kernel run) { define(kernel, run); }
API void fake_cuda_fail(const char *function, int countdown, int error);
API void fake_cuda_fail(const char *function, int countdown, int error) { fail_later(function, countdown, error); }
API int fake_cuda_live(void);
API int fake_cuda_live(void) { return S.live_memory + S.live_modules + S.live_streams; }

/* ---- the driver and its devices -------------------------------------------------------------- */

API int cuInit(unsigned flags) {
  (void)flags;
  ENTER_ANY();
  return S.devices ? 0 : NO_DEVICE;
}
API int cuDriverGetVersion(int *version) {
  *version = 12040;
  return 0;
}
API int cuGetErrorName(int error, const char **text) {
  static const struct {
    int error;
    const char *name;
  } names[] = {{1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {3, "CUDA_ERROR_NOT_INITIALIZED"},
               {100, "CUDA_ERROR_NO_DEVICE"}, {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {218, "CUDA_ERROR_INVALID_PTX"},
               {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"}, {500, "CUDA_ERROR_NOT_FOUND"},
               {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"}, {719, "CUDA_ERROR_LAUNCH_FAILED"}};
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
    if (names[i].error == error) return *text = names[i].name, 0;
  *text = NULL;
  return INVALID;
}
API int cuGetErrorString(int error, const char **text) {
  *text = error ? "as the test asked" : "no error";
  return 0;
}
API int cuDeviceGetCount(int *count) {
  ENTER_ANY();
  *count = S.devices;
  return 0;
}
API int cuDeviceGet(int *device, int ordinal) {
  ENTER_ANY();
  *device = ordinal + 10; /* a handle is no number */
  return ordinal >= 0 && ordinal < S.devices ? 0 : BAD_DEVICE;
}
API int cuDeviceGetName(char *name, int size, int device) {
  snprintf(name, (size_t)size, "Fake %d", device - 10);
  return 0;
}
API int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  (void)device;
  *bytes = 1 << 20;
  return 0;
}
API int cuDeviceGetAttribute(int *value, int attribute, int device) {
  static const int values[128] = {[1] = 1024, [2] = 1024, [3] = 1024, [4] = 64, [5] = 1000000, [6] = 65535, [7] = 65535,
                                  [8] = 48 << 10, [10] = 32, [13] = 1500000, [16] = 80, [75] = 9, [76] = 0, [83] = 1,
                                  [97] = 100 << 10};
  (void)device;
  ENTER_ANY();
  if (attribute < 0 || attribute >= 128) return INVALID;
  *value = values[attribute];
  return 0;
}
API int cuDeviceCanAccessPeer(int *can, int device, int peer) {
  *can = device != peer;
  return 0;
}

/* ---- contexts -------------------------------------------------------------------------------- */

API int cuDevicePrimaryCtxRetain(void **context, int device) {
  ENTER_ANY();
  *context = &context_marks[device - 10];
  S.contexts++;
  return 0;
}
API int cuCtxGetCurrent(void **context) {
  *context = depth ? stack[depth - 1] : NULL;
  return 0;
}
API int cuCtxPushCurrent_v2(void *context) {
  ENTER_ANY();
  if (depth == 16) abort();
  stack[depth++] = context;
  S.pushed = depth;
  return 0;
}
API int cuCtxPopCurrent_v2(void **context) {
  if (!depth) return NO_CONTEXT;
  *context = stack[--depth];
  S.pushed = depth;
  return 0;
}
API int cuCtxSynchronize(void) {
  ENTER();
  S.synchronized++;
  return 0;
}
API int cuCtxEnablePeerAccess(void *peer, unsigned flags) {
  ENTER();
  S.peers_enabled += !flags && peer != stack[depth - 1];
  return 0;
}

/* ---- modules --------------------------------------------------------------------------------- */

static void write_log(unsigned count, const int *options, void **values, const char *text) {
  char *log = NULL;
  size_t size = 0;
  for (unsigned i = 0; i < count; i++) {
    if (options[i] == 5) log = values[i];
    if (options[i] == 6) size = (size_t)values[i];
  }
  if (log) snprintf(log, size, "%s", text);
}

API int cuModuleLoadDataEx(struct module **module, const void *image, unsigned count, int *options, void **values) {
  const char *text = image;
  ENTER();
  S.image_address = (unsigned long)image;
  if (strncmp(text, "\x7f" "ELF", 4) != 0 && strncmp(text, "\x50\xed\x55\xba", 4) != 0) {
    snprintf(S.image, sizeof(S.image), "%s", text); /* reads up to the NUL: ASan sees whether there is one */
    if (strstr(text, "syntax error")) {
      write_log(count, options, values, "ptxas application ptx input, line 3\n  fatal: Parsing error\tnear 'error'\n");
      return BAD_PTX;
    }
    if (strstr(text, ".version 99")) return 222;
    if (strstr(text, ".target sm_999")) return 209;
  }
  struct module *made = calloc(1, sizeof(*made));
  made->device = current();
  if (strstr(S.image, ".version")) made->ptx = strdup(text);
  *module = made;
  keep(NULL, made);
  pthread_mutex_lock(&lock);
  S.live_modules++;
  pthread_mutex_unlock(&lock);
  return 0;
}
API int cuModuleUnload(struct module *module) {
  ENTER();
  if (module->device != current()) abort();
  while (module->functions) {
    struct function *next = module->functions->next;
    free(module->functions);
    module->functions = next;
  }
  keep(module, NULL);
  free(module->ptx);
  free(module);
  S.live_modules--;
  return 0;
}
API int cuModuleGetFunction(struct function **out, struct module *module, const char *name) {
  char entry_text[128];
  ENTER();
  snprintf(entry_text, sizeof(entry_text), ".entry %s(", name);
  if (module->ptx && !strstr(module->ptx, entry_text)) return NOT_FOUND;
  struct function *f = calloc(1, sizeof(*f));
  snprintf(f->name, sizeof(f->name), "%s", name);
  f->module = module, f->allowed = 48 << 10, f->next = module->functions;
  for (size_t i = 0; i < KERNELS; i++)
    if (strcmp(kernels[i].name, name) == 0) f->run = kernels[i].run;
  *out = module->functions = f;
  return 0;
}
API int cuFuncGetAttribute(int *value, int attribute, struct function *function) {
  ENTER();
  *value = attribute == 0 ? (strcmp(function->name, "bounded") == 0 ? 128 : 1024) : attribute == 1 ? 16 : 0;
  return 0;
}
API int cuFuncSetAttribute(struct function *function, int attribute, int value) {
  ENTER();
  if (attribute != 8) return INVALID;
  pthread_mutex_lock(&lock);
  S.sets_of_shared++;
  function->allowed = value;
  pthread_mutex_unlock(&lock);
  return 0;
}
API int cuLaunchKernel(struct function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned shared, struct stream *stream, void **arguments, void **extra) {
  ENTER();
  if (f->module->device != current() || extra) return BAD_HANDLE;
  if ((int)shared > f->allowed || bx * by * bz > 1024) return TOO_MUCH;
  struct fake_launch launch = {.grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared, .stream = stream, .device = current()};
  snprintf(launch.kernel, sizeof(launch.kernel), "%s", f->name);
  pthread_mutex_lock(&lock);
  launch.count = S.last.count + 1;
  S.last = launch;
  pthread_mutex_unlock(&lock);
  if (f->run) f->run(arguments, &launch);
  return 0;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int give(void **out, size_t size, int device) {
  if (!size) return INVALID;
  if (size > S.bytes_free) return NO_MEMORY;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < BLOCKS; i++)
    if (!blocks[i].data) {
      /* Aligned to 256 bytes, as CUDA promises, and never to more. */
      blocks[i] = (struct block){(char *)aligned_alloc(512, (size + 256 + 511) / 512 * 512) + 256, size, device};
      *out = blocks[i].data;
      S.live_memory++;
      S.bytes_free -= size;
      pthread_mutex_unlock(&lock);
      return 0;
    }
  abort();
}
static int take(void *data) {
  int result = INVALID;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < BLOCKS; i++)
    if (data && blocks[i].data == data) {
      S.bytes_free += blocks[i].size;
      free(blocks[i].data - 256);
      blocks[i] = (struct block){0};
      S.live_memory--;
      result = 0;
    }
  pthread_mutex_unlock(&lock);
  return result;
}
/* Whether the bytes lie in memory of that device (-1: of any). */
static int owns(unsigned long long at, size_t size, int device) {
  int found = 0;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < BLOCKS && !found; i++) {
    unsigned long long start_of = (unsigned long long)(size_t)blocks[i].data;
    found = start_of && (device < 0 || blocks[i].device == device) && at >= start_of &&
            at - start_of <= blocks[i].size && size <= blocks[i].size - (size_t)(at - start_of);
  }
  pthread_mutex_unlock(&lock);
  return found;
}

API int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  *free_bytes = S.bytes_free, *total = 1 << 20;
  return 0;
}
API int cuMemAlloc_v2(unsigned long long *out, size_t size) {
  void *data = NULL;
  ENTER();
  int error = give(&data, size, current());
  *out = (unsigned long long)(size_t)data;
  return error;
}
API int cuMemFree_v2(unsigned long long data) {
  ENTER();
  return take((void *)(size_t)data);
}
API int cuMemHostAlloc(void **out, size_t size, unsigned flags) {
  ENTER();
  return flags == 1 ? give(out, size, 100) : INVALID;
}
API int cuMemFreeHost(void *data) {
  ENTER();
  return take(data);
}
API int cuMemAllocManaged(unsigned long long *out, size_t size, unsigned flags) {
  void *data = NULL;
  ENTER();
  int error = flags == 1 ? give(&data, size, current()) : INVALID;
  *out = (unsigned long long)(size_t)data;
  return error;
}

static int copy(unsigned long long to, unsigned long long from, size_t size, struct stream *stream) {
  if (stream && stream->device != current()) return BAD_HANDLE;
  memmove((void *)(size_t)to, (const void *)(size_t)from, size);
  return 0;
}
API int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t size, struct stream *stream) {
  ENTER();
  return owns(to, size, current()) ? copy(to, (unsigned long long)(size_t)from, size, stream) : INVALID;
}
API int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t size, struct stream *stream) {
  ENTER();
  return owns(from, size, current()) ? copy((unsigned long long)(size_t)to, from, size, stream) : INVALID;
}
API int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t size, struct stream *stream) {
  ENTER();
  return owns(to, size, current()) && owns(from, size, current()) ? copy(to, from, size, stream) : INVALID;
}
API int cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t size, struct stream *stream) {
  ENTER();
  return owns(to, size, -1) || owns(from, size, -1) ? copy(to, from, size, stream) : INVALID;
}
API int cuMemcpyPeerAsync(unsigned long long to, void *to_context, unsigned long long from, void *from_context, size_t size,
                          struct stream *stream) {
  ENTER();
  int a = (int)((char *)from_context - context_marks), b = (int)((char *)to_context - context_marks);
  return owns(from, size, a) && owns(to, size, b) ? copy(to, from, size, stream) : INVALID;
}

/* ---- streams --------------------------------------------------------------------------------- */

API int cuStreamCreate(struct stream **stream, unsigned flags) {
  ENTER();
  if (flags) return INVALID;
  *stream = calloc(1, sizeof(**stream));
  (*stream)->device = current();
  keep(NULL, *stream);
  S.live_streams++;
  return 0;
}
API int cuStreamDestroy_v2(struct stream *stream) {
  ENTER();
  keep(stream, NULL);
  free(stream);
  S.live_streams--;
  return 0;
}
API int cuStreamSynchronize(struct stream *stream) {
  ENTER();
  if (stream && stream->device != current()) return BAD_HANDLE;
  pthread_mutex_lock(&lock);
  S.synchronized++;
  pthread_mutex_unlock(&lock);
  return 0;
}
API int cuEventCreate(void **event, unsigned flags) {
  ENTER();
  *event = flags == 2 ? malloc(1) : NULL;
  S.live_events++;
  return *event ? 0 : INVALID;
}
API int cuEventRecord(void *event, struct stream *stream) {
  (void)event, (void)stream;
  ENTER();
  return 0;
}
API int cuStreamWaitEvent(struct stream *stream, void *event, unsigned flags) {
  (void)stream;
  ENTER();
  return event && !flags ? 0 : INVALID;
}
API int cuEventDestroy_v2(void *event) {
  ENTER_ANY();
  free(event);
  S.live_events--;
  return 0;
}
