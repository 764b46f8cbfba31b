#define _GNU_SOURCE
#include "exec/aot/profile.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "core/call/call.h"

struct row {
  char *function;
  uint64_t count;
  double seconds;
};

struct rows {
  struct row *items;
  size_t count, capacity;
  int status; /* of what could not be kept */
};

static int add_row(struct rows *rows, const char *function, double seconds) {
  size_t i = 0;
  while (i < rows->count && strcmp(rows->items[i].function, function) != 0) i++;
  if (i == rows->capacity) {
    size_t capacity = rows->capacity ? 2 * rows->capacity : 16;
    struct row *grown = realloc(rows->items, capacity * sizeof(*grown));
    if (!grown) return mb_fail_memory(capacity * sizeof(*grown));
    rows->items = grown;
    rows->capacity = capacity;
  }
  if (i == rows->count) {
    rows->items[i] = (struct row){.function = strdup(function)};
    if (!rows->items[i].function) return mb_fail_memory(strlen(function));
    rows->count++;
  }
  rows->items[i].count++;
  rows->items[i].seconds += seconds;
  return MBLOB_OK;
}

static void add_call(void *context, const mblob_function *function, double seconds) {
  struct rows *rows = context;
  if (!rows->status)
    rows->status = add_row(rows, function->name ? function->name : "a function", seconds);
}

static int return_aot_rows(const struct rows *rows, int64_t repeat, struct mb_call *call) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return mb_fail_memory(0);
  (void)fputc('[', out);
  for (size_t i = 0; i < rows->count; i++) {
    (void)fprintf(out, "%s{\"function\": ", i ? ", " : "");
    mb_json_put_text(out, rows->items[i].function);
    (void)fprintf(out, ", \"count\": %llu, \"seconds\": %.9g}",
                  (unsigned long long)rows->items[i].count,
                  rows->items[i].seconds / (double)repeat);
  }
  (void)fputc(']', out);
  return mb_call_return_stream(call, out, &text, &size);
}

int mb_aot_profile(mblob_function *entry, const TVMValue *args, const int *codes, int count,
                   int64_t repeat, struct mb_call *call) {
  struct rows rows = {0};
  const struct mb_call_watch watch = {add_call, &rows};
  int status = add_row(&rows, entry->name, 0);
  const struct mb_call_watch *before = mb_call_watch_begin(&watch);
  for (int64_t i = 0; !status && i < repeat; i++) {
    double start = mb_seconds_now();
    status = mblob_function_call(entry, args, codes, count, NULL, NULL);
    rows.items[0].seconds += mb_seconds_now() - start;
  }
  mb_call_watch_end(before);
  if (!status) status = rows.status;
  if (!status) rows.items[0].count = (uint64_t)repeat;
  if (!status) status = return_aot_rows(&rows, repeat, call);
  for (size_t i = 0; i < rows.count; i++) free(rows.items[i].function);
  free(rows.items);
  return status;
}
