#define _GNU_SOURCE
#include "base/source_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/texts.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3: says that the memory file may be executed */
#endif

enum { READ_AHEAD = 2 << 20 }; /* bytes of a file; smaller ones may as well be read ahead whole */

static const struct mb_source nothing = {.fd = -1, .dir_fd = -1};

void mb_source_close(struct mb_source *source) {
  if (source->bytes) (void)munmap((void *)(uintptr_t)source->bytes, source->size);
  if (source->fd >= 0) (void)close(source->fd);
  if (source->dir_fd >= 0) (void)close(source->dir_fd);
  free(source->path);
  *source = nothing;
}

/* Map the open descriptor. `name`: for errors. */
static int map_file(struct mb_source *source, const char *name) {
  struct stat st;
  if (fstat(source->fd, &st) != 0) return mb_fail_errno(errno, "%s", name);
  if (!S_ISREG(st.st_mode))
    return mb_fail_errno(S_ISDIR(st.st_mode) ? EISDIR : ENOTSUP, "%s: a library is a regular file",
                         name);
  source->device = st.st_dev;
  source->inode = st.st_ino;
  source->changed = st.st_mtim;
  if (!st.st_size) return mb_fail_format("not_elf", 0, MB_UNKNOWN, "%s: " MB_TEXT_EMPTY, name);
  source->size = (size_t)st.st_size;
  void *bytes = mmap(NULL, source->size, PROT_READ, MAP_PRIVATE, source->fd, 0);
  if (bytes == MAP_FAILED)
    return mb_fail_errno(errno, "%s: cannot map %zu bytes", name, source->size);
  source->bytes = bytes;
  return MBLOB_OK;
}

static int finish_open(struct mb_source *source, const char *name) {
  int status = map_file(source, name);
  if (!status && !source->path) status = mb_fail_memory(0);
  if (status) mb_source_close(source);
  return status;
}

/* What the kernel calls an open file, "" for memory files and deleted ones. */
static char *path_of(int fd) {
  char link[64], path[4096];
  struct stat by_fd, by_path;
  (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof(path) - 1);
  path[size > 0 ? size : 0] = 0;
  bool same = path[0] == '/' && stat(path, &by_path) == 0 && fstat(fd, &by_fd) == 0 &&
              by_path.st_dev == by_fd.st_dev && by_path.st_ino == by_fd.st_ino;
  return strdup(same ? path : "");
}

int mb_source_open(const char *path, struct mb_source *out) {
  *out = nothing;
  /* Not blocking: a pipe of that name must fail, not wait for a writer. */
  out->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (out->fd < 0)
    return mb_fail_errno(errno, "%s: cannot be opened", *path ? path : "\"\" (an empty path)");
  out->path = realpath(path, NULL);
  if (!out->path) out->path = strdup(path);
  return finish_open(out, path);
}

int mb_source_open_fd(int fd, struct mb_source *out) {
  char name[32];
  *out = nothing;
  (void)snprintf(name, sizeof(name), "descriptor %d", fd);
  out->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (out->fd < 0) return mb_fail_errno(errno, "%s cannot be read", name);
  out->path = path_of(out->fd);
  return finish_open(out, out->path && *out->path ? out->path : name);
}

static int write_whole(int fd, const uint8_t *data, size_t size) {
  while (size) {
    ssize_t n = write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return mb_fail_errno(n ? errno : EIO, "memory file: cannot write %zu bytes", size);
    data += n;
    size -= (size_t)n;
  }
  return MBLOB_OK;
}

int mb_memory_file(const char *name) {
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
  return fd < 0 && errno == EINVAL ? memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING) : fd;
}

bool mb_memory_file_seal(int fd) {
  return fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0;
}

int mb_source_open_memory(const void *data, size_t size, struct mb_source *out) {
  *out = nothing;
  if (!size) return mb_fail_format("not_elf", 0, MB_UNKNOWN, "memory: " MB_TEXT_EMPTY);
  out->fd = mb_memory_file("mblob");
  if (out->fd < 0) return mb_fail_errno(errno, "memory: cannot make a memory file (memfd_create)");
  int status = write_whole(out->fd, data, size);
  if (!status && !mb_memory_file_seal(out->fd))
    status = mb_fail_errno(errno, "memory: cannot seal the memory file");
  if (status) {
    mb_source_close(out);
    return status;
  }
  out->path = strdup("");
  return finish_open(out, "memory");
}

void mb_source_prefetch(const uint8_t *start, size_t size) {
  uintptr_t at = (uintptr_t)start, page = at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
  (void)madvise((void *)page, size + (at - page), MADV_WILLNEED);
}

void mb_source_advise_random(const struct mb_source *source) {
  if (source->size < READ_AHEAD) return;
  (void)madvise((void *)(uintptr_t)source->bytes, source->size, MADV_RANDOM);
  mb_source_prefetch(source->bytes, MB_SOURCE_ENDS);
  mb_source_prefetch(source->bytes + source->size - MB_SOURCE_ENDS, MB_SOURCE_ENDS);
}
