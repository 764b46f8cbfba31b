/* What code tells of its kernels against what the payload declares: PTX, cubins and fatbins,
 * true, lying and damaged. No driver is needed for it. Cubins are written here as ptxas writes
 * them; those of a real ptxas are in tests/e2e/cuda/test_cuda_code.py. */
#define _GNU_SOURCE
#include <elf.h>

#include "cuda_plugin.h"

/* ---- writing cubins and fatbins -------------------------------------------------------------- */

static void put_u32(struct bytes *out, uint32_t value) { put_bytes(out, &value, 4); }
static void put_u16(struct bytes *out, uint16_t value) { put_bytes(out, &value, 2); }
static void put_attribute(struct bytes *out, uint8_t format, uint8_t attribute, uint16_t value) {
  put_bytes(out, (const uint8_t[]){format, attribute}, 2);
  put_u16(out, value);
}

/* The attributes of a kernel whose parameters have these sizes, from the last one on, between
 * others. */
static void put_info(struct bytes *out, const uint32_t *sizes, int count) {
  put_attribute(out, 4, 0x37, 4); /* the API's version */
  put_u32(out, 130);
  for (int i = count; i-- > 0;) {
    put_attribute(out, 4, sizes[0] > 4096 ? 0x45 : 0x17, 12);
    put_u32(out, 0);
    put_u16(out, (uint16_t)i);
    put_u16(out, (uint16_t)(8 * i));
    put_u32(out, sizes[0] > 4096 ? sizes[i] | 5u << 24 : sizes[i] << 18 | 0x1f000);
    put_attribute(out, 3, 0x1b, 0xff);
  }
  put_attribute(out, 1, 0x36, 0);
}

enum { SECTIONS = 6, SYMBOLS = 4 };

/* Sections: none, names, texts, symbols, .nv.info.add, .text.add. Symbols: none, add (a kernel),
 * helper (no kernel), bare (a kernel without attributes). */
static struct bytes cubin_of(const uint32_t *sizes, int count) {
  static const char names[] = "\0.shstrtab\0.strtab\0.symtab\0.nv.info.add\0.text.add",
                    texts[] = "\0add\0helper\0bare";
  struct bytes out = {.size = sizeof(Elf64_Ehdr)}, info = {.size = 0};
  Elf64_Shdr sections[SECTIONS] = {{0}};
  Elf64_Sym symbols[SYMBOLS] = {{0}};
  put_info(&info, sizes, count);
  symbols[1] = (Elf64_Sym){.st_name = 1,
                           .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                           .st_other = 0x10,
                           .st_shndx = 5};
  symbols[2] =
      (Elf64_Sym){.st_name = 5, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 5};
  symbols[3] = (Elf64_Sym){.st_name = 12,
                           .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                           .st_other = 0x10,
                           .st_shndx = 5};
  const struct {
    uint32_t name, type;
    const void *data;
    size_t size;
  } parts[SECTIONS] = {{0, SHT_NULL, "", 0},
                       {1, SHT_STRTAB, names, sizeof(names)},
                       {11, SHT_STRTAB, texts, sizeof(texts)},
                       {19, SHT_SYMTAB, symbols, sizeof(symbols)},
                       {27, 0x70000000, info.data, info.size},
                       {40, SHT_PROGBITS, "code", 4}};
  for (int i = 1; i < SECTIONS; i++) {
    sections[i] = (Elf64_Shdr){.sh_name = parts[i].name,
                               .sh_type = parts[i].type,
                               .sh_offset = out.size,
                               .sh_size = parts[i].size,
                               .sh_link = parts[i].type == SHT_SYMTAB ? 2 : 0};
    put_bytes(&out, parts[i].data, parts[i].size);
  }
  Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
                       .e_machine = 190,
                       .e_shoff = out.size,
                       .e_shentsize = sizeof(Elf64_Shdr),
                       .e_shnum = SECTIONS,
                       .e_shstrndx = 1};
  put_bytes(&out, sections, sizeof(sections));
  memcpy(out.data, &header, sizeof(header));
  return out;
}

struct image {
  uint16_t kind; /* 1: PTX, 2: ELF */
  uint64_t flags;
  const void *code;
  size_t size;
};

static struct bytes fatbin_of(const struct image *images, int count) {
  struct bytes out = {.size = 0};
  uint64_t size = 0;
  for (int i = 0; i < count; i++) size += 64 + images[i].size;
  put_u32(&out, 0xba55ed50);
  put_u16(&out, 1);
  put_u16(&out, 16);
  put_u64(&out, size);
  for (int i = 0; i < count; i++) {
    put_u16(&out, images[i].kind);
    put_u16(&out, 0x101);
    put_u32(&out, 64);
    put_u64(&out, images[i].size);
    for (int j = 0; j < 3; j++) put_u64(&out, 0);
    put_u64(&out, images[i].flags);
    for (int j = 0; j < 2; j++) put_u64(&out, 0);
    put_bytes(&out, images[i].code, images[i].size);
  }
  return out;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static struct bytes declares(const char *kernel, const char *types, const void *code, size_t size) {
  struct bytes out = {.size = 0};
  put_string(&out, "cubin");
  put_u64(&out, 1);
  put_kernel(&out, kernel, types, "threadIdx.x");
  put_u64(&out, size);
  put_bytes(&out, code, size);
  return out;
}

/* The status of looking the kernel up; of opening where that fails. */
static int look_up(const char *kernel, const char *types, const void *code, size_t size) {
  const struct bytes payload = declares(kernel, types, code, size);
  unsigned char *own = malloc(payload.size);
  memcpy(own, payload.data, payload.size);
  const mblob_module_info info = {.struct_size = sizeof(info),
                                  .type_key = "cuda",
                                  .index = 1,
                                  .path = "deploy.so",
                                  .dialect = "classic",
                                  .payload = own,
                                  .payload_size = payload.size};
  void *self = NULL, *function = &self;
  int status = runtime->open(&plugin_host, &info, &self);
  if (!status) {
    status = runtime->function(self, kernel, &function);
    CHECK(!status == (function != NULL));
    runtime->close(self);
  }
  free(own);
  return status;
}

static int asks_ptx(const char *kernel, const char *types, const char *text) {
  char all[4096];
  snprintf(all, sizeof(all), "//\n.version 8.0\n.target sm_50\n%s", text);
  return look_up(kernel, types, all, strlen(all));
}

static int asks(const char *kernel, const char *types, struct bytes code) {
  return look_up(kernel, types, code.data, code.size);
}

/* ---- PTX ------------------------------------------------------------------------------------- */

static void ptx_tells_names_sizes_and_floats(void) {
  static const char text[] =
      ".visible .entry add(\n\t.param .u64 add_param_0,\n\t.param .u64 .ptr .global .align 4 add_param_1, // .entry no(\n"
      "\t.param .f32 add_param_2,\n\t.param .u32 add_param_3 /* , .param .u8 x */\n)\n.maxntid 128, 1, 1\n{ ret; }\n"
      "// .entry gone()\n.file 1 \".entry text()\"\n.func helper(.param .b32 a) { ret; }\n"
      ".entry none { ret; }\n.entry empty() { ret; }\n.entry odd(.param .align 8 .b8 s[16], .param .b32 w, .param .s16 h, .param .b8 b[2]) { ret; }\n";
  begin();
  CHECK(asks_ptx("add", "ppfi", text) == MBLOB_OK && asks_ptx("add", "lpfu", text) == MBLOB_OK);
  CHECK(asks_ptx("none", "", text) == MBLOB_OK && asks_ptx("empty", "", text) == MBLOB_OK);
  REFUSES(
      asks_ptx("add", "ppf", text), MBLOB_E_FORMAT,
      "cuda: kernel 'add' is declared with 3 arguments and takes 4 in the code of module 1 of deploy.so");
  REFUSES(asks_ptx("add", "ppfii", text), MBLOB_E_FORMAT, "declared with 5 arguments and takes 4");
  REFUSES(asks_ptx("empty", "p", text), MBLOB_E_FORMAT, "declared with 1 arguments and takes 0");
  REFUSES(asks_ptx("none", "p", text), MBLOB_E_FORMAT, "declared with 1 arguments and takes 0");
  REFUSES(
      asks_ptx("add", "pffi", text), MBLOB_E_FORMAT,
      "kernel 'add': argument 1 is declared float32 and in the code of module 1 of deploy.so an integer or an address of 8 bytes");
  REFUSES(
      asks_ptx("add", "ppii", text), MBLOB_E_FORMAT,
      "argument 2 is declared int32 and in the code of module 1 of deploy.so a float of 4 bytes");
  REFUSES(
      asks_ptx("add", "ppfl", text), MBLOB_E_FORMAT,
      "argument 3 is declared int64 and in the code of module 1 of deploy.so an integer or an address of 4 bytes");
  REFUSES(asks_ptx("add", "pdbi", text), MBLOB_E_FORMAT,
          "argument 1 is declared float64"); /* the first of two */
  for (size_t i = 0; i < 5; i++) {
    static const char *const others[] = {"gone", "text", "helper", "ad", "addi"};
    REFUSES(
        asks_ptx(others[i], "", text), MBLOB_E_FORMAT,
        "is declared and not in the code of module 1 of deploy.so, which has: add, none, empty, odd");
  }
  REFUSES(asks_ptx("odd", "lihl", text), MBLOB_E_FORMAT, "argument 2 is declared float16");
  REFUSES(asks_ptx("odd", "lii", text), MBLOB_E_FORMAT, "takes 4");
  REFUSES(
      asks_ptx("odd", "lfib", text), MBLOB_E_FORMAT,
      "argument 0 is declared int64 and in the code of module 1 of deploy.so a value of 16 bytes");
  REFUSES(asks_ptx("k", "", ""), MBLOB_E_FORMAT, "which has: none");
}

static void ptx_that_ends_anywhere(void) {
  static const char text[] =
      ".entry add(.param .u64 a, .param .b8 b[8], .param .f32 c) /* { ret; } */ \"";
  char cut[sizeof(text)];
  begin();
  for (size_t size = 0; size < sizeof(text); size++) {
    snprintf(cut, sizeof(cut), "%.*s", (int)size, text);
    const int status = asks_ptx("add", "plf", cut);
    CHECK(status == MBLOB_OK || status == MBLOB_E_FORMAT);
    CHECK(status || size >= strlen(".entry add(.param .u64 a, .param .b8 b[8], .param .f32 c)"));
  }
  REFUSES(asks_ptx("add", "p", ".entry add(.param .b8 x[4000000000], .param .u32 y"),
          MBLOB_E_FORMAT, "a value of 4000000000 bytes");
  REFUSES(asks_ptx("add", "p", ".entry add(.param .b64 x[99999999999999][2])"), MBLOB_E_FORMAT,
          "a value of 4294967295 bytes");
  REFUSES(asks_ptx("add", "p", ".entry add(.param .b64 x[])"), MBLOB_E_FORMAT,
          "a value of 0 bytes");
}

/* ---- cubin ----------------------------------------------------------------------------------- */

static void cubins_tell_names_and_sizes(void) {
  const struct bytes code = cubin_of((const uint32_t[]){8, 4, 1}, 3);
  begin();
  CHECK(asks("add", "pib", code) == MBLOB_OK &&
        asks("add", "dfb", code) == MBLOB_OK);   /* sizes alone */
  CHECK(asks("bare", "pppp", code) == MBLOB_OK); /* nothing is told of it */
  CHECK(asks("add", "", cubin_of(NULL, 0)) == MBLOB_OK);
  REFUSES(
      asks("add", "pi", cubin_of((const uint32_t[]){5000, 4}, 2)), MBLOB_E_FORMAT,
      "argument 0 is declared handle and in the code of module 1 of deploy.so a value of 5000 bytes");
  REFUSES(asks("add", "p", cubin_of((const uint32_t[]){5000, 4}, 2)), MBLOB_E_FORMAT, "takes 2");
  REFUSES(asks("add", "pi", code), MBLOB_E_FORMAT, "declared with 2 arguments and takes 3");
  REFUSES(asks("add", "p", cubin_of(NULL, 0)), MBLOB_E_FORMAT,
          "declared with 1 arguments and takes 0");
  REFUSES(
      asks("add", "plb", code), MBLOB_E_FORMAT,
      "argument 1 is declared int64 and in the code of module 1 of deploy.so a value of 4 bytes");
  REFUSES(
      asks("add", "pii", code), MBLOB_E_FORMAT,
      "argument 2 is declared int32 and in the code of module 1 of deploy.so a value of 1 byte");
  REFUSES(asks("add", "iib", code), MBLOB_E_FORMAT, "argument 0 is declared int32");
  REFUSES(
      asks("helper", "", code), MBLOB_E_FORMAT,
      "kernel 'helper' is declared and not in the code of module 1 of deploy.so, which has: add, bare");
  REFUSES(asks("nowhere", "", code), MBLOB_E_FORMAT,
          "kernel 'nowhere' is declared and not in the code");
}

/* Every byte of the tables and every length: taken or refused, and never read behind. */
static void damaged_cubins(void) {
  static const unsigned char changes[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
  const struct bytes code = cubin_of((const uint32_t[]){8, 4, 1}, 3);
  begin();
  for (size_t size = 0; size < code.size; size++) {
    struct bytes cut = code;
    cut.size = size;
    CHECK(asks("add", "pib", cut) == MBLOB_E_FORMAT);
  }
  for (size_t at = 4; at < code.size; at++)
    for (size_t i = 0; i < sizeof(changes); i++) {
      struct bytes other = code;
      other.data[at] = changes[i];
      const int status = asks("add", "pib", other);
      CHECK(status == MBLOB_OK || status == MBLOB_E_FORMAT);
    }
}

/* ---- fatbin ---------------------------------------------------------------------------------- */

static const char small_ptx[] =
    ".version 8.0\n.target sm_50\n.entry add(.param .u64 a, .param .f32 b) { ret; } .entry more() {}";

static void fatbins_tell_what_their_images_tell(void) {
  const struct bytes cubin = cubin_of((const uint32_t[]){8, 4}, 2);
  const struct image elf = {2, 0x11, cubin.data, cubin.size},
                     text = {1, 0x11, small_ptx, sizeof(small_ptx)},
                     packed = {2, 0x8011, "zstd", 4},
                     lz4 = {1, 0x2011, small_ptx, sizeof(small_ptx)}, other = {64, 0, "?", 1};
  begin();
  const struct bytes both = fatbin_of((const struct image[]){elf, text}, 2);
  CHECK(asks("add", "pf", both) == MBLOB_OK && asks("add", "pi", both) == MBLOB_OK &&
        asks("more", "", both) == MBLOB_OK);
  REFUSES(asks("add", "p", both), MBLOB_E_FORMAT, "declared with 1 arguments and takes 2");
  REFUSES(asks("more", "p", both), MBLOB_E_FORMAT, "declared with 1 arguments and takes 0");
  REFUSES(asks("nowhere", "", both), MBLOB_E_FORMAT, "which has: add, bare, more");
  REFUSES(asks("add", "pi", fatbin_of(&text, 1)), MBLOB_E_FORMAT,
          "argument 1 is declared int32 and in the code of module 1 of deploy.so a float");
  /* What cannot be read may have it. */
  CHECK(asks("nowhere", "p", fatbin_of((const struct image[]){elf, packed}, 2)) == MBLOB_OK);
  CHECK(asks("nowhere", "p", fatbin_of(&lz4, 1)) == MBLOB_OK &&
        asks("nowhere", "p", fatbin_of(&other, 1)) == MBLOB_OK);
  REFUSES(asks("add", "p", fatbin_of((const struct image[]){packed, elf}, 2)), MBLOB_E_FORMAT,
          "takes 2");
  for (size_t size = 0; size < both.size; size++) {
    struct bytes cut = both;
    cut.size = size;
    CHECK(asks("add", "pf", cut) == MBLOB_E_FORMAT);
  }
  for (size_t at = 4; at < both.size; at++) {
    struct bytes changed = both;
    changed.data[at] ^= 0x81;
    const int status = asks("add", "pf", changed);
    CHECK(status == MBLOB_OK || status == MBLOB_E_FORMAT);
  }
}

/* ---- a lie about one kernel ------------------------------------------------------------------ */

static void the_other_kernels_of_the_module_work(void) {
  struct bytes payload = {.size = 0};
  void *self, *function = NULL;
  begin();
  put_string(&payload, "ptx");
  put_u64(&payload, 3);
  put_kernel(&payload, "add", "pf", "");
  put_kernel(&payload, "more", "i", "");
  put_kernel(&payload, "gone", "", "");
  put_string(&payload, small_ptx);
  CHECK(open_payload(&payload, &self) == MBLOB_OK);
  for (int i = 0; i < 2; i++) {
    REFUSES(runtime->function(self, "more", &function), MBLOB_E_FORMAT,
            "kernel 'more' is declared with 1 arguments");
    REFUSES(runtime->function(self, "gone", &function), MBLOB_E_FORMAT,
            "kernel 'gone' is declared and not in the code");
    CHECK(runtime->function(self, "unknown", &function) == MBLOB_OK && !function);
    CHECK(runtime->call(self, function_of(self, "add"),
                        (TVMValue[]){{.v_handle = NULL}, {.v_float64 = 1}},
                        (int[]){kTVMNullptr, kTVMArgFloat}, 2, NULL) == MBLOB_OK);
  }
  runtime->close(self);
  nothing_is_left();
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  if (!cuda_tables(argv[1])) return 0;
  RUN_ALONE(ptx_tells_names_sizes_and_floats);
  RUN_ALONE(ptx_that_ends_anywhere);
  RUN_ALONE(cubins_tell_names_and_sizes);
  RUN_ALONE(damaged_cubins);
  RUN_ALONE(fatbins_tell_what_their_images_tell);
  RUN_ALONE(the_other_kernels_of_the_module_work);
  return 0;
}
