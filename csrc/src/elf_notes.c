/* The notes by which a library says what mblob put into it (docs/format.md, section 6). */
#include "elf_file.h"

static const char owner[] = "mblob"; /* with its NUL */

/* Notes pad name and descriptor to 4 bytes; in segments aligned to 8 (GNU properties) to 8. */
static uint64_t padded(uint64_t size, uint64_t align) { return (size + align - 1) & ~(align - 1); }

/* One of our descriptors: version, flags, CRC-32 of the table of functions. */
static void add(struct mb_announced *out, const uint8_t *descriptor, uint64_t size) {
  uint32_t words[3] = {0, 0, 0};
  memcpy(words, descriptor, size < sizeof(words) ? size : sizeof(words));
  if (words[0] < 1) return;
  if (words[1] & ~out->flags & MB_NOTE_HAS_TABLE) out->table_crc = words[2];
  out->flags |= words[1];
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
      add(out, p + desc, note.n_descsz);
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
