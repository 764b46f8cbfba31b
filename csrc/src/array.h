/* array.h - counted tensors in host memory: what TVMArrayHandle and kTVMNDArrayHandle point to. */
#ifndef MB_ARRAY_H
#define MB_ARRAY_H

#include <mblob.h>

/* Only for handles that TVMArrayAlloc, TVMArrayFromDLPack or a result gave. */
void mb_array_retain(DLTensor *array);
void mb_array_release(DLTensor *array);

#endif
