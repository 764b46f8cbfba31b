/* factory.h - modules of the key AotExecutorFactory. */
#ifndef MB_AOT_FACTORY_H
#define MB_AOT_FACTORY_H

#include "core/native.h"

extern const struct mb_class mb_aot_factory_class;

#endif
