/* The runtime of the key `fuse`: chains of elementwise operators in one pass over the data.
 *
 * A payload is text, as fuse.py writes it: a name, sizes, one operator a line, the results. Values are numbered:
 * inputs, constants, then one for each operator. A block of each is worked on at a time, so what is between two
 * operators never leaves the cache. */
#include <mblob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 256, MOST = 64 /* values */ };
enum op { ADD, SUBTRACT, MULTIPLY, MAXIMUM, RELU, OPS };
static const char *const names[OPS] = {"add", "subtract", "multiply", "maximum", "nn.relu"};

struct step {
  enum op op;
  int a, b;
};

struct fuse {
  const mblob_host *host;
  char symbol[128];
  long elements;
  int inputs, constants, outputs, steps;
  struct step step[MOST];
  int result[MOST];
  float *constant[MOST];
  int ready; /* the constants are there */
};

static int fail(const struct fuse *f, int status, const char *what) {
  char text[256];
  snprintf(text, sizeof(text), "fuse %s: %s", f->symbol, what);
  return f->host->set_error(status, text);
}

/* ---- reading ---- */

/* Everything in a file may be wrong. */
static int read_steps(struct fuse *f, const char *text) {
  char name[16], end = 0;
  int used = 0;
  while (sscanf(text, " %15s%n", name, &used) == 1 && strcmp(name, "=") != 0) {
    int values = f->inputs + f->constants + f->steps;
    struct step *s = &f->step[f->steps];
    text += used;
    if (values == MOST || sscanf(text, "%d %d%n", &s->a, &s->b, &used) != 2) return 0;
    text += used;
    while (s->op < OPS && strcmp(names[s->op], name) != 0) s->op++;
    if (s->op == OPS || s->a < 0 || s->a >= values || s->b < 0 || s->b >= values) return 0;
    f->steps++;
  }
  text = strchr(text, '=');
  for (int i = 0; text && i < f->outputs; i++) {
    text += i ? used : 1;
    if (sscanf(text, "%d%n", &f->result[i], &used) != 1) return 0;
    if (f->result[i] < 0 || f->result[i] >= f->inputs + f->constants + f->steps) return 0;
  }
  return text && sscanf(text + used, " %c", &end) != 1;
}

static int read_all(struct fuse *f, const char *text) {
  int used = 0;
  if (sscanf(text, "fuse 1 %127s %ld %d %d %d%n", f->symbol, &f->elements, &f->inputs, &f->constants, &f->outputs,
             &used) != 5)
    return 0;
  if (f->elements < 1 || f->inputs < 0 || f->constants < 0 || f->outputs < 1 || f->inputs > MOST ||
      f->constants > MOST - f->inputs || f->outputs > MOST)
    return 0;
  return read_steps(f, text + used);
}

static void close_fuse(void *self) {
  struct fuse *f = self;
  for (int i = 0; i < f->constants; i++) free(f->constant[i]);
  free(f);
}

static int open_fuse(const mblob_host *host, const struct mblob_module_info *info, void **self) {
  struct fuse *f = calloc(1, sizeof(*f));
  char *text = calloc(1, info->payload_size + 1);
  int status = f && text ? MBLOB_OK : host->set_error(MBLOB_E_MEMORY, "fuse: out of memory");
  if (!status) {
    f->host = host;
    memcpy(text, info->payload, info->payload_size);
    if (!read_all(f, text)) status = fail(f, MBLOB_E_FORMAT, "the payload is none of fuse.py's");
  }
  free(text);
  if (status) free(f);
  else *self = f;
  return status;
}

/* ---- running ---- */

/* The elements of an argument, NULL (and an error) if it is no such array. */
static float *elements(const struct fuse *f, TVMValue value, int code) {
  const DLTensor *t = value.v_handle;
  long count = 1;
  int is_array = (code == kTVMDLTensorHandle || code == kTVMNDArrayHandle) && t && t->dtype.code == kDLFloat &&
                 t->dtype.bits == 32 && t->dtype.lanes == 1 && t->device.device_type == kDLCPU;
  for (int i = t && is_array ? t->ndim : 0; i-- > 0; count *= t->shape[i])
    if (t->strides && t->shape[i] > 1 && t->strides[i] != count) is_array = 0;
  if (is_array && count == f->elements) return (float *)((char *)t->data + t->byte_offset);
  (void)fail(f, MBLOB_E_ARGUMENT, "an argument is no compact float32 array of the right size on the cpu");
  return NULL;
}

static int set_constants(struct fuse *f, const TVMValue *args, const int *codes, int count) {
  if (count != f->constants) return fail(f, MBLOB_E_ARGUMENT, "wrong number of constants");
  for (int i = 0; i < count; i++) {
    const float *from = elements(f, args[i], codes[i]);
    if (!from) return MBLOB_E_ARGUMENT;
    if (!f->constant[i] && !(f->constant[i] = malloc((size_t)f->elements * sizeof(float))))
      return fail(f, MBLOB_E_MEMORY, "out of memory");
    memcpy(f->constant[i], from, (size_t)f->elements * sizeof(float));
  }
  f->ready = 1;
  return MBLOB_OK;
}

#define EACH(expression) \
  for (int i = 0; i < count; i++) y[i] = (expression)

static void run_step(enum op op, const float *a, const float *b, float *y, int count) {
  switch (op) {
    case ADD: EACH(a[i] + b[i]); break;
    case SUBTRACT: EACH(a[i] - b[i]); break;
    case MULTIPLY: EACH(a[i] * b[i]); break;
    case MAXIMUM: EACH(a[i] > b[i] ? a[i] : b[i]); break;
    default: EACH(a[i] > 0 ? a[i] : 0);
  }
}

static int run(const struct fuse *f, const TVMValue *args, const int *codes, int count) {
  float scratch[MOST][BLOCK], *outside[2 * MOST];
  const float *value[MOST];
  if (!f->ready) return fail(f, MBLOB_E_KERNEL, "its constants were not set");
  if (count != f->inputs + f->outputs) return fail(f, MBLOB_E_ARGUMENT, "wrong number of arguments");
  for (int i = 0; i < count; i++)
    if (!(outside[i] = elements(f, args[i], codes[i]))) return MBLOB_E_ARGUMENT;
  for (long start = 0; start < f->elements; start += BLOCK) {
    int size = f->elements - start < BLOCK ? (int)(f->elements - start) : BLOCK, made = 0;
    for (int i = 0; i < f->inputs; i++) value[made++] = outside[i] + start;
    for (int i = 0; i < f->constants; i++) value[made++] = f->constant[i] + start;
    for (int i = 0; i < f->steps; i++, made++) {
      run_step(f->step[i].op, value[f->step[i].a], value[f->step[i].b], scratch[made], size);
      value[made] = scratch[made];
    }
    for (int i = 0; i < f->outputs; i++)
      memcpy(outside[f->inputs + i] + start, value[f->result[i]], (size_t)size * sizeof(float));
  }
  return MBLOB_OK;
}

/* ---- the plug-in ---- */

static int find_function(void *self, const char *name, void **function) {
  struct fuse *f = self;
  int init = strncmp(name, "__init_", 7) == 0;
  *function = strcmp(init ? name + 7 : name, f->symbol) == 0 ? (init ? (void *)&f->ready : (void *)f) : NULL;
  return MBLOB_OK;
}

static int call(void *self, void *function, const TVMValue *args, const int *codes, int count, void *ret) {
  struct fuse *f = self;
  (void)ret;
  return function == &f->ready ? set_constants(f, args, codes, count) : run(f, args, codes, count);
}

static const mblob_runtime runtimes[] = {{"fuse", open_fuse, find_function, call, NULL, close_fuse}};

MBLOB_PLUGIN(fuse) = {MBLOB_PLUGIN_ABI, sizeof(mblob_plugin), "fuse", "1.0", "fuse", "", "nothing", NULL, NULL, runtimes,
                      NULL, 1, 0};
