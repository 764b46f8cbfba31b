#define _GNU_SOURCE
#include "whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct parts {
  const struct mb_slice *items;
  size_t count;
};

static bool write_all(int fd, struct parts parts) {
  for (size_t i = 0; i < parts.count; i++)
    for (struct mb_slice left = parts.items[i]; left.size;) {
      const ssize_t n = write(fd, left.data, left.size);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      left.data += n;
      left.size -= (size_t)n;
    }
  return true;
}

/* Give a file without a name that of `path`. Over another file it gets a second one first, which is the same for all that write
 * there: what has it is whole, so whoever finds it may remove it or put it into its place. */
static bool name_it(int fd, const char *path, const char *beside) {
  char self[32];
  (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
  (void)unlink(beside); /* of one that was killed */
  bool linked = linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0;
  if (linked || errno != EEXIST) return linked;
  for (int tries = 100; !linked && errno == EEXIST && tries; tries--) {
    (void)unlink(beside);
    linked = linkat(AT_FDCWD, self, AT_FDCWD, beside, AT_SYMLINK_FOLLOW) == 0;
  }
  if (!linked) return false;
  if (rename(beside, path) == 0 || errno == ENOENT) return true; /* or another did it */
  (void)unlink(beside);
  return false;
}

static bool put_nameless(const char *path, const char *beside, mode_t mode, struct parts parts) {
  const char *slash = strrchr(path, '/');
  char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
  const int fd = folder ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, mode) : -1;
  const bool good = fd >= 0 && write_all(fd, parts) && name_it(fd, path, beside);
  if (fd >= 0) (void)close(fd);
  free(folder);
  return good;
}

/* Where a file system has only files with names, or a process no /proc. Returns an errno. */
static int put_named(const char *path, const char *beside, mode_t mode, struct parts parts) {
  const int fd = open(beside, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) return errno;
  bool good = write_all(fd, parts);
  int number = errno;
  if (close(fd) && good) good = false, number = errno;
  if (good && rename(beside, path) == 0) return 0;
  if (good) number = errno;
  (void)unlink(beside);
  return number;
}

int mb_whole_file_put(const char *path, mode_t mode, const struct mb_slice *parts, size_t count) {
  const struct parts all = {parts, count};
  char *beside = NULL, *own = NULL; /* names: of all that write there, and of this thread */
  int number = ENOMEM;
  if (asprintf(&beside, "%s.new", path) < 0) return number;
  if (put_nameless(path, beside, mode, all)) {
    number = 0;
  } else if (asprintf(&own, "%s.%d-%zx.tmp", path, (int)getpid(), (size_t)&own) >= 0) {
    number = put_named(path, own, mode, all);
    free(own);
  }
  free(beside);
  return number;
}
