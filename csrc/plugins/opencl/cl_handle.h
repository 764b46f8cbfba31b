/* cl_handle.h - what callers hold: memory and streams, as pointers that can be checked.
 *
 * Handles travel through compiled host code as `void *` and may be anything when they come back.
 * They are slots of tables that are never given back to the system, so a pointer is checked
 * without following it, and without a lock. */
#ifndef MB_CL_HANDLE_H
#define MB_CL_HANDLE_H

#include "cl_device.h"

enum mb_cl_kind { MB_CL_FREE = 0, MB_CL_MEMORY = 0x6d656d31, MB_CL_STREAM = 0x73747231 };

struct mb_cl_handle {
  _Atomic uint32_t kind; /* mb_cl_kind */
  int32_t device_id;
  void *object;  /* cl_mem, or cl_command_queue */
  uint64_t size; /* memory: bytes that were asked for */
  struct mb_cl_handle *next_free;
};

/* A new handle; MBLOB_E_MEMORY. */
int mb_cl_handle_new(enum mb_cl_kind kind, int device_id, void *object, uint64_t size,
                     struct mb_cl_handle **out);
/* The handle behind a pointer, NULL if it is none of that kind (any more). */
struct mb_cl_handle *mb_cl_handle_of(enum mb_cl_kind kind, const void *pointer);
/* Take the object out of it and make the pointer invalid; NULL if another thread was faster. */
void *mb_cl_handle_end(enum mb_cl_kind kind, struct mb_cl_handle *handle);
/* Visit the objects of all handles of a kind. */
void mb_cl_handle_visit(enum mb_cl_kind kind, void (*visit)(void *object));

#endif
