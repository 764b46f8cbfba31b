/* Launches of the OpenCL plug-in over fake_opencl.so: what a call gives to the library, and what
 * is told of wrong ones. */
#define _GNU_SOURCE
#include <pthread.h>

#include "opencl_host.h"

/* ---- launches -------------------------------------------------------------------------------- */

static void argument_is(int i, const void *value, size_t size) {
  CHECK(fake->args[i].size == size && memcmp(fake->args[i].bytes, value, size) == 0);
}

static void scalars_are_converted_as_declared(void) {
  struct payload p = source_of(
      "k", "bwilBWILfdf", "",
      "__kernel void k(char a,short b,int c,long d,uchar e,ushort f,uint g,ulong h,float i,double j,float k)");
  void *module = open_payload(&p);
  TVMValue args[11] = {{-100},       {-30000}, {-5}, {INT64_MIN}, {200}, {60000},
                       {4000000000}, {-1},     {0},  {0},         {3}};
  int codes[11] = {0, 0, 0, 0, 0, 0, 0, 0, kTVMArgFloat, kTVMArgFloat, kTVMArgInt};
  args[8].v_float64 = 1.5, args[9].v_float64 = -2.25;
  CHECK(call(module, "k", args, codes, 11) == MBLOB_OK);
  argument_is(0, &(int8_t){-100}, 1), argument_is(1, &(int16_t){-30000}, 2),
      argument_is(2, &(int32_t){-5}, 4);
  argument_is(3, &(int64_t){INT64_MIN}, 8), argument_is(4, &(uint8_t){200}, 1),
      argument_is(5, &(uint16_t){60000}, 2);
  argument_is(6, &(uint32_t){4000000000}, 4), argument_is(7, &(uint64_t){UINT64_MAX}, 8);
  argument_is(8, &(float){1.5f}, 4), argument_is(9, &(double){-2.25}, 8),
      argument_is(10, &(float){3}, 4);
  static const struct {
    int at;
    int64_t value;
    const char *text;
  } wrong[] = {{0, 128, "argument 0: 128 does not fit int8"},
               {1, -32769, "does not fit int16"},
               {2, INT64_C(1) << 31, "2147483648 does not fit int32"},
               {4, -1, "-1 does not fit uint8"},
               {5, 65536, "does not fit uint16"},
               {6, INT64_C(1) << 32, "does not fit uint32"}};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
    const TVMValue right = args[wrong[i].at];
    args[wrong[i].at].v_int64 = wrong[i].value;
    CHECK(call(module, "k", args, codes, 11) == MBLOB_E_ARGUMENT && said(wrong[i].text));
    args[wrong[i].at] = right;
  }
  codes[2] = kTVMArgFloat;
  CHECK(call(module, "k", args, codes, 11) == MBLOB_E_ARGUMENT &&
        said("argument 2: expected int32, found a float"));
  codes[2] = kTVMArgInt, codes[8] = kTVMStr;
  CHECK(call(module, "k", args, codes, 11) == MBLOB_E_ARGUMENT &&
        said("argument 8: expected float32"));
  CHECK(fake->launches == 1);
  runtime->close(module);
}

static int launch(void *module, int64_t bx, int64_t bz, int64_t tx, int64_t ty, int64_t shared) {
  const TVMValue args[5] = {{bz}, {tx}, {bx}, {ty}, {shared}};
  const int codes[5] = {0};
  return call(module, "k", args, codes, 5);
}

static void extents_come_by_their_tags(void) {
  struct payload p =
      source_of("k", "", "blockIdx.z,threadIdx.x,blockIdx.x,threadIdx.y,tir.use_dyn_shared_memory",
                "__kernel void k()");
  void *module = open_payload(&p);
  CHECK(launch(module, 5, 7, 4, 3, 100) == MBLOB_OK);
  const size_t global[3] = {20, 3, 7}, local[3] = {4, 3, 1};
  CHECK(fake->dimensions == 3 && memcmp(fake->global, global, sizeof(global)) == 0 &&
        memcmp(fake->local, local, sizeof(local)) == 0);
  CHECK(launch(module, 0, 0, 0, 0, 0) == MBLOB_OK && fake->global[0] == 1 && fake->global[2] == 1 &&
        fake->local[1] == 1);
  CHECK(launch(module, 1, 1, 1024, 1, 0) == MBLOB_OK);
  CHECK(launch(module, 1, 1, 1025, 1, 0) == MBLOB_E_ARGUMENT &&
        said("threadIdx (1025, 1, 1): the largest threadIdx.x of device 0 (Fake GPU 1) is 1024"));
  CHECK(launch(module, 1, 1, 1, 513, 0) == MBLOB_E_ARGUMENT &&
        said("the largest threadIdx.y of device 0 (Fake GPU 1) is 512"));
  CHECK(launch(module, 1, 1, 64, 17, 0) == MBLOB_E_ARGUMENT &&
        said("the largest group of this kernel of device 0 (Fake GPU 1) is 1024"));
  CHECK(launch(module, INT32_MAX, 1, 1, 1, 0) == MBLOB_OK &&
        launch(module, 1 << 15, 1 << 16, 1, 1, 0) == MBLOB_E_ARGUMENT);
  CHECK(said("the largest number of groups") && said("is 2147483647"));
  CHECK(launch(module, INT32_MAX, 1, 3, 1, 0) == MBLOB_E_ARGUMENT &&
        said("the largest number of work-items of an axis") && said("is 4294967295"));
  CHECK(launch(module, INT64_MAX, 1, 1024, 1, 0) == MBLOB_E_ARGUMENT);
  CHECK(launch(module, -1, 1, 1, 1, 0) == MBLOB_E_ARGUMENT &&
        said("argument 2: blockIdx.x is -1, expected at least 0"));
  CHECK(call(module, "k", NULL, NULL, 0) == MBLOB_E_ARGUMENT &&
        said("expected 0 arguments and 5 launch sizes: blockIdx.z, threadIdx.x"));
  runtime->close(module);
  p = source_of("heavy", "", "threadIdx.x", "__kernel void heavy()");
  module = open_payload(&p);
  CHECK(call(module, "heavy", &(TVMValue){64}, &(int){0}, 1) == MBLOB_OK && fake->dimensions == 1);
  CHECK(call(module, "heavy", &(TVMValue){65}, &(int){0}, 1) == MBLOB_E_ARGUMENT &&
        said("the largest group of this kernel"));
  runtime->close(module);
}

static void memory_as_arguments(void) {
  struct payload p = source_of("k", "pp", "", "__kernel void k(a, b)");
  void *module = open_payload(&p), *here, *there;
  CHECK(!device->allocate(0, 1024, 64, &here) && !device->allocate(1, 64, 64, &there));
  int64_t shape = 4;
  DLTensor part = {.data = here,
                   .device = {kDLOpenCL, 0},
                   .ndim = 1,
                   .dtype = {kDLFloat, 32, 1},
                   .shape = &shape,
                   .byte_offset = 256};
  DLTensor of_host = {.data = &shape,
                      .device = {kDLCPU, 0},
                      .ndim = 1,
                      .dtype = {kDLFloat, 32, 1},
                      .shape = &shape};
  TVMValue args[2] = {{.v_handle = here}, {.v_handle = &part}};
  int codes[2] = {kTVMOpaqueHandle, kTVMDLTensorHandle};
  const int before = fake->live;
  CHECK(call(module, "k", args, codes, 2) == MBLOB_OK);
  CHECK(memcmp(fake->args[0].bytes, fake->args[1].bytes, 8) != 0 &&
        fake->live == before + 2); /* + a program and a kernel */
  part.byte_offset = 100;
  CHECK(call(module, "k", args, codes, 2) == MBLOB_E_ARGUMENT &&
        said("begins at byte 100 of memory of 1024 bytes") && said("multiples of 128"));
  part.byte_offset = 1024;
  CHECK(call(module, "k", args, codes, 2) == MBLOB_E_ARGUMENT);
  part.byte_offset = 128;
  fail("clCreateSubBuffer", 0, 1, -13);
  CHECK(call(module, "k", args, codes, 2) == MBLOB_E_KERNEL &&
        said("CL_MISALIGNED_SUB_BUFFER_OFFSET"));
  part.strides = &(int64_t){2};
  CHECK(call(module, "k", args, codes, 2) == MBLOB_E_ARGUMENT &&
        said("argument 1: expected a compact tensor"));
  part.strides = &(int64_t){1};
  CHECK(call(module, "k", args, codes, 2) == MBLOB_OK);
  args[1].v_handle = &of_host;
  CHECK(call(module, "k", args, codes, 2) == MBLOB_E_ARGUMENT &&
        said("argument 1 is a tensor of device type 1, expected 4"));
  codes[1] = kTVMOpaqueHandle;
  CHECK(call(module, "k", args, codes, 2) == MBLOB_E_ARGUMENT && said("kernel 'k': argument 1: ") &&
        said("is no memory of an OpenCL device"));
  args[1].v_handle = there;
  CHECK(call(module, "k", args, codes, 2) == MBLOB_E_ARGUMENT &&
        said("argument 0 is memory of device 0, argument 1 of device 1"));
  args[0].v_handle = there; /* the device is where the memory is */
  CHECK(call(module, "k", args, codes, 2) == MBLOB_OK &&
        fake->live == before + 4); /* + a program and a kernel there */
  codes[0] = kTVMArgInt;
  CHECK(call(module, "k", args, codes, 2) == MBLOB_E_ARGUMENT &&
        said("argument 0 is a pointer and was given an integer"));
  runtime->close(module);
  CHECK(!device->free(0, here) && !device->free(1, there));
}

static void without_memory_the_chosen_device_runs(void) {
  struct payload p = source_of("k", "i", "", "__kernel void k(int a)");
  void *module = open_payload(&p), *of_second;
  const int codes[1] = {0};
  CHECK(!device->set_device(1) && !device->synchronize(1, NULL) && (of_second = fake->last_queue));
  CHECK(call(module, "k", &(TVMValue){7}, codes, 1) == MBLOB_OK && fake->last_queue == of_second);
  CHECK(!device->set_device(0) && call(module, "k", &(TVMValue){7}, codes, 1) == MBLOB_OK &&
        fake->last_queue != of_second);
  runtime->close(module);
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *same_module;

static void *call_often(void *number) {
  for (int64_t i = 0; i < 300; i++) {
    const int64_t value = 1000 * (int64_t)(intptr_t)number + i;
    const TVMValue args[2] = {{value}, {value}};
    const int codes[2] = {0};
    CHECK(call(same_module, "same", args, codes, 2) == MBLOB_OK);
    CHECK(i % 50 || add_vectors(same_module, (int)(i / 50 % 2)) == MBLOB_OK);
  }
  return NULL;
}

static void threads_do_not_mix_their_arguments(void) {
  pthread_t threads[6];
  struct payload p = {.size = 0};
  put_text(&p, "cl");
  put_number(&p, 2, 8);
  put_kernel(&p, "same", "ll", "");
  put_kernel(&p, "vadd", "ppp", "blockIdx.x,threadIdx.x");
  put_text(
      &p,
      "__kernel void same(long a, long b) {} __kernel void vadd(__global float *a, __global float *b, __global float *c) {}");
  same_module = open_payload(&p);
  for (int i = 0; i < 6; i++)
    CHECK(pthread_create(&threads[i], NULL, call_often, (void *)(intptr_t)i) == 0);
  for (int i = 0; i < 6; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(fake->mixed == 0 && fake->launches == 6 * (300 + 6) &&
        fake->compilations == 2); /* once for each device */
  runtime->close(same_module);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  use_fake(argv[1]);
  APART(scalars_are_converted_as_declared);
  APART(extents_come_by_their_tags);
  APART(memory_as_arguments);
  APART(without_memory_the_chosen_device_runs);
  APART(threads_do_not_mix_their_arguments);
  return 0;
}
