/* source_file.h - the file under a library: opened once, and everything goes through that
 * descriptor. */
#ifndef MB_SOURCE_FILE_H
#define MB_SOURCE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct mb_source {
  int fd; /* owned; open as long as the library, because its name for the dynamic linker contains it
           */
  int dir_fd; /* owned; the file's folder where $ORIGIN needs it, else -1 */
  char *path; /* absolute, "" for memory */
  dev_t device;
  ino_t inode;
  struct timespec changed; /* when the content last changed (st_mtim) */
  const uint8_t *bytes;    /* mapping of the whole file */
  size_t size;
};

int mb_source_open(const char *path, struct mb_source *out);
/* `fd` stays the caller's. */
int mb_source_open_fd(int fd, struct mb_source *out);
/* A sealed memory file with a copy of the bytes. */
int mb_source_open_memory(const void *data, size_t size, struct mb_source *out);
void mb_source_close(struct mb_source *source);

#define MB_SOURCE_ENDS (256u << 10) /* bytes of each end of a file that are read at once */

/* A mapped file will be read here and there: no reading ahead, which fetches megabytes around
 * each byte of a cold file; but both ends at once, where headers and index are. Small files are
 * read as usual. */
void mb_source_advise_random(const struct mb_source *source);
/* This part of a mapping will be read soon. */
void mb_source_prefetch(const uint8_t *start, size_t size);

/* A memory file that may be executed, and its seals: nobody changes it any more. The descriptor
 * is the caller's; -1 with errno where there are no such files. */
int mb_memory_file(const char *name);
bool mb_memory_file_seal(int fd);

#endif
