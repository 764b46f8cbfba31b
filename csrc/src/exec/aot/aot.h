/* aot.h - modules of the key AotExecutorFactory. */
#ifndef MB_AOT_H
#define MB_AOT_H

#include "core/library/library.h"

extern const struct mb_class mb_aot_factory_class;

#endif
