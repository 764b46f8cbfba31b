/* The runtime of a standalone library: it stands behind mblob.c, compiled with MBLOB_STANDALONE, and behind
 * runtime.h. There is one library, which this code is in: its symbols are in its own dynamic section. */
#include <dlfcn.h>
#include <link.h>

/* ---- the library in memory ------------------------------------------------------------------- */

static struct {
  uintptr_t base;
  const ElfW(Sym) * symbols;
  const char *strings;
  const uint32_t *gnu_hash, *hash; /* one of them, or both */
} alone_image;

static void alone_read_dynamic(const ElfW(Dyn) * tag) {
  for (; tag->d_tag != DT_NULL; tag++) {
    /* glibc adds the base where the section can be written. */
    const uintptr_t at =
        tag->d_un.d_ptr + (tag->d_un.d_ptr < alone_image.base ? alone_image.base : 0);
    if (tag->d_tag == DT_SYMTAB) alone_image.symbols = (const void *)at;
    if (tag->d_tag == DT_STRTAB) alone_image.strings = (const void *)at;
    if (tag->d_tag == DT_GNU_HASH) alone_image.gnu_hash = (const void *)at;
    if (tag->d_tag == DT_HASH) alone_image.hash = (const void *)at;
  }
}

static int alone_find_own(struct dl_phdr_info *info, size_t size, void *unused) {
  const ElfW(Phdr) *dynamic = NULL;
  bool is_own = false;
  (void)size, (void)unused;
  for (unsigned i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type == PT_LOAD)
      is_own |= (uintptr_t)&alone_image - info->dlpi_addr - p->p_vaddr < p->p_memsz;
    if (p->p_type == PT_DYNAMIC) dynamic = p;
  }
  if (!is_own || !dynamic) return 0;
  alone_image.base = info->dlpi_addr;
  alone_read_dynamic((const void *)(alone_image.base + dynamic->p_vaddr));
  return alone_image.symbols && alone_image.strings && (alone_image.gnu_hash || alone_image.hash);
}

static const ElfW(Sym) * alone_symbol_if_named(uint32_t i, const char *name) {
  const ElfW(Sym) *symbol = &alone_image.symbols[i];
  return strcmp(alone_image.strings + symbol->st_name, name) == 0 ? symbol : NULL;
}

static const ElfW(Sym) * alone_find_by_gnu_hash(const char *name) {
  const uint32_t *head = alone_image.gnu_hash, count = head[0], first = head[1];
  const uint32_t *buckets = head + 4 + head[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t *chains = buckets + count;
  uint32_t hash = 5381;
  for (const char *c = name; *c; c++) hash = hash * 33 + (uint8_t)*c;
  for (uint32_t i = count ? buckets[hash % count] : 0; i >= first && i; i++) {
    const uint32_t found = chains[i - first];
    if ((found | 1) == (hash | 1) && alone_symbol_if_named(i, name)) return &alone_image.symbols[i];
    if (found & 1) break;
  }
  return NULL;
}

static const ElfW(Sym) * alone_find_by_hash(const char *name) {
  const uint32_t *buckets = alone_image.hash + 2, *chains = buckets + alone_image.hash[0];
  uint32_t hash = 0;
  for (const char *c = name; *c; c++) {
    hash = (hash << 4) + (uint8_t)*c;
    hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
  }
  for (uint32_t i = buckets[hash % alone_image.hash[0]]; i; i = chains[i])
    if (alone_symbol_if_named(i, name)) return &alone_image.symbols[i];
  return NULL;
}

/* The address of what the library defines under that name; NULL if it does not. */
static void *alone_own_address(const char *name, ElfW(Sym) * out) {
  const ElfW(Sym) *found =
      alone_image.gnu_hash ? alone_find_by_gnu_hash(name) : alone_find_by_hash(name);
  if (!found || found->st_shndx == SHN_UNDEF) return NULL;
  if (out) *out = *found;
  const unsigned type = ELF64_ST_TYPE(found->st_info);
  return type == STT_TLS || type == STT_GNU_IFUNC ? NULL
                                                  : (void *)(alone_image.base + found->st_value);
}

void *mb_library_symbol(const struct mb_library *library, const char *name, ElfW(Sym) * symbol) {
  (void)library;
  return alone_own_address(name, symbol);
}

/* ---- slots ----------------------------------------------------------------------------------- */

#ifdef MBLOB_WITH_FFI
/* The same names in that dialect, where it has functions of its own: they come last. */
static const struct alone_slot alone_ffi_slots[] = {
    SLOT(TVMBackendGetFuncFromEnv, find_function),
    SLOT(TVMBackendParallelLaunch, mb_ffi_parallel_launch),
    SLOT(TVMFFIEnvModLookupFromImports, find_function),
    SLOT(TVMFFIErrorSetRaisedFromCStr, set_raised_from_text),
    SLOT(TVMFFIFunctionCall, call_function),
    SLOT(TVMFFIHandleInitOnce, mb_init_once)};
#endif

static void **alone_context_slot;

static void alone_fill(const struct alone_slot *slots, size_t count) {
  for (size_t i = 0; i < count; i++) {
    void *slot = alone_own_address(slots[i].name, NULL);
    if (slot) memcpy(slot, &slots[i].function, sizeof(slots[i].function));
  }
}

/* Let kernels reach this runtime. Where libmblob or TVM opens the same file, they fill the slots with
 * their own, so it is done again when the context is another's. */
static void alone_fill_slots(struct mb_library *library) {
  void *context = &library->context;
  if (alone_context_slot && __atomic_load_n(alone_context_slot, __ATOMIC_RELAXED) == context)
    return;
  alone_fill(alone_slots, sizeof(alone_slots) / sizeof(*alone_slots));
  alone_context_slot = alone_own_address("__tvm_module_ctx", NULL);
#ifdef MBLOB_WITH_FFI
  alone_fill(alone_ffi_slots, sizeof(alone_ffi_slots) / sizeof(*alone_ffi_slots));
  alone_context_slot = alone_own_address("__tvm_ffi__library_ctx", NULL);
#endif
  if (alone_context_slot) __atomic_store_n(alone_context_slot, context, __ATOMIC_RELAXED);
}

/* ---- the tree of modules --------------------------------------------------------------------- */

static int alone_read_table(struct mb_library *library) {
  ElfW(Sym) symbol;
  const uint8_t *table = alone_own_address(MB_FUNCTION_TABLE_SYMBOL, &symbol);
  return table ? mb_function_table_read((struct mb_slice){table, symbol.st_size}, NULL,
                                        &library->table)
               : MBLOB_OK;
}

#ifdef MBLOB_ALONE_STREAM /* TVM wrote the packed modules */
static const bool alone_index_expected = false;
#else
static const bool alone_index_expected = true;
#endif

static int alone_make_tree(const struct mblob_alone *a, struct mb_library *library) {
  static const mblob_open_options options = {.struct_size = sizeof(options),
                                             .missing = MBLOB_MISSING_STUB};
  ElfW(Sym) symbol;
  const uint8_t *bytes = alone_own_address(a->blob, &symbol);
  if (!bytes) return mb_fail(MBLOB_E_FORMAT, "no symbol %s", a->blob);
  library->has_blob = true;
  library->index_expected = alone_index_expected;
  library->blob = bytes;
  library->blob_size = symbol.st_size;
#ifdef MBLOB_WITH_FFI
  library->dialect = library->blob_dialect = MB_FFI;
#endif
  library->is_compiled_by_tvm = a->is_compiled_by_tvm;
  struct mb_blob blob = {.bytes = bytes, .size = symbol.st_size};
  int status = mb_index_find(&blob, alone_index_expected, true);
#ifdef MBLOB_ALONE_STREAM
#ifdef MBLOB_WITH_FFI
  if (!status && !blob.has_index) status = mb_modules_read(&blob);
#else
  if (!status && !blob.has_index) status = mb_stream_read(&blob, NULL);
#endif
#endif
#ifdef MBLOB_WITH_FFI
  if (!status) status = mb_plugin_convention(&library->convention);
#endif
  if (!status) status = mb_tree_new(library, &blob, bytes, &options, &library->trees);
  mb_blob_free(&blob);
  return status ? status : alone_read_table(library);
}

/* Of pthread_atfork() of glibc, if the code that starts libraries is not in this one. */
__attribute__((weak, visibility("hidden"))) void *__dso_handle;

/* The library of the process, which nothing closes: kernels keep addresses. */
static int alone_get_library(const struct mblob_alone *a, struct mb_library **out) {
  static struct mb_lock lock = MB_LOCK_INIT;
  static struct mb_library *library;
  int status = MBLOB_OK;
  mb_lock(&lock);
  if (!library) {
    if (!mb_profile_of_program()) watch_forks();
    atomic_store_explicit(&mb_profile_in_use, &mb_profile, memory_order_relaxed);
    struct mb_library *made = new_library_without_file();
    if (!dl_iterate_phdr(alone_find_own, NULL))
      status = mb_fail(MBLOB_E_FORMAT, "the library does not find its own dynamic section");
    else
      status = made ? alone_make_tree(a, made) : MBLOB_E_MEMORY;
    if (status && made)
      mb_library_free(made);
    else
      library = made;
  }
  *out = library;
  mb_unlock(&lock);
  return status;
}

/* ---- models ---------------------------------------------------------------------------------- */

struct mblob_alone_model {
  const struct mblob_alone *of;
  struct mb_library *library;
#ifdef MBLOB_WITH_GRAPH
  void *factory;
  struct mb_graph_executor *graph;
#endif
  mblob_module *executor;   /* a reference */
  mblob_function *function; /* a reference */
  TVMValue *values;         /* of arguments of a function */
  int *codes;
  DLTensor *tensors;
};

static DLTensor alone_tensor_of(const struct mblob_alone_value *value, const void *data) {
  return (DLTensor){.data = (void *)(uintptr_t)data,
                    .device = {kDLCPU, 0},
                    .ndim = value->ndim,
                    .dtype = {value->code, value->bits, value->lanes},
                    .shape = (int64_t *)(uintptr_t)value->shape};
}

#ifdef MBLOB_WITH_GRAPH
static int alone_open_graph(struct mblob_alone_model *model, mblob_module *module) {
  const DLDevice cpu = {kDLCPU, 0};
  const mblob_module_info info = {.struct_size = sizeof(info),
                                  .type_key = module->type_key,
                                  .path = "",
                                  .payload = module->payload,
                                  .payload_size = module->payload_size,
                                  .module = module};
  int status = open_graph_factory(&info, &model->factory);
  if (status) return status;
  const struct graph_factory *f = model->factory;
  return mb_graph_executor_new(&(struct mb_graph_source){.json = f->json,
                                                         .json_size = f->json_size,
                                                         .kernels = module,
                                                         .kernels_scope = MB_IMPORTS_ONLY,
                                                         .devices = &cpu,
                                                         .device_count = 1,
                                                         .parameters = &f->parameters,
                                                         .parameters_module = module},
                               &model->graph);
}

static int alone_run_graph_locked(const struct mblob_alone *a, struct mb_graph_executor *x,
                                  const void *const *inputs, void *const *outputs) {
  int status = MBLOB_OK;
  for (uint32_t i = 0; !status && i < a->input_count; i++) {
    const DLTensor t = alone_tensor_of(&a->inputs[i], inputs[i]);
    status = mb_graph_set_input(x, (uint32_t)mb_graph_find_input(&x->graph, a->inputs[i].name), &t);
  }
  if (!status) status = mb_graph_run(x, MB_THREADS_AS_MEASURED);
  for (uint32_t i = 0; !status && i < a->output_count; i++) {
    DLTensor t = alone_tensor_of(&a->outputs[i], outputs[i]);
    status = mb_graph_copy_out(x, "output", x->graph.outputs[i], &t);
  }
  return status;
}

static int alone_run_graph(struct mblob_alone_model *model, const void *const *inputs,
                           void *const *outputs) {
  struct mb_graph_frame frame;
  int status = mb_graph_enter(model->graph, &frame);
  if (status) return status;
  status = alone_run_graph_locked(model->of, model->graph, inputs, outputs);
  mb_graph_leave(model->graph, &frame);
  return status;
}
#endif

#if defined(MBLOB_WITH_AOT) || defined(MBLOB_WITH_RELAY) || defined(MBLOB_WITH_RELAX)
#define MB_ALONE_EXECUTORS

static int alone_run_executor(struct mblob_alone_model *model, const void *const *inputs,
                              void *const *outputs) {
  const struct mblob_alone *a = model->of;
  int status = MBLOB_OK;
  for (uint32_t i = 0; !status && i < a->input_count; i++) {
    const DLTensor t = alone_tensor_of(&a->inputs[i], inputs[i]);
    status = mblob_executor_set_input(model->executor, a->inputs[i].name, "tensor", &t);
  }
  if (!status) status = mblob_executor_run(model->executor);
  for (uint32_t i = 0; !status && i < a->output_count; i++) {
    DLTensor t = alone_tensor_of(&a->outputs[i], outputs[i]);
    status = mblob_executor_get_output(model->executor, i, "tensor", &t);
  }
  return status;
}
#endif

/* ---- functions ------------------------------------------------------------------------------- */

static int alone_open_function(struct mblob_alone_model *model, mblob_module *root) {
  const struct mblob_alone *a = model->of;
  const size_t count = a->argument_count;
  int status = mb_module_need(root, a->name, MB_WITH_IMPORTS, &model->function);
  model->values = calloc(count + 1, sizeof(*model->values));
  model->codes = calloc(count + 1, sizeof(*model->codes));
  model->tensors = calloc(count + 1, sizeof(*model->tensors));
  if (!status && !(model->values && model->codes && model->tensors))
    status = mb_fail_memory(count * sizeof(*model->tensors));
  for (size_t i = 0, stored = 0; !status && i < count; i++) {
    model->values[i].v_handle = &model->tensors[i];
    model->codes[i] = kTVMDLTensorHandle;
    if (a->arguments[i] != MBLOB_ALONE_STORED) continue;
    struct tensor_search search = {.name = a->stored[stored++]};
    const int found = mb_module_walk(root, false, find_module_tensor, &search);
    if (search.found)
      model->tensors[i] = search.found->view;
    else
      status = found ? found : mb_fail(MBLOB_E_NOT_FOUND, "no tensor '%s'", search.name);
  }
  return status;
}

static int alone_run_function(struct mblob_alone_model *model, const void *const *inputs,
                              void *const *outputs) {
  const struct mblob_alone *a = model->of;
  uint32_t input = 0, output = 0;
  for (size_t i = 0; i < a->argument_count; i++) {
    if (a->arguments[i] == MBLOB_ALONE_INPUT) {
      model->tensors[i] = alone_tensor_of(&a->inputs[input], inputs[input]);
      input++;
    } else if (a->arguments[i] == MBLOB_ALONE_OUTPUT) {
      model->tensors[i] = alone_tensor_of(&a->outputs[output], outputs[output]);
      output++;
    }
  }
  return mblob_function_call(model->function, model->values, model->codes, (int)a->argument_count,
                             NULL, NULL);
}

/* ---- the interface --------------------------------------------------------------------------- */

static int alone_open_kind(struct mblob_alone_model *model) {
  mblob_module *modules = model->library->trees->modules;
  switch (model->of->kind) {
#ifdef MBLOB_WITH_GRAPH
    case MBLOB_ALONE_GRAPH: return alone_open_graph(model, &modules[model->of->module]);
#endif
#ifdef MB_ALONE_EXECUTORS
    case MBLOB_ALONE_AOT:
    case MBLOB_ALONE_RELAY:
    case MBLOB_ALONE_RELAX:
      return mblob_executor_create(&modules[model->of->module], model->of->name, kDLCPU, 0,
                                   &model->executor);
#endif
    default: return alone_open_function(model, modules);
  }
}

int32_t mblob_alone_open(const struct mblob_alone *library, struct mblob_alone_model **out) {
  if (!out) return mb_fail(MBLOB_E_ARGUMENT, "open: the place for the model is NULL");
  *out = NULL;
  struct mblob_alone_model *model = calloc(1, sizeof(*model));
  if (!model) return mb_fail_memory(sizeof(*model));
  model->of = library;
  int status = alone_get_library(library, &model->library);
  if (!status) {
    alone_fill_slots(model->library);
    status = alone_open_kind(model);
  }
  if (status)
    mblob_alone_close(model);
  else
    *out = model;
  return status;
}

static int alone_check_data(const char *what, const struct mblob_alone_value *values,
                            uint32_t count, const void *const *data) {
  if (count && !data) return mb_fail(MBLOB_E_ARGUMENT, "run: the struct of %ss is NULL", what);
  for (uint32_t i = 0; i < count; i++)
    if (!data[i]) return mb_fail(MBLOB_E_ARGUMENT, "run: %s '%s' is NULL", what, values[i].name);
  return MBLOB_OK;
}

int32_t mblob_alone_run(struct mblob_alone_model *model, const void *const *inputs,
                        void *const *outputs) {
  if (!model) return mb_fail(MBLOB_E_ARGUMENT, "run: the model is NULL");
  const struct mblob_alone *a = model->of;
  int status = alone_check_data("input", a->inputs, a->input_count, inputs);
  if (!status)
    status = alone_check_data("output", a->outputs, a->output_count, (const void *const *)outputs);
  if (status) return status;
  alone_fill_slots(model->library);
  switch (a->kind) {
#ifdef MBLOB_WITH_GRAPH
    case MBLOB_ALONE_GRAPH: return alone_run_graph(model, inputs, outputs);
#endif
#ifdef MB_ALONE_EXECUTORS
    case MBLOB_ALONE_AOT:
    case MBLOB_ALONE_RELAY:
    case MBLOB_ALONE_RELAX: return alone_run_executor(model, inputs, outputs);
#endif
    default: return alone_run_function(model, inputs, outputs);
  }
}

void mblob_alone_close(struct mblob_alone_model *model) {
  if (!model) return;
#ifdef MBLOB_WITH_GRAPH
  if (model->graph) mb_graph_executor_free(model->graph);
  if (model->factory) close_graph_factory(model->factory);
#endif
  mblob_module_release(model->executor);
  mblob_function_release(model->function);
  free(model->values);
  free(model->codes);
  free(model->tensors);
  free(model);
}

const char *mblob_alone_error(void) { return mblob_last_error(); }
