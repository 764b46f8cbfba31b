/* elements.h - arguments and elements of the functions of this room. */
#ifndef MB_CONTRIB_ELEMENTS_H
#define MB_CONTRIB_ELEMENTS_H

#include "core/call/call.h"
#include "exec/common/common.h"

/* A number as it is compared: whole numbers stay exact. */
struct mb_number {
  enum { MB_WHOLE, MB_UNSIGNED, MB_REAL } kind;
  union {
    int64_t whole;
    uint64_t natural;
    double real;
  } u;
};

/* A compact tensor of the host in argument `i`; `*size`: elements. */
int mb_element_tensor(const struct mb_call *call, int i, DLTensor **out, size_t *size);
static inline char *mb_element_data(const DLTensor *t) { return (char *)t->data + t->byte_offset; }
static inline size_t mb_element_size(DLDataType dtype) { return ((size_t)dtype.bits + 7) / 8; }
/* True if elements of the type can be read as numbers. */
bool mb_element_is_number(DLDataType dtype);
struct mb_number mb_element_read(const char *data, size_t i, DLDataType dtype);
/* A NaN is larger than all numbers, as in numpy. */
bool mb_number_less(struct mb_number a, struct mb_number b);

/* Positions 0 .. count - 1 in the stable order that `less` says; `spare` has as much room. */
void mb_stable_sort(size_t *positions, size_t *spare, size_t count,
                    bool (*less)(const void *context, size_t a, size_t b), const void *context);

#endif
