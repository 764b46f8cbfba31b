/* plugin_host.h - a host for plug-ins that are tested by themselves: their tables are called
 * directly, without libmblob. */
#ifndef PLUGIN_HOST_H
#define PLUGIN_HOST_H

#include <mblob.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/check_tvm.h"

static _Thread_local char host_error[2048];
static _Thread_local int host_status;
static _Thread_local const char *host_code; /* of the last error that has one */

const char *mblob_last_error(void) { return host_error; }
const char *TVMGetLastError(void) { return host_error; } /* what CHECK prints */

static int host_set_error(int status, const char *message) {
  host_status = status;
  snprintf(host_error, sizeof(host_error), "%s", message);
  return status;
}

static int host_set_coded_error(int status, const char *code, const char *message) {
  host_code = code;
  return host_set_error(status, message);
}

static inline void host_names(struct mblob_module *module, const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++) CHECK(*names[i]);
  (void)module;
}

static const mblob_host plugin_host = {.struct_size = sizeof(mblob_host),
                                       .abi_version = MBLOB_PLUGIN_ABI,
                                       .version = "test",
                                       .set_error = host_set_error,
                                       .last_error = mblob_last_error,
                                       .names = host_names,
                                       .set_coded_error = host_set_coded_error};

/* The call fails with that status, and the error has the text. */
#define REFUSES(call, status, text)                             \
  do {                                                          \
    host_error[0] = 0;                                          \
    CHECK((call) == (status));                                  \
    CHECK(host_status == (status) && strstr(host_error, text)); \
  } while (0)

/* Run a test in a process of its own: what a plug-in started stays for good. */
static inline void run_alone(const char *name, void (*test)(void)) {
  int status = -1;
  printf("  %s\n", name);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    test();
    exit(0);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#define RUN_ALONE(test) run_alone(#test, test)

/* ---- payloads -------------------------------------------------------------------------------- */

struct bytes {
  unsigned char data[8192];
  size_t size;
};

static inline void put_bytes(struct bytes *out, const void *data, size_t size) {
  CHECK(size <= sizeof(out->data) - out->size);
  memcpy(out->data + out->size, data, size);
  out->size += size;
}
static inline void put_u64(struct bytes *out, uint64_t value) { put_bytes(out, &value, 8); }
static inline void put_string(struct bytes *out, const char *text) {
  put_u64(out, strlen(text));
  put_bytes(out, text, strlen(text));
}
/* A kernel of `fmap`. `types` are letters: p pointer, i int32, l int64, u uint32, b uint8, f
 * float32, d double, h float16; `tags` are comma separated. */
static inline void put_kernel(struct bytes *out, const char *name, const char *types,
                              const char *tags) {
  static const struct {
    char letter;
    unsigned char raw[4];
  } known[] = {{'p', {3, 64, 1, 0}}, {'i', {0, 32, 1, 0}}, {'l', {0, 64, 1, 0}},
               {'u', {1, 32, 1, 0}}, {'b', {1, 8, 1, 0}},  {'f', {2, 32, 1, 0}},
               {'d', {2, 64, 1, 0}}, {'h', {2, 16, 1, 0}}};
  put_string(out, name);
  put_string(out, "");
  put_u64(out, strlen(types));
  for (const char *t = types; *t; t++)
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
      if (known[i].letter == *t) put_bytes(out, known[i].raw, 4);
  uint64_t count = *tags != 0;
  for (const char *t = tags; *t; t++) count += *t == ',';
  put_u64(out, count);
  for (const char *t = tags; *t;) {
    size_t size = strcspn(t, ",");
    put_u64(out, size);
    put_bytes(out, t, size);
    t += size + (t[size] == ',');
  }
}

#endif
