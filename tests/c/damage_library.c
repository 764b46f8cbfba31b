/* damage_library LIBRARY FROM TO: flips each bit of these bytes of the library, one after the other, and
 * opens the result in a child process. Prints "refused N opened N died N"; a child that a signal ended, or
 * that the dynamic linker ended, has died. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static uint8_t bytes[4 << 20];

static void open_it(size_t size) {
  mblob_module *module;
  mblob_function *function;
  mblob_open_options options = {sizeof(options), MBLOB_VERIFY_FULL, MBLOB_MISSING_STUB, 0, NULL};
  (void)alarm(20);
  if (mblob_open_memory(bytes, size, &options, &module) != MBLOB_OK) _exit(1);
  if (mblob_module_function(module, "vadd", 1, &function) == MBLOB_OK) mblob_function_release(function);
  mblob_module_release(module);
  _exit(0);
}

int main(int argc, char **argv) {
  long refused = 0, opened = 0, died = 0;
  CHECK(argc == 4);
  FILE *file = fopen(argv[1], "rb");
  CHECK(file);
  size_t size = fread(bytes, 1, sizeof(bytes), file), to = strtoul(argv[3], NULL, 0);
  fclose(file);
  for (size_t at = strtoul(argv[2], NULL, 0); at < to && at < size; at++)
    for (int bit = 0; bit < 8; bit++) {
      bytes[at] ^= (uint8_t)(1u << bit);
      pid_t child = fork();
      if (!child) open_it(size);
      int status;
      CHECK(waitpid(child, &status, 0) == child);
      bytes[at] ^= (uint8_t)(1u << bit);
      if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
        died++;
      else if (WEXITSTATUS(status))
        refused++;
      else
        opened++;
    }
  printf("refused %ld opened %ld died %ld\n", refused, opened, died);
  return 0;
}
