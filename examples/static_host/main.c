/* A program that holds its kernels: nothing is opened, nothing is looked for at run time.
 * README.md says how. */
#include <mblob.h>
#include <stdio.h>

int main(void) {
  float a[3] = {1, 2, 3}, b[3] = {10, 20, 30}, c[3];
  mblob_module *lib;
  if (mblob_system_lib("vadd_", &lib) ||
      mblob_call(lib, "vadd", "float32[3],float32[3],float32[3],int64", a, b, c, (int64_t)3))
    return fprintf(stderr, "%s\n", mblob_last_error()), 1;
  printf("%g %g %g\n", (double)c[0], (double)c[1], (double)c[2]);
  mblob_module_release(lib);
  return 0;
}
