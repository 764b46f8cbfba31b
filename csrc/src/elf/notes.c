/* The notes by which a library says what mblob put into it (docs/format.md, section 6). */
#include "elf/elf_internal.h"

static const char owner[] = "mblob"; /* with its NUL */

/* Notes pad name and descriptor to 4 bytes; in segments aligned to 8 (GNU properties) to 8. */
static uint64_t padded(uint64_t size, uint64_t align) { return (size + align - 1) & ~(align - 1); }

/* One of our descriptors: version, flags, CRC-32 of the table of functions. */
static void add_announced(struct mb_announced *out, const uint8_t *descriptor, uint64_t size) {
  uint32_t words[3] = {0, 0, 0};
  memcpy(words, descriptor, mb_size(size < sizeof(words) ? size : sizeof(words)));
  if (words[0] < 1) return;
  if (words[1] & ~out->flags & MB_NOTE_HAS_TABLE) out->table_crc = words[2];
  out->flags |= words[1];
}

/* A property in the note of properties: type, size, data, padded to a word. They are read one
 * behind the other, by sizes that the linker holds against the note alone; the note's own it
 * does not check. */
static bool properties_fit(const uint8_t *p, uint64_t size) {
  for (uint64_t at = 0; size - at >= 8;) {
    uint32_t length;
    memcpy(&length, p + at + 4, sizeof(length));
    if (length > size - at - 8) return false;
    uint64_t step = 8 + padded(length, sizeof(ElfW(Addr)));
    if (step > size - at) return false;
    at += step;
  }
  return true;
}

/* The linker reads notes that are aligned to words. */
static bool notes_fit(const struct mb_elf *elf, const ElfW(Phdr) * s) {
  static const char gnu[4] = "GNU";
  uint64_t align = sizeof(ElfW(Addr));
  for (uint64_t at = 0; s->p_align == align && s->p_memsz - at > sizeof(ElfW(Nhdr));) {
    ElfW(Nhdr) note;
    const uint8_t *p = elf->data + s->p_offset + at;
    memcpy(&note, p, sizeof(note));
    uint64_t desc = padded(sizeof(note) + (uint64_t)note.n_namesz, align), left = s->p_memsz - at;
    if (desc > left || note.n_descsz > left - desc) return false;
    bool properties = note.n_namesz == sizeof(gnu) && note.n_type == NT_GNU_PROPERTY_TYPE_0 &&
                      memcmp(p + sizeof(note), gnu, sizeof(gnu)) == 0;
    if (properties && !properties_fit(p + desc, note.n_descsz)) return false;
    uint64_t total = padded(desc + (uint64_t)note.n_descsz, align);
    if (total > left) break;
    at += total;
  }
  return true;
}

int mb_elf_check_notes(const struct mb_elf *elf) {
  for (unsigned i = 0; i < elf->header.e_phnum; i++) {
    ElfW(Phdr) s = mb_elf_segment(elf, i);
    if ((s.p_type == PT_NOTE || s.p_type == PT_GNU_PROPERTY) && !notes_fit(elf, &s))
      return mb_fail_format("elf_header", MB_UNKNOWN, MB_UNKNOWN,
                            "segment %u has notes that end outside of it", i);
  }
  return MBLOB_OK;
}

static void read_segment(const struct mb_elf *elf, const ElfW(Phdr) * s, struct mb_announced *out) {
  uint64_t align = s->p_align == 8 ? 8 : 4, at = 0;
  while (s->p_filesz - at >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    const uint8_t *p = elf->data + s->p_offset + at;
    memcpy(&note, p, sizeof(note));
    uint64_t desc = padded(sizeof(note) + (uint64_t)note.n_namesz, align);
    uint64_t total = padded(desc + (uint64_t)note.n_descsz, align);
    if (desc > s->p_filesz - at || note.n_descsz > s->p_filesz - at - desc) break;
    if (note.n_type == 1 && note.n_namesz == sizeof(owner) && note.n_descsz >= 8 &&
        memcmp(p + sizeof(note), owner, sizeof(owner)) == 0)
      add_announced(out, p + desc, note.n_descsz);
    if (total > s->p_filesz - at) break;
    at += total;
  }
}

struct mb_announced mb_elf_announced(const struct mb_elf *elf) {
  struct mb_announced out = {0, 0};
  for (unsigned i = 0; i < elf->header.e_phnum; i++) {
    ElfW(Phdr) s = mb_elf_segment(elf, i);
    if (s.p_type == PT_NOTE) read_segment(elf, &s, &out);
  }
  return out;
}
