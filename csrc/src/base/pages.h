/* pages.h - zeroed memory for tables that may be large, and advice on mapped files. */
#ifndef MB_PAGES_H
#define MB_PAGES_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory; NULL when there is none (recorded). Pages of a large block cost nothing until
 * they are used. To be freed with the same size. */
void *mb_pages_new(size_t size);
void mb_pages_free(void *memory, size_t size);

#define MB_PAGES_END (256u << 10) /* bytes of each end of a file that are read at once */

/* A mapped file will be read here and there: no reading ahead, which fetches megabytes around
 * each byte of a cold file; but both ends at once, where headers and index are. Small files are
 * read as usual. */
void mb_pages_advise_random(const uint8_t *file, size_t size);
/* This part of a mapping will be read soon. */
void mb_pages_prefetch(const uint8_t *start, size_t size);

#endif
