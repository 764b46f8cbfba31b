/* The runtime of the key `fuse`: chains of elementwise operators in one pass over the data.
 *
 * A payload is text, as fuse.py writes it: a name, counts, one operator a line, the results.
 * Values are numbered: inputs, constants, one for each operator. They are made a block at a time,
 * so what is between two operators stays in the cache. */
#include <mblob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 256, MOST = 64 /* values */ };

struct fuse {
  const mblob_host *host;
  char symbol[128];
  const char *name; /* the symbol */
  long elements;
  int inputs, constants, outputs, steps;
  struct step {
    char op;  /* as in fuse.py */
    int a, b; /* values */
  } step[MOST];
  int result[MOST];
  float *constant[MOST];
  int ready;   /* the constants are there */
  char text[]; /* the payload, with an end */
};

static int fail(const struct fuse *f, int status, const char *what) {
  char text[256];
  snprintf(text, sizeof(text), "fuse %s: %s", f->symbol, what);
  return f->host->set_error(status, text);
}

static int outside(int number, int limit) { return number < 0 || number >= limit; }
/* Everything in a file may be wrong. */
static int read_all(struct fuse *f, const char *text) {
  int used = 0;
  if (sscanf(text, "fuse 1 %127s %ld %d %d %d %d%n", f->symbol, &f->elements, &f->inputs,
             &f->constants, &f->outputs, &f->steps, &used) != 6)
    return 0;
  if (f->elements < 1 || outside(f->inputs, MOST + 1) || f->outputs < 1 || f->outputs > MOST)
    return 0;
  int values = f->inputs, room = MOST + 1 - values;
  if (outside(f->constants, room) || outside(f->steps, room - f->constants)) return 0;
  values += f->constants;
  for (struct step *s = f->step; s < f->step + f->steps; s++, values++) {
    text += used;
    if (sscanf(text, " %c %d %d%n", &s->op, &s->a, &s->b, &used) != 3) return 0;
    if (!strchr("+-*>r", s->op) || outside(s->a, values) || outside(s->b, values)) return 0;
  }
  for (int *result = f->result; result < f->result + f->outputs; result++) {
    text += used;
    if (sscanf(text, "%d%n", result, &used) != 1 || outside(*result, values)) return 0;
  }
  return !text[used + (int)strspn(text + used, " \n")];
}

static void close_fuse(void *self) {
  struct fuse *f = self;
  for (int i = 0; i < f->constants; i++) free(f->constant[i]);
  free(f);
}

static int open_fuse(const mblob_host *host, const struct mblob_module_info *info, void **self) {
  struct fuse *f = calloc(1, sizeof(*f) + info->payload_size + 1);
  if (!f) return host->set_error(MBLOB_E_MEMORY, "fuse: out of memory");
  f->host = host, f->name = f->symbol;
  memcpy(f->text, info->payload, info->payload_size);
  if (!read_all(f, f->text))
    return free(f), host->set_error(MBLOB_E_FORMAT, "fuse: the payload is none of fuse.py's");
  host->names(info->module, &f->name, 1); /* for errors */
  *self = f;
  return MBLOB_OK;
}

/* The elements of an argument, NULL (and an error) if it is no such array. */
static float *elements(const struct fuse *f, TVMValue value, int code) {
  int is_array = code == kTVMDLTensorHandle || code == kTVMNDArrayHandle;
  const DLTensor *t = is_array ? value.v_handle : NULL;
  int fits =
      t && !memcmp(&t->dtype, &(DLDataType){kDLFloat, 32, 1}, 4) && t->device.device_type == kDLCPU;
  long count = 1;
  for (int i = fits ? t->ndim : 0; i-- > 0; count *= t->shape[i])
    if (t->strides && t->shape[i] > 1 && t->strides[i] != count) fits = 0;
  if (fits && count == f->elements) return (float *)((char *)t->data + t->byte_offset);
  fail(f, MBLOB_E_ARGUMENT, "an argument is no compact float32 array of the right size on the cpu");
  return NULL;
}

static int set_constants(struct fuse *f, float *const *given) {
  size_t size = (size_t)f->elements * sizeof(float);
  for (int i = 0; i < f->constants; i++) {
    if (!f->constant[i]) f->constant[i] = malloc(size);
    if (!f->constant[i]) return fail(f, MBLOB_E_MEMORY, "out of memory");
    memcpy(f->constant[i], given[i], size);
  }
  f->ready = 1;
  return MBLOB_OK;
}

static float result(char op, float a, float b) {
  if (op == '+' || op == '-') return op == '+' ? a + b : a - b;
  return op == '*' ? a * b : op == '>' ? (a > b ? a : b) : a > 0 ? a : 0;
}

static void run(const struct fuse *f, float *const *given) {
  float scratch[MOST][BLOCK];
  const float *value[MOST];
  for (long start = 0; start < f->elements; start += BLOCK) {
    int size = f->elements - start < BLOCK ? (int)(f->elements - start) : BLOCK, made = 0;
    for (int i = 0; i < f->inputs; i++) value[made++] = given[i] + start;
    for (int i = 0; i < f->constants; i++) value[made++] = f->constant[i] + start;
    for (int i = 0; i < f->steps; i++, made++) {
      const float *a = value[f->step[i].a], *b = value[f->step[i].b];
      for (int k = 0; k < size; k++) scratch[made][k] = result(f->step[i].op, a[k], b[k]);
      value[made] = scratch[made];
    }
    for (int i = 0; i < f->outputs; i++)
      memcpy(given[f->inputs + i] + start, value[f->result[i]], (size_t)size * sizeof(float));
  }
}

static int call(void *self, void *function, const TVMValue *args, const int *codes, int count,
                void *ret) {
  struct fuse *f = self;
  float *given[2 * MOST];
  int is_init = function == &f->ready, expected = is_init ? f->constants : f->inputs + f->outputs;
  const char *wrong = is_init ? "wrong number of constants" : "wrong number of arguments";
  (void)ret;
  if (count != expected) return fail(f, MBLOB_E_ARGUMENT, wrong);
  if (!is_init && !f->ready) return fail(f, MBLOB_E_KERNEL, "its constants were not set");
  for (int i = 0; i < count; i++)
    if (!(given[i] = elements(f, args[i], codes[i]))) return MBLOB_E_ARGUMENT;
  return is_init ? set_constants(f, given) : (run(f, given), MBLOB_OK);
}

static int find_function(void *self, const char *name, void **function) {
  struct fuse *f = self;
  int is_init = strncmp(name, "__init_", 7) == 0;
  *function = is_init ? (void *)&f->ready : (void *)f;
  if (strcmp(is_init ? name + 7 : name, f->symbol) != 0) *function = NULL;
  return MBLOB_OK;
}

static const mblob_runtime runtime = {"fuse", open_fuse, find_function, call, NULL, close_fuse};

/* clang-format off */
MBLOB_PLUGIN(fuse) = {MBLOB_PLUGIN_ABI, sizeof(mblob_plugin), "fuse", "1.0", "fuse", "", "nothing",
                      NULL, NULL, &runtime, NULL, 1, 0, NULL, ""};
