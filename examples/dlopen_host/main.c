/* No mblob at all: a packed library is a shared library, and a plain C function in it keeps its
 * symbol. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef void vadd_function(const float *, const float *, float *, int64_t);

int main(int argc, char **argv) {
  void *library = dlopen(argc > 1 ? argv[1] : "./deploy.so", RTLD_NOW | RTLD_LOCAL);
  void *symbol = library == NULL ? NULL : dlsym(library, "vadd");
  if (symbol == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  vadd_function *vadd = NULL;
  memcpy(&vadd, &symbol,
         sizeof vadd); /* C has no cast from an object pointer to a function pointer */
  float a[3] = {1, 2, 3}, b[3] = {10, 20, 30}, c[3];
  vadd(a, b, c, 3);
  printf("%g %g %g\n", (double)c[0], (double)c[1], (double)c[2]);
  dlclose(library);
  return 0;
}
