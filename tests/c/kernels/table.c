/* A library with a table of functions. */
#include <tvm/runtime/c_runtime_api.h>

#ifndef TABLE
#define TABLE                                                  \
  "mblob functions 1\n"                                        \
  "scale\tscale\tplain\t0\tfloat *, float, int64_t\n"          \
  "scale\tscale__packed\tpacked\t0\tfloat *, float, int64_t\n" \
  "lonely\tlonely\tplain\t0\tint\n"                            \
  "wide\twide\tpacked\t32\t?\n"                                \
  "note\tnote\tpacked\t0\t?\n"                                 \
  "note_u64\tnote\tpacked\t0\tfloat *, uint64_t\n"
#endif

TVM_DLL extern const char __mblob_functions[];
TVM_DLL const char __mblob_functions[] = TABLE;

TVM_DLL void scale(float *x, float by, int64_t n);
TVM_DLL void scale(float *x, float by, int64_t n) {
  for (int64_t i = 0; i < n; i++) x[i] *= by;
}

TVM_DLL int scale__packed(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                          void *resource);
TVM_DLL int scale__packed(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                          void *resource) {
  (void)codes, (void)count, (void)ret, (void)ret_code, (void)resource;
  scale(((DLTensor *)args[0].v_handle)->data, (float)args[1].v_float64, args[2].v_int64);
  return 0;
}

TVM_DLL int lonely(int x);
TVM_DLL int lonely(int x) { return x; }

TVM_DLL int wide(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                 void *resource);
TVM_DLL int wide(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                 void *resource) {
  (void)args, (void)codes, (void)count, (void)ret, (void)ret_code, (void)resource;
  return 0;
}

/* The last argument of the last call. */
TVM_DLL extern TVMValue noted_value;
TVM_DLL extern int noted_code;
TVMValue noted_value;
int noted_code;

TVM_DLL int note(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                 void *resource);
TVM_DLL int note(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                 void *resource) {
  (void)ret, (void)ret_code, (void)resource;
  noted_value = args[count - 1];
  noted_code = codes[count - 1];
  return 0;
}
