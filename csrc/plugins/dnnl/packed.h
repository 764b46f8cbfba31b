/* packed.h - constants in the formats that primitives asked for, stored in a library beside the graph:
 * a module of the key dnnl_packed, which the one of the graph imports.
 *
 * They are used where they lie, in the mapping of the file, by an oneDNN of the same version that uses
 * the same instructions. Each is for one constant with these very bytes, in this very format; what
 * differs is reordered as if nothing was stored. Payload, integers little-endian:
 *
 *   "mbdnnl1\0", u64 digest of what follows up to the data, u64 where the data begins
 *   string library, string instructions   (of who packed: "oneDNN 3.2.0", "0xfff")
 *   u64 count, count x {u64 constant, u64 digest of its bytes, u64 digest of the formats from and to,
 *                       u64 offset, u64 size, u64 digest of its data}
 *   the data, each at a multiple of 64 bytes */
#ifndef DN_PACKED_H
#define DN_PACKED_H

#include "build.h"

#define DN_PACKED_KEY "dnnl_packed"
/* The function of a module that gives its struct dn_packed as a handle. Its number changes with the
 * struct: another copy of the plug-in may ask. */
#define DN_PACKED_FUNCTION "__dnnl_packed_1"

struct dn_packed_row {
  uint64_t constant, source, format, offset, size, check;
};

struct dn_packed {
  const uint8_t *payload;
  char library[64], instructions[32];
  uint64_t count;
  struct dn_packed_row rows[];
};

/* Read and check a payload, which stays where it is. A mblob_status; free(*out). */
int dn_packed_read(const void *payload, uint64_t size, struct dn_packed **out);
/* What was packed by such a library on such a processor, else NULL. */
const struct dn_packed *dn_packed_that_fits(const struct dn_packed *packed,
                                            const struct dn_library *library);

/* What is known of the constants of a graph while its plan is made. */
struct dn_packing {
  const struct dn_packed *packed; /* may be NULL */
  bool records;                   /* note what is reordered */
  struct dn_packed_row *made;     /* `offset` is the number of the constant in the plan */
  size_t made_count, made_capacity;
  uint64_t *digests; /* of the constants that were looked at; 0: not yet */
};

/* A constant in the format to->md from what is packed; false if it is not there, or damaged. */
bool dn_packing_use(struct dn_build *build, const struct dn_operand *from, struct dn_operand *to);
/* Note that a constant was reordered. A mblob_status. */
int dn_packing_note(struct dn_build *build, const struct dn_operand *from,
                    const struct dn_operand *to);
/* The payload with all that was noted, on the heap. A mblob_status. */
int dn_packing_write(const struct dn_packing *packing, const struct dn_plan *plan, char **out,
                     size_t *size);
void dn_packing_free(struct dn_packing *packing);

#endif
