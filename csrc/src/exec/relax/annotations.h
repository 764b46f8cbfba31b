/* annotations.h - what programs expect of tensors, and the texts that say so (annotations.c). */
#ifndef MB_RELAX_ANNOTATIONS_H
#define MB_RELAX_ANNOTATIONS_H

#include "base/base.h"

#define RELAX_ANY ((int64_t)-1) /* a dimension, or the number of them, that may vary */

struct relax_expected {
  bool has_type;
  DLDataType dtype;
  int64_t rank;
  int64_t shape[MB_NDIM_LIMIT];
};

/* True if two types are one; an 8-bit float has one of two names. */
bool relax_same_dtype(DLDataType a, DLDataType b);

enum relax_annotated {
  RELAX_ANNOTATED_TENSOR,
  RELAX_ANNOTATED_TUPLE,
  RELAX_ANNOTATED_NOTHING, /* any value */
  RELAX_ANNOTATED_OTHER    /* neither a tensor nor a tuple */
};

/* True if the text is about an argument of the function; its number, which may be any, and its
 * annotation, with what stands behind that. */
bool relax_annotation_find(struct mb_slice text, const char *function, int64_t *argument,
                           struct mb_slice *out);
/* The kind of an annotation. That of a tensor or tuple becomes the text inside its parentheses, with what
 * stands behind that. */
enum relax_annotated relax_annotation_kind(struct mb_slice *text);
/* The next item of such a text; false at its end. */
bool relax_annotation_next(struct mb_slice *list, struct mb_slice *item);
/* What the text of a tensor says. */
void relax_annotation_tensor(struct mb_slice text, struct relax_expected *out);

#endif
