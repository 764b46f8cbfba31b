/* Symbol versions (GNU): which the library needs of which other library, and which each of its symbols has.
 * glibc stops the process where they do not fit together. */
#include "elf_file.h"
#include "error.h"

#define INDEX_MASK 0x7FFFu /* the bit above means hidden */
#define FIRST_INDEX 2u     /* 0 is local, 1 global */
#define RECORD_LIMIT (1u << 14) /* of all tables together: many records may lead to the same ones */

static int bad(const char *text) { return mb_elf_bad_dynamic("%s", text); }

static const char *string_at(const struct mb_elf *elf, uint64_t at) {
  return at < elf->strings_size ? elf->strings + at : NULL;
}

/* A needed library, as its file name is written in DT_NEEDED. */
static bool is_needed(const struct mb_elf *elf, const char *name) {
  for (uint64_t i = 0; i < elf->dynamic_count; i++) {
    ElfW(Dyn) d = mb_elf_tag_at(elf, i);
    const char *needed = d.d_tag == DT_NEEDED ? string_at(elf, d.d_un.d_val) : NULL;
    if (needed && strcmp(needed, name) == 0) return true;
  }
  return false;
}

/* The versions of one library; entries are counted, so a chain that goes in circles ends. */
static int check_needed_versions(const struct mb_elf *elf, uint64_t vaddr, unsigned count,
                                 unsigned *highest) {
  for (unsigned i = 0; i < count; i++) {
    ElfW(Vernaux) aux;
    uint64_t at = 0;
    if (!mb_elf_offset(elf, vaddr, sizeof(aux), &at)) return bad("needed versions lie outside the file");
    memcpy(&aux, elf->data + at, sizeof(aux));
    if (!string_at(elf, aux.vna_name)) return bad("a version has no name");
    unsigned index = aux.vna_other & INDEX_MASK;
    if (index < FIRST_INDEX) return bad("a needed version has no number");
    if (index > *highest) *highest = index;
    if ((aux.vna_next == 0) != (i == count - 1)) return bad("needed versions are miscounted");
    vaddr += aux.vna_next;
  }
  return count ? MBLOB_OK : bad("a library is named for no version of it");
}

static int check_needed(const struct mb_elf *elf, unsigned *highest) {
  uint64_t vaddr = 0, count = mb_elf_tag_or_zero(elf, DT_VERNEEDNUM), parts = 0;
  if (!mb_elf_tag(elf, DT_VERNEED, &vaddr)) return count ? bad("needed versions have no table") : MBLOB_OK;
  if (count > RECORD_LIMIT) return bad("there are too many needed versions");
  for (uint64_t i = 0; i < count; i++) {
    ElfW(Verneed) need;
    uint64_t at = 0;
    if (!mb_elf_offset(elf, vaddr, sizeof(need), &at)) return bad("needed versions lie outside the file");
    memcpy(&need, elf->data + at, sizeof(need));
    const char *file = string_at(elf, need.vn_file);
    if (need.vn_version != VER_NEED_CURRENT || !file || !is_needed(elf, file))
      return bad("versions are needed of a library that is not needed");
    parts += need.vn_cnt;
    if (parts > RECORD_LIMIT) return bad("there are too many needed versions");
    int status = check_needed_versions(elf, vaddr + need.vn_aux, need.vn_cnt, highest);
    if (status) return status;
    if ((need.vn_next == 0) != (i == count - 1)) return bad("needed versions are miscounted");
    vaddr += need.vn_next;
  }
  return count ? MBLOB_OK : bad("needed versions are miscounted");
}

bool mb_elf_needs_versions(const struct mb_elf *elf, bool (*of)(const char *file)) {
  uint64_t vaddr = 0, at = 0, count = mb_elf_tag_or_zero(elf, DT_VERNEEDNUM);
  for (bool found = mb_elf_tag(elf, DT_VERNEED, &vaddr); found && count; count--) {
    ElfW(Verneed) need;
    if (!mb_elf_offset(elf, vaddr, sizeof(need), &at)) return false;
    memcpy(&need, elf->data + at, sizeof(need));
    const char *file = string_at(elf, need.vn_file);
    if (file && of(file)) return true;
    vaddr += need.vn_next;
  }
  return false;
}

static int check_defined(const struct mb_elf *elf, unsigned *highest) {
  uint64_t vaddr = 0, count = mb_elf_tag_or_zero(elf, DT_VERDEFNUM);
  if (!mb_elf_tag(elf, DT_VERDEF, &vaddr)) return count ? bad("defined versions have no table") : MBLOB_OK;
  if (count > RECORD_LIMIT) return bad("there are too many defined versions");
  for (uint64_t i = 0; i < count; i++) {
    ElfW(Verdef) def;
    ElfW(Verdaux) aux;
    uint64_t at = 0;
    if (!mb_elf_offset(elf, vaddr, sizeof(def), &at)) return bad("defined versions lie outside the file");
    memcpy(&def, elf->data + at, sizeof(def));
    if (def.vd_version != VER_DEF_CURRENT || !mb_elf_offset(elf, vaddr + def.vd_aux, sizeof(aux), &at))
      return bad("defined versions lie outside the file");
    memcpy(&aux, elf->data + at, sizeof(aux));
    if (!string_at(elf, aux.vda_name)) return bad("a version has no name");
    if ((def.vd_ndx & INDEX_MASK) > *highest) *highest = def.vd_ndx & INDEX_MASK;
    if ((def.vd_next == 0) != (i == count - 1)) return bad("defined versions are miscounted");
    vaddr += def.vd_next;
  }
  return count ? MBLOB_OK : bad("defined versions are miscounted");
}

int mb_elf_check_version(const struct mb_elf *elf, uint64_t i, unsigned highest) {
  uint64_t vaddr = 0, at = 0;
  uint16_t version;
  if (!mb_elf_tag(elf, DT_VERSYM, &vaddr)) return MBLOB_OK;
  if (!mb_elf_offset(elf, vaddr + i * sizeof(version), sizeof(version), &at))
    return bad("the versions of symbols lie outside the file");
  memcpy(&version, elf->data + at, sizeof(version));
  return (version & INDEX_MASK) > highest ? bad("a symbol has a version that is none") : MBLOB_OK;
}

int mb_elf_check_versions(const struct mb_elf *elf, unsigned *highest) {
  *highest = FIRST_INDEX - 1;
  uint64_t vaddr = 0, ignored = 0;
  int status = check_needed(elf, highest);
  if (!status) status = check_defined(elf, highest);
  if (status || !mb_elf_tag(elf, DT_VERSYM, &vaddr)) return status;
  /* glibc looks versions up in a table that it makes of the two others. */
  if (!mb_elf_tag(elf, DT_VERNEED, &ignored) && !mb_elf_tag(elf, DT_VERDEF, &ignored))
    return bad("symbols have versions, and no table names these");
  for (uint64_t i = 0; i < elf->symbol_count && !status; i++) status = mb_elf_check_version(elf, i, *highest);
  return status;
}
