#include "base/json_text.h"

void mb_json_put_text(FILE *out, const char *text) {
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
