/* unload_host PLUGIN LIBRARY UNLOADS: threads use PLUGIN, which is closed, and end only then;
 * again and again. UNLOADS: 1 if dlclose is to unload PLUGIN, 0 if it is to stay. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 5 };

#define CHECK(x) \
  ((x) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x), _exit(1)))

typedef int (*user)(const char *library, int tasks);

static user use;
static const char *library;
static pthread_barrier_t used, closed;

static void *work(void *ignored) {
  for (int round = 0; round < 2; round++) {
    CHECK(use(library, 3) == 0);
    (void)pthread_barrier_wait(&used);
    (void)pthread_barrier_wait(&closed);
  }
  return ignored;
}

static void *open_plugin(const char *path) {
  void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!plugin) fprintf(stderr, "%s\n", dlerror());
  CHECK(plugin);
  *(void **)&use = dlsym(plugin, "use");
  CHECK(use && use(library, 2) == 0);
  return plugin;
}

static void close_plugin(void *plugin, const char *path, int unloads) {
  CHECK(dlclose(plugin) == 0);
  CHECK((dlopen(path, RTLD_NOW | RTLD_NOLOAD) == NULL) == unloads);
  pid_t child = fork(); /* no handler is left behind either */
  int status = -1;
  if (!child) _exit(0);
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv) {
  CHECK(argc == 4);
  library = argv[2];
  CHECK(pthread_barrier_init(&used, NULL, THREADS + 1) == 0 &&
        pthread_barrier_init(&closed, NULL, THREADS + 1) == 0);
  for (int i = 0; i < ROUNDS; i++) {
    pthread_t threads[THREADS];
    void *plugin = open_plugin(argv[1]);
    for (int t = 0; t < THREADS; t++) CHECK(pthread_create(&threads[t], NULL, work, NULL) == 0);
    for (int round = 0; round < 2;
         round++) { /* the second time threads meet a new copy of what they have used */
      (void)pthread_barrier_wait(&used);
      close_plugin(plugin, argv[1], atoi(argv[3]));
      if (!round) plugin = open_plugin(argv[1]);
      (void)pthread_barrier_wait(&closed);
    }
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
  }
  puts("fine");
  return 0;
}
