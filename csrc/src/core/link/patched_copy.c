#define _GNU_SOURCE
#include "core/link/patched_copy.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "core/link/ffi_library.h"
#include "core/loaded/loaded.h"

/* Bytes of the file. */
struct copied_span {
  uint64_t start, end;
};

/* ---- which symbols --------------------------------------------------------------------------- */

static bool is_slot_symbol(const char *name) {
  for (size_t i = 0; i < MB_SLOTS_AND_CONTEXTS; i++)
    if (strcmp(name, mb_slot_name(i)) == 0) return true;
  return false;
}

/* Before glibc 2.28 the linker added the library's place to absolute symbols, as musl does. */
static bool takes_absolute_symbols(void) {
  static atomic_int known; /* 0: not asked yet, 1: no, 2: yes */
  int answer = atomic_load_explicit(&known, memory_order_relaxed);
  if (!answer) {
    int major = 0, minor = 0;
    char text[64] = "";
    (void)confstr(_CS_GNU_LIBC_VERSION, text, sizeof(text));
    answer = sscanf(text, "glibc %d.%d", &major, &minor) == 2 &&
                     (major > 2 || (major == 2 && minor >= 28))
                 ? 2
                 : 1;
    atomic_store_explicit(&known, answer, memory_order_relaxed);
  }
  return answer == 2;
}

/* Functions of mblob's headers refer to the runtime by weak symbols, and do without. */
static bool is_left_weak(const ElfW(Sym) * symbol) {
  return ELF64_ST_BIND(symbol->st_info) == STB_WEAK && !takes_absolute_symbols();
}

/* Change the symbol to what the linker shall see; whether there was anything to change. A slot
 * of the library that the global scope hides, because another library exports the same, becomes
 * the library's own. */
static bool bind_symbol(const struct mb_library *library, ElfW(Sym) * symbol) {
  const struct mb_elf *elf = &library->elf;
  const char *name = mb_elf_symbol_name(elf, symbol);
  if (symbol->st_shndx == SHN_UNDEF) {
    void *address =
        ELF64_ST_TYPE(symbol->st_info) == STT_TLS ? NULL : mb_library_host_symbol(library, name);
    if (!address || is_left_weak(symbol)) return false;
    symbol->st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC);
    symbol->st_shndx = SHN_ABS;
    symbol->st_value = (uintptr_t)address;
  } else if (!mb_elf_is_exported(symbol) || !is_slot_symbol(name) || !dlsym(RTLD_DEFAULT, name)) {
    return false;
  }
  symbol->st_other = (unsigned char)((symbol->st_other & ~3) | STV_HIDDEN);
  return true;
}

static uint64_t symbols_end(const struct mb_elf *elf) {
  uint64_t used =
      mb_elf_symbols_used(elf); /* without exports the hash table does not count undefined ones */
  return used > elf->symbol_count ? used : elf->symbol_count;
}

/* The part of the symbol table that changes; empty if nothing does. */
static struct copied_span changed_symbols(const struct mb_library *library) {
  const struct mb_elf *elf = &library->elf;
  struct copied_span span = {0, 0};
  for (uint64_t i = 1, end = symbols_end(elf); i < end; i++) {
    ElfW(Sym) symbol = mb_elf_symbol(elf, i);
    if (!bind_symbol(library, &symbol)) continue;
    uint64_t at = (uint64_t)(elf->symbols - elf->data) + i * sizeof(symbol);
    if (!span.end) span.start = at;
    span.end = at + sizeof(symbol);
  }
  return span;
}

/* ---- writing the copy ------------------------------------------------------------------------ */

int mb_link_write(int fd, const void *data, uint64_t size, uint64_t offset) {
  const uint8_t *bytes = data;
  while (size) {
    size_t part = size > (1u << 20) ? 1u << 20 : (size_t)size;
    ssize_t n = pwrite(fd, bytes, part, (off_t)offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return mb_fail_errno(n ? errno : EIO, "memory file: cannot write %zu bytes", part);
    bytes += n;
    offset += (uint64_t)n;
    size -= (uint64_t)n;
  }
  return MBLOB_OK;
}

static int copy_bytes(const struct mb_elf *elf, int fd, uint64_t start, uint64_t end) {
  return start < end ? mb_link_write(fd, elf->data + start, end - start, start) : MBLOB_OK;
}

static uint64_t page_size(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }
static uint64_t round_down(uint64_t x) { return x & ~(page_size() - 1); }
static uint64_t round_up_to_page(uint64_t x) { return round_down(x + page_size() - 1); }

/* True if the file's own pages can stand in for the copy's. */
static bool comes_back(const struct mb_elf *elf, const ElfW(Phdr) * s) {
  return s->p_type == PT_LOAD && !(s->p_flags & PF_W) && !mb_elf_relocates_text(elf);
}

/* Whole pages of the blob, which nothing reads before they come back. */
static struct copied_span left_out(const struct mb_library *library, struct copied_span changed) {
  const struct mb_elf *elf = &library->elf;
  const struct copied_span nothing = {UINT64_MAX, UINT64_MAX};
  ElfW(Sym) symbol;
  struct mb_slice blob;
  if (!library->blob_symbol || !mb_elf_find(elf, library->blob_symbol, &symbol) ||
      mb_elf_object(elf, &symbol, library->blob_symbol, &blob))
    return nothing;
  struct copied_span span = {round_up_to_page((uint64_t)(blob.data - elf->data)),
                             round_down((uint64_t)(blob.data - elf->data) + blob.size)};
  if (span.start >= span.end || (changed.start < span.end && span.start < changed.end))
    return nothing;
  for (unsigned i = 0; i < elf->header.e_phnum; i++) {
    ElfW(Phdr) s = mb_elf_segment(elf, i);
    if (comes_back(elf, &s) && span.start >= s.p_offset && span.end <= s.p_offset + s.p_filesz)
      return span;
  }
  return nothing;
}

/* What the linker reads: the headers and all that is loaded. */
static int copy_file(const struct mb_library *library, int fd, struct copied_span changed) {
  const struct mb_elf *elf = &library->elf;
  struct copied_span hole = left_out(library, changed);
  uint64_t phdrs = elf->header.e_phoff;
  if (ftruncate(fd, (off_t)elf->size) != 0) return mb_fail_errno(errno, "memory file");
  int status = copy_bytes(elf, fd, 0, sizeof(ElfW(Ehdr)));
  if (!status)
    status = copy_bytes(elf, fd, phdrs, phdrs + elf->header.e_phnum * sizeof(ElfW(Phdr)));
  for (unsigned i = 0; i < elf->header.e_phnum && !status; i++) {
    ElfW(Phdr) s = mb_elf_segment(elf, i);
    if (s.p_type != PT_LOAD) continue;
    uint64_t end = s.p_offset + s.p_filesz;
    status = copy_bytes(elf, fd, s.p_offset, end < hole.start ? end : hole.start);
    if (!status && hole.end < end)
      status = copy_bytes(elf, fd, hole.end > s.p_offset ? hole.end : s.p_offset, end);
  }
  return status;
}

static int write_symbols(const struct mb_library *library, int fd) {
  const struct mb_elf *elf = &library->elf;
  int status = MBLOB_OK;
  for (uint64_t i = 1, end = symbols_end(elf); i < end && !status; i++) {
    ElfW(Sym) symbol = mb_elf_symbol(elf, i);
    uint64_t at = (uint64_t)(elf->symbols - elf->data) + i * sizeof(symbol);
    if (bind_symbol(library, &symbol)) status = mb_link_write(fd, &symbol, sizeof(symbol), at);
  }
  return status;
}

bool mb_link_is_runtime(const char *name) { return strncmp(name, "libtvm", 6) == 0; }

/* What the copy shall not need becomes a tag that nobody looks at in a shared library. */
static int drop_runtime(const struct mb_elf *elf, int fd) {
  int status = MBLOB_OK;
  for (uint64_t i = 0; i < elf->dynamic_count && !status; i++) {
    ElfW(Dyn) d = mb_elf_tag_at(elf, i);
    if (d.d_tag != DT_NEEDED || !mb_link_is_runtime(elf->strings + d.d_un.d_val)) continue;
    d.d_tag = DT_DEBUG;
    status = mb_link_write(fd, &d, sizeof(d), (uint64_t)(elf->dynamic - elf->data) + i * sizeof(d));
  }
  return status;
}

static bool leaves_undefined(const struct mb_library *library) {
  const struct mb_elf *elf = &library->elf;
  for (uint64_t i = 1, end = symbols_end(elf); i < end; i++) {
    ElfW(Sym) symbol = mb_elf_symbol(elf, i);
    if (symbol.st_shndx == SHN_UNDEF && bind_symbol(library, &symbol)) return true;
  }
  return false;
}

static int check_linker(const struct mb_library *library) {
  if (takes_absolute_symbols() || !leaves_undefined(library)) return MBLOB_OK;
  char version[64] = "";
  (void)confstr(_CS_GNU_LIBC_VERSION, version, sizeof(version));
  return mb_fail(
      MBLOB_E_INCOMPATIBLE,
      "functions of the runtime are undefined in it, and only the dynamic linker of glibc 2.28 or "
      "later can bind them; here is %s: build the library against mblob's headers",
      *version ? version : "another libc");
}

int mb_link_copy(struct mb_library *library, const char *folder) {
  if (library->copy_fd >= 0) return MBLOB_OK; /* still in memory from an earlier opening */
  struct copied_span changed = changed_symbols(library);
  library->changed_start = changed.start;
  library->changed_end = changed.end;
  const bool binds = changed.start != changed.end;
  if (!binds && !library->drops_runtime) return MBLOB_OK;
  int status = binds ? check_linker(library) : MBLOB_OK;
  if (status) return status;
  const char *base = strrchr(library->source.path, '/');
  char name[200]; /* what /proc/self/maps shows for the pages that stay */
  (void)snprintf(name, sizeof(name), "%s", base ? base + 1 : "mblob");
  int fd = mb_memory_file(name);
  if (fd < 0)
    return mb_fail_errno(
        errno,
        "functions of the runtime are undefined in it, or it needs TVM's library, so it is loaded "
        "from a memory file, which cannot be made here");
  status = copy_file(library, fd, changed);
  if (!status) status = write_symbols(library, fd);
  if (!status && library->drops_runtime) status = drop_runtime(&library->elf, fd);
  if (!status && folder) status = mb_link_expand_origin(library, fd, folder);
  if (!status && !mb_memory_file_seal(fd))
    status = mb_fail_errno(errno, "memory file: cannot be sealed");
  if (status)
    (void)close(fd);
  else
    library->copy_fd = fd;
  return status;
}

/* ---- and the file back over it --------------------------------------------------------------- */

/* The file's bytes [start, end), whole pages, to where they are loaded by segment `s`. */
static int map_back(const struct mb_library *library, const ElfW(Phdr) * s, uint64_t start,
                    uint64_t end) {
  if (start >= end) return MBLOB_OK;
  int prot = PROT_READ | (s->p_flags & PF_X ? PROT_EXEC : 0);
  uintptr_t at = library->base + (uintptr_t)(s->p_vaddr - s->p_offset + start);
  if (mmap((void *)at, (size_t)(end - start), prot, MAP_PRIVATE | MAP_FIXED, library->source.fd,
           (off_t)start) != MAP_FAILED)
    return MBLOB_OK;
  return mb_fail_errno(errno, "cannot map %llu bytes of the file",
                       (unsigned long long)(end - start));
}

/* Where the pages of the segment behind number `i` start, as a place in the file of segment `s`:
 * the linker maps that one over the last page of this, if they share it. */
static uint64_t next_start(const struct mb_elf *elf, unsigned i, const ElfW(Phdr) * s) {
  for (i++; i < elf->header.e_phnum; i++) {
    ElfW(Phdr) next = mb_elf_segment(elf, i);
    if (next.p_type == PT_LOAD) return round_down(next.p_vaddr) - s->p_vaddr + s->p_offset;
  }
  return UINT64_MAX;
}

int mb_link_copy_give_back(const struct mb_library *library) {
  const struct mb_elf *elf = &library->elf;
  if (library->copy_fd < 0) return MBLOB_OK;
  uint64_t before = round_down(library->changed_start),
           after = round_up_to_page(library->changed_end);
  int status = MBLOB_OK;
  for (unsigned i = 0; i < elf->header.e_phnum && !status; i++) {
    ElfW(Phdr) s = mb_elf_segment(elf, i);
    if (!comes_back(elf, &s)) continue;
    uint64_t start = round_down(s.p_offset), end = round_up_to_page(s.p_offset + s.p_filesz);
    uint64_t next = next_start(elf, i, &s);
    if (next < end) end = next;
    if (after <= start || end <= before) {
      status = map_back(library, &s, start, end);
      continue;
    }
    status = map_back(library, &s, start, before);
    if (!status) status = map_back(library, &s, after, end);
  }
  return status;
}
