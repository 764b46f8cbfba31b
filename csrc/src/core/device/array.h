/* array.h - counted tensors: what TVMArrayHandle and kTVMNDArrayHandle point to. */
#ifndef MB_ARRAY_H
#define MB_ARRAY_H

#include <mblob.h>
#include <stdbool.h>

/* Of elements that are not set; the one reference is the caller's. */
int mb_array_new(DLDevice device, int ndim, const int64_t *shape, DLDataType dtype, DLTensor **out);
/* Only for handles that mb_array_new, mb_array_view or a result gave. */
void mb_array_retain(DLTensor *array);
void mb_array_release(DLTensor *array);
size_t mb_array_references(const DLTensor *array);
/* True if its memory is another's: one that mb_array_view made. */
bool mb_array_is_view(const DLTensor *array);
/* What gives back an array that is the owner of a view; an owner of NULL is nobody. */
void mb_array_release_owner(void *array);
/* A counted view of memory that is another's: compact elements of `tensor`, whose shape is copied;
 * it has strides if the tensor has some, which kernels of the ffi dialect take as it is.
 * `release(owner)` is called when the last reference goes; on failure the owner stays the
 * caller's. */
int mb_array_view(const DLTensor *tensor, void *owner, void (*release)(void *owner),
                  DLTensor **out);

/* The same over memory of another array, which it keeps, from `offset` on. Shape, strides and type
 * are those of `like`, which is known to fit. */
int mb_array_part(const DLTensor *like, DLTensor *whole, size_t offset, DLTensor **out);

/* MBLOB_OK for a tensor that is on a device that is there, has elements that can be, is compact,
 * and has data unless it is empty; `size` becomes that of mb_tensor_size. */
int mb_tensor_check(const DLTensor *t, size_t *size);

/* Between `t`, of just `nbytes` bytes, and memory of the host; the one is `from`, the other
 * `to`. */
int mb_array_copy_bytes(const DLTensor *t, size_t nbytes, const DLTensor *from, const DLTensor *to,
                        void *stream);
/* Copy all elements, from any device to any; both are compact and of the same number of bytes. */
int mb_array_copy(const DLTensor *from, const DLTensor *to, void *stream);

#endif
