/* names.h - devices as people call them. */
#ifndef MB_DEVICE_NAMES_H
#define MB_DEVICE_NAMES_H

#include <dlpack/dlpack.h>

/* "cuda"; NULL of a type without a name. */
const char *mb_device_name(int device_type);
/* "cuda(0)"; "device_type_77(0)" of a type without a name. */
#define MB_DEVICE_TEXT 48
const char *mb_device_text(DLDevice device, char text[MB_DEVICE_TEXT]);

#endif
