/* For core/call/aligned.c, aligned_call.c, globals.c, method.c and object.c: there are no global functions, no
 * containers of TVM, and so none that must be aligned. */
#include "core/call/globals.h"
#include "core/call/object.h"
#include "core/call/aligned_call.h"
#include "minimal.h"

int mb_global_get(const char *name, mblob_function **out) {
  (void)name;
  *out = NULL;
  return MBLOB_OK;
}

uint64_t mb_global_generation(void) { return 1; }

bool mb_handle_is_object(const void *handle) {
  (void)handle;
  return false;
}

void mb_object_retain(struct mb_object *object) { (void)object; }

void mb_object_release(struct mb_object *object) { (void)object; }

size_t mb_object_references(const struct mb_object *object) {
  (void)object;
  return 0;
}

static int no_objects(void) {
  return mb_fail(MBLOB_E_ARGUMENT, "tuples and shapes cannot be passed" MB_MORE_IN_CORE);
}

int mb_object_make_array(void *unused, struct mb_call *call) {
  (void)unused, (void)call;
  return no_objects();
}

int mb_object_new_shape(const int64_t *extents, size_t count, struct mb_object **out) {
  (void)extents, (void)count;
  *out = NULL;
  return no_objects();
}

bool mb_object_is_aligned(const void *handle) {
  (void)handle;
  return true;
}

int mb_call_aligned(const mblob_function *function, const TVMValue *args, const int *codes,
                    int count, struct mb_return *result) {
  return mb_call_as_they_are(function, args, codes, count, result);
}
