/* fuzz_relax ROUNDS FILE... : damages programs of Relax's virtual machine ROUNDS times, in ways that
 * files break, reads them, and runs what can be read, on several kinds of values. `60s` in place of
 * ROUNDS: rounds for a minute, of all files by turns. The numbers come from a fixed seed. Sanitizers
 * watch, and the time of each round. */
#include "../common/check.h"
#include "base/seconds.h"
#include "core/device/device.h"
#include "exec/relax/machine.h"

static uint64_t seed = 88172645463325252u;

static uint64_t next_number(void) { /* xorshift64 */
  seed ^= seed << 13;
  seed ^= seed >> 7;
  return seed ^= seed << 17;
}

static const uint64_t hostile[] = {0,          1,          2,           4,
                                   7,          0x7f,       0xff,        0xffff,
                                   0x7fffffff, 0xffffffff, 0x100000000, INT64_MAX,
                                   1ull << 63, UINT64_MAX, 1ull << 54,  (1ull << 54) + 1,
                                   1ull << 56, 2ull << 56, 3ull << 56,  (2ull << 56) + 1000};

/* Words count most: half of the time one of them, with its own bounds, is another number. */
static void damage_word(uint8_t *bytes, size_t size) {
  size_t at = next_number() % size;
  uint64_t value = next_number() % 2 ? hostile[next_number() % (sizeof(hostile) / sizeof(*hostile))]
                                     : next_number() % 32;
  if (size - at >= 8) memcpy(bytes + at, &value, 8);
}

static size_t damage(uint8_t *bytes, size_t size) {
  for (uint64_t n = 1 + next_number() % 3; n && size; n--) {
    size_t at = next_number() % size;
    switch (next_number() % 8) {
      case 0: bytes[at] ^= (uint8_t)(1u << next_number() % 8); break;
      case 1: bytes[at] = (uint8_t)next_number(); break;
      case 2:
        if (next_number() % 4 == 0) size = at;
        break;
      case 3: {
        size_t from = next_number() % size, length = next_number() % 64;
        if (length <= size - at && length <= size - from) memmove(bytes + at, bytes + from, length);
        break;
      }
      case 4: bytes[at] = (uint8_t)(next_number() % 24); break;
      default: damage_word(bytes, size);
    }
  }
  return size;
}

/* ---- running --------------------------------------------------------------------------------- */

static mblob_function *function_of(mblob_module *module, const char *name) {
  mblob_function *function = NULL;
  return mblob_module_function(module, name, 0, &function) ? NULL : function;
}

static void call(mblob_function *function, const TVMValue *args, const int *codes, int count) {
  TVMValue ret, again;
  int code, again_code;
  if (mblob_function_call(function, args, codes, count, &ret, &code)) {
    CHECK(*mblob_last_error());
    return;
  }
  if (code == kTVMPackedFuncHandle &&
      !mblob_function_call(ret.v_handle, args, codes, count, &again, &again_code))
    mblob_value_release(again, again_code);
  if (code != kTVMStr && code != kTVMBytes) mblob_value_release(ret, code);
}

static DLTensor *tensor(void) {
  const int64_t shape[2] = {2, 3};
  DLTensor *made = NULL;
  CHECK(!mb_array_new((DLDevice){kDLCPU, 0}, 2, shape, (DLDataType){kDLFloat, 32, 1}, &made));
  memset(made->data, 0, 24);
  return made;
}

static void run(mblob_module *vm, const struct relax_executable *exec) {
  DLTensor *array = tensor();
  struct mb_object *shape = NULL;
  const int64_t extents[2] = {2, 3};
  CHECK(!mb_object_new_shape(extents, 2, &shape));
  const TVMValue values[] = {{.v_handle = array}, {.v_handle = shape}, {.v_int64 = 0},
                             {.v_handle = NULL},  {.v_str = "text"},   {.v_int64 = 3}};
  const int codes[] = {kTVMNDArrayHandle, kTVMObjectHandle, kTVMArgInt,
                       kTVMNullptr,       kTVMStr,          kTVMArgInt};
  for (size_t i = 0; i < exec->function_count && i < 64; i++) {
    mblob_function *function = function_of(vm, exec->functions[i].name);
    const int64_t count = exec->functions[i].num_args;
    for (size_t k = 0; function && k < 3; k++) {
      TVMValue args[4];
      int its[4];
      for (size_t a = 0; a < 4; a++) {
        const size_t which = next_number() % 6;
        args[a] = values[which];
        its[a] = codes[which];
      }
      call(function, args, its, count >= 0 && count < 4 ? (int)count : (int)(next_number() % 4));
    }
    mblob_function_release(function);
  }
  mb_object_release(shape);
  mb_array_release(array);
}

static void use(mblob_module *module) {
  static const char *const lists[] = {"as_text", "as_python", "stats", "get_missing_functions"};
  mblob_module *vm = NULL;
  for (size_t i = 0; i < 4; i++) CHECK(!mblob_call(module, lists[i], ""));
  struct relax_executable *exec = mb_builtin_object(module, &mb_relax_executable_class);
  CHECK(exec && !relax_machine_create(exec, mb_map_get(&exec->by_name, RELAX_MODEL), &vm));
  if (!mblob_call(vm, "vm_initialization", "int,int,int", 1, 0, 2) &&
      !mblob_call(vm, "set_limits", "int,int,int", 500, 1 << 20, 50))
    run(vm, exec);
  mblob_module_release(vm);
}

#define ROUND_LIMIT 20.0 /* seconds, on a busy machine and under sanitizers */

struct file {
  uint8_t *whole;
  size_t size;
  long rounds, read;
};

static struct file file_of(const char *path) {
  struct file out = {.whole = malloc(1 << 20)};
  FILE *file = fopen(path, "rb");
  CHECK(file && out.whole);
  out.size = fread(out.whole, 1, 1 << 20, file);
  fclose(file);
  return out;
}

/* The file as it is in its first round, then damaged. */
static void fuzz(mblob_function *open, struct file *file) {
  uint8_t *copy = malloc(file->size);
  CHECK(copy);
  memcpy(copy, file->whole, file->size);
  TVMByteArray bytes = {(const char *)copy, file->rounds++ ? damage(copy, file->size) : file->size};
  const TVMValue arg = {.v_handle = &bytes};
  const int code = kTVMBytes;
  const double start = mb_seconds_now();
  TVMValue ret;
  int ret_code;
  if (!mblob_function_call(open, &arg, &code, 1, &ret, &ret_code)) {
    file->read++;
    use(ret.v_handle);
    mblob_module_release(ret.v_handle);
  } else {
    CHECK(*mblob_last_error());
  }
  CHECK(mb_seconds_now() - start < ROUND_LIMIT);
  free(copy);
}

int main(int argc, char **argv) {
  CHECK(argc > 2 && argc < 200);
  struct file files[200];
  char *unit = NULL;
  const long number = strtol(argv[1], &unit, 10);
  const double start = mb_seconds_now();
  mblob_function *open = NULL;
  CHECK(!mblob_get_global("mblob.RelaxExecutable", &open));
  for (int i = 2; i < argc; i++) files[i] = file_of(argv[i]);
  for (long round = 0; *unit == 's' ? mb_seconds_now() - start < (double)number : round < number;
       round++)
    for (int i = 2; i < argc; i++) fuzz(open, &files[i]);
  for (int i = 2; i < argc; i++) {
    CHECK(files[i].read > files[i].rounds / 20); /* else little is run */
    free(files[i].whole);
  }
  mblob_function_release(open);
  return 0;
}
