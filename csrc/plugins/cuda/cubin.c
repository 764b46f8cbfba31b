#define _GNU_SOURCE
#include "cubin.h"

#include <elf.h>

#include "base/base.h"

enum {
  EM_CUDA_MACHINE = 190,
  STO_CUDA_ENTRY = 0x10,
  EIATTR_KPARAM_INFO = 0x17,
  EIATTR_KPARAM_INFO_V2 = 0x45,
  EIFMT_SVAL = 4
};

bool cubin_is(struct mb_slice code) {
  return code.size >= SELFMAG && memcmp(code.data, ELFMAG, SELFMAG) == 0;
}

/* ---- the file -------------------------------------------------------------------------------- */

static Elf64_Ehdr header_of(struct mb_slice code) {
  Elf64_Ehdr header;
  memcpy(&header, code.data, sizeof(header));
  return header;
}

static Elf64_Shdr section_at(struct mb_slice code, uint64_t i) {
  Elf64_Shdr section;
  memcpy(&section, code.data + header_of(code).e_shoff + i * sizeof(section), sizeof(section));
  return section;
}

static bool has_bytes(const Elf64_Shdr *s) {
  return s->sh_type != SHT_NOBITS && s->sh_type != SHT_NULL;
}

int cubin_check(struct mb_slice code) {
  if (code.size < sizeof(Elf64_Ehdr)) return cuda_cut_short("cubin", sizeof(Elf64_Ehdr), code.size);
  const Elf64_Ehdr header = header_of(code);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_CUDA_MACHINE)
    return mb_fail_format("payload", -1, -1,
                          "cuda: the code is an ELF file of machine %u, a cubin has %d",
                          header.e_machine, EM_CUDA_MACHINE);
  if ((header.e_shnum && header.e_shentsize != sizeof(Elf64_Shdr)) ||
      (header.e_phnum && header.e_phentsize != sizeof(Elf64_Phdr)))
    return mb_fail_format("payload", -1, -1,
                          "cuda: the cubin's tables have entries of %u and %u bytes",
                          header.e_shentsize, header.e_phentsize);
  uint64_t sections = (uint64_t)header.e_shnum * sizeof(Elf64_Shdr),
           segments = (uint64_t)header.e_phnum * sizeof(Elf64_Phdr);
  if (!cuda_lies_inside(header.e_shoff, sections, code.size))
    return cuda_cut_short("cubin", header.e_shoff, code.size);
  if (!cuda_lies_inside(header.e_phoff, segments, code.size))
    return cuda_cut_short("cubin", header.e_phoff, code.size);
  for (uint64_t i = 0; i < header.e_shnum; i++) {
    const Elf64_Shdr section = section_at(code, i);
    if (has_bytes(&section) && !cuda_lies_inside(section.sh_offset, section.sh_size, code.size))
      return cuda_cut_short("cubin", section.sh_offset, code.size);
  }
  return MBLOB_OK;
}

/* The bytes of a section; none of one that is not there. */
static struct mb_slice bytes_of(struct mb_slice code, uint64_t i) {
  if (i >= header_of(code).e_shnum) return (struct mb_slice){NULL, 0};
  const Elf64_Shdr section = section_at(code, i);
  return has_bytes(&section) ? (struct mb_slice){code.data + section.sh_offset, section.sh_size}
                             : (struct mb_slice){NULL, 0};
}

/* The text at an offset of a table of strings; empty where the table does not hold it to its
 * end. */
static struct mb_slice text_at(struct mb_slice table, uint64_t offset) {
  if (offset >= table.size) return (struct mb_slice){NULL, 0};
  const uint8_t *from = table.data + offset, *end = memchr(from, 0, (size_t)(table.size - offset));
  return (struct mb_slice){from, end ? (uint64_t)(end - from) : 0};
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* The attributes of a kernel, .nv.info.NAME: u8 format, u8 attribute, u16 value; format 4
 * (SVAL): value bytes follow. Of a parameter: u32 index, u16 ordinal, u16 offset, u32 whose bits
 * from 18 on are its size; version 2, of kernels that take more than 4 KiB: the low 16 bits. */
static void read_parameters(struct mb_slice info, struct cuda_code_kernel *found) {
  found->has_parameters = true;
  for (uint64_t at = 0; info.size - at >= 4;) {
    const uint8_t *a = info.data + at;
    const uint64_t size = a[0] == EIFMT_SVAL ? (uint64_t)a[2] | (uint64_t)a[3] << 8 : 0;
    at += 4;
    if (size > info.size - at) return;
    if (size >= 12 && (a[1] == EIATTR_KPARAM_INFO || a[1] == EIATTR_KPARAM_INFO_V2)) {
      const uint32_t word = mb_u32_at(a + 12);
      cuda_add_parameter(found, (size_t)a[8] | (size_t)a[9] << 8,
                         a[1] == EIATTR_KPARAM_INFO ? word >> 18 : word & 0xffff, CUDA_ANY);
    }
    at += size;
  }
}

static bool is_info_of(struct mb_slice section, const char *kernel) {
  static const char prefix[] = ".nv.info.";
  const size_t head = sizeof(prefix) - 1;
  if (section.size < head || memcmp(section.data, prefix, head) != 0) return false;
  return mb_slice_is((struct mb_slice){section.data + head, section.size - head}, kernel);
}

/* The attributes are found by the section's name, as the driver does. */
static void read_attributes(struct mb_slice code, struct cuda_code_kernel *found) {
  const Elf64_Ehdr header = header_of(code);
  const struct mb_slice names = bytes_of(code, header.e_shstrndx);
  for (uint64_t i = 0; i < header.e_shnum; i++)
    if (is_info_of(text_at(names, section_at(code, i).sh_name), found->kernel->name)) {
      read_parameters(bytes_of(code, i), found);
      return;
    }
}

static void read_symbols(struct mb_slice symbols, struct mb_slice names,
                         struct cuda_code_kernel *found) {
  for (uint64_t at = 0; symbols.size - at >= sizeof(Elf64_Sym); at += sizeof(Elf64_Sym)) {
    Elf64_Sym s;
    memcpy(&s, symbols.data + at, sizeof(s));
    if (s.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(s.st_info) == STT_FUNC &&
        (s.st_other & STO_CUDA_ENTRY))
      cuda_add_kernel(found, text_at(names, s.st_name));
  }
}

void cubin_read_kernels(struct mb_slice code, struct cuda_code_kernel *found) {
  const uint64_t count = header_of(code).e_shnum;
  bool has_symbols = false;
  for (uint64_t i = 0; i < count; i++) {
    const Elf64_Shdr section = section_at(code, i);
    if (section.sh_type != SHT_SYMTAB) continue;
    has_symbols = true;
    read_symbols(bytes_of(code, i), bytes_of(code, section.sh_link), found);
  }
  if (!has_symbols) found->has_unreadable_parts = true;
  if (found->is_there && !found->has_parameters) read_attributes(code, found);
}
