/* Symbol versions (GNU): which the library needs of which other library, and which each of its
 * symbols has. glibc stops the process where they do not fit together. */
#include "base/base.h"
#include "elf/elf_internal.h"

#define INDEX_MASK (MB_ELF_HIDDEN - 1)
#define FIRST_INDEX 2u /* 0 is local, 1 global */
#define RECORD_LIMIT \
  (1u << 14) /* of both tables together: many records may lead to the same ones */

/* A version of glibc's: whoever needs it has relocations in DT_RELR. */
static const char of_packed[] = "GLIBC_ABI_DT_RELR";

static const char *string_at(const struct mb_elf *elf, uint64_t at) {
  return at < elf->strings_size ? elf->strings + at : NULL;
}

struct version_reader {
  const struct mb_elf *elf;
  unsigned left; /* records that may still be read, so a chain that goes in circles ends */
  unsigned highest;
  struct mb_map needed;              /* libraries, by their file names as DT_NEEDED has them */
  bool needs_libc, announces_packed; /* of glibc; by a version that stands for DT_RELR */
};

static int read_version_record(struct version_reader *r, uint64_t vaddr, void *out, size_t size) {
  uint64_t at = 0;
  if (!r->left--) return mb_elf_bad("there are too many versions");
  if (!mb_elf_offset(r->elf, vaddr, size, &at))
    return mb_elf_bad("the versions lie outside the file");
  memcpy(out, r->elf->data + at, size);
  return MBLOB_OK;
}

/* Many places may name the same long text, so texts of any length would be read over and over. */
static const char *needed_file_at(const struct mb_elf *elf, uint64_t at) {
  const char *name = string_at(elf, at);
  return name && strnlen(name, MB_ELF_NAME_LIMIT) < MB_ELF_NAME_LIMIT ? name : NULL;
}

static int read_needed(struct version_reader *r) {
  for (uint64_t i = 0; i < r->elf->dynamic_count; i++) {
    ElfW(Dyn) d = mb_elf_tag_at(r->elf, i);
    if (d.d_tag != DT_NEEDED) continue;
    const char *name = r->elf->strings + d.d_un.d_val;
    r->needs_libc |= strncmp(name, "libc.so.", 8) == 0;
    if (!mb_map_put(&r->needed, name, r)) return MBLOB_E_MEMORY;
  }
  return MBLOB_OK;
}

static void record_index(struct version_reader *r, unsigned index) {
  if ((index & INDEX_MASK) > r->highest) r->highest = index & INDEX_MASK;
}

/* The versions of one library. */
static int check_needed_versions(struct version_reader *r, uint64_t vaddr, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    ElfW(Vernaux) aux;
    int status = read_version_record(r, vaddr, &aux, sizeof(aux));
    if (status) return status;
    if (!string_at(r->elf, aux.vna_name) || (aux.vna_other & INDEX_MASK) < FIRST_INDEX)
      return mb_elf_bad("a version has no name or no number");
    r->announces_packed |= strcmp(r->elf->strings + aux.vna_name, of_packed) == 0;
    record_index(r, aux.vna_other);
    if ((aux.vna_next == 0) != (i == count - 1)) return mb_elf_bad("versions are miscounted");
    vaddr += aux.vna_next;
  }
  return count ? MBLOB_OK : mb_elf_bad("a library is named for no version of it");
}

/* The dynamic linker opens another file then, and ends the process where it looks for the
 * versions of this one. */
static bool is_expanded(const char *file) {
  for (; (file = strchr(file, '$')); file++)
    if (mb_elf_token(file, "ORIGIN") || mb_elf_token(file, "LIB") || mb_elf_token(file, "PLATFORM"))
      return true;
  return false;
}

static int check_needed(struct version_reader *r) {
  uint64_t vaddr = 0, count = mb_elf_tag_or_zero(r->elf, DT_VERNEEDNUM);
  if (!mb_elf_tag(r->elf, DT_VERNEED, &vaddr)) return MBLOB_OK;
  int status = read_needed(r);
  for (uint64_t i = 0; i < count && !status; i++) {
    ElfW(Verneed) need;
    status = read_version_record(r, vaddr, &need, sizeof(need));
    if (status) return status;
    const char *file = needed_file_at(r->elf, need.vn_file);
    if (need.vn_version != VER_NEED_CURRENT || !file || !mb_map_get(&r->needed, file))
      return mb_elf_bad("versions are needed of a library that is not needed");
    if (is_expanded(file))
      return mb_elf_bad("versions are needed of '%s', which dynamic linkers do not find", file);
    status = check_needed_versions(r, vaddr + need.vn_aux, need.vn_cnt);
    if (status) return status;
    if ((need.vn_next == 0) != (i == count - 1)) return mb_elf_bad("versions are miscounted");
    vaddr += need.vn_next;
  }
  if (status || !count) return status ? status : mb_elf_bad("versions are miscounted");
#ifdef __GLIBC__ /* it opens no such file; before 2.36 it does not relocate it */
  if (r->needs_libc && !r->announces_packed && mb_elf_tag(r->elf, DT_RELR, &vaddr))
    return mb_fail(
        MBLOB_E_INCOMPATIBLE,
        "it has packed relocations (DT_RELR) without the version %s, which glibc demands; "
        "link it without -z pack-relative-relocs, or with GNU ld",
        of_packed);
#endif
  return MBLOB_OK;
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

static int check_defined_versions(struct version_reader *r) {
  uint64_t vaddr = 0, count = mb_elf_tag_or_zero(r->elf, DT_VERDEFNUM);
  if (!mb_elf_tag(r->elf, DT_VERDEF, &vaddr)) return MBLOB_OK;
  for (uint64_t i = 0; i < count; i++) {
    ElfW(Verdef) def;
    ElfW(Verdaux) aux;
    int status = read_version_record(r, vaddr, &def, sizeof(def));
    if (!status)
      status = read_version_record(r, vaddr + def.vd_aux, &aux,
                                   sizeof(aux)); /* further ones name its parents */
    if (status) return status;
    if (def.vd_version != VER_DEF_CURRENT || !string_at(r->elf, aux.vda_name))
      return mb_elf_bad("a version has no name or no number");
    record_index(r, def.vd_ndx);
    if ((def.vd_next == 0) != (i == count - 1)) return mb_elf_bad("versions are miscounted");
    vaddr += def.vd_next;
  }
  return count ? MBLOB_OK : mb_elf_bad("versions are miscounted");
}

unsigned mb_elf_version(const struct mb_elf *elf, uint64_t i) {
  uint16_t version = 1;
  if (i < elf->version_count)
    memcpy(&version, elf->versions + i * sizeof(version), sizeof(version));
  return version;
}

int mb_elf_check_version(const struct mb_elf *elf, uint64_t i) {
  if (elf->versions && i >= elf->version_count)
    return mb_elf_bad("the versions lie outside the file");
  ElfW(Sym) symbol = mb_elf_symbol(elf, i);
  unsigned version = mb_elf_version(elf, i) & INDEX_MASK;
  if (version <= elf->highest_version) return MBLOB_OK;
  const char *name = mb_elf_symbol_name(elf, &symbol);
  return mb_elf_bad("the symbol '%s' has version %u, which it does not name", name, version);
}

int mb_elf_check_versions(struct mb_elf *elf) {
  uint64_t vaddr = 0, at = 0, ignored = 0;
  struct version_reader r = {.elf = elf, .left = RECORD_LIMIT, .highest = FIRST_INDEX - 1};
  int status = check_needed(&r);
  mb_map_free(&r.needed);
  if (!status) status = check_defined_versions(&r);
  elf->highest_version = r.highest;
  if (status || !mb_elf_tag(elf, DT_VERSYM, &vaddr)) return status;
  /* glibc looks versions up in a table that it makes of the two others. */
  if (!mb_elf_tag(elf, DT_VERNEED, &ignored) && !mb_elf_tag(elf, DT_VERDEF, &ignored))
    return mb_elf_bad("symbols have versions, and no table names these");
  if (!mb_elf_offset(elf, vaddr, sizeof(uint16_t), &at))
    return mb_elf_bad("the versions lie outside the file");
  elf->versions = elf->data + at;
  elf->version_count = mb_elf_bytes_from(elf, vaddr) / sizeof(uint16_t);
  for (uint64_t i = 0; i < elf->symbol_count && !status; i++) status = mb_elf_check_version(elf, i);
  return status;
}
