/* What opening libraries costs in C.
 *     opening ENTRIES FILE...
 * Opens each FILE in turn and lists its imports, then lets it go. Prints a line for each:
 * seconds, page faults, reads of the disk, and the bytes of memory that were added. ENTRIES: how
 * many the last must have; the others may have none. */
#define _GNU_SOURCE
#include <mblob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct rusage used(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage;
}

static long resident(void) {
  static char text[128];
  long pages = -1;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || !fgets(text, sizeof(text), file) || sscanf(text, "%*d %ld", &pages) != 1) return -1;
  fclose(file);
  return pages * sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv) {
  size_t entries = 0;
  if (argc < 3) return fprintf(stderr, "opening ENTRIES FILE...\n"), 2;
  (void)resident(); /* what stdio needs is there now */
  for (int i = 2; i < argc; i++) {
    mblob_module *lib;
    const long memory = resident();
    const struct rusage before = used();
    const double start = now();
    if (mblob_open(argv[i], NULL, &lib)) return fprintf(stderr, "%s\n", mblob_last_error()), 1;
    size_t size, total = 0;
    const void *data;
    entries = mblob_module_import_count(lib);
    for (size_t k = 0; k < entries; k++, total += size) {
      mblob_module *module = mblob_module_import_at(lib, k);
      if (mblob_module_payload(module, &data, &size) || !*mblob_module_type_key(module))
        return fprintf(stderr, "%s\n", mblob_last_error()), 1;
    }
    const double seconds = now() - start;
    const struct rusage after = used();
    const long minor = after.ru_minflt - before.ru_minflt,
               major = after.ru_majflt - before.ru_majflt;
    const long reads = after.ru_inblock - before.ru_inblock;
    printf("%.9f %ld %ld %ld\n", seconds, minor + major, reads, resident() - memory);
    mblob_module_release(lib);
  }
  if (entries != strtoul(argv[1], NULL, 10))
    return fprintf(stderr, "expected %s entries, found %zu\n", argv[1], entries), 1;
  return 0;
}
