#include "format/function_table.h"

#include <stdlib.h>

#include "base/base.h"

#define FIRST_LINE "mblob functions 1"
#define NOTES "mblob notes 1\n"
enum { FIELDS = 5 };                /* and a prototype, which may be missing */
enum { LONGEST_NOTE = 4096 };       /* bytes of one that an error shows */
#define ALIGNMENT_LIMIT (1ul << 20) /* bytes */

static int bad_line(const char *what, size_t line) {
  return mb_fail_format("function_table", MB_UNKNOWN, MB_UNKNOWN, "%s: line %zu %s",
                        MB_FUNCTION_TABLE_SYMBOL, line, what);
}

/* Split `line` at its TABs into FIELDS fields, in place. One more may stand behind them. */
static bool split(char *line, char *fields[FIELDS + 1]) {
  for (int i = 0; i < FIELDS; i++) {
    fields[i] = line;
    line += strcspn(line, "\t");
    fields[FIELDS] = line;
    if (!*line) return i == FIELDS - 1;
    *line++ = 0;
  }
  fields[FIELDS] = line;
  return !strchr(line, '\t');
}

static int read_row(char *line, size_t number, struct mb_function_row *row) {
  char *fields[FIELDS + 1], *end;
  if (!split(line, fields)) return bad_line("has neither five nor six fields", number);
  row->name = fields[0];
  row->symbol = fields[1];
  row->packed = strcmp(fields[2], "packed") == 0;
  row->types = fields[4];
  row->prototype = fields[FIELDS];
  if (!*row->name || !*row->symbol) return bad_line("has no name or no symbol", number);
  if (!row->packed && strcmp(fields[2], "plain") != 0)
    return bad_line("is neither plain nor packed", number);
  if (fields[3][0] < '0' || fields[3][0] > '9') return bad_line("has no alignment", number);
  unsigned long alignment = strtoul(fields[3], &end, 10);
  if (*end || alignment > ALIGNMENT_LIMIT || (alignment & (alignment - 1)))
    return bad_line("has an alignment that is no power of two up to 2^20", number);
  row->alignment = (uint32_t)alignment;
  return 0;
}

static int read_rows(struct mb_function_table *table, size_t lines) {
  char *line = table->text, *next;
  table->rows = calloc(lines ? lines : 1, sizeof(*table->rows));
  if (!table->rows) return mb_fail_memory(lines * sizeof(*table->rows));
  for (size_t number = 1; line && *line; number++, line = next) {
    next = strchr(line, '\n');
    if (next) *next++ = 0;
    int status = number > 1 ? read_row(line, number, &table->rows[table->count++])
                 : strcmp(line, FIRST_LINE) != 0 ? bad_line("is not '" FIRST_LINE "'", number)
                                                 : 0;
    if (status) return status;
  }
  return table->text[0] ? 0 : bad_line("is not '" FIRST_LINE "'", 1);
}

/* What may be notes behind `size` bytes of a table. They are for people: what is none is left out, when
 * somebody asks for it. */
static struct mb_slice notes_behind(struct mb_slice bytes, size_t size) {
  const size_t head = sizeof(NOTES) - 1;
  const struct mb_slice left = {bytes.data + size, bytes.size - size};
  if (left.size <= head || memcmp(left.data, NOTES, head) != 0) return (struct mb_slice){0};
  return (struct mb_slice){left.data + head, left.size - head};
}

struct mb_slice mb_function_table_note(const struct mb_function_table *table, const char *symbol) {
  const char *line = (const char *)table->notes.data, *next;
  const char *end = table->notes.size ? memchr(line, 0, mb_size(table->notes.size)) : NULL;
  const size_t size = strlen(symbol);
  if (!end) return (struct mb_slice){0};
  for (; line < end; line = next + 1) {
    next = memchr(line, '\n', (size_t)(end - line));
    if (!next) next = end;
    if ((size_t)(next - line) <= size || memcmp(line, symbol, size) != 0 || line[size] != '\t')
      continue;
    const char *origin = line + size + 1;
    const char *text = memchr(origin, '\t', (size_t)(next - origin));
    if (text && next - text < LONGEST_NOTE &&
        mb_is_utf8((const uint8_t *)text, (size_t)(next - text)))
      return (struct mb_slice){(const uint8_t *)text + 1, (uint64_t)(next - text - 1)};
  }
  return (struct mb_slice){0};
}

int mb_function_table_missing(const char *who) {
  return mb_fail_format("function_table_missing", MB_UNKNOWN, MB_UNKNOWN,
                        "its %s announces a table of functions, but " MB_FUNCTION_TABLE_SYMBOL
                        " is missing: the library is damaged, or its symbols were edited",
                        who);
}

static int check_crc(const uint8_t *data, size_t size, const uint32_t *expected) {
  uint32_t crc = expected ? mb_crc32(0, data, size) : 0;
  if (!expected || crc == *expected) return MBLOB_OK;
  return mb_fail_digest(MB_UNKNOWN,
                        "%s: CRC-32 %08x, its note says %08x: the table of functions is damaged",
                        MB_FUNCTION_TABLE_SYMBOL, crc, *expected);
}

int mb_function_table_read(struct mb_slice bytes, const uint32_t *crc,
                           struct mb_function_table *out) {
  *out = (struct mb_function_table){0};
  const uint8_t *end = bytes.size ? memchr(bytes.data, 0, mb_size(bytes.size)) : NULL;
  if (!end) return bad_line("goes on without a terminating NUL", 1);
  size_t size = (size_t)(end - bytes.data), lines = 1;
  int status = check_crc(bytes.data, size + 1, crc);
  if (status) return status;
  if (!mb_is_utf8(bytes.data, size)) return bad_line("or a later one is not UTF-8", 1);
  for (size_t i = 0; i < size; i++) lines += bytes.data[i] == '\n';
  out->text = malloc(size + 1);
  if (!out->text) return mb_fail_memory(size + 1);
  memcpy(out->text, bytes.data, size + 1);
  out->notes = notes_behind(bytes, size + 1);
  status = read_rows(out, lines);
  if (status) mb_function_table_free(out);
  return status;
}

void mb_function_table_free(struct mb_function_table *table) {
  free(table->text);
  free(table->rows);
  *table = (struct mb_function_table){0};
}

const struct mb_function_row *mb_function_table_find(const struct mb_function_table *table,
                                                     const char *name, bool packed) {
  for (size_t i = 0; i < table->count; i++)
    if (table->rows[i].packed == packed && strcmp(table->rows[i].name, name) == 0)
      return &table->rows[i];
  return NULL;
}

const struct mb_function_row *mb_function_table_symbol(const struct mb_function_table *table,
                                                       const char *symbol) {
  for (size_t i = 0; i < table->count; i++)
    if (strcmp(table->rows[i].symbol, symbol) == 0) return &table->rows[i];
  return NULL;
}
