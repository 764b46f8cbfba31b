/* object.h - counted rows of values, the objects of TVM that a kTVMObjectHandle points to here:
 * Array, Map (keys and values in turn, in the order they were given), ShapeTuple and String (its
 * bytes). None changes once it is made. */
#ifndef MB_OBJECT_H
#define MB_OBJECT_H

#include "core/native.h"

struct mb_object;

/* Type indices of TVM, the same in 0.8 to 0.19. */
enum mb_object_type { MB_STRING_TYPE = 3, MB_ARRAY_TYPE = 4, MB_MAP_TYPE = 5, MB_SHAPE_TYPE = 6 };

/* Whether the handle is such an object; it is not NULL. */
bool mb_handle_is_object(const void *handle);
enum mb_object_type mb_object_type(const struct mb_object *object);
void mb_object_retain(struct mb_object *object);
void mb_object_release(struct mb_object *object);
size_t mb_object_references(const struct mb_object *object);

/* An Array of the arguments. `unused` is NULL. */
int mb_object_make_array(void *unused, struct mb_call *call);

/* The global functions runtime.Array, runtime.ArrayGetItem and so on, with TVM's names. */
extern const struct mb_method mb_object_functions[];

#endif
