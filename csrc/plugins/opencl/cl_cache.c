#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64 /* files of 64-bit inode numbers, where `long` has 32 */
#include "cl_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

/* A file: 8 bytes `mblobcl1`, the key, SHA-256 of the program, the program. */
static const char magic[8] = {'m', 'b', 'l', 'o', 'b', 'c', 'l', '1'};
enum { HEADER = 8 + 32 + 32, LARGEST = 1 << 28 }; /* bytes */

/* ---- where ----------------------------------------------------------------------------------- */

static bool folder(char *path, size_t size) {
  const char *off = getenv("MBLOB_CACHE"), *own = getenv("MBLOB_CACHE_DIR"),
             *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int used;
  if (off && strcmp(off, "0") == 0) return false;
  if (own && *own)
    used = snprintf(path, size, "%s/opencl", own);
  else if (xdg &&
           *xdg == '/') /* relative ones are to be ignored: XDG Base Directory Specification */
    used = snprintf(path, size, "%s/mblob/opencl", xdg);
  else if (home && *home == '/')
    used = snprintf(path, size, "%s/.cache/mblob/opencl", home);
  else
    return false;
  return used > 0 && (size_t)used < size;
}

bool mb_cl_cache_is_on(void) {
  char path[4096];
  return folder(path, sizeof(path));
}

/* Room for a name of a file behind the folder. */
static bool path_of(const struct mb_cl_key *key, char *path, size_t size) {
  if (!folder(path, size - 80)) return false;
  size_t used = strlen(path);
  path[used++] = '/';
  for (size_t i = 0; i < sizeof(key->digest); i++)
    used += (size_t)sprintf(path + used, "%02x", key->digest[i]);
  return true;
}

/* All folders on the way to the file. */
static void make_folders(const char *file) {
  char path[4096];
  (void)snprintf(path, sizeof(path), "%s", file);
  for (char *end = strchr(path + 1, '/'); end; end = strchr(end + 1, '/')) {
    *end = 0;
    (void)mkdir(path, 0700);
    *end = '/';
  }
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool read_all(int fd, uint8_t *to, size_t size) {
  while (size) {
    const ssize_t n = read(fd, to, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    size -= (size_t)n;
  }
  return true;
}

/* Code of another user would run as ours. */
static bool is_trusted(const struct stat *st) {
  return S_ISREG(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

static bool is_intact(const struct mb_cl_key *key, const uint8_t *file, size_t size) {
  uint8_t digest[32];
  if (memcmp(file, magic, 8) != 0 || memcmp(file + 8, key->digest, 32) != 0) return false;
  mb_sha256(file + HEADER, size - HEADER, digest);
  return memcmp(file + 40, digest, 32) == 0;
}

bool mb_cl_cache_load(const struct mb_cl_key *key, uint8_t **out, size_t *size) {
  char path[4096];
  struct stat st;
  if (!path_of(key, path, sizeof(path))) return false;
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) return false;
  uint8_t *file = NULL;
  bool good = fstat(fd, &st) == 0 && is_trusted(&st) && st.st_size > HEADER &&
              st.st_size <= LARGEST && (file = malloc((size_t)st.st_size)) != NULL &&
              read_all(fd, file, (size_t)st.st_size) && is_intact(key, file, (size_t)st.st_size);
  (void)close(fd);
  if (good) {
    *size = (size_t)st.st_size - HEADER;
    memmove(file, file + HEADER, *size);
    *out = file;
  } else {
    free(file);
  }
  return good;
}

/* ---- writing --------------------------------------------------------------------------------- */

void mb_cl_cache_store(const struct mb_cl_key *key, const uint8_t *data, size_t size) {
  char path[4096];
  uint8_t header[HEADER];
  if (!size || !path_of(key, path, sizeof(path))) return;
  make_folders(path);
  memcpy(header, magic, 8);
  memcpy(header + 8, key->digest, 32);
  mb_sha256(data, size, header + 40);
  const struct mb_slice parts[] = {{header, sizeof(header)}, {data, size}};
  (void)mb_whole_file_put(path, 0600, parts, 2);
}
