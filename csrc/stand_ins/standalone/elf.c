/* For elf: no file is read. */
#include "elf/elf.h"

bool mb_elf_is_loaded(const struct mb_elf *elf, uint64_t vaddr, uint64_t size, uint32_t flags) {
  (void)elf, (void)vaddr, (void)size, (void)flags;
  return false;
}
bool mb_elf_find(const struct mb_elf *elf, const char *name, ElfW(Sym) * out) {
  (void)elf, (void)name, (void)out;
  return false;
}
int mb_elf_object(const struct mb_elf *elf, const ElfW(Sym) * symbol, const char *name,
                  struct mb_slice *out) {
  (void)elf, (void)symbol, (void)out;
  return mb_fail(MBLOB_E_NOT_FOUND, "no object %s", name);
}
ElfW(Sym) mb_elf_symbol(const struct mb_elf *elf, uint64_t i) {
  (void)elf, (void)i;
  return (ElfW(Sym)){0};
}
const char *mb_elf_symbol_name(const struct mb_elf *elf, const ElfW(Sym) * symbol) {
  (void)elf, (void)symbol;
  return "";
}
bool mb_elf_is_exported(const ElfW(Sym) * symbol) {
  (void)symbol;
  return false;
}
