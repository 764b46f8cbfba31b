/* tensors.h - tensor objects and DLPack, both ways without a copy. */
#ifndef MB_FFI_TENSORS_H
#define MB_FFI_TENSORS_H

#include "objects.h"

/* As TVMFFITensorFromDLPack: the object owns what it is given. 0, or -1 with the error left. */
int mb_tensor_from_dlpack(DLManagedTensor *from, int32_t alignment, int32_t contiguous, void **out);
int mb_tensor_from_dlpack_versioned(DLManagedTensorVersioned *from, int32_t alignment,
                                    int32_t contiguous, void **out);
int mb_tensor_to_dlpack(void *object, DLManagedTensor **out);
int mb_tensor_to_dlpack_versioned(void *object, DLManagedTensorVersioned **out);
/* Another view of what `source` keeps. */
int mb_tensor_view(void *source, const DLTensor *like, void **out);
/* New memory of that type, shape and device: from the allocator of the thread or the process, else of
 * the runtime. */
int mb_tensor_allocate(const DLTensor *like, void **out);

/* Gives a tensor like `like`; 0, or another number after it has called `fail`. */
typedef int (*mb_tensor_allocator)(const DLTensor *like, DLManagedTensorVersioned **out,
                                   void *context,
                                   void (*fail)(void *context, const char *kind,
                                                const char *message));
/* For the calling thread, and for all that have none if `everywhere`. `before` (may be NULL) gets that
 * of the thread. */
int mb_tensor_set_allocator(mb_tensor_allocator allocator, int everywhere,
                            mb_tensor_allocator *before);
mb_tensor_allocator mb_tensor_get_allocator(void);

#endif
