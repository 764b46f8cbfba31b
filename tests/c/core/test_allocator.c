/* test_allocator DIRECTORY: data comes from the allocator of the program. Each test has a process
 * of its own: a process has one allocator. */
#include <stdatomic.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>

#include "../common/check.h"

static const char *directory;
static atomic_int given, taken;
static size_t smallest_alignment = SIZE_MAX;
static size_t off; /* bytes by which memory misses its alignment */

static void *allocate(void *context, size_t size, size_t alignment) {
  CHECK(context == &given && size % alignment == 0);
  if (alignment < smallest_alignment) smallest_alignment = alignment;
  atomic_fetch_add(&given, 1);
  char *block = aligned_alloc(alignment, size + alignment);
  return block ? block + off : NULL;
}

static void release(void *context, void *memory) {
  CHECK(context == &given && memory);
  atomic_fetch_add(&taken, 1);
  free((char *)memory - off);
}

static void *nothing(void *context, size_t size, size_t alignment) {
  (void)context, (void)size, (void)alignment;
  return NULL;
}

static mblob_allocator mine(void) {
  return (mblob_allocator){sizeof(mblob_allocator), &given, allocate, release};
}

static int new_array(TVMArrayHandle *out) {
  const tvm_index_t shape[] = {3};
  return TVMArrayAlloc(shape, 1, kDLFloat, 32, 1, kDLCPU, 0, out);
}

static void tensors_and_workspaces_come_from_it(void) {
  const mblob_allocator allocator = mine();
  TVMArrayHandle array;
  CHECK(mblob_set_allocator(&allocator) == MBLOB_OK);
  CHECK(new_array(&array) == 0 && atomic_load(&given) == 1);
  CHECK((uintptr_t)array->data % 64 == 0 && smallest_alignment >= 64);
  CHECK(TVMArrayFree(array) == 0 && atomic_load(&taken) == 1);
  mblob_module *module = open_ok(directory, "plain.so");
  CHECK(mblob_call(module, "workspace", "int", 3) == MBLOB_OK);
  CHECK(atomic_load(&given) > 1);
  mblob_module_release(module);
}

static void a_second_one_is_refused(void) {
  const mblob_allocator allocator = mine();
  CHECK(mblob_set_allocator(&allocator) == MBLOB_OK);
  CHECK(mblob_set_allocator(&allocator) == MBLOB_E_ARGUMENT);
  CHECK(strstr(mblob_last_error(), "there is an allocator"));
}

static void it_is_refused_once_memory_was_given_out(void) {
  const mblob_allocator allocator = mine();
  TVMArrayHandle array;
  CHECK(new_array(&array) == 0);
  CHECK(mblob_set_allocator(&allocator) == MBLOB_E_ARGUMENT);
  CHECK(strstr(mblob_last_error(), "memory was given out already"));
  CHECK(TVMArrayFree(array) == 0 && atomic_load(&taken) == 0);
}

static void one_without_functions_is_refused(void) {
  mblob_allocator allocator = mine();
  allocator.release = NULL;
  CHECK(mblob_set_allocator(&allocator) == MBLOB_E_ARGUMENT);
  CHECK(mblob_set_allocator(NULL) == MBLOB_E_ARGUMENT);
}

static void one_of_another_size_is_refused(void) {
  mblob_allocator allocator = mine();
  allocator.struct_size = 4;
  CHECK(mblob_set_allocator(&allocator) == MBLOB_E_ARGUMENT);
  CHECK(strstr(mblob_last_error(), "mblob_set_allocator: struct_size is 4, expected "));
}

static void no_memory_and_memory_that_is_not_aligned_are_errors(void) {
  mblob_allocator allocator = mine();
  TVMArrayHandle array;
  off = 8;
  CHECK(mblob_set_allocator(&allocator) == MBLOB_OK);
  CHECK(new_array(&array) != 0 && atomic_load(&given) == 1 && atomic_load(&taken) == 1);
  CHECK(mblob_last_error_info()->status == MBLOB_E_MEMORY);
}

static void an_allocator_without_memory_is_an_error(void) {
  mblob_allocator allocator = mine();
  TVMArrayHandle array;
  allocator.allocate = nothing;
  CHECK(mblob_set_allocator(&allocator) == MBLOB_OK);
  CHECK(new_array(&array) != 0 && mblob_last_error_info()->status == MBLOB_E_MEMORY);
  CHECK(atomic_load(&taken) == 0);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  directory = argv[1];
  APART(tensors_and_workspaces_come_from_it);
  APART(a_second_one_is_refused);
  APART(it_is_refused_once_memory_was_given_out);
  APART(one_without_functions_is_refused);
  APART(one_of_another_size_is_refused);
  APART(no_memory_and_memory_that_is_not_aligned_are_errors);
  APART(an_allocator_without_memory_is_an_error);
  return 0;
}
