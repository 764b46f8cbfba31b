/* What a call of `add4` takes: calling FILE ROUNDS CALLS. A line for each round: CPU seconds per call of
 * mblob_function_call, of mblob_call_prepared, of the same with extents as arguments, and of mblob_call. */
#include <mblob.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
  static const char types[] = "float32[4],float32[4],float32[4]";
  static const char open_types[] = "float32[*],float32[*],float32[*]";
  _Alignas(64) float a[3][16] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
  int64_t four = 4;
  DLTensor tensors[3];
  TVMValue values[3];
  int codes[3], status = 0;
  mblob_module *library;
  mblob_function *add;
  mblob_prepared *prepared, *open;
  if (argc != 4) return fprintf(stderr, "calling FILE ROUNDS CALLS\n"), 2;
  if (mblob_open(argv[1], NULL, &library) || mblob_module_function(library, "add4", 0, &add) ||
      mblob_prepare(library, "add4", types, &prepared) ||
      mblob_prepare(library, "add4", open_types, &open))
    return fprintf(stderr, "%s\n", mblob_last_error()), 1;
  for (int i = 0; i < 3; i++) {
    tensors[i] = (DLTensor){a[i], {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &four, NULL, 0};
    values[i].v_handle = &tensors[i];
    codes[i] = kTVMDLTensorHandle;
  }
  const int count = atoi(argv[3]);
  for (int round = atoi(argv[2]); round > 0; round--) {
    const double start = now();
    for (int i = 0; i < count; i++)
      status |= mblob_function_call(add, values, codes, 3, NULL, NULL);
    const double function = now();
    for (int i = 0; i < count; i++) status |= mblob_call_prepared(prepared, a[0], a[1], a[2]);
    const double fixed = now();
    for (int i = 0; i < count; i++)
      status |= mblob_call_prepared(open, four, a[0], four, a[1], four, a[2]);
    const double other = now();
    for (int i = 0; i < count; i++) status |= mblob_call(library, "add4", types, a[0], a[1], a[2]);
    printf("%g %g %g %g\n", (function - start) / count, (fixed - function) / count,
           (other - fixed) / count, (now() - other) / count);
  }
  mblob_prepared_release(prepared);
  mblob_prepared_release(open);
  mblob_function_release(add);
  mblob_module_release(library);
  return status != 0;
}
