/* $ORIGIN for a copy: the linker takes it from the name of what it opens, and a memory file is
 * in no folder. So the search paths and names are written out. They are longer then, and where
 * they were is no room: they get a segment of their own, behind all others, whose header needs a
 * larger table, which lies in that segment as well. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/link/patched_copy.h"
#include "core/loaded/loaded.h"

/* `path` with `folder` in place of $ORIGIN and ${ORIGIN}, on the heap. */
static char *expanded(const char *path, const char *folder) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return NULL;
  while (*path) {
    const size_t skip = mb_elf_token(path, "ORIGIN");
    if (skip)
      (void)fputs(folder, out);
    else
      (void)fputc(*path, out);
    path += skip ? skip : 1;
  }
  return fclose(out) == 0 ? text : (free(text), NULL);
}

/* Where the new segment goes: behind everything, in memory and in the file. */
static ElfW(Phdr) place(const struct mb_elf *elf) {
  ElfW(Phdr)
      added = {.p_type = PT_LOAD, .p_flags = PF_R, .p_align = (ElfW(Addr))sysconf(_SC_PAGESIZE)};
  ElfW(Addr) end = 0;
  for (unsigned i = 0; i < elf->header.e_phnum; i++) {
    ElfW(Phdr) s = mb_elf_segment(elf, i);
    if (s.p_type != PT_LOAD) continue;
    if (s.p_align > added.p_align) added.p_align = s.p_align;
    end = s.p_vaddr + s.p_memsz;
  }
  ElfW(Addr) mask = added.p_align - 1;
  added.p_vaddr = added.p_paddr = (end + mask) & ~mask;
  added.p_offset = ((ElfW(Off))elf->size + mask) & ~mask;
  return added;
}

/* The table with the new segment behind the last one that is loaded. */
static void fill_table(const struct mb_elf *elf, const ElfW(Phdr) * added, ElfW(Phdr) * table) {
  unsigned count = elf->header.e_phnum, last = 0;
  for (unsigned i = 0; i < count; i++)
    if (mb_elf_segment(elf, i).p_type == PT_LOAD) last = i;
  for (unsigned i = 0; i < count; i++) {
    ElfW(Phdr) s = mb_elf_segment(elf, i);
    if (s.p_type == PT_PHDR) {
      s.p_offset = added->p_offset;
      s.p_vaddr = s.p_paddr = added->p_vaddr;
      s.p_filesz = s.p_memsz = (count + 1) * sizeof(s);
    }
    table[i + (i > last)] = s;
  }
  table[last + 1] = *added;
}

/* Append the expanded search paths and names of needed libraries to `segment` and let the
 * dynamic section in the copy point there. */
static int move_paths(const struct mb_elf *elf, int fd, const char *folder,
                      const ElfW(Phdr) * added, FILE *segment) {
  for (uint64_t i = 0; i < elf->dynamic_count; i++) {
    ElfW(Dyn) d = mb_elf_tag_at(elf, i);
    const char *text = elf->strings + d.d_un.d_val;
    if ((d.d_tag != DT_RPATH && d.d_tag != DT_RUNPATH && d.d_tag != DT_NEEDED) ||
        !strstr(text, "ORIGIN"))
      continue;
    char *path = expanded(text, folder);
    if (!path) return mb_fail_memory(0);
    /* The linker adds the place of the strings to this, and asks for no bounds. */
    d.d_un.d_val = added->p_vaddr + (ElfW(Addr))ftello(segment) -
                   (ElfW(Addr))mb_elf_tag_or_zero(elf, DT_STRTAB);
    (void)fwrite(path, 1, strlen(path) + 1, segment);
    free(path);
    int status = mb_link_write(fd, &d, sizeof(d),
                               (uint64_t)(elf->dynamic - elf->data) + i * sizeof(ElfW(Dyn)));
    if (status) return status;
  }
  return MBLOB_OK;
}

int mb_link_expand_origin(const struct mb_library *library, int fd, const char *folder) {
  const struct mb_elf *elf = &library->elf;
  ElfW(Ehdr) header = elf->header;
  ElfW(Phdr) added = place(elf);
  size_t table_size = (header.e_phnum + 1u) * sizeof(added), size = 0;
  ElfW(Phdr) *table = calloc(1, table_size);
  char *bytes = NULL;
  FILE *segment = table ? open_memstream(&bytes, &size) : NULL;
  if (!segment) {
    free(table);
    return mb_fail_memory(table_size);
  }
  (void)fwrite(table, 1, table_size, segment);
  int status = move_paths(elf, fd, folder, &added, segment);
  if (fclose(segment) != 0 && !status) status = mb_fail_memory(table_size);
  if (!status) {
    added.p_filesz = added.p_memsz = size;
    fill_table(elf, &added, table);
    memcpy(bytes, table, table_size);
    header.e_phoff = added.p_offset;
    header.e_phnum++;
    if (ftruncate(fd, (off_t)(added.p_offset + size)) != 0)
      status = mb_fail_errno(errno, "memory file");
    if (!status) status = mb_link_write(fd, bytes, size, added.p_offset);
    if (!status) status = mb_link_write(fd, &header, sizeof(header), 0);
  }
  free(bytes);
  free(table);
  return status;
}
