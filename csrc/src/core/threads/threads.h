/* threads.h - the pool that parallel loops run on. */
#ifndef MB_THREADS_H
#define MB_THREADS_H

#include "core/threads/spin.h"            /* waiting a moment without the kernel */
#include "core/threads/thread_pool.h"     /* launches and barriers */
#include "core/threads/thread_settings.h" /* how many, and where */

#endif
