/* object.h - counted rows of values, the objects of TVM that a kTVMObjectHandle points to here:
 * Array, Map (keys and values in turn, in the order they were given), ShapeTuple and String (its
 * bytes). None changes once it is made, but by mb_object_reset_item. */
#ifndef MB_OBJECT_H
#define MB_OBJECT_H

#include "core/call/method.h"
#include "core/call/return_value.h"

struct mb_object;

/* Type indices of TVM, the same in 0.8 to 0.19. */
enum mb_object_type { MB_STRING_TYPE = 3, MB_ARRAY_TYPE = 4, MB_MAP_TYPE = 5, MB_SHAPE_TYPE = 6 };

/* True if the handle is such an object; it is not NULL. */
bool mb_handle_is_object(const void *handle);
/* The bytes of a text or a String; false if the value is neither. */
bool mb_value_text(TVMValue value, int code, TVMByteArray *out);
enum mb_object_type mb_object_type(const struct mb_object *object);
void mb_object_retain(struct mb_object *object);
void mb_object_release(struct mb_object *object);
size_t mb_object_references(const struct mb_object *object);

/* An Array of the arguments; a Map of keys and values in turn. `unused` is NULL. */
int mb_object_make_array(void *unused, struct mb_call *call);
int mb_object_make_map(void *unused, struct mb_call *call);

/* What a call returns: an Array of texts; a Map of counted arrays by their names, whose references
 * it takes over, also when it fails. */
int mb_object_return_texts(struct mb_call *call, const char *const *texts, size_t count);
int mb_object_return_arrays(struct mb_call *call, const char *const *names, DLTensor *const *arrays,
                            size_t count);

/* Items as they are kept; an item's value as a caller passes it. `i` is below the count. */
size_t mb_object_count(const struct mb_object *object);
const struct mb_return *mb_object_item(const struct mb_object *object, size_t i);
TVMValue mb_object_value(const struct mb_object *object, size_t i);
int mb_object_new_shape(const int64_t *extents, size_t count, struct mb_object **out);
int mb_object_new_string(const char *data, size_t size, struct mb_object **out);
/* True if compiled code can take all tensors in it, however deep; also of handles that are no such
 * objects. */
bool mb_object_is_aligned(const void *handle);
/* Another container of the same items, which only its maker changes. */
int mb_object_copy(const struct mb_object *object, struct mb_object **out);
/* Store a value, which is aligned, in place of item `i`. */
int mb_object_set_item(struct mb_object *copy, size_t i, TVMValue value, int code);
/* Leave nothing in that place of an Array: the one change that a program makes
 * (vm.builtin.tuple_reset_item). */
void mb_object_reset_item(struct mb_object *array, size_t i);

/* The global functions runtime.Array, runtime.ArrayGetItem and so on, with TVM's names. */
extern const struct mb_method mb_object_functions[];

#endif
