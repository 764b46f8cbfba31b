/* onednn.c - find libdnnl, look at its version, and take the addresses of its functions.
 *
 * A library may have a libdnnl.a inside, in place of one that is opened: whoever links it defines
 * MBLOB_LINKED_DNNL(X) as X(name) for each function of the archive that is named here. */
#define _GNU_SOURCE
#include "onednn.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "common.h"
#include "onednn_abi.h"

static const char *const names[] = {"libdnnl.so.3", "libdnnl.so.2"};
#define NAME_COUNT (sizeof(names) / sizeof(*names))
#define OLDEST_MINOR_OF_2 \
  6 /* the first that has softmax_v2 and scale and shift as tensors of their own */

struct version_of_library { /* dnnl_version_t: the beginning is the same everywhere */
  int major, minor, patch;
};

static struct mb_lock lock = MB_LOCK_INIT;
static struct dn_library library; /* valid when `opened` */
static bool opened;

const char *dn_status_text(int status) {
  switch (status) {
    case DN_SUCCESS: return "success";
    case DN_OUT_OF_MEMORY: return MB_TEXT_NO_MEMORY;
    case DN_INVALID_ARGUMENTS: return "invalid arguments";
    case DN_UNIMPLEMENTED: return "not implemented";
    default: return "a status that is not known";
  }
}

/* One of these instructions, which are those of x86. */
static bool has(const struct dn_library *lib, unsigned instructions) {
#if defined(__x86_64__) || defined(__i386__)
  return lib->instructions && lib->instructions() & instructions;
#else
  (void)lib, (void)instructions;
  return false;
#endif
}

bool dn_sums_bytes(const struct dn_library *lib) { return has(lib, lib->version->vnni); }

bool dn_computes(const struct dn_library *lib, enum dn_type type) {
  return (type != DN_F16 && type != DN_BF16) ||
         has(lib, type == DN_F16 ? lib->version->f16 : lib->version->bf16);
}

bool dn_has_avx2(const struct dn_library *lib) { return has(lib, DN_AVX2); }

const char *dn_kind_name(enum dn_kind kind) {
  static const char *const kinds[] = {
      [DN_CONVOLUTION] = "convolution",
      [DN_DECONVOLUTION] = "deconvolution",
      [DN_INNER_PRODUCT] = "inner_product",
      [DN_MATMUL] = "matmul",
      [DN_POOLING] = "pooling",
      [DN_RESAMPLING] = "resampling",
      [DN_ELTWISE] = "eltwise",
      [DN_SOFTMAX] = "softmax",
      [DN_PRELU] = "prelu",
      [DN_REDUCTION] = "reduction",
      [DN_BINARY] = "binary",
      [DN_BATCH_NORMALIZATION] = "batch_norm",
      [DN_LAYER_NORMALIZATION] = "layer_norm",
      [DN_CONCATENATION] = "concat",
  };
  _Static_assert(sizeof(kinds) / sizeof(*kinds) == DN_CONCATENATION + 1, "a kind without a name");
  return kinds[kind];
}

size_t dn_type_size(enum dn_type type) {
  return type == DN_F32 || type == DN_S32 ? 4 : type == DN_F16 || type == DN_BF16 ? 2 : 1;
}

int dn_find_tag(const struct dn_library *lib, const char *name) {
  for (int tag = DN_FORMAT_ANY + 1; tag < 4096; ++tag) {
    const char *known = lib->tag_name(tag);
    if (!known || !strncmp(known, "unknown", 7)) break;
    if (!strcmp(known, name)) return tag;
  }
  return 0;
}

/* ---- numbers ---- */

int dn_eltwise_number(int major, enum dn_eltwise algorithm) {
  static const short numbers[DN_ELTWISE_COUNT][2] = {
      [DN_RELU] = {DN_V2_RELU, DN_V3_RELU},
      [DN_TANH] = {DN_V2_TANH, DN_V3_TANH},
      [DN_ABS] = {DN_V2_ABS, DN_V3_ABS},
      [DN_SQRT] = {DN_V2_SQRT, DN_V3_SQRT},
      [DN_EXP] = {DN_V2_EXP, DN_V3_EXP},
      [DN_LOGISTIC] = {DN_V2_LOGISTIC, DN_V3_LOGISTIC},
      [DN_LOG] = {DN_V2_LOG, DN_V3_LOG},
      [DN_GELU_TANH] = {DN_V2_GELU_TANH, DN_V3_GELU_TANH},
      [DN_GELU_ERF] = {DN_V2_GELU_ERF, DN_V3_GELU_ERF},
      [DN_CLIP] = {DN_V2_CLIP, DN_V3_CLIP},
      [DN_ROUND] = {DN_V2_ROUND, DN_V3_ROUND},
      [DN_SWISH] = {DN_V2_SWISH, DN_V3_SWISH},
      [DN_MISH] = {DN_V2_MISH, DN_V3_MISH},
      [DN_HARDSWISH] = {DN_V2_HARDSWISH, DN_V3_HARDSWISH},
      [DN_LINEAR] = {DN_V2_LINEAR, DN_V3_LINEAR},
      [DN_ELU] = {DN_V2_ELU, DN_V3_ELU},
      [DN_POWER] = {DN_V2_POWER, DN_V3_POWER},
  };
  return numbers[algorithm][major - 2];
}

unsigned dn_normalization_flags(int major, unsigned flags) {
  static const struct {
    unsigned flag, numbers[2];
  } all[] = {{DN_GLOBAL_STATS, {DN_V2_GLOBAL_STATS, DN_V3_GLOBAL_STATS}},
             {DN_USE_SCALE, {DN_V2_USE_SCALE, DN_V3_USE_SCALE}},
             {DN_USE_SHIFT, {DN_V2_USE_SHIFT, DN_V3_USE_SHIFT}}};
  unsigned numbers = 0;
  for (size_t i = 0; i < sizeof(all) / sizeof(*all); ++i)
    if (flags & all[i].flag) numbers |= all[i].numbers[major - 2];
  return numbers;
}

/* ---- binding ---- */

#ifdef MBLOB_LINKED_DNNL
#define DN_DECLARE(name) extern void name(void);
MBLOB_LINKED_DNNL(DN_DECLARE)
#define DN_ROW(name) {#name, name},
static const struct {
  const char *name;
  void (*address)(void);
} linked[] = {MBLOB_LINKED_DNNL(DN_ROW)};
static const void *const LINKED = linked; /* the handle */

static void *find_linked(const char *name) {
  for (size_t i = 0; i < sizeof(linked) / sizeof(*linked); ++i)
    if (!strcmp(linked[i].name, name)) return (void *)(uintptr_t)linked[i].address;
  return NULL;
}
#else
static const void *const LINKED = NULL; /* as no handle is */
static void *find_linked(const char *name) {
  (void)name;
  return NULL;
}
#endif

static void *find_function(void *handle, const char *name) {
  return handle == LINKED ? find_linked(name) : dlsym(handle, name);
}

const char *dn_bind(void *handle, const struct dn_symbol *symbols, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (!(*symbols[i].place = find_function(handle, symbols[i].name))) return symbols[i].name;
  return NULL;
}

static const char *bind_common(void *handle, struct dn_library *lib) {
  const struct dn_symbol symbols[] = {
      {"dnnl_engine_create", (void **)&lib->engine_create},
      {"dnnl_stream_create", (void **)&lib->stream_create},
      {"dnnl_stream_destroy", (void **)&lib->stream_destroy},
      {"dnnl_stream_wait", (void **)&lib->stream_wait},
      {"dnnl_memory_create", (void **)&lib->memory_create},
      {"dnnl_memory_destroy", (void **)&lib->memory_destroy},
      {"dnnl_memory_set_data_handle", (void **)&lib->memory_set_data_handle},
      {"dnnl_memory_desc_equal", (void **)&lib->md_equal},
      {"dnnl_memory_desc_get_size", (void **)&lib->md_size},
      {"dnnl_primitive_desc_query_md", (void **)&lib->query_md},
      {"dnnl_primitive_desc_query", (void **)&lib->query},
      {"dnnl_primitive_desc_destroy", (void **)&lib->primitive_desc_destroy},
      {"dnnl_primitive_create", (void **)&lib->primitive_create},
      {"dnnl_primitive_destroy", (void **)&lib->primitive_destroy},
      {"dnnl_primitive_execute", (void **)&lib->primitive_execute},
      {"dnnl_reorder_primitive_desc_create", (void **)&lib->reorder_desc_create},
      {"dnnl_primitive_attr_create", (void **)&lib->attr_create},
      {"dnnl_primitive_attr_destroy", (void **)&lib->attr_destroy},
      {"dnnl_primitive_attr_set_post_ops", (void **)&lib->attr_set_post_ops},
      {"dnnl_primitive_attr_set_scratchpad_mode", (void **)&lib->attr_set_scratchpad_mode},
      {"dnnl_post_ops_create", (void **)&lib->post_ops_create},
      {"dnnl_post_ops_destroy", (void **)&lib->post_ops_destroy},
      {"dnnl_post_ops_append_binary", (void **)&lib->post_ops_append_binary},
      {"dnnl_fmt_tag2str", (void **)&lib->tag_name},
  };
  *(void **)&lib->get_threads = find_function(handle, "omp_get_max_threads");
  *(void **)&lib->set_threads = find_function(handle, "omp_set_num_threads");
  *(void **)&lib->instructions = find_function(handle, "dnnl_get_effective_cpu_isa");
  return dn_bind(handle, symbols, sizeof(symbols) / sizeof(*symbols));
}

/* What is behind an open handle: its version, checked, and all functions. */
static int bind_library(void *handle, struct dn_library *lib) {
  const struct version_of_library *(*version)(void);
  *(void **)&version = find_function(handle, "dnnl_version");
  if (!version)
    return mb_fail(MBLOB_E_INCOMPATIBLE, "%s is not oneDNN: it has no dnnl_version", lib->path);
  const struct version_of_library *v = version();
  lib->major = v->major;
  lib->minor = v->minor;
  lib->patch = v->patch;
  lib->version = v->major == 2 && v->minor >= OLDEST_MINOR_OF_2 ? &dn_version_2
                 : v->major == 3                                ? &dn_version_3
                                                                : NULL;
  if (!lib->version)
    return mb_fail(MBLOB_E_INCOMPATIBLE,
                   "%s is oneDNN %d.%d.%d, and dnnl_json runs on 2.6, 2.7 and 3", lib->path,
                   v->major, v->minor, v->patch);
  const char *missing = bind_common(handle, lib);
  if (!missing) missing = lib->version->bind(handle);
  if (missing)
    return mb_fail(MBLOB_E_INCOMPATIBLE, "%s, oneDNN %d.%d.%d, has no %s", lib->path, v->major,
                   v->minor, v->patch, missing);
  int status = lib->engine_create(&lib->engine, DN_ENGINE_CPU, 0);
  if (status)
    return mb_fail(MBLOB_E_INCOMPATIBLE, "%s, oneDNN %d.%d.%d, has no engine for the processor: %s",
                   lib->path, v->major, v->minor, v->patch, dn_status_text(status));
  return MBLOB_OK;
}

/* ---- finding ---- */

/* The file as the dynamic linker has it, or the error that it told; a handle is never closed
 * again: oneDNN's threads and caches outlive it. */
static void *try_open(const char *path, struct dn_library *lib) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle) (void)snprintf(lib->path, sizeof(lib->path), "%s", path);
  return handle;
}

/* Where the wheels of PyPI put the library: `lib` of the prefix that Python tells through a
 * registered function. */
static bool python_prefix(char *out, size_t size) {
  const mblob_host *host = mb_plugin_host();
  struct mblob_function *function;
  TVMValue value = {0};
  int code = kTVMNullptr;
  bool found = false;
  if (host->global_function("mblob.python_prefix", &function)) return false;
  if (!host->function_call(function, NULL, NULL, 0, &value, &code) && code == kTVMStr &&
      value.v_str)
    found = (size_t)snprintf(out, size, "%s", value.v_str) < size;
  host->function_release(function);
  return found;
}

static void *find(struct dn_library *lib) {
  const char *chosen = getenv("MBLOB_DNNL_LIBRARY");
  if (chosen && *chosen) {
    void *handle = try_open(chosen, lib);
    if (!handle)
      (void)mb_fail(MBLOB_E_LOADER, "MBLOB_DNNL_LIBRARY=%s cannot be opened: %s", chosen,
                    dlerror());
    return handle;
  }
  if (LINKED) {
    (void)snprintf(lib->path, sizeof(lib->path), "in the library itself");
    return (void *)(uintptr_t)LINKED;
  }
  void *handle = NULL;
  for (size_t i = 0; i < NAME_COUNT && !handle; ++i) handle = try_open(names[i], lib);
  char prefix[2048], path[4096] = "";
  bool python = !handle && python_prefix(prefix, sizeof(prefix));
  for (size_t i = 0; i < NAME_COUNT && python && !handle; ++i) {
    (void)snprintf(path, sizeof(path), "%s/lib/%s", prefix, names[i]);
    handle = try_open(path, lib);
  }
  if (!handle)
    (void)mb_fail(
        MBLOB_E_LOADER,
        "dnnl_json needs oneDNN: no libdnnl.so.3, no libdnnl.so.2%s%s: install it (Debian, Ubuntu: apt "
        "install libdnnl2; Fedora: dnf install onednn; anywhere: pip install onednn-cpu-gomp), or name "
        "the file in MBLOB_DNNL_LIBRARY",
        python ? ", none in lib of " : "", python ? prefix : "");
  return handle;
}

const struct dn_library *dn_library_open(void) {
  mb_lock(&lock);
  if (!opened) {
    struct dn_library found = {0};
    void *handle = find(&found);
    if (handle && !bind_library(handle, &found)) {
      library = found;
      opened = true;
    }
  }
  bool ok = opened;
  mb_unlock(&lock);
  return ok ? &library : NULL;
}
