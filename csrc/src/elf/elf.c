#define _GNU_SOURCE
#include "elf/elf_internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include "base/base.h"

#if __SIZEOF_POINTER__ == 8
#define NATIVE_CLASS ELFCLASS64
#else
#define NATIVE_CLASS ELFCLASS32
#endif
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NATIVE_DATA ELFDATA2LSB
#else
#define NATIVE_DATA ELFDATA2MSB
#endif

#if defined(__x86_64__)
#define NATIVE_MACHINE EM_X86_64
#elif defined(__i386__)
#define NATIVE_MACHINE EM_386
#elif defined(__aarch64__)
#define NATIVE_MACHINE EM_AARCH64
#elif defined(__arm__)
#define NATIVE_MACHINE EM_ARM
#elif defined(__riscv)
#define NATIVE_MACHINE EM_RISCV
#elif defined(__powerpc64__)
#define NATIVE_MACHINE EM_PPC64
#elif defined(__s390x__)
#define NATIVE_MACHINE EM_S390
#elif defined(__loongarch__)
#define NATIVE_MACHINE 258
#else
#error "name the ELF machine of this processor here"
#endif

static const struct {
  uint16_t number;
  char name[10];
} machines[] = {{EM_386, "i386"},        {EM_ARM, "arm"},     {EM_X86_64, "x86_64"},
                {EM_AARCH64, "aarch64"}, {EM_RISCV, "riscv"}, {EM_PPC64, "ppc64"},
                {EM_PPC, "ppc"},         {EM_S390, "s390x"},  {EM_MIPS, "mips"},
                {258, "loongarch"},      {164, "hexagon"},    {EM_BPF, "bpf"}};

static const char *machine_name(unsigned number, char buffer[32]) {
  for (size_t i = 0; i < sizeof(machines) / sizeof(*machines); i++)
    if (machines[i].number == number) return machines[i].name;
  (void)snprintf(buffer, 32, "machine %u", number);
  return buffer;
}

static int truncated(const struct mb_elf *elf, uint64_t at, const char *what, uint64_t size) {
  return mb_fail_format("elf_truncated", (int64_t)(at > INT64_MAX ? INT64_MAX : at), MB_UNKNOWN,
                        "%s needs %llu bytes, the file ends at %llu" MB_TEXT_CUT_OFF, what,
                        (ull)size, (ull)elf->size);
}

static bool in_file(const struct mb_elf *elf, uint64_t offset, uint64_t size) {
  return size <= elf->size && offset <= elf->size - size;
}

/* ---- header ---------------------------------------------------------------------------------- */

static int check_machine(unsigned class, unsigned data, unsigned machine) {
  char found[32], native[32];
  if (class == NATIVE_CLASS && data == NATIVE_DATA && machine == NATIVE_MACHINE) return MBLOB_OK;
  return mb_fail_coded(MBLOB_E_INCOMPATIBLE, "elf_machine",
                       "built for %s, %u-bit, %s endian; this machine is %s, %u-bit, %s endian: "
                       "build the library for this machine",
                       machine_name(machine, found), 32 * class,
                       data == ELFDATA2LSB ? "little" : "big", machine_name(NATIVE_MACHINE, native),
                       32u * NATIVE_CLASS, NATIVE_DATA == ELFDATA2LSB ? "little" : "big");
}

static int read_elf_header(struct mb_elf *elf) {
  const uint8_t *d = elf->data;
  if (elf->size < 4 || memcmp(d, ELFMAG, SELFMAG) != 0)
    return mb_fail_format("not_elf", 0, MB_UNKNOWN,
                          elf->size ? "not an ELF file" MB_TEXT_PACKED_FIRST : MB_TEXT_EMPTY);
  if (elf->size < EI_NIDENT) return truncated(elf, elf->size, "an ELF identification", EI_NIDENT);
  unsigned class = d[EI_CLASS], data = d[EI_DATA];
  if (class < 1 || class > 2 || data < 1 || data > 2 || d[EI_VERSION] != EV_CURRENT)
    return mb_fail_format("elf_header", EI_CLASS, MB_UNKNOWN,
                          "class %u, data encoding %u, version %u are not known", class, data,
                          d[EI_VERSION]);
  uint64_t header_size = class == ELFCLASS64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr);
  if (elf->size < header_size) return truncated(elf, EI_NIDENT, "header", header_size);
  unsigned machine =
      data == ELFDATA2LSB ? d[18] | (unsigned)d[19] << 8 : d[19] | (unsigned)d[18] << 8;
  int status = check_machine(class, data, machine);
  if (status) return status;
  memcpy(&elf->header, d, sizeof(elf->header));
  if (elf->header.e_type == ET_EXEC)
    return mb_fail_format("elf_header", 16, MB_UNKNOWN, "an executable; link it with -shared");
  if (elf->header.e_type != ET_DYN)
    return mb_fail_format("elf_header", 16, MB_UNKNOWN,
                          "ELF type %u, a shared library has %d: link it with -shared",
                          elf->header.e_type, ET_DYN);
  if (elf->header.e_version != EV_CURRENT)
    return mb_fail_format("elf_header", 20, MB_UNKNOWN, "version %u is not known",
                          elf->header.e_version);
  for (unsigned i = EI_ABIVERSION + 1; i < EI_NIDENT; i++) /* glibc refuses the file */
    if (d[i])
      return mb_fail_format("elf_header", i, MB_UNKNOWN, "the padding of e_ident is %u, expected 0",
                            d[i]);
  return MBLOB_OK;
}

/* ---- segments -------------------------------------------------------------------------------- */

ElfW(Phdr) mb_elf_segment(const struct mb_elf *elf, unsigned i) {
  ElfW(Phdr) segment;
  memcpy(&segment, elf->segments + i * sizeof(segment), sizeof(segment));
  return segment;
}

static int segment_error(unsigned i, const char *text) {
  return mb_fail_format("elf_header", MB_UNKNOWN, MB_UNKNOWN, "segment %u %s", i, text);
}

/* One PT_LOAD as the dynamic linker will map it, in whole pages; `*next` is the lowest address
 * that it may start at. */
static int check_load(const ElfW(Phdr) * s, unsigned i, uint64_t *next) {
  uint64_t align = s->p_align > 1 ? s->p_align : 1;
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  const uint64_t limit = UINT64_C(1) << (sizeof(void *) == 8 ? 46 : 31);
  if (align & (align - 1)) return segment_error(i, "has an alignment that is no power of two");
  if (align > limit) return segment_error(i, "has an impossible alignment");
  /* Linkers may ask for more than a page; the dynamic linker maps pages. */
  if ((s->p_vaddr - s->p_offset) & ((align < page ? align : page) - 1))
    return segment_error(i, "has an address unlike its offset");
  if (s->p_filesz > s->p_memsz)
    return segment_error(i, "has more bytes in the file than in memory");
  if (s->p_filesz < s->p_memsz && !(s->p_flags & PF_W))
    return segment_error(i, "is read-only, but not all in the file");
  if (!(s->p_flags & PF_R)) return segment_error(i, "cannot be read");
  /* The linker maps from the first to the last segment and puts the others inside: order and
   * size matter. */
  if (s->p_vaddr < *next)
    return segment_error(i, "starts before the end of the pages of the one in front of it");
  if (s->p_memsz > limit || s->p_vaddr > limit - s->p_memsz)
    return segment_error(i, "has impossible addresses");
  *next = s->p_vaddr + s->p_memsz;
  if (s->p_memsz && align >= page) *next = (*next + page - 1) / page * page;
  return MBLOB_OK;
}

/* True if another loaded segment has some of the same bytes of the file. */
static bool shares_bytes(const struct mb_elf *elf, unsigned i, const ElfW(Phdr) * s) {
  for (unsigned k = 0; k < i; k++) {
    ElfW(Phdr) other = mb_elf_segment(elf, k);
    if (other.p_type == PT_LOAD && s->p_offset < other.p_offset + other.p_filesz &&
        other.p_offset < s->p_offset + s->p_filesz)
      return true;
  }
  return false;
}

/* What becomes read-only after loading: pages of one writable segment, and the hole behind it up to
 * the next segment, which the dynamic linker has mapped, too. It rounds both ends down to pages;
 * linkers round the end up, to the pages of any machine, and mold counts bytes of the page in front.
 * Zeros that are not in the file lie behind it, unless it is all of the segment. */
static bool is_in_data_pages(const struct mb_elf *elf, const ElfW(Phdr) * relro) {
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), size = relro->p_memsz;
  const uint64_t last = (relro->p_vaddr + size) / page * page;
  bool found = false;
  for (unsigned i = 0; i < elf->header.e_phnum; i++) {
    ElfW(Phdr) s = mb_elf_segment(elf, i);
    if (s.p_type != PT_LOAD) continue;
    if (found) return last <= s.p_vaddr / page * page; /* the next one */
    const uint64_t end = s.p_vaddr + s.p_memsz, in_file = s.p_vaddr + s.p_filesz + page - 1;
    if (!(s.p_flags & PF_W) || relro->p_vaddr < s.p_vaddr / page * page || relro->p_vaddr >= end)
      continue;
    if (size > UINT64_MAX - relro->p_vaddr) return false;
    if (last > in_file / page * page && relro->p_vaddr + size < end) return false;
    if (last <= (end + page - 1) / page * page) return true;
    found = true;
  }
  return false;
}

/* Bytes per thread that a library may ask for. */
#define TLS_LIMIT (1u << 28)
#define TLS_ALIGN_LIMIT (1u << 20)

/* True if memory at the segment's address holds its `size` bytes of the file. */
static bool is_mapped(const struct mb_elf *elf, const ElfW(Phdr) * s, uint64_t size) {
  uint64_t at = 0;
  return mb_elf_offset(elf, s->p_vaddr, size, &at) && at == s->p_offset;
}

/* Thread-local storage: the linker divides by the alignment, and takes address 0 for no data. */
static int check_tls(const struct mb_elf *elf, unsigned i, const ElfW(Phdr) * s) {
  if (s->p_filesz > s->p_memsz || s->p_memsz > TLS_LIMIT || !s->p_align ||
      s->p_align > TLS_ALIGN_LIMIT || (s->p_align & (s->p_align - 1)))
    return segment_error(i, "has impossible thread storage");
  return !s->p_filesz || (s->p_vaddr && is_mapped(elf, s, s->p_filesz))
             ? MBLOB_OK
             : segment_error(i, "lies outside the library");
}

/* What the segment of the dynamic section must be. glibc writes into it, from 2.35 on only if
 * PT_DYNAMIC says that it may; on mips and riscv it never does. */
static uint32_t dynamic_flags(const ElfW(Phdr) * s) {
#if defined(__GLIBC__) && !defined(__mips__) && !defined(__riscv)
  if (s->p_flags & PF_W || strverscmp(gnu_get_libc_version(), "2.35") < 0) return PF_W;
#endif
  (void)s;
  return 0;
}

/* A segment that is a part of loaded ones, or leads to something that is. */
static int check_part(const struct mb_elf *elf, unsigned i) {
  ElfW(Phdr) s = mb_elf_segment(elf, i);
  switch (s.p_type) {
    case PT_TLS: return check_tls(elf, i, &s);
    case PT_DYNAMIC:
      return mb_elf_is_loaded(elf, s.p_vaddr, s.p_memsz, dynamic_flags(&s))
                 ? MBLOB_OK
                 : segment_error(
                       i,
                       "is not writable, and dynamic linkers write into it; link without -z rodynamic");
    case PT_GNU_RELRO:
      return is_in_data_pages(elf, &s) ? MBLOB_OK
                                       : segment_error(i, "makes other things read-only than data");
    case PT_PHDR: /* the linker reads program headers there, not at e_phoff */
      return s.p_offset == elf->header.e_phoff &&
                     is_mapped(elf, &s, elf->header.e_phnum * sizeof(s))
                 ? MBLOB_OK
                 : segment_error(i, "(PT_PHDR) does not point to the program headers");
    case PT_NOTE:
    case PT_GNU_PROPERTY:
      return s.p_filesz == s.p_memsz && is_mapped(elf, &s, s.p_memsz)
                 ? MBLOB_OK
                 : segment_error(i, "has notes that are not loaded");
    case PT_GNU_EH_FRAME:
      return is_mapped(elf, &s, s.p_memsz) ? MBLOB_OK
                                           : segment_error(i, "has no tables for exceptions");
    default: return MBLOB_OK;
  }
}

static int check_parts(struct mb_elf *elf) {
  const unsigned once = 1u << PT_DYNAMIC | 1u << PT_TLS | 1u << PT_PHDR;
  unsigned found = 0;
  for (unsigned i = 0; i < elf->header.e_phnum; i++) {
    ElfW(Phdr) s = mb_elf_segment(elf, i);
    int status = check_part(elf, i);
    if (status) return status;
    if (s.p_type == PT_TLS) elf->tls = s;
    const unsigned type = s.p_type <= PT_TLS ? once & 1u << s.p_type : 0;
    if (found & type) return segment_error(i, "is there twice");
    found |= type;
  }
  return MBLOB_OK;
}

/* The linker reads no section headers; but they end the file, so a file that was cut lacks them.
 * More than fit the header are counted in the first of them. */
static int check_sections(const struct mb_elf *elf) {
  const ElfW(Ehdr) *h = &elf->header;
  ElfW(Shdr) first = {0};
  if (!h->e_shoff || h->e_shentsize != sizeof(first)) return MBLOB_OK;
  if (!h->e_shnum) {
    if (!in_file(elf, h->e_shoff, sizeof(first)))
      return truncated(elf, h->e_shoff, "section header 0", sizeof(first));
    memcpy(&first, elf->data + h->e_shoff, sizeof(first));
  }
  uint64_t count = h->e_shnum ? h->e_shnum : first.sh_size;
  if (count > elf->size / sizeof(first) || !in_file(elf, h->e_shoff, count * sizeof(first)))
    return truncated(elf, h->e_shoff, "the table of section headers", count * sizeof(first));
  return MBLOB_OK;
}

/* The dynamic linker copies them onto the stack. Libraries have some ten. */
#define SEGMENT_LIMIT 1024u

bool mb_elf_section(const struct mb_elf *elf, unsigned i, ElfW(Shdr) * out) {
  const ElfW(Ehdr) *h = &elf->header;
  if (!h->e_shoff || h->e_shentsize != sizeof(*out) || i >= h->e_shnum) return false;
  memcpy(out, elf->data + h->e_shoff + i * sizeof(*out), sizeof(*out));
  return true;
}

static int read_segments(struct mb_elf *elf) {
  const ElfW(Ehdr) *h = &elf->header;
  uint64_t next = 0, loads = 0;
  if (!h->e_phnum || h->e_phnum > SEGMENT_LIMIT)
    return mb_fail_format("elf_header", offsetof(ElfW(Ehdr), e_phnum), MB_UNKNOWN,
                          "%u program headers, a shared library has 1 to %u", h->e_phnum,
                          SEGMENT_LIMIT);
  if (h->e_phentsize != sizeof(ElfW(Phdr)))
    return mb_fail_format("elf_header", offsetof(ElfW(Ehdr), e_phentsize), MB_UNKNOWN,
                          "program headers of %u bytes, expected %zu", h->e_phentsize,
                          sizeof(ElfW(Phdr)));
  uint64_t table = (uint64_t)h->e_phnum * sizeof(ElfW(Phdr));
  if (!in_file(elf, h->e_phoff, table))
    return truncated(elf, h->e_phoff, "the table of program headers", table);
  elf->segments = elf->data + h->e_phoff;
  for (unsigned i = 0; i < h->e_phnum; i++) {
    ElfW(Phdr) s = mb_elf_segment(elf, i);
    if (s.p_type != PT_LOAD && s.p_type != PT_DYNAMIC && s.p_type != PT_NOTE && s.p_type != PT_TLS)
      continue;
    if (!in_file(elf, s.p_offset, s.p_filesz))
      return truncated(elf, s.p_offset, "a segment", s.p_filesz);
  }
  for (unsigned i = 0; i < h->e_phnum; i++) {
    ElfW(Phdr) s = mb_elf_segment(elf, i);
    if (s.p_type != PT_LOAD) continue;
    int status = check_load(&s, i, &next);
    if (!status && shares_bytes(elf, i, &s))
      status = segment_error(i, "shares bytes of the file with another");
    if (status) return status;
    loads++;
  }
  if (!loads) return mb_fail_format("elf_header", MB_UNKNOWN, MB_UNKNOWN, "no segment is loaded");
  return check_parts(elf);
}

bool mb_elf_is_loaded(const struct mb_elf *elf, uint64_t vaddr, uint64_t size, uint32_t flags) {
  for (unsigned i = 0; i < elf->header.e_phnum; i++) {
    ElfW(Phdr) s = mb_elf_segment(elf, i);
    if (s.p_type != PT_LOAD || (s.p_flags & flags) != flags || vaddr < s.p_vaddr) continue;
    if (vaddr - s.p_vaddr <= s.p_memsz && size <= s.p_memsz - (vaddr - s.p_vaddr)) return true;
  }
  return false;
}

bool mb_elf_becomes_read_only(const struct mb_elf *elf, uint64_t vaddr) {
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  for (unsigned i = 0; i < elf->header.e_phnum; i++) {
    ElfW(Phdr) s = mb_elf_segment(elf, i);
    if (s.p_type == PT_GNU_RELRO && vaddr >= s.p_vaddr / page * page &&
        vaddr < (s.p_vaddr + s.p_memsz) / page * page)
      return true;
  }
  return false;
}

bool mb_elf_offset(const struct mb_elf *elf, uint64_t vaddr, uint64_t size, uint64_t *offset) {
  for (unsigned i = 0; i < elf->header.e_phnum; i++) {
    ElfW(Phdr) s = mb_elf_segment(elf, i);
    if (s.p_type != PT_LOAD || vaddr < s.p_vaddr) continue;
    uint64_t start = vaddr - s.p_vaddr;
    if (start > s.p_filesz || size > s.p_filesz - start) continue;
    *offset = s.p_offset + start;
    return true;
  }
  return false;
}

uint64_t mb_elf_bytes_from(const struct mb_elf *elf, uint64_t vaddr) {
  for (unsigned i = 0; i < elf->header.e_phnum; i++) {
    ElfW(Phdr) s = mb_elf_segment(elf, i);
    if (s.p_type == PT_LOAD && vaddr >= s.p_vaddr && vaddr - s.p_vaddr < s.p_filesz)
      return s.p_filesz - (vaddr - s.p_vaddr);
  }
  return 0;
}

int mb_elf_read(const uint8_t *data, uint64_t size, struct mb_elf *out) {
  *out = (struct mb_elf){.data = data, .size = size};
  int status = read_elf_header(out);
  if (!status) status = read_segments(out);
  if (!status) status = mb_elf_check_notes(out);
  if (!status) status = check_sections(out);
  return status ? status : mb_elf_read_dynamic(out);
}

int mblob_elf_check(const void *data, uint64_t size) {
  struct mb_elf elf;
  return mb_elf_read(data, size, &elf);
}

/* ---- symbols --------------------------------------------------------------------------------- */

ElfW(Sym) mb_elf_symbol(const struct mb_elf *elf, uint64_t i) {
  ElfW(Sym) symbol;
  memcpy(&symbol, elf->symbols + i * sizeof(symbol), sizeof(symbol));
  return symbol;
}

const char *mb_elf_symbol_name(const struct mb_elf *elf, const ElfW(Sym) * symbol) {
  if (symbol->st_name >= elf->strings_size) return "";
  const char *name = elf->strings + symbol->st_name;
  return memchr(name, 0, mb_size(elf->strings_size - symbol->st_name)) ? name : "";
}

bool mb_elf_is_exported(const ElfW(Sym) * symbol) {
  unsigned binding = ELF64_ST_BIND(symbol->st_info),
           visibility = ELF64_ST_VISIBILITY(symbol->st_other);
  return symbol->st_shndx != SHN_UNDEF &&
         (visibility == STV_DEFAULT || visibility == STV_PROTECTED) &&
         (binding == STB_GLOBAL || binding == STB_WEAK || binding == STB_GNU_UNIQUE);
}

bool mb_elf_find(const struct mb_elf *elf, const char *name, ElfW(Sym) * out) {
  size_t size = strlen(name) + 1;
  for (uint64_t i = 1; i < elf->symbol_count; i++) {
    *out = mb_elf_symbol(elf, i);
    if (out->st_name >= elf->strings_size || size > elf->strings_size - out->st_name) continue;
    if (memcmp(elf->strings + out->st_name, name, size) == 0 && mb_elf_is_exported(out) &&
        !(mb_elf_version(elf, i) &
          MB_ELF_HIDDEN)) /* by name alone the dynamic linker finds no hidden one */
      return true;
  }
  return false;
}

int mb_elf_object(const struct mb_elf *elf, const ElfW(Sym) * symbol, const char *name,
                  struct mb_slice *out) {
  uint64_t offset = 0;
  if (!mb_elf_offset(elf, symbol->st_value, symbol->st_size, &offset))
    return mb_fail_format("elf_dynamic", MB_UNKNOWN, MB_UNKNOWN,
                          "symbol %s: no segment holds %llu bytes at address %#llx", name,
                          (ull)symbol->st_size, (ull)symbol->st_value);
  *out = (struct mb_slice){elf->data + offset, symbol->st_size};
  return MBLOB_OK;
}
