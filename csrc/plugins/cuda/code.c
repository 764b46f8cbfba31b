#define _GNU_SOURCE
#include "code.h"

#include <ctype.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EM_CUDA_MACHINE = 190, LOG_SIZE = 8192 };
static const uint8_t fatbin_magic[4] = {0x50, 0xed, 0x55, 0xba};

static int cut_short(const char *what, uint64_t needs, uint64_t has) {
  return mb_fail_format("payload", -1, -1, "cuda: the code is a %s of at least %llu bytes, the payload has %llu: it is cut "
                        "short or damaged", what, (unsigned long long)needs, (unsigned long long)has);
}

static bool lies_inside(uint64_t offset, uint64_t size, uint64_t all) { return offset <= all && size <= all - offset; }

/* ---- cubin: ELF for the machine CUDA --------------------------------------------------------- */

static int check_cubin(struct mb_slice code) {
  Elf64_Ehdr header;
  if (code.size < sizeof(header)) return cut_short("cubin", sizeof(header), code.size);
  memcpy(&header, code.data, sizeof(header));
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_CUDA_MACHINE)
    return mb_fail_format("payload", -1, -1, "cuda: the code is an ELF file of machine %u, a cubin has %d", header.e_machine,
                          EM_CUDA_MACHINE);
  if ((header.e_shnum && header.e_shentsize != sizeof(Elf64_Shdr)) ||
      (header.e_phnum && header.e_phentsize != sizeof(Elf64_Phdr)))
    return mb_fail_format("payload", -1, -1, "cuda: the cubin's tables have entries of %u and %u bytes", header.e_shentsize,
                          header.e_phentsize);
  uint64_t sections = (uint64_t)header.e_shnum * sizeof(Elf64_Shdr), segments = (uint64_t)header.e_phnum * sizeof(Elf64_Phdr);
  if (!lies_inside(header.e_shoff, sections, code.size)) return cut_short("cubin", header.e_shoff, code.size);
  if (!lies_inside(header.e_phoff, segments, code.size)) return cut_short("cubin", header.e_phoff, code.size);
  for (uint64_t i = 0; i < header.e_shnum; i++) {
    Elf64_Shdr section;
    memcpy(&section, code.data + header.e_shoff + i * sizeof(section), sizeof(section));
    if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL &&
        !lies_inside(section.sh_offset, section.sh_size, code.size))
      return cut_short("cubin", section.sh_offset, code.size);
  }
  return MBLOB_OK;
}

/* ---- fatbin: u32 magic, u16 version, u16 header size, u64 size of the images that follow; of each image u16 kind,
 * u16 version, u32 header size, u64 size ------------------------------------------------------- */

static int check_fatbin(struct mb_slice code) {
  if (code.size < 16) return cut_short("fatbin", 16, code.size);
  uint64_t header = (uint64_t)code.data[6] | (uint64_t)code.data[7] << 8, size = mb_u64_at(code.data + 8);
  if (header < 16 || !lies_inside(header, size, code.size)) return cut_short("fatbin", size, code.size);
  uint64_t pos = header, end = header + size;
  while (pos < end) {
    if (end - pos < 16) return cut_short("fatbin", pos + 16, end);
    uint64_t image_header = mb_u32_at(code.data + pos + 4), image = mb_u64_at(code.data + pos + 8);
    if (image_header < 16 || !lies_inside(image_header, image, end - pos)) return cut_short("fatbin", image, end - pos);
    pos += image_header + image;
  }
  return MBLOB_OK;
}

/* ---- PTX: text ------------------------------------------------------------------------------- */

static const char *find(struct mb_slice code, const char *word) { return memmem(code.data, (size_t)code.size, word, strlen(word)); }

static int check_ptx(struct mb_slice code) {
  while (code.size && !code.data[code.size - 1]) code.size--; /* TVM's writer leaves one NUL at times, or none */
  const uint8_t *nul = code.size ? memchr(code.data, 0, (size_t)code.size) : NULL;
  if (nul || !find(code, ".version") || !find(code, ".target"))
    return mb_fail_format("payload", -1, -1, "cuda: the code (%llu bytes) is no PTX%s, nor a cubin or a fatbin",
                          (unsigned long long)code.size, nul ? " (it has NUL bytes)" : " (no .version and .target)");
  return MBLOB_OK;
}

int cuda_code_check(struct mb_slice fmt, struct mb_slice code, enum cuda_code_kind *out) {
  if (code.size >= 4 && memcmp(code.data, ELFMAG, SELFMAG) == 0) return *out = CUDA_CUBIN, check_cubin(code);
  if (code.size >= 4 && memcmp(code.data, fatbin_magic, 4) == 0) return *out = CUDA_FATBIN, check_fatbin(code);
  *out = CUDA_PTX;
  if ((mb_slice_is(fmt, "cuda") || mb_slice_is(fmt, "cu")) && !(find(code, ".version") && find(code, ".target")))
    return mb_fail(MBLOB_E_INCOMPATIBLE,
                   "cuda: the module holds CUDA C++ source, which the driver cannot compile; pack it compiled: "
                   "mblob.device_module('cuda', 'kernels.cu', compile=True)");
  return check_ptx(code);
}

/* The text behind a word of PTX that starts a line (".version 8.4"), up to white space; "" if it has none. */
static void ptx_word(struct mb_slice code, const char *word, char *text, size_t size) {
  const char *end = (const char *)code.data + code.size, *at = find(code, word);
  size_t used = 0;
  if (at) at += strlen(word);
  while (at && at < end && isspace((unsigned char)*at)) at++;
  while (at && at < end && *at && !isspace((unsigned char)*at) && *at != ',' && used + 1 < size) text[used++] = *at++;
  text[used] = 0;
}

void cuda_code_entries(struct mb_slice code, enum cuda_code_kind kind, char *text, size_t size) {
  static const char word[] = ".entry";
  size_t used = 0;
  *text = 0;
  const char *at = kind == CUDA_PTX ? find(code, word) : NULL;
  while (at && used < size) {
    struct mb_slice rest = {(const uint8_t *)at, (uint64_t)(code.data + code.size - (const uint8_t *)at)};
    char name[128];
    ptx_word(rest, word, name, sizeof(name));
    name[strcspn(name, "(")] = 0;
    used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
    rest.data += sizeof(word) - 1, rest.size -= sizeof(word) - 1;
    at = find(rest, word);
  }
}

/* ---- loading --------------------------------------------------------------------------------- */

/* What is needed to understand why code of that kind does not load here. */
static void describe(const struct cuda_scope *scope, struct mb_slice code, enum cuda_code_kind kind, CUresult error, char *text,
                     size_t size) {
  char version[32] = "", target[64] = "";
  int driver = 0;
  const struct cuda_device *d = scope->device;
  if (kind == CUDA_PTX) {
    ptx_word(code, ".version", version, sizeof(version));
    ptx_word(code, ".target", target, sizeof(target));
  }
  (void)scope->driver->driver_version(&driver);
  size_t used = (size_t)snprintf(text, size, "; the code is %s%s%s%s%s, the device %s of compute capability %d.%d, the driver "
                                 "knows CUDA %d.%d",
                                 kind == CUDA_PTX ? "PTX" : kind == CUDA_CUBIN ? "a cubin" : "a fatbin", *version ? " " : "",
                                 version, *target ? " for " : "", target, d->name, d->compute_major, d->compute_minor,
                                 driver / 1000, driver % 1000 / 10);
  if (used >= size) return;
  if (error == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
    (void)snprintf(text + used, size - used, ": install a newer driver, or compile with an older toolkit");
  if (error == CUDA_ERROR_NO_BINARY_FOR_GPU)
    (void)snprintf(text + used, size - used, ": compile for sm_%d%d, or to PTX of compute_%d%d or below", d->compute_major,
                   d->compute_minor, d->compute_major, d->compute_minor);
}

/* The log of the driver's compiler as one line. */
static void flatten(char *log) {
  size_t used = 0;
  for (const char *at = log; *at; at++) {
    if (!isspace((unsigned char)*at))
      log[used++] = *at;
    else if (used && log[used - 1] != ' ')
      log[used++] = ' ';
  }
  while (used && log[used - 1] == ' ') used--;
  log[used] = 0;
}

static int refused(const struct cuda_scope *scope, const char *module, struct mb_slice code, enum cuda_code_kind kind,
                   CUresult error, char *log) {
  char more[512];
  describe(scope, code, kind, error, more, sizeof(more));
  flatten(log);
  return cuda_told(scope, error, "%s does not load%s%s%.300s", module, more, *log ? "; the driver's compiler says: " : "", log);
}

int cuda_code_load(const struct cuda_scope *scope, const char *module, struct mb_slice code, enum cuda_code_kind kind,
                   CUmodule *out) {
  /* A copy of its own: ended by NUL for PTX, aligned for the others. */
  char *image = aligned_alloc(64, ((size_t)code.size + 64) / 64 * 64), *log = calloc(1, LOG_SIZE);
  if (!image || !log) {
    free(image);
    free(log);
    return mb_fail_memory((size_t)code.size + LOG_SIZE);
  }
  memcpy(image, code.data, (size_t)code.size);
  memset(image + code.size, 0, ((size_t)code.size + 64) / 64 * 64 - (size_t)code.size);
  int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)(uintptr_t)(LOG_SIZE - 1)};
  CUresult error = scope->driver->module_load(out, image, 2, options, values);
  int status = error ? refused(scope, module, code, kind, error, log) : MBLOB_OK;
  free(image);
  free(log);
  return status;
}
