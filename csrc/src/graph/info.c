#define _GNU_SOURCE
#include "graph/info.h"

#include <stdlib.h>

#include "executor/tensors.h"

void mb_graph_put_text(FILE *out, const char *text) {
  (void)fputc('"', out);
  for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
    if (*p == '"' || *p == '\\') (void)fputc('\\', out);
    if (*p < 0x20)
      (void)fprintf(out, "\\u%04x", *p);
    else
      (void)fputc(*p, out);
  }
  (void)fputc('"', out);
}

static void put_name(FILE *out, const struct mb_graph *g, bool outputs, uint32_t i) {
  const uint32_t *entries = outputs ? g->outputs : g->inputs;
  const char *node = g->nodes[g->entries[entries[i]].node].name;
  char *name = NULL;
  if (outputs && asprintf(&name, "%s:%u", node, i) < 0) return;
  mb_graph_put_text(out, outputs ? name : node);
  free(name);
}

/* One of the two objects: shapes, or element types. */
static void put_object(FILE *out, const struct mb_graph_executor *x, bool outputs, bool shapes) {
  const struct mb_graph *g = &x->graph;
  const char *comma = "";
  for (uint32_t i = 0; i < (outputs ? g->output_count : g->input_count); i++) {
    if (!outputs && x->is_parameter[i]) continue;
    const struct mb_graph_entry *e = &g->entries[outputs ? g->outputs[i] : g->inputs[i]];
    char dtype[MB_DTYPE_TEXT];
    (void)fputs(comma, out);
    put_name(out, g, outputs, i);
    if (shapes) {
      (void)fputs(": [", out);
      for (int32_t k = 0; k < e->ndim; k++)
        (void)fprintf(out, "%s%lld", k ? ", " : "", (long long)e->shape[k]);
      (void)fputs("]", out);
    } else {
      (void)fprintf(out, ": \"%s\"", mb_dtype_text(e->dtype, dtype));
    }
    comma = ", ";
  }
}

static char *info(const struct mb_graph_executor *x, bool outputs) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return NULL;
  (void)fputs("{\"shape\": {", out);
  put_object(out, x, outputs, true);
  (void)fputs("}, \"dtype\": {", out);
  put_object(out, x, outputs, false);
  (void)fputs("}}", out);
  (void)fclose(out);
  return text;
}

char *mb_graph_input_info(const struct mb_graph_executor *x) { return info(x, false); }
char *mb_graph_output_info(const struct mb_graph_executor *x) { return info(x, true); }
