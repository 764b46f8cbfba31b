/* What the C reader takes to check a library: looking FILE. */
#include <mblob.h>
#include <stdio.h>

int main(int argc, char **argv) {
  mblob_module *library;
  if (argc != 2) return fprintf(stderr, "looking FILE\n"), 2;
  if (mblob_open_readonly(argv[1], MBLOB_VERIFY_FULL, &library))
    return fprintf(stderr, "%s\n", mblob_last_error()), 1;
  mblob_module_release(library);
  return 0;
}
