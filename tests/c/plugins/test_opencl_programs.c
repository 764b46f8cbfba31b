/* Programs of the OpenCL plug-in over fake_opencl.so: payloads true and false, what a program
 * takes against its declaration, and the cache of them. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64 /* files of 64-bit inode numbers, where `long` has 32 */
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "opencl_host.h"

static const char *libraries;

/* ---- payloads -------------------------------------------------------------------------------- */

static void refused(struct payload p, const char *text) {
  CHECK(open_payload(&p) == NULL);
  CHECK(said(text));
}

/* One kernel of the module is refused when it is looked up. */
static void lies(struct payload p, const char *kernel, const char *text) {
  void *module = open_payload(&p), *function = &p;
  CHECK(module);
  for (int i = 0; i < 2; i++)
    CHECK(runtime->function(module, kernel, &function) == MBLOB_E_FORMAT && !function &&
          said(text));
  CHECK(runtime->function(module, "nobody", &function) == MBLOB_OK && !function);
  runtime->close(module);
}

static void payloads_that_lie(void) {
  const char *const no_parts = "__kernel void k() {}";
  struct payload p = {.size = 0};
  lies(source_of("k", "p", "blockIdx.x", "__kernel void other() {}"), "k",
       "kernel 'k' is declared and not in the source");
  lies(source_of("k", "", "", "__kernel void kk() {}"), "k",
       "kernel 'k' is declared and not in the source");
  refused(source_of("k", "", "", ""), "there is no program");
  lies(source_of("k", "h", "", no_parts), "k",
       "kernel 'k': argument 0 is declared float16; kernels take");
  lies(source_of("k", "", "vthread", no_parts), "k",
       "kernel 'k': launch tag 'vthread' is not known");
  lies(
      source_of(
          "k", "",
          "blockIdx.x,blockIdx.x,blockIdx.y,blockIdx.z,threadIdx.x,threadIdx.y,threadIdx.z,blockIdx.y,blockIdx.z,threadIdx.x",
          no_parts),
      "k", "launch tag 'blockIdx.x' comes twice");
  lies(source_of("k", "", "tir.use_dyn_shared_memory,blockIdx.x", no_parts), "k",
       "'tir.use_dyn_shared_memory' must be the last");
  refused(source_of("k", "", "", "// Function: other\nx"),
          "a program for kernel 'other', which is not declared");
  refused(source_of("k", "", "", "// Function: k\nx\n// Function: k\ny"),
          "two programs for kernel 'k'");
  refused(source_of("", "", "", no_parts), "kernel: name: 0 bytes long");
  put_text(&p, "cl");
  put_number(&p, 2, 8);
  put_kernel(&p, "a", "", "");
  put_kernel(&p, "a", "", "");
  put_text(&p, no_parts);
  refused(p, "kernel 'a' is listed twice");
  p = source_of("k", "", "", no_parts);
  put_number(&p, 0, 3);
  refused(p, "3 bytes are left over");
  p = (struct payload){.size = 0};
  put_text(&p, "metal");
  refused(p, "unknown format 'metal'");
}

static struct payload four_kernels(const char *text) {
  struct payload p = {.size = 0};
  put_text(&p, "cl");
  put_number(&p, 4, 8);
  put_kernel(&p, "good", "i", "threadIdx.x");
  put_kernel(&p, "gone", "", "");
  put_kernel(&p, "tagged", "", "threadIdx.w");
  put_kernel(&p, "half", "h", "");
  put_text(&p, text);
  return p;
}

static void the_other_kernels_of_the_module_work(void) {
  static const char *const texts[] = {
      "// Function: good\n__kernel void good(int a) {}\n// Function: tagged\n__kernel void tagged() {}\n",
      "__kernel void good(int a) {} __kernel void tagged() {} __kernel void half() {}"};
  for (int i = 0; i < 2; i++) {
    const struct payload p = four_kernels(texts[i]);
    lies(p, "gone",
         i ? "kernel 'gone' is declared and not in the source"
           : "kernel 'gone' is declared and has no program");
    lies(p, "tagged", "kernel 'tagged': launch tag 'threadIdx.w' is not known");
    lies(p, "half", "kernel 'half': argument 0 is declared float16");
    void *module = open_payload(&p);
    CHECK(call(module, "good", (TVMValue[]){{1}, {1}}, (int[]){0, 0}, 2) == MBLOB_OK);
    runtime->close(module);
  }
  CHECK(fake->launches == 2 && fake->live == 2);
}

/* Every prefix, and every byte changed in several ways: opened or refused, never more. */
static void damaged_payloads(void) {
  const struct payload good = source_of("vadd", "pil", "blockIdx.x,threadIdx.y", vadd_text);
  for (size_t size = 0; size < good.size; size++) {
    struct payload p = good;
    p.size = size;
    CHECK(open_payload(&p) == NULL);
  }
  static const uint8_t changes[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
  for (size_t at = 0; at < good.size; at++)
    for (size_t i = 0; i < sizeof(changes); i++) {
      struct payload p = good;
      p.bytes[at] = changes[i];
      void *module = open_payload(&p);
      if (module) runtime->close(module);
    }
}

static int launches(const char *types, const char *text) {
  struct payload p = source_of("k", types, "", text);
  void *module = open_payload(&p), *function = &p;
  const TVMValue args[6] = {{.v_int64 = 0}};
  const int codes[6] = {0};
  CHECK(module && runtime->function(module, "nobody", &function) == MBLOB_OK && !function);
  const int status = call(module, "k", args, codes, (int)strlen(types));
  runtime->close(module);
  return status;
}

static void source_of_older_and_newer_releases(void) {
  CHECK(launches("ii", "__kernel void a() {} __kernel void k(int a, int b) {}") == MBLOB_OK);
  CHECK(launches("i", "// Function: k \r\n__kernel void k(int a) {}\n") == MBLOB_OK);
  CHECK(launches("i", "#define X 1\n// Function: k\n__kernel void k(int a) {}\n") ==
        MBLOB_OK); /* a head for every part */
  CHECK(launches("i", "  // Function: j\n__kernel void k(int a) {}\n") ==
        MBLOB_OK); /* not at the begin of a line */
}

static void a_program_that_differs_from_its_declaration(void) {
  CHECK(launches("i", "__kernel void j(int k) {} __kernel void l() {}") == MBLOB_E_NOT_FOUND);
  CHECK(said("kernel 'k' is declared and its program has no kernel of that name; it has: j;l"));
  CHECK(launches("i", "__kernel void k(int a, int b) {}") == MBLOB_E_FORMAT);
  CHECK(said("kernel 'k' is declared with 1 arguments and its program has 2"));
  CHECK(launches("i", "// Function: k\n#error no") == MBLOB_E_KERNEL);
  CHECK(said(
      "kernel 'k' cannot be built: line 3: error: one | line 4: error: two | line 5: error: three on device 0 (Fake GPU 1): "
      "CL_BUILD_PROGRAM_FAILURE (-11)"));
  setenv("MBLOB_OPENCL_OPTIONS", "-bad", 1);
  CHECK(launches("i", "__kernel void k(int a) {}") == MBLOB_E_KERNEL && said("-11"));
  CHECK(fake->live == 2);
}

static int refuses(const char *types, const char *text, const char *expected) {
  return launches(types, text) == MBLOB_E_FORMAT && said(expected);
}

/* Without memory: what the call gives is refused only after the program was looked at, and never
 * reaches the driver. */
static void parameters_of_another_kind(void) {
  static const struct {
    const char *types, *parameter, *expected;
  } lies[] = {
      {"l", "__global float *x",
       "argument 0 is declared int64 and in its program a pointer to global memory (float*)"},
      {"l", "__constant int *x", "a pointer to constant memory (int*)"},
      {"l", "__local int *x",
       "argument 0 is declared int64 and in its program a pointer to local memory (int*)"},
      {"l", "read_only image2d_t x",
       "argument 0 is declared int64 and in its program an image (image2d_t)"},
      {"l", "sampler_t x", "a sampler (sampler_t)"},
      {"l", "struct pair x", "a value (struct pair)"},
      {"l", "int2 x", "argument 0 is declared int64 and in its program a value (int2)"},
      {"l", "uint x", "argument 0 is declared int64 and in its program a value (uint)"},
      {"W", "uchar x", "argument 0 is declared uint16 and in its program a value (uchar)"},
      {"b", "int x", "argument 0 is declared int8 and in its program a value (int)"},
      {"f", "int x", "argument 0 is declared float32 and in its program a value (int)"},
      {"d", "ulong x", "argument 0 is declared float64 and in its program a value (ulong)"},
      {"i", "own_t x",
       "argument 0 is declared int32 and in its program a value (own_t)"}, /* a float */
      {"d", "own_t x", "argument 0 is declared float64 and in its program a value (own_t)"},
      {"i", "float x", "argument 0 is declared int32 and in its program a value (float)"},
      {"d", "float x", "argument 0 is declared float64 and in its program a value (float)"},
      {"f", "half x", "argument 0 is declared float32 and in its program a value (half)"},
      {"il", "int x, __global int *y",
       "argument 1 is declared int64 and in its program a pointer"}};
  char text[128];
  for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
    snprintf(text, sizeof(text), "__kernel void k(%s) {}", lies[i].parameter);
    CHECK(refuses(lies[i].types, text, lies[i].expected) && said("opencl: kernel 'k'"));
  }
  CHECK(fake->launches == 0 && fake->live == 2);
  CHECK(launches("ilBf", "__kernel void k(int a, long b, unsigned char c, own_t d) {}") ==
        MBLOB_OK);
  CHECK(launches("ilBIWL", "__kernel void k(uint a, ulong b, char c, int d, short e, long f) {}") ==
        MBLOB_OK); /* size and class */
  fail("clBuildProgram", 1, 1,
       CL_OUT_OF_HOST_MEMORY); /* when it is asked for own_t: nothing is known then */
  CHECK(launches("i", "__kernel void k(own_t x) {}") == MBLOB_OK && fake->live == 2);
}

static int gives(const char *types, const char *text, void *memory) {
  struct payload p = source_of("k", types, "", text);
  void *module = open_payload(&p);
  const TVMValue args[1] = {{.v_handle = memory}};
  const int codes[1] = {memory ? kTVMOpaqueHandle : kTVMNullptr};
  const int status = call(module, "k", args, codes, 1);
  runtime->close(module);
  return status;
}

static void pointers_are_to_memory(void) {
  void *memory;
  CHECK(!device->allocate(0, 64, 64, &memory));
  CHECK(gives("p", "__kernel void k(__global float *x) {}", memory) == MBLOB_OK);
  CHECK(gives("p", "__kernel void k(__constant float *x) {}", memory) == MBLOB_OK);
  CHECK(gives("p", "__kernel void k(__local float *x) {}", memory) == MBLOB_E_FORMAT &&
        said("declared handle and in its program a pointer to local"));
  CHECK(gives("p", "__kernel void k(read_only image2d_t x) {}", memory) == MBLOB_E_FORMAT &&
        said("declared handle and in its program an image"));
  CHECK(gives("p", "__kernel void k(ulong x) {}", memory) == MBLOB_E_FORMAT &&
        said("declared handle and in its program a value (ulong)"));
  CHECK(gives("p", "__kernel void k(__global float *x) {}", NULL) == MBLOB_E_ARGUMENT);
  CHECK(said("kernel 'k': argument 0 is a pointer and was given none") && fake->launches == 2);
  CHECK(!device->free(0, memory) && fake->live == 2);
}

static void drivers_that_do_not_tell(void) {
  const char *const lie = "__kernel void k(__global float *x) {}";
  fail("clGetKernelArgInfo", 0, 1, CL_KERNEL_ARG_INFO_NOT_AVAILABLE);
  CHECK(launches("l", lie) == MBLOB_OK);
  fail("clGetKernelArgInfo", 1, 0, CL_KERNEL_ARG_INFO_NOT_AVAILABLE); /* only the qualifier */
  CHECK(launches("l", lie) == MBLOB_E_FORMAT &&
        said("declared int64 and in its program a pointer to global memory"));
  fake_succeed(&fake->calls);
  CHECK(launches("l", lie) == MBLOB_E_FORMAT);
  mb_cl.clGetKernelArgInfo = NULL; /* a library without it */
  CHECK(launches("l", lie) == MBLOB_OK);
}

static void programs_that_drivers_wrote(void) {
  struct payload p = {.size = 0};
  put_text(&p, "clbin");
  put_number(&p, 1, 8);
  put_kernel(&p, "vadd", "ppp", "blockIdx.x,threadIdx.x");
  struct payload other = p;
  put_text(
      &p, "FAKEBIN __kernel void vadd(__global float *a, __global float *b, __global float *c) {}");
  void *module = open_payload(&p);
  CHECK(add_vectors(module, 1) == MBLOB_OK && fake->compilations == 0);
  runtime->close(module);
  put_text(&other, "NEWER DRIVER");
  module = open_payload(&other);
  CHECK(add_vectors(module, 0) == MBLOB_E_KERNEL &&
        said("not for this device or driver (Fake Platform 0, driver 7.5)"));
  CHECK(said("CL_INVALID_BINARY (-42)"));
  runtime->close(module);
}

static struct payload spirv_payload(uint32_t magic) {
  static const char code[] =
      "__kernel void vadd(__global float *a, __global float *b, __global float *c) {} ";
  const size_t words = (sizeof(code) - 1) / 4;
  struct payload p = {.size = 0};
  put_number(&p, 1, 8);
  put_kernel(&p, "vadd", "ppp", "blockIdx.x,threadIdx.x");
  put_number(&p, 1, 8);
  put_text(&p, "vadd");
  put_number(&p, 0, 4);
  put_number(&p, 5 + words, 8);
  put_number(&p, magic, 4);
  put_number(&p, 0, 8);
  put_number(&p, 0, 8);
  for (size_t i = 0; i < 4 * words; i++) put_number(&p, (uint8_t)code[i], 1);
  return p;
}

static void spirv_where_the_device_takes_it(void) {
  struct payload p = spirv_payload(0x07230203);
  void *module = open_payload(&p);
  CHECK(add_vectors(module, 0) == MBLOB_E_INCOMPATIBLE &&
        said("'vadd' is SPIR-V, which device 0 (Fake GPU 1, OpenCL 2.1 Fake)"));
  setenv("FAKE_CL_IL", "1", 1);
  CHECK(add_vectors(module, 0) == MBLOB_OK);
  runtime->close(module);
  refused(spirv_payload(0), "the program of kernel 'vadd' is no SPIR-V");
}

/* ---- the cache ------------------------------------------------------------------------------- */

static char cache[256];

static void forget_cache(void) {
  char command[320];
  snprintf(cache, sizeof(cache), "%s/opencl_cache_%d", libraries, (int)getpid());
  snprintf(command, sizeof(command), "rm -rf '%s'", cache);
  CHECK(system(command) == 0);
  setenv("MBLOB_CACHE_DIR", cache, 1);
  setenv("MBLOB_CACHE", "1", 1);
}

/* The only file in the cache. */
static const char *cached_file(void) {
  static char path[640];
  char folder[300];
  int found = 0;
  snprintf(folder, sizeof(folder), "%s/opencl", cache);
  DIR *list = opendir(folder);
  CHECK(list);
  for (struct dirent *entry; (entry = readdir(list));)
    if (entry->d_name[0] != '.') {
      snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
      found++;
    }
  closedir(list);
  CHECK(found == 1);
  return path;
}

/* How often the compiler runs for another use of vadd. */
static int compilations(void) {
  const struct payload p = vadd_payload();
  const int before = fake->compilations;
  void *module = open_payload(&p);
  CHECK(add_vectors(module, 0) == MBLOB_OK && add_vectors(module, 0) == MBLOB_OK);
  runtime->close(module);
  return fake->compilations - before;
}

static void damage(const char *path, long at, int byte, long size) {
  FILE *file = fopen(path, "r+b");
  CHECK(file && fseek(file, at, SEEK_SET) == 0 && fputc(byte, file) == byte && fclose(file) == 0);
  if (size >= 0) CHECK(truncate(path, size) == 0);
}

static void programs_are_compiled_once(void) {
  forget_cache();
  CHECK(compilations() == 1 && compilations() == 0);
  const char *path = cached_file();
  struct stat st;
  CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
  damage(path, st.st_size - 1, 'X', -1);
  CHECK(compilations() == 1 && compilations() == 0); /* written anew */
  damage(path, 40, 0, 50);
  CHECK(compilations() == 1 && compilations() == 0);
  damage(path, 0, 'm', 0);
  CHECK(compilations() == 1);
  CHECK(chmod(path, 0666) == 0 && compilations() == 1 &&
        compilations() == 0);                   /* others may have written it */
  fail("clCreateProgramWithBinary", 0, 1, -42); /* intact, and the driver does not want it */
  CHECK(compilations() == 1);
  setenv("MBLOB_OPENCL_OPTIONS", "-cl-mad-enable", 1);
  CHECK(compilations() == 1);
  unsetenv("MBLOB_OPENCL_OPTIONS");
  setenv("MBLOB_CACHE", "0", 1);
  CHECK(compilations() == 1);
  CHECK(fake->live == 2);
  forget_cache();
}

static void a_process_that_is_killed_leaves_no_file(void) {
  forget_cache();
  const pid_t child = fork();
  if (!child) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    setrlimit(RLIMIT_FSIZE,
              &(struct rlimit){16, 16}); /* bytes; the write of more ends the process */
    (void)compilations();
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
  CHECK(compilations() == 1);
  (void)cached_file(); /* one */
  forget_cache();
}

static void what_differs_from_its_declaration_is_not_kept(void) {
  forget_cache();
  setenv("FAKE_CL_FORGETS", "1", 1);
  const char *const text = "__kernel void k(long x) {}";
  for (int i = 0; i < 2; i++)
    CHECK(refuses("d", text, "argument 0 is declared float64") && fake->compilations == i + 1);
  for (int i = 0; i < 2; i++) CHECK(launches("l", text) == MBLOB_OK && fake->compilations == 3);
  CHECK(refuses("d", text, "argument 0 is declared float64") &&
        fake->compilations == 4); /* the same source */
  (void)cached_file();            /* one */
  forget_cache();
}

/* Once compiled, once asked for own_t; from then on read. */
static void types_of_the_source_are_asked_for_once(void) {
  forget_cache();
  const char *const text = "__kernel void k(own_t x) {}";
  CHECK(launches("f", text) == MBLOB_OK && fake->compilations == 2);
  CHECK(launches("f", text) == MBLOB_OK && fake->compilations == 2);
  CHECK(refuses("i", text, "(own_t)") &&
        fake->compilations == 5); /* to keep it or not, and to say why not */
  forget_cache();
}

static void where_the_cache_is(void) {
  forget_cache();
  unsetenv("MBLOB_CACHE_DIR");
  setenv("HOME", cache, 1);
  unsetenv("XDG_CACHE_HOME");
  char path[300];
  CHECK(compilations() == 1 && compilations() == 0);
  snprintf(path, sizeof(path), "%s/.cache/mblob/opencl", cache);
  CHECK(access(path, F_OK) == 0);
  snprintf(path, sizeof(path), "%s/xdg", cache);
  setenv("XDG_CACHE_HOME", path, 1);
  CHECK(compilations() == 1 && compilations() == 0);
  setenv("XDG_CACHE_HOME", "relative", 1); /* to be ignored */
  CHECK(compilations() == 0);
  setenv("MBLOB_CACHE_DIR", "/proc/nowhere", 1);
  CHECK(compilations() == 1);
  unsetenv("MBLOB_CACHE_DIR"), unsetenv("XDG_CACHE_HOME"), unsetenv("HOME");
  CHECK(compilations() == 1);
  forget_cache();
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  libraries = argv[1];
  use_fake(libraries);
  APART(payloads_that_lie);
  APART(the_other_kernels_of_the_module_work);
  APART(damaged_payloads);
  APART(source_of_older_and_newer_releases);
  APART(a_program_that_differs_from_its_declaration);
  APART(parameters_of_another_kind);
  APART(pointers_are_to_memory);
  APART(drivers_that_do_not_tell);
  APART(programs_that_drivers_wrote);
  APART(spirv_where_the_device_takes_it);
  APART(programs_are_compiled_once);
  APART(a_process_that_is_killed_leaves_no_file);
  APART(what_differs_from_its_declaration_is_not_kept);
  APART(types_of_the_source_are_asked_for_once);
  APART(where_the_cache_is);
  return 0;
}
