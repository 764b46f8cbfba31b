/* memory.h - what the device tables are made of: kinds 2 (cuda), 3 (cuda_host) and 13
 * (cuda_managed). */
#ifndef MB_CUDA_MEMORY_H
#define MB_CUDA_MEMORY_H

#include <mblob.h>

enum { CUDA_DEVICE_APIS = 3 };
extern const mblob_device_api cuda_device_apis[CUDA_DEVICE_APIS];

#endif
