/* atomic_file.h - files that are there whole or not at all. */
#ifndef MB_ATOMIC_FILE_H
#define MB_ATOMIC_FILE_H

#include <sys/types.h>

#include "base/bytes.h"

/* Write `parts`, one behind the other, to a file that takes the place of `path`. `mode` as of
 * open(2). Returns 0 or an errno; then what was at `path` is still there. A process that is
 * killed meanwhile leaves at most one file, `.NAME.mblob-new`, which the next write removes;
 * where the file system has no O_TMPFILE it leaves `.NAME.mblob-PID-NUMBER`, which nobody does. */
int mb_whole_file_put(const char *path, mode_t mode, const struct mb_slice *parts, size_t count);

#endif
