/* halves.h - float16 and bfloat16 where the processor does not compute with them: the graph is one of float32,
 * whose constants are converted by __init_, and the inputs and outputs of calls in each call. */
#ifndef DN_HALVES_H
#define DN_HALVES_H

#include "graph.h"
#include "onednn.h"

/* Make the tensors of such types float32. Nothing changes the second time. */
void dn_graph_widen(struct dn_graph *graph, const struct dn_library *library);

/* Convert between float32 and one of the others; `fast`: by the instructions of AVX2. */
void dn_convert(const void *from, enum dn_type from_type, void *to, enum dn_type to_type,
                uint64_t count, bool fast);

#endif
