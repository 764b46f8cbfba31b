/* A double of NVIDIA's driver: memory of the heap (fake_cuda_memory.c), kernels that are C
 * functions, errors on request. Tests of the CUDA plug-in run against it where there is no GPU.
 * It knows the functions that the plug-in calls, and checks what the real one would: that a
 * context is current, that memory and streams are its own. */
#define _GNU_SOURCE
#include "fake_cuda_inside.h"

enum { KERNELS = 16 };

API struct fake_cuda fake_cuda_state;
pthread_mutex_t fake_cuda_lock = PTHREAD_MUTEX_INITIALIZER;
/* What a lost context never gives back is the double's, not a leak of the plug-in: the counts in
 * S tell those. */
struct fake_objects fake_cuda_objects = {NULL, PTHREAD_MUTEX_INITIALIZER};

static char context_marks[DEVICES]; /* addresses that stand for contexts */
static _Thread_local void *stack[16];
static _Thread_local int depth;
static struct {
  char name[64];
  fake_kernel run;
} kernels[KERNELS];

struct function {
  char name[64];
  struct module *module;
  fake_kernel run;
  int allowed;
};
enum { FUNCTIONS = 16 };
struct module {
  int device;
  struct function functions[FUNCTIONS];
  char code[4096]; /* the start of PTX; "" for other code */
};

/* ---- errors ---------------------------------------------------------------------------------- */

static int is_sticky(int error) {
  return error == 214 || error == 700 || error == 702 || error == 710 ||
         (error >= 714 && error <= 719);
}

int fake_cuda_wanted(const char *function) {
  pthread_mutex_lock(&fake_cuda_lock);
  const int error = fake_code(&S.calls, function);
  if (is_sticky(error)) S.lost = error;
  pthread_mutex_unlock(&fake_cuda_lock);
  return error;
}

int fake_cuda_device_of(const void *context) {
  return (int)((const char *)context - context_marks);
}
int fake_cuda_current(void) { return depth ? fake_cuda_device_of(stack[depth - 1]) : -1; }

void fake_cuda_count(int *counter, int by) {
  pthread_mutex_lock(&fake_cuda_lock);
  *counter += by;
  pthread_mutex_unlock(&fake_cuda_lock);
}

__attribute__((constructor)) static void start(void) {
  const char *count = getenv("FAKE_CUDA_DEVICES");
  S.devices = count ? atoi(count) : 2;
  S.bytes_free = 1 << 20;
}

API void fake_cuda_define(const char *kernel, fake_kernel run) {
  for (size_t i = 0; i < KERNELS; i++)
    if (!*kernels[i].name || strcmp(kernels[i].name, kernel) == 0) {
      snprintf(kernels[i].name, sizeof(kernels[i].name), "%s", kernel);
      kernels[i].run = run;
      return;
    }
  abort();
}

/* For callers without C structures. */
API void fake_cuda_fail(const char *function, int countdown, int error);
API void fake_cuda_fail(const char *function, int countdown, int error) {
  fake_fail(&S.calls, function, countdown, 1, error);
}
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
  } names[] = {{1, "CUDA_ERROR_INVALID_VALUE"},
               {2, "CUDA_ERROR_OUT_OF_MEMORY"},
               {3, "CUDA_ERROR_NOT_INITIALIZED"},
               {100, "CUDA_ERROR_NO_DEVICE"},
               {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
               {218, "CUDA_ERROR_INVALID_PTX"},
               {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
               {500, "CUDA_ERROR_NOT_FOUND"},
               {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
               {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
               {719, "CUDA_ERROR_LAUNCH_FAILED"}};
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
  static const int values[128] = {[1] = 1024,    [2] = 1024,     [3] = 1024,      [4] = 64,
                                  [5] = 1000000, [6] = 65535,    [7] = 65535,     [8] = 48 << 10,
                                  [10] = 32,     [13] = 1500000, [16] = 80,       [75] = 9,
                                  [76] = 0,      [83] = 1,       [97] = 100 << 10};
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

API int cuModuleLoadDataEx(struct module **module, const void *image, unsigned count, int *options,
                           void **values) {
  const char *text = image;
  ENTER();
  S.image_address = (unsigned long)image;
  if (strncmp(text,
              "\x7f"
              "ELF",
              4) != 0 &&
      strncmp(text, "\x50\xed\x55\xba", 4) != 0) {
    snprintf(S.image, sizeof(S.image), "%s",
             text); /* reads up to the NUL: ASan sees whether there is one */
    if (strstr(text, "syntax error")) {
      write_log(count, options, values,
                "ptxas application ptx input, line 3\n  fatal: Parsing error\tnear 'error'\n");
      return BAD_PTX;
    }
    if (strstr(text, ".version 99")) return 222;
    if (strstr(text, ".target sm_999")) return 209;
  }
  struct module *made = new_object(&fake_cuda_objects, sizeof(*made));
  made->device = fake_cuda_current();
  if (strstr(S.image, ".version")) snprintf(made->code, sizeof(made->code), "%s", text);
  *module = made;
  fake_cuda_count(&S.live_modules, 1);
  return 0;
}
API int cuModuleUnload(struct module *module) {
  ENTER_TO_FREE();
  if (module->device != fake_cuda_current()) abort();
  forget(&fake_cuda_objects, module);
  fake_cuda_count(&S.live_modules, -1);
  return result;
}
API int cuModuleGetFunction(struct function **out, struct module *module, const char *name) {
  char entry_text[128];
  ENTER();
  snprintf(entry_text, sizeof(entry_text), ".entry %s(", name);
  if (*module->code && !strstr(module->code, entry_text)) return NOT_FOUND;
  struct function *f = module->functions;
  while (*f->name && strcmp(f->name, name) != 0) f++;
  if (f == module->functions + FUNCTIONS) abort();
  snprintf(f->name, sizeof(f->name), "%s", name);
  f->module = module, f->allowed = 48 << 10;
  for (size_t i = 0; i < KERNELS; i++)
    if (strcmp(kernels[i].name, name) == 0) f->run = kernels[i].run;
  *out = f;
  return 0;
}
API int cuFuncGetAttribute(int *value, int attribute, struct function *function) {
  ENTER();
  *value = attribute == 0   ? (strcmp(function->name, "bounded") == 0 ? 128 : 1024)
           : attribute == 1 ? 16
                            : 0;
  return 0;
}
API int cuFuncSetAttribute(struct function *function, int attribute, int value) {
  ENTER();
  if (attribute != 8) return INVALID;
  pthread_mutex_lock(&fake_cuda_lock);
  S.sets_of_shared++;
  function->allowed = value;
  pthread_mutex_unlock(&fake_cuda_lock);
  return 0;
}
API int cuLaunchKernel(struct function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                       unsigned by, unsigned bz, unsigned shared, struct stream *stream,
                       void **arguments, void **extra) {
  ENTER();
  if (f->module->device != fake_cuda_current() || extra) return BAD_HANDLE;
  if ((int)shared > f->allowed || bx * by * bz > 1024) return TOO_MUCH;
  struct fake_launch launch = {.grid = {gx, gy, gz},
                               .block = {bx, by, bz},
                               .shared = shared,
                               .stream = stream,
                               .device = fake_cuda_current()};
  snprintf(launch.kernel, sizeof(launch.kernel), "%s", f->name);
  pthread_mutex_lock(&fake_cuda_lock);
  launch.count = S.last.count + 1;
  S.last = launch;
  pthread_mutex_unlock(&fake_cuda_lock);
  if (f->run) f->run(arguments, &launch);
  return 0;
}
