/* golden_host DIRECTORY: runs what TVM 0.14 compiled, from C; prints the tree of each library
 * given behind it. */
#include "../common/check.h"

static void run_vadd(const char *directory, const char *name) {
  enum { N = 1024 };
  float *a = aligned_alloc(64, N * sizeof(float)), *b = aligned_alloc(64, N * sizeof(float));
  float *c = aligned_alloc(64, (N + 16) * sizeof(float));
  mblob_module *module;
  CHECK(a && b && c && mblob_open(in(directory, name), NULL, &module) == MBLOB_OK);
  const char *const functions[] = {"vadd", "__tvm_main__"};
  for (int f = 0; f < 2; f++)
    for (int shift = 0; shift < 2;
         shift++) { /* an output that is aligned like one element works, too */
      for (int i = 0; i < N; i++) a[i] = (float)i, b[i] = (float)(3 * i), c[i + shift] = -1;
      CHECK(mblob_call(module, functions[f], "float32[1024],float32[1024],float32[*]", a, b,
                       (int64_t)N, c + shift) == MBLOB_OK);
      for (int i = 0; i < N; i++) CHECK(c[i + shift] == (float)(4 * i));
    }
  mblob_module_release(module);
  free(a);
  free(b);
  free(c);
}

static void run_matmul(const char *directory) {
  enum { N = 512 };
  float *a = aligned_alloc(64, N * N * sizeof(float)),
        *c = aligned_alloc(64, N * N * sizeof(float));
  mblob_module *module;
  CHECK(a && c && mblob_open(in(directory, "host_parallel.so"), NULL, &module) == MBLOB_OK);
  for (int i = 0; i < N * N; i++) a[i] = (float)(i % 7 - 3);
  for (int round = 0; round < 3; round++)
    CHECK(mblob_call(module, "par_matmul", "float32[512,512],float32[512,512]", a, c) == MBLOB_OK);
  for (int i = 0; i < N; i += 37)
    for (int j = 0; j < N; j += 41) {
      float sum = 0; /* whole numbers below 2^24: exact */
      for (int k = 0; k < N; k++) sum += 4 * a[i * N + k] * a[k * N + j];
      CHECK(c[i * N + j] == sum);
    }
  mblob_module_release(module);
  free(a);
  free(c);
}

static void print_tree(const mblob_module *module) {
  printf("{\"type_key\": \"%s\", \"imports\": [", mblob_module_type_key(module));
  for (size_t i = 0; i < mblob_module_import_count(module); i++) {
    if (i) printf(", ");
    print_tree(mblob_module_import_at(module, i));
  }
  printf("]}");
}

int main(int argc, char **argv) {
  CHECK(argc >= 2);
  if (argc == 2) {
    run_vadd(argv[1], "host_llvm.so");
    run_vadd(argv[1], "host_c.so");
    run_matmul(argv[1]);
  }
  for (int i = 2; i < argc; i++) {
    mblob_module *module;
    mblob_open_options stub = {sizeof(stub), MBLOB_VERIFY_FULL, MBLOB_MISSING_STUB, 0, NULL, 0, 0};
    CHECK(mblob_open(in(argv[1], argv[i]), &stub, &module) == MBLOB_OK);
    print_tree(module);
    printf("\n");
    mblob_module_release(module);
  }
  return 0;
}
