/* const_loader.h - the classes of the keys const_loader and metadata. */
#ifndef MB_CONST_LOADER_H
#define MB_CONST_LOADER_H

#include "core/library/library.h"

extern const struct mb_class mb_const_loader_class;
extern const struct mb_class mb_metadata_class;

#endif
