/* Open a library and call a kernel: build deploy.so of ../vadd.c first, as ../README.md shows. */
#include <mblob.h>
#include <stdio.h>

int main(int argc, char **argv) {
  float a[3] = {1, 2, 3}, b[3] = {10, 20, 30}, c[3];
  mblob_module *m = NULL;
  int status = mblob_open(argc > 1 ? argv[1] : "deploy.so", NULL, &m);
  if (status == MBLOB_OK)
    status = mblob_call(m, "vadd", "float32[3],float32[3],float32[3],int64", a, b, c, (int64_t)3);
  if (status == MBLOB_OK)
    printf("%g %g %g\n", c[0], c[1], c[2]);
  else
    fprintf(stderr, "%s\n", mblob_last_error());
  mblob_module_release(m);
  return status != MBLOB_OK;
}
