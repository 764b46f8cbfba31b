#define _GNU_SOURCE
#include "base/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct file_parts {
  const struct mb_slice *items;
  size_t count;
};

static bool write_to_file(int fd, struct file_parts parts) {
  for (size_t i = 0; i < parts.count; i++)
    for (struct mb_slice left = parts.items[i]; left.size;) {
      const ssize_t n = write(fd, left.data, mb_size(left.size));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      left.data += n;
      left.size -= (size_t)n;
    }
  return true;
}

/* Give a file without a name that of `path`. Over another file it gets a second one first,
 * `beside`, which is the same for all that write there: what has it is whole, so whoever finds
 * it may remove it or put it into its place. */
static bool name_it(int fd, const char *path, const char *beside) {
  char self[32];
  (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
  for (int tries = 100; tries; tries--) {
    (void)unlink(beside); /* of one that was killed, or of another thread, which tries again */
    if (linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0) return true;
    if (errno != EEXIST) return false;
    const bool linked = linkat(AT_FDCWD, self, AT_FDCWD, beside, AT_SYMLINK_FOLLOW) == 0;
    const bool renamed = linked && rename(beside, path) == 0;
    const int number = errno;
    if (linked)
      (void)unlink(beside); /* rename leaves it where another thread has given this very file the
                               name `path` */
    if (renamed) return true;
    if (number != (linked ? ENOENT : EEXIST)) return false;
  }
  return false;
}

static bool put_nameless(const char *folder, const char *path, const char *beside, mode_t mode,
                         struct file_parts parts) {
  const int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
  const bool good = fd >= 0 && write_to_file(fd, parts) && name_it(fd, path, beside);
  if (fd >= 0) (void)close(fd);
  return good;
}

/* Where a file system has only files with names, or a process no /proc. Returns an errno. */
static int put_named(const char *path, const char *beside, mode_t mode, struct file_parts parts) {
  const int fd = open(beside, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) return errno;
  bool good = write_to_file(fd, parts);
  int number = errno;
  if (close(fd) && good) good = false, number = errno;
  if (good && rename(beside, path) == 0) return 0;
  if (good) number = errno;
  (void)unlink(beside);
  return number;
}

int mb_whole_file_put(const char *path, mode_t mode, const struct mb_slice *parts, size_t count) {
  const struct file_parts all = {parts, count};
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  const int length = (int)(name - path); /* of the folder with its slash */
  char *folder = NULL, *beside = NULL,
       *own = NULL; /* `beside`: of all that write there; `own`: of this thread */
  int number = ENOMEM;
  if (asprintf(&folder, "%.*s", length, path) < 0) folder = NULL;
  if (asprintf(&beside, "%.*s.%s.mblob-new", length, path, name) < 0) beside = NULL;
  if (asprintf(&own, "%.*s.%s.mblob-%d-%zx", length, path, name, (int)getpid(), (size_t)&own) < 0)
    own = NULL;
  if (folder && beside && own)
    number = put_nameless(length ? folder : ".", path, beside, mode, all)
                 ? 0
                 : put_named(path, own, mode, all);
  free(folder);
  free(beside);
  free(own);
  return number;
}
