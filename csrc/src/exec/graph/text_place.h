/* text_place.h - where in the JSON of a graph an error is. */
#ifndef MB_GRAPH_TEXT_PLACE_H
#define MB_GRAPH_TEXT_PLACE_H

#include <stdbool.h>

#include "base/base.h"
#include "exec/graph/graph_text.h"

struct mb_text_place {
  const char *node;   /* where the object of the node begins that is read, the last one of the text;
                         else NULL */
  bool in_attributes; /* of that node, else of the graph */
  bool has_found;     /* the error itself tells what was found */
  struct mb_slice key; /* size 0: between two members */
  int64_t item;        /* of the list that is the key's value; -1: none */
};

#define MB_TEXT_NOWHERE ((struct mb_text_place){.item = -1})

/* Record the error of `j`: the node that it is about, the key and what was found there.
 * MBLOB_E_FORMAT. */
int mb_graph_text_fail(const struct mb_json *j, const struct mb_graph_text *text,
                       const struct mb_text_place *place);

#endif
