/* damage_library LIBRARY check|load: reads changes from stdin, one a line, each "OFFSET:HEX
 * OFFSET:HEX ..." (offsets decimal, bytes as hexadecimal digits), and makes each in a copy of
 * the library. Prints a line for each:
 *   check: "refused" or "accepted" by what is checked of an ELF file before the dynamic linker sees
 *     it;
 *   load: "refused", "opened", or "died N": a signal ended the child process that opened and closed
 *     it, or the dynamic linker did (N: the status of waitpid). "crashed in code" is said instead
 *     where the library's own code was running, on wrong data, or had called the linker (on x86-64;
 *     elsewhere "died"). With "errors" behind the verb, the error as well. */
#define _GNU_SOURCE
#include <link.h>
#include <signal.h>
#include <ucontext.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/check.h"
#include "elf/elf.h"

static uint8_t whole[8 << 20], bytes[8 << 20];
static bool errors;

static void change(const char *line, size_t size) {
  char *end = NULL;
  for (const char *p = line; *p && *p != '\n'; p = end + strspn(end, " ")) {
    size_t at = strtoul(p, &end, 10);
    CHECK(*end == ':');
    for (end++; strchr("0123456789abcdef", *end) && *end; end += 2, at++) {
      unsigned byte = 0;
      CHECK(at < size && sscanf(end, "%2x", &byte) == 1);
      bytes[at] = (uint8_t)byte;
    }
  }
}

static const char *error(void) { return errors ? mblob_last_error() : ""; }

static void check_it(size_t size) {
  struct mb_elf elf;
  bool sound = mb_elf_read(bytes, size, &elf) == MBLOB_OK;
  printf("%s %s\n", sound ? "accepted" : "refused", sound ? "" : error());
}

/* ---- where a crash is: the dynamic linker's code, or another's ---- */

static uintptr_t linker_start, linker_end, stack_end;
static struct link_map *last_at_start;

static int find_linker(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  (void)data;
  if (!strstr(info->dlpi_name, "/ld")) return 0;
  linker_start = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_LOAD)
      linker_end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
  return 1;
}

#ifdef __x86_64__
/* Whether `word` is an address behind a call instruction of a library that was opened. */
static bool is_return(uintptr_t word) {
  for (struct link_map *m = last_at_start->l_next; m; m = m->l_next) {
    if (word < m->l_addr + 16 || word >= (uintptr_t)m->l_ld) continue;
    const uint8_t *code = (const uint8_t *)word;
    return code[-5] == 0xE8 || code[-2] == 0xFF || code[-3] == 0xFF || code[-6] == 0xFF;
  }
  return false;
}

/* Wrong code may call the linker: it runs as long as the stack leads back to it. */
static bool code_is_running(const greg_t *registers) {
  uintptr_t at = (uintptr_t)registers[16],
            sp = (uintptr_t)registers[15] & ~(uintptr_t)7; /* REG_RIP, REG_RSP */
  bool found = at < linker_start || at >= linker_end;
  for (; !found && sp < stack_end; sp += sizeof(uintptr_t))
    found = is_return(*(const uintptr_t *)sp);
  return found;
}
#endif

static void crashed(int number, siginfo_t *info, void *context) {
  (void)info;
  bool in_code = false;
#ifdef __x86_64__
  in_code = code_is_running(((ucontext_t *)context)->uc_mcontext.gregs);
#else
  (void)context;
#endif
  if (in_code) {
    static const char text[] = "crashed in code\n";
    if (write(1, text, sizeof(text) - 1) > 0) _exit(0);
  }
  (void)signal(number, SIG_DFL);
}

static void watch(void) {
  static uint8_t stack[65536];
  stack_end = (uintptr_t)__builtin_frame_address(0);
  for (last_at_start = _r_debug.r_map; last_at_start->l_next;)
    last_at_start = last_at_start->l_next;
  stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
  struct sigaction action = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  (void)sigaltstack(&other, NULL);
  static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
  for (size_t i = 0; i < sizeof(crashes) / sizeof(*crashes); i++)
    (void)sigaction(crashes[i], &action, NULL);
}

static void open_it(size_t size) {
  mblob_module *module;
  mblob_function *function;
  mblob_open_options options = {
      sizeof(options), MBLOB_VERIFY_FULL, MBLOB_MISSING_STUB, 0, NULL, 0, 0};
  (void)alarm(20);
  watch();
  if (mblob_open_memory(bytes, size, &options, &module) != MBLOB_OK) {
    printf("refused %s\n", error());
    fflush(stdout);
    _exit(0);
  }
  if (mblob_module_function(module, "vadd", 1, &function) == MBLOB_OK)
    mblob_function_release(function);
  mblob_module_release(module);
  printf("opened\n");
  fflush(stdout);
  _exit(0);
}

static void load_it(size_t size) {
  fflush(stdout);
  pid_t child = fork();
  if (!child) open_it(size);
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  if (status) printf("died %d\n", status);
}

int main(int argc, char **argv) {
  CHECK(argc >= 3);
  errors = argc > 3;
  FILE *file = fopen(argv[1], "rb");
  CHECK(file);
  size_t size = fread(whole, 1, sizeof(whole), file), room = 0;
  fclose(file);
  char *line = NULL;
  (void)dl_iterate_phdr(find_linker, NULL);
  while (getline(&line, &room, stdin) > 0) {
    memcpy(bytes, whole, size);
    change(line, size);
    (strcmp(argv[2], "load") == 0 ? load_it : check_it)(size);
  }
  free(line);
  return 0;
}
