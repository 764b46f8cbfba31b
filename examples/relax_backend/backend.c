/* An engine for sums, products and relu of float32 arrays of one shape. A module of the key `fifty`
 * holds one region, as backend.py writes it. */
#include <mblob.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 32 }; /* values: the inputs, then the result of each step */
struct region {
  char symbol[64];
  uint32_t elements, inputs, steps, outputs, output[MOST];
  struct step {
    uint32_t op, a, b; /* '+', '*' or 'r' of earlier values */
  } step[MOST];
};

static const mblob_host *host;
static int start(const mblob_host *given) { return host = given, MBLOB_OK; }
static int fail(const char *what) { return host->set_error(MBLOB_E_ARGUMENT, what); }

static int is_sound(const struct region *r) { /* everything in a file may be wrong */
  if (!memchr(r->symbol, 0, 64) || !r->elements || r->inputs > MOST || r->outputs > MOST) return 0;
  if (r->steps > MOST - r->inputs) return 0;
  for (uint32_t i = 0; i < r->steps; i++)
    if (r->step[i].a >= r->inputs + i || r->step[i].b >= r->inputs + i) return 0;
  for (uint32_t i = 0; i < r->outputs; i++)
    if (r->output[i] >= r->inputs + r->steps) return 0;
  return 1;
}

static int open_region(const mblob_host *h, const struct mblob_module_info *info, void **self) {
  struct region *r = info->payload_size == sizeof(*r) ? malloc(sizeof(*r)) : NULL;
  if (r && is_sound(memcpy(r, info->payload, sizeof(*r)))) return *self = r, MBLOB_OK;
  free(r);
  return h->set_error(MBLOB_E_FORMAT, "fifty: the payload was not written by backend.py");
}

static int find_function(void *self, const char *name, void **function) {
  *function = strcmp(name, ((struct region *)self)->symbol) ? NULL : self;
  return MBLOB_OK;
}

static float *elements_of(const struct region *r, TVMValue value, int code) {
  DLTensor *t = code == kTVMDLTensorHandle || code == kTVMNDArrayHandle ? value.v_handle : NULL;
  if (!t || memcmp(&t->dtype, &(DLDataType){kDLFloat, 32, 1}, 4) || t->device.device_type != kDLCPU)
    return NULL;
  int64_t count = 1;
  for (int i = t->ndim; i-- > 0; count *= t->shape[i])
    if (t->strides && t->shape[i] > 1 && t->strides[i] != count) return NULL;
  return count == r->elements ? (float *)((char *)t->data + t->byte_offset) : NULL;
}

static int call(void *self, void *f, const TVMValue *args, const int *codes, int count, void *ret) {
  const struct region *r = self;
  float *given[2 * MOST], *value[MOST];
  if ((void)f, (void)ret, (uint32_t)count != r->inputs + r->outputs)
    return fail("fifty: wrong number of arguments");
  for (int i = 0; i < count; i++)
    if (!(given[i] = elements_of(r, args[i], codes[i])))
      return fail("fifty: expected a compact float32 array of the region's size on the cpu");
  float *made = calloc(r->steps + 1, sizeof(float) * r->elements);
  if (!made) return host->set_error(MBLOB_E_MEMORY, "fifty: out of memory");
  for (uint32_t i = 0; i < r->inputs; i++) value[i] = given[i];
  for (uint32_t i = 0; i < r->steps; i++) {
    const struct step *s = &r->step[i];
    const float *a = value[s->a], *b = value[s->b];
    float *y = value[r->inputs + i] = made + (size_t)i * r->elements;
    for (uint32_t k = 0; k < r->elements; k++)
      y[k] = s->op == '+' ? a[k] + b[k] : s->op == '*' ? a[k] * b[k] : a[k] > 0 ? a[k] : 0;
  }
  for (uint32_t i = 0; i < r->outputs; i++)
    memcpy(given[r->inputs + i], value[r->output[i]], sizeof(float) * r->elements);
  return free(made), MBLOB_OK;
}

static const mblob_runtime runtime = {"fifty", open_region, find_function, call, NULL, free};
/* clang-format off */
MBLOB_PLUGIN(fifty) = {MBLOB_PLUGIN_ABI, sizeof(mblob_plugin), "fifty", "1.0", "fifty", "", "nothing",
                       start, NULL, &runtime, NULL, 1, 0, NULL, ""};
