/* test_aot DIRECTORY: models compiled ahead of time whose metadata lies in every word, and
 * payloads of their factories that are damaged in every byte. Each ends in an error with a text,
 * or in an executor that runs or fails with one; the sanitizers watch. */
#include "../common/check.h"

#include "exec/aot/executor.h"
#include "exec/aot/aot.h"

/* Memory that is not there is an error like others. */
__attribute__((visibility("default"))) const char *__asan_default_options(
    void); /* of ASan's library */
const char *__asan_default_options(void) {
  return "allocator_may_return_null=1:max_allocation_size_mb=512";
}

static const float four[4] = {1, 2, 3, 4};
static const struct mb_stored_arrays nothing = {0};

/* The word `i` of the library's metadata; NULL behind the last. */
static uint64_t *word_at(mblob_module *library, int64_t i) {
  mblob_function *word = NULL;
  TVMValue arg = {.v_int64 = i}, ret;
  int code = kTVMArgInt, ret_code;
  CHECK(mblob_module_function(library, "word", 0, &word) == MBLOB_OK);
  CHECK(mblob_function_call(word, &arg, &code, 1, &ret, &ret_code) == MBLOB_OK);
  mblob_function_release(word);
  return (uint64_t *)(uintptr_t)ret.v_int64;
}

static int no_functions(void *self, const char *name, mblob_function **out) {
  (void)self, (void)name;
  *out = NULL;
  return MBLOB_OK;
}

/* An executor of a module that imports the library, as factories do. */
static int create(mblob_module *library, mblob_module **executor) {
  static const mblob_loader loader = {
      .struct_size = sizeof(loader), .type_key = "importer", .function = no_functions};
  mblob_module *importer = NULL;
  CHECK(mblob_module_create(&loader, NULL, &importer) == MBLOB_OK);
  CHECK(mblob_module_import(importer, library) == MBLOB_OK);
  int status = mb_aot_executor_create(importer, &nothing, executor);
  mblob_module_release(importer);
  return status;
}

static int run(mblob_module *executor, float *y) {
  int status = mblob_call(executor, "set_input", "str,float32[4]", "x", four);
  if (!status) status = mblob_call(executor, "set_input", "str,float32[4]", "w", four);
  if (!status) status = mblob_call(executor, "run", "");
  if (!status) status = mblob_call(executor, "get_output", "int64,float32[4]", (int64_t)0, y);
  CHECK(!status || *mblob_last_error());
  return status;
}

static void expect_right(mblob_module *library) {
  mblob_module *executor = NULL;
  float y[4] = {0};
  CHECK(create(library, &executor) == MBLOB_OK && run(executor, y) == MBLOB_OK);
  CHECK(y[0] == 2 && y[1] == 6 && y[2] == 12 && y[3] == 20);
  mblob_module_release(executor);
}

static void lies_of_the_metadata(mblob_module *library) {
  static const uint64_t lies[] = {0,
                                  1,
                                  2,
                                  5,
                                  16,
                                  64,
                                  65,
                                  4096,
                                  65536,
                                  65537,
                                  UINT32_MAX,
                                  INT64_MAX,
                                  UINT64_MAX,
                                  (uint64_t)-8,
                                  1u << 31,
                                  UINT64_C(1) << 40,
                                  UINT64_C(1) << 61,
                                  UINT64_C(1) << 63};
  int refused = 0, failed = 0, ran = 0, words = 0;
  expect_right(library);
  for (uint64_t *word; (word = word_at(library, words)); words++) {
    const uint64_t old = *word;
    for (size_t i = 0; i < 2 * sizeof(lies) / sizeof(*lies); i++) {
      /* a word of its own, and two halves, such as code, bits and lanes of a data type */
      *word =
          i % 2 ? (old & UINT64_C(0xffffffff00000000)) | (lies[i / 2] & UINT32_MAX) : lies[i / 2];
      mblob_module *executor = NULL;
      float y[4];
      int status = create(library, &executor);
      CHECK(!status == !!executor && (!status || *mblob_last_error()));
      if (status)
        refused++;
      else
        run(executor, y) ? failed++ : ran++;
      mblob_module_release(executor);
    }
    *word = old;
  }
  expect_right(library);
  printf("  %d words: %d refused, %d failed when they ran, %d ran\n", words, refused, failed, ran);
  CHECK(words > 30 && refused > 500 && failed > 10 && ran > 10);
}

/* What is missing or wrong is named. */
static void each_lie_is_named(mblob_module *library) {
  static const struct {
    int word;
    uint64_t lie;
    const char *error;
  } lies[] = {{0, 2, "version 2 of the structure, expected 1"},
              {1, 16, "a list of tensors is outside of the library"},
              {2, UINT64_MAX, "an impossible number of tensors"},
              {2, 65537, "an impossible number of tensors"},
              {7, 16, "the list of constants is outside of the library"},
              {8, 65537, "an impossible number of constants"},
              {9, 0, "the model has no name"},
              {10, 16, "a tensor has no name"},
              {11, 16, "the shape of a tensor is outside of the library"},
              {12, 65, "a tensor has too many dimensions"}};
  for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
    uint64_t *word = word_at(library, lies[i].word), old = *word;
    mblob_module *executor = NULL;
    *word = lies[i].lie;
    CHECK(create(library, &executor) && strstr(mblob_last_error(), lies[i].error));
    *word = old;
  }
  uint64_t *name = word_at(library, 9), old = *name; /* "x" is the name of an input */
  mblob_module *executor = NULL;
  *name = *word_at(library, 10);
  CHECK(create(library, &executor) == MBLOB_E_NOT_FOUND);
  CHECK(strstr(mblob_last_error(), "no entry function 'x___tvm_main__' of the model 'x'"));
  *name = old;
  uint64_t *pools = word_at(library, 6);
  *pools = 0; /* no pools: two arguments less */
  CHECK(create(library, &executor) == MBLOB_OK);
  float y[4];
  CHECK(run(executor, y) == MBLOB_E_KERNEL && strstr(mblob_last_error(), "num_args should be 5"));
  mblob_module_release(executor);
  *pools = 1;
  expect_right(library);
}

/* ---- payloads of factories ---- */

static size_t put(uint8_t *to, size_t at, const void *data, size_t size) {
  memcpy(to + at, data, size);
  return at + size;
}

static size_t put_number(uint8_t *to, size_t at, uint64_t number) {
  return put(to, at, &number, sizeof(number)); /* the tests run on little endian */
}

/* One parameter, w = float32[4]; the model's name. */
static size_t make_payload(uint8_t *to) {
  size_t at = put_number(to, 0, 1);
  at = put_number(to, at, 1);
  at = put(to, put_number(to, at, 1), "w", 1);
  at = put_number(to, at, UINT64_C(0xDD5E40F096B4A13F));
  at = put_number(to, at, 0);
  at = put(to, at, (const int32_t[]){1, 0, 1}, 12);
  at = put(to, at, &(DLDataType){kDLFloat, 32, 1}, 4);
  at = put_number(to, at, 4);
  at = put(to, put_number(to, at, sizeof(four)), four, sizeof(four));
  return put(to, put_number(to, at, 5), "model", 5);
}

static int open_payload(const uint8_t *payload, size_t size) {
  uint8_t *exact = malloc(size ? size : 1); /* its own block: reads behind its end are seen */
  CHECK(exact);
  if (size) memcpy(exact, payload, size);
  const mblob_module_info info = {.struct_size = sizeof(info),
                                  .type_key = "AotExecutorFactory",
                                  .path = "",
                                  .dialect = "classic",
                                  .payload = exact,
                                  .payload_size = size};
  void *object = NULL;
  int status = mb_aot_factory_class.open(&info, &object);
  CHECK(!status == !!object && (!status || strstr(mblob_last_error(), "AotExecutorFactory: ")));
  if (object) mb_aot_factory_class.close(object);
  free(exact);
  return status;
}

static void damage_of_the_factory(void) {
  static const uint8_t lies[] = {0, 1, 2, 7, 0x20, 0x7f, 0x80, 0xff};
  uint8_t payload[256];
  size_t size = make_payload(payload);
  int refused = 0;
  CHECK(open_payload(payload, size) == MBLOB_OK);
  for (size_t cut = 0; cut < size; cut++) CHECK(open_payload(payload, cut) == MBLOB_E_FORMAT);
  for (size_t at = 0; at < size; at++) {
    const uint8_t old = payload[at];
    for (size_t i = 0; i < sizeof(lies); i++) {
      payload[at] = lies[i];
      refused += open_payload(payload, size) != MBLOB_OK;
    }
    payload[at] = old;
  }
  payload[size] = 0;
  CHECK(open_payload(payload, size + 1) == MBLOB_E_FORMAT &&
        strstr(mblob_last_error(), "bytes follow"));
  CHECK(refused > 200);
}

/* A library without the functions of a model. */
static void a_library_that_is_no_model(const char *directory) {
  mblob_module *library = NULL, *executor = NULL;
  CHECK(mblob_open(in(directory, "graph.so"), NULL, &library) == MBLOB_OK);
  CHECK(create(library, &executor) == MBLOB_E_NOT_FOUND && !executor);
  CHECK(strstr(mblob_last_error(), "no function 'get_c_metadata'"));
  mblob_module_release(library);
}

int main(int argc, char **argv) {
  mblob_module *library = NULL;
  CHECK(argc == 2);
  CHECK(mblob_open(in(argv[1], "aot.so"), NULL, &library) == MBLOB_OK);
  RUN(lies_of_the_metadata, library);
  RUN(each_lie_is_named, library);
  mblob_module_release(library);
  RUN(damage_of_the_factory);
  RUN(a_library_that_is_no_model, argv[1]);
  return 0;
}
