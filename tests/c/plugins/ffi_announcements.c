/* ffi_announcements PLUGIN: what libmblob-ffi keeps where there is no runtime, and how it hands
 * it over. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(condition)                                      \
  do {                                                        \
    if (!(condition)) {                                       \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
      _Exit(1);                                               \
    }                                                         \
  } while (0)

enum { NAMES = 5000, REFUSED = 3000 };

/* The plug-in's calls come here. */
static int opened;
void *dlopen(const char *path, int mode) {
  union {
    void *address;
    void *(*call)(const char *path, int mode);
  } next = {dlsym(RTLD_NEXT, "dlopen")};
  opened++;
  return next.call(path, mode);
}

static union {
  void *address;
  int (*call)(const char *name, void *address);
} announce;
static union {
  void *address;
  int (*call)(int (*take)(const char *name, void *address));
} hand_over;

static uintptr_t taken;
static bool refuses;
static atomic_bool inside;

static int take(const char *name, void *address) {
  char expected[32];
  if (refuses && taken == REFUSED) return -7;
  CHECK((uintptr_t)address == ++taken);
  (void)snprintf(expected, sizeof expected, "name%lu", (unsigned long)taken);
  for (size_t i = 0; expected[i] || name[i]; i++) CHECK(name[i] == expected[i]);
  return 0;
}

static int take_slowly(const char *name, void *address) {
  (void)name, (void)address;
  atomic_store(&inside, true);
  (void)usleep(50000);
  taken++;
  return 0;
}

static void *hand_over_slowly(void *unused) {
  CHECK(hand_over.call(take_slowly) == 0);
  return unused;
}

static void announce_one(uintptr_t number) {
  char name[32];
  (void)snprintf(name, sizeof name, "name%lu", (unsigned long)number);
  CHECK(announce.call(name, (void *)number) == 0);
}

int main(int count, char **words) {
  pthread_t thread;
  void *plugin = count == 2 ? dlopen(words[1], RTLD_NOW) : NULL;
  CHECK(plugin);
  announce.address = dlsym(plugin, "TVMFFIEnvModRegisterSystemLibSymbol");
  hand_over.address = dlsym(plugin, "mblob_ffi_take_announced");
  CHECK(announce.address && hand_over.address);

  opened = 0;
  for (uintptr_t i = 1; i <= NAMES; i++) announce_one(i);
  CHECK(opened < 10); /* a runtime is looked for once, not for each name */

  refuses = true;
  CHECK(hand_over.call(take) == -7 && taken == REFUSED);
  refuses = false;
  announce_one(NAMES + 1);
  CHECK(hand_over.call(take) == 0 && taken == NAMES + 1);
  CHECK(hand_over.call(take) == 0 && taken == NAMES + 1);

  announce_one(1); /* again, into a list that became empty */
  announce_one(2);
  taken = 0;
  CHECK(!pthread_create(&thread, NULL, hand_over_slowly, NULL));
  while (!atomic_load(&inside)) (void)usleep(100);
  CHECK(hand_over.call(take_slowly) == 0 && taken == 2); /* waits for the other thread's */
  CHECK(!pthread_join(thread, NULL));
  return puts("fine") < 0;
}
