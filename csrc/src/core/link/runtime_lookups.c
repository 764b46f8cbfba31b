/* Names of functions that compiled code asks its runtime for while it runs
 * (TVMBackendGetFuncFromEnv, TVMFFIEnvModLookupFromImports). No table of the file lists them. The
 * texts lie among the constants of the code, where prefixes tell them from others; and TVM names
 * the variable for what was found `.tvm_func.NAME`, which stays in the file until it is stripped. */
#define _GNU_SOURCE
#include <string.h>

#include "core/link/link.h"
#include "core/loaded/loaded.h"

static const char variable[] = ".tvm_func.\0";
static const char constants[] = "vm.builtin.\0tvm.contrib.\0relax.run.\0";

struct name_search {
  const struct mb_elf *elf;
  mb_name_visitor visit;
  void *context;
};

static bool is_of_text(uint8_t c, uint8_t lowest) { return c >= lowest && c < 0x7f; }

/* Texts between two places of the file that start with one of the prefixes. */
static void find_names(const struct name_search *s, uint64_t start, uint64_t end,
                       const char *prefix) {
  const uint8_t *const last = s->elf->data + end;
  for (size_t length; start < end && (length = strlen(prefix)); prefix += length + 1) {
    const uint8_t *behind = s->elf->data + start, *name;
    while ((name = memmem(behind, (size_t)(last - behind), prefix, length))) {
      behind = name + length;
      while (behind < last && is_of_text(*behind, '!')) behind++;
      if (behind < last && !*behind && behind > name + length &&
          (name == s->elf->data || !is_of_text(name[-1], ' ')))
        s->visit((const char *)name + (prefix == variable ? length : 0), s->context);
    }
  }
}

void mb_library_code_names(const struct mb_library *library, mb_name_visitor visit, void *context) {
  const struct name_search s = {&library->elf, visit, context};
  uint64_t blob = UINT64_MAX, behind = 0; /* modules are no constants of the code */
  if (!library->source.bytes) return;
  if (mb_elf_offset(s.elf, (uint64_t)((uintptr_t)library->blob - library->base), library->blob_size,
                    &blob))
    behind = blob + library->blob_size;
  for (unsigned i = 0; i < s.elf->header.e_phnum; i++) {
    const ElfW(Phdr) segment = mb_elf_segment(s.elf, i);
    const uint64_t start = segment.p_offset, end = start + segment.p_filesz; /* in the file */
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W)) continue;
    find_names(&s, start, behind > start && blob < end ? blob : end, constants);
    if (behind > start) find_names(&s, behind, end, constants);
  }
  ElfW(Shdr) section = {.sh_type = SHT_NULL}; /* .symtab, then its names */
  for (unsigned i = 0; section.sh_type != SHT_SYMTAB; i++)
    if (!mb_elf_section(s.elf, i, &section)) return;
  if (mb_elf_section(s.elf, section.sh_link, &section) && section.sh_offset <= s.elf->size &&
      section.sh_size <= s.elf->size - section.sh_offset)
    find_names(&s, section.sh_offset, section.sh_offset + section.sh_size, variable);
}
