#define _GNU_SOURCE
#include "base/pages.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"

enum {
  MAPPED = 32 << 10,    /* bytes from which a block is mapped */
  READ_AHEAD = 2 << 20, /* smaller files may as well be read ahead whole */
};

void *mb_pages_new(size_t size) {
  void *memory = size >= MAPPED
                     ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                     : calloc(1, size ? size : 1);
  if (memory && memory != MAP_FAILED) return memory;
  (void)mb_fail_memory(size);
  return NULL;
}

void mb_pages_free(void *memory, size_t size) {
  if (memory && size >= MAPPED)
    (void)munmap(memory, size);
  else
    free(memory);
}

void mb_pages_prefetch(const uint8_t *start, size_t size) {
  uintptr_t at = (uintptr_t)start, page = at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
  (void)madvise((void *)page, size + (at - page), MADV_WILLNEED);
}

void mb_pages_advise_random(const uint8_t *file, size_t size) {
  if (size < READ_AHEAD) return;
  (void)madvise((void *)(uintptr_t)file, size, MADV_RANDOM);
  mb_pages_prefetch(file, MB_PAGES_END);
  mb_pages_prefetch(file + size - MB_PAGES_END, MB_PAGES_END);
}
