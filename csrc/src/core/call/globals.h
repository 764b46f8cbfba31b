/* globals.h - functions that the whole process knows by name. */
#ifndef MB_GLOBALS_H
#define MB_GLOBALS_H

#include <mblob.h>
#include <stdbool.h>
#include <stdint.h>

/* As mblob_register_global. */
int mb_global_register(const char *name, mblob_function *function, bool replace);
int mb_global_get(const char *name, mblob_function **out); /* NULL in *out if unknown; counted */
/* As mblob_get_global. */
int mb_global_need(const char *name, mblob_function **out);
/* Changes, upwards from 1, whenever a name gets another function. */
extern uint64_t mb_global_generation_now; /* the same, read atomically */
uint64_t mb_global_generation(void);
int mb_global_remove(const char *name);
/* All names, copied into one block of the heap. */
int mb_global_names(const char ***out, size_t *count);

#endif
