/* dlpack/dlpack.h - DLPack's types at DLPack's own path, for sources that were written against
 * it. */
#include "../../dlpack.h"

/* One number for both, as DLPack before 1.0 had it. */
#ifndef DLPACK_VERSION
#define DLPACK_VERSION (DLPACK_MAJOR_VERSION * 10 + DLPACK_MINOR_VERSION)
#endif
