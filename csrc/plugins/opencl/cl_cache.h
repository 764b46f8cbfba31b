/* cl_cache.h - programs as the driver compiled them, kept in files between processes.
 *
 * In $MBLOB_CACHE_DIR, else $XDG_CACHE_HOME/mblob, else $HOME/.cache/mblob, in the folder
 * `opencl`; MBLOB_CACHE=0 turns it off. It never fails: what cannot be read, is damaged or
 * belongs to another user is not there, and what cannot be written is not kept. */
#ifndef MB_CL_CACHE_H
#define MB_CL_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mb_cl_key {
  uint8_t digest[32]; /* SHA-256 of everything that decides about the program */
};

/* True if there is a folder for it. */
bool mb_cl_cache_is_on(void);
/* `out` is the caller's to free. */
bool mb_cl_cache_load(const struct mb_cl_key *key, uint8_t **out, size_t *size);
/* Appears whole, or not at all. */
void mb_cl_cache_store(const struct mb_cl_key *key, const uint8_t *data, size_t size);

#endif
