/* The hash tables of the dynamic symbols: DT_HASH (gABI, chapter 5) and DT_GNU_HASH. They say
 * how many symbols there are, and a symbol that they do not lead to does not exist for anybody:
 * damage to a word of them would take functions, or the table that tells plain ones, out of a
 * library. So each exported symbol is looked up. */
#include "elf/elf_internal.h"

typedef Elf_Symndx sysv_word; /* 64 bits wide on s390x, 32 elsewhere */

static int not_led_to(const struct mb_elf *elf, uint64_t i) {
  ElfW(Sym) symbol = mb_elf_symbol(elf, i);
  return mb_elf_bad("the hash table does not lead to the symbol '%s'",
                    mb_elf_symbol_name(elf, &symbol));
}

/* The exported symbols, by index: how many, and which is the first and the last. */
struct exported {
  uint64_t count, first, last;
};

/* Symbols of one bucket. The dynamic linker goes through them for each relocation; linkers make
 * buckets for some 2 to 100. */
#define CHAIN_LIMIT 4096u

static int too_long(void) {
  return mb_elf_bad("a hash chain has more than %u symbols", CHAIN_LIMIT);
}

static uint32_t word_at(const struct mb_elf *elf, uint64_t offset) {
  uint32_t word;
  memcpy(&word, elf->data + offset, sizeof(word));
  return word;
}

/* ---- DT_HASH: u32 buckets, chains; buckets x u32 first symbol; chains x u32 next symbol ------ */

struct sysv_table {
  uint64_t buckets, chains, at; /* `at`: offset of the first bucket */
};

static uint64_t sysv_at(const struct mb_elf *elf, uint64_t offset, uint64_t i) {
  sysv_word word;
  memcpy(&word, elf->data + offset + i * sizeof(word), sizeof(word));
  return word;
}

static bool find_sysv(const struct mb_elf *elf, uint64_t vaddr, struct sysv_table *out) {
  const uint64_t word = sizeof(sysv_word);
  uint64_t at = 0;
  if (!mb_elf_offset(elf, vaddr, 2 * word, &at)) return false;
  *out = (struct sysv_table){sysv_at(elf, at, 0), sysv_at(elf, at, 1), at + 2 * word};
  const uint64_t most = elf->size / word;
  return out->buckets && out->buckets <= most && out->chains <= most &&
         mb_elf_offset(elf, vaddr, word * (2 + out->buckets + out->chains), &at);
}

int mb_elf_sysv_hash(struct mb_elf *elf, uint64_t vaddr, uint64_t *count) {
  struct sysv_table table;
  if (!find_sysv(elf, vaddr, &table)) return mb_elf_bad("the hash table lies outside the file");
  for (uint64_t i = 0; i < table.buckets + table.chains; i++)
    if (sysv_at(elf, table.at, i) >= (table.chains ? table.chains : 1))
      return mb_elf_bad("the hash table names no symbol");
  *count = table.chains;
  elf->hash_size = sizeof(sysv_word) * (2 + table.buckets + table.chains);
  return MBLOB_OK;
}

static uint32_t sysv_hash(const char *name) {
  uint32_t hash = 0;
  for (const uint8_t *c = (const uint8_t *)name; *c; c++) {
    hash = (hash << 4) + *c;
    hash ^= hash >> 24 & 0xf0;
  }
  return hash & 0x0fffffff;
}

/* Walk all chains, which are as long as there are symbols: more steps are a circle. */
static int check_sysv(const struct mb_elf *elf, uint64_t vaddr, const struct exported *exported) {
  struct sysv_table table;
  uint64_t steps = 0, found = 0;
  if (!find_sysv(elf, vaddr, &table)) return mb_elf_bad("the hash table lies outside the file");
  for (uint64_t bucket = 0; bucket < table.buckets; bucket++) {
    uint64_t i = sysv_at(elf, table.at, bucket), end = steps + CHAIN_LIMIT;
    for (; i; i = sysv_at(elf, table.at, table.buckets + i)) {
      if (++steps > table.chains) return mb_elf_bad("a hash chain has no end");
      if (steps > end) return too_long();
      ElfW(Sym) symbol = mb_elf_symbol(elf, i);
      if (!mb_elf_is_exported(&symbol)) continue;
      if (sysv_hash(elf->strings + symbol.st_name) % table.buckets != bucket)
        return not_led_to(elf, i);
      found++;
    }
  }
  return found == exported->count
             ? MBLOB_OK
             : mb_elf_bad("the hash table does not lead to all exported symbols");
}

/* ---- DT_GNU_HASH: u32 buckets, first symbol, words of the filter, its shift; filter; buckets;- */

struct gnu_table {
  uint64_t buckets, first, words, shift;
  uint64_t filter, bucket, chain; /* offsets */
};

static bool find_gnu(const struct mb_elf *elf, uint64_t vaddr, struct gnu_table *out) {
  uint64_t at = 0;
  if (!mb_elf_offset(elf, vaddr, 16, &at)) return false;
  *out = (struct gnu_table){.buckets = word_at(elf, at),
                            .first = word_at(elf, at + 4),
                            .words = word_at(elf, at + 8),
                            .shift = word_at(elf, at + 12)};
  uint64_t head = 16 + out->words * sizeof(ElfW(Addr));
  out->filter = at + 16;
  out->bucket = at + head;
  out->chain = out->bucket + 4 * out->buckets;
  return mb_elf_offset(elf, vaddr, head + 4 * out->buckets, &at);
}

/* The highest symbol of any bucket, then along its chain to the end. */
static int count_gnu(const struct mb_elf *elf, uint64_t vaddr, uint64_t *count) {
  struct gnu_table table;
  uint64_t last = 0, at = 0;
  if (!find_gnu(elf, vaddr, &table)) return mb_elf_bad("the hash table lies outside the file");
  if (!table.buckets || !table.words || (table.words & (table.words - 1)))
    return mb_elf_bad("the hash table has an impossible shape");
  for (uint64_t i = 0; i < table.buckets; i++) {
    uint64_t symbol = word_at(elf, table.bucket + 4 * i);
    if (symbol && symbol < table.first) return mb_elf_bad("the hash table names no symbol");
    if (symbol > last) last = symbol;
  }
  *count = table.first;
  if (last < table.first)
    return MBLOB_OK; /* nothing is exported, and how many are undefined is not told */
  uint64_t chain = vaddr + (table.chain - table.filter) + 16;
  for (;; last++) {
    if (!mb_elf_offset(elf, chain + 4 * (last - table.first), 4, &at))
      return mb_elf_bad("a hash chain has no end");
    if (word_at(elf, at) & 1) break;
  }
  *count = last + 1;
  return MBLOB_OK;
}

int mb_elf_gnu_hash(struct mb_elf *elf, uint64_t vaddr, uint64_t *count) {
  struct gnu_table table;
  int status = count_gnu(elf, vaddr, count);
  if (!status && find_gnu(elf, vaddr, &table))
    elf->gnu_hash_size = table.chain - table.filter + 16 + 4 * (*count - table.first);
  return status;
}

static uint32_t gnu_hash(const char *name) {
  uint32_t hash = 5381;
  for (const uint8_t *c = (const uint8_t *)name; *c; c++) hash = hash * 33 + *c;
  return hash;
}

static bool passes_filter(const struct mb_elf *elf, const struct gnu_table *table, uint32_t hash) {
  const uint32_t bits = 8 * sizeof(ElfW(Addr));
  ElfW(Addr) word;
  memcpy(&word, elf->data + table->filter + (hash / bits & (table->words - 1)) * sizeof(word),
         sizeof(word));
  return table->shift < 32 && (word >> hash % bits & 1) &&
         (word >> (hash >> table->shift) % bits & 1);
}

/* Symbols from `first` on lie in the order of their buckets; a chain word is the hash, its
 * lowest bit the end of the chain. */
static int check_gnu(const struct mb_elf *elf, uint64_t vaddr, const struct exported *exported) {
  struct gnu_table table;
  uint64_t end = 0, length = 0, going_on = 0; /* the bucket whose chain goes on, plus one */
  int status = count_gnu(elf, vaddr, &end);
  if (status) return status;
  if (!find_gnu(elf, vaddr, &table)) return mb_elf_bad("the hash table lies outside the file");
  if (exported->count && exported->first < table.first) return not_led_to(elf, exported->first);
  if (exported->count && exported->last >= end) return not_led_to(elf, exported->last);
  uint64_t size = table.chain - table.filter + 16, at = 0;
  if (end > table.first && !mb_elf_offset(elf, vaddr, size + 4 * (end - table.first), &at))
    return mb_elf_bad("the hash table lies outside the file");
  for (uint64_t i = table.first; i < end; i++) {
    ElfW(Sym) symbol = mb_elf_symbol(elf, i);
    uint32_t hash = gnu_hash(elf->strings + symbol.st_name);
    uint32_t word = word_at(elf, table.chain + 4 * (i - table.first));
    uint64_t bucket = hash % table.buckets;
    bool starts = word_at(elf, table.bucket + 4 * bucket) == i;
    bool belongs = going_on ? going_on == bucket + 1 : starts;
    if ((word ^ hash) >> 1 || !belongs || !passes_filter(elf, &table, hash))
      return not_led_to(elf, i);
    going_on = word & 1 ? 0 : bucket + 1;
    length = word & 1 ? 0 : length + 1;
    if (length >= CHAIN_LIMIT) return too_long();
  }
  return MBLOB_OK;
}

/* ---- both ------------------------------------------------------------------------------------ */

/* Symbols that the section header of the table counts, if there is one: a chain that ends too
 * early hides all behind it, and nothing that the dynamic linker reads tells. */
static uint64_t symbols_of_section(const struct mb_elf *elf) {
  uint64_t symbols = (uint64_t)(elf->symbols - elf->data);
  ElfW(Shdr) section;
  for (unsigned i = 0; mb_elf_section(elf, i, &section); i++) {
    uint64_t count = section.sh_size / sizeof(ElfW(Sym));
    if (section.sh_type == SHT_DYNSYM && section.sh_offset == symbols && count <= elf->symbol_limit)
      return count;
  }
  return 0;
}

static int find_exported(const struct mb_elf *elf, struct exported *out) {
  uint64_t count = symbols_of_section(elf), budget = 8 * elf->strings_size + (1 << 16);
  for (uint64_t i = 1; i < elf->symbol_count || i < count; i++) {
    ElfW(Sym) symbol = mb_elf_symbol(elf, i);
    if (i < elf->symbol_count) { /* of which the names were checked; many with one long name are an
                                    attack */
      uint64_t size = strnlen(elf->strings + symbol.st_name, mb_size(budget));
      if (size >= budget)
        return mb_elf_bad("the names of its symbols add up to more than 8 times their table");
      budget -= size;
    }
    if (!mb_elf_is_exported(&symbol)) continue;
    if (!out->count++) out->first = i;
    out->last = i;
  }
  return MBLOB_OK;
}

int mb_elf_check_hashes(const struct mb_elf *elf) {
  struct exported exported = {0, 0, 0};
  uint64_t vaddr = 0;
  int status = find_exported(elf, &exported);
  if (!status && mb_elf_tag(elf, DT_GNU_HASH, &vaddr)) status = check_gnu(elf, vaddr, &exported);
  if (!status && mb_elf_tag(elf, DT_HASH, &vaddr)) status = check_sysv(elf, vaddr, &exported);
  return status;
}
