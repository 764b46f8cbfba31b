/* test_copy_loop: the copying half of mblob/bytes/_copy.c by itself, with one thread and with
 * two, where files end, cannot be written, and where no thread can be had. */
#define _GNU_SOURCE /* memfd_create */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "../common/check.h"

static int no_threads, started, signals_blocked;
static size_t largest; /* write */

static int start(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *),
                 void *argument) {
  sigset_t now;
  started++;
  CHECK(!pthread_sigmask(SIG_SETMASK, NULL,
                         &now)); /* which the thread has from the one that starts it */
  signals_blocked = sigismember(&now, SIGINT) && sigismember(&now, SIGTERM);
  return no_threads ? EAGAIN : pthread_create(thread, how, run, argument);
}

static ssize_t watched(int file, const void *data, size_t size) {
  if (size > largest) largest = size;
  return write(file, data, size);
}

#define pthread_create start
#define write watched
#include "../../../mblob/bytes/_copy_loop.h"
#undef pthread_create
#undef write

#define SIZE (13 * STEP + 777)
#define NO_END INT64_MAX

static uint8_t data[SIZE], found[SIZE], *buffer;
static int source;

static int temporary(void) {
  const int file = memfd_create("copy", 0);
  CHECK(file >= 0);
  return file;
}

static void same(int file, int64_t at, const uint8_t *expected, int64_t size) {
  CHECK(pread(file, found, (size_t)size, (off_t)at) == (ssize_t)size &&
        !memcmp(found, expected, (size_t)size));
}

static void everything_arrives(int threads) {
  const int64_t heads[] = {0, 41, 2 * STEP - 1, 3 * STEP}, offsets[] = {0, 5, STEP};
  for (int i = 0; i < COUNT(heads) * COUNT(offsets); i++) {
    const int64_t head = heads[i / COUNT(offsets)], offset = offsets[i % COUNT(offsets)];
    const int to = temporary();
    CHECK(lseek(to, (off_t)head, SEEK_SET) == (off_t)head);
    struct job job = {.from = source,
                      .to = to,
                      .offset = offset,
                      .count = SIZE - offset,
                      .end = NO_END,
                      .sums = 1,
                      .crc = 7};
    started = 0;
    copy_some(&job, buffer, threads);
    CHECK(started == (threads > 1) && signals_blocked == started);
    CHECK(job.done == SIZE - offset && !job.error);
    CHECK(job.crc == mb_crc32(7, data + offset, (uint64_t)job.done));
    CHECK(lseek(to, 0, SEEK_CUR) == (off_t)(head + job.done));
    same(to, head, data + offset, job.done);
    close(to);
  }
}

static void one_piece_at_least_however_late_it_is(int threads) {
  const int to = temporary();
  int64_t done = 0;
  uint32_t crc = 0;
  for (int calls = 0; done < SIZE; calls++) {
    struct job job = {
        .from = source, .to = to, .offset = done, .count = SIZE - done, .sums = 1, .crc = crc};
    copy_some(&job, buffer, threads);
    CHECK(job.done > 0 && job.done <= STEP && calls < 14);
    done += job.done;
    crc = job.crc;
  }
  CHECK(crc == mb_crc32(0, data, SIZE));
  same(to, 0, data, SIZE);
  close(to);
}

static void a_source_that_ends(int threads) {
  const int to = temporary();
  struct job job = {
      .from = source, .to = to, .offset = 100, .count = INT64_MAX - 100, .end = NO_END};
  copy_some(&job, buffer, threads);
  CHECK(job.done == SIZE - 100 && !job.error);
  same(to, 0, data + 100, job.done);
  struct job unreadable = {.from = -1, .to = to, .count = SIZE, .end = NO_END};
  copy_some(&unreadable, buffer, threads);
  CHECK(!unreadable.done && !unreadable.error);
  struct job none = {.from = source, .to = to, .end = NO_END};
  copy_some(&none, buffer, threads);
  CHECK(!none.done && !none.error);
  close(to);
}

/* Reads some pieces and goes away. */
static void *leave_early(void *pointer) {
  const int from = *(int *)pointer;
  for (int64_t n = 0; n < 6 * STEP;) {
    const ssize_t got = read(from, found, 4096);
    CHECK(got > 0);
    n += got;
  }
  close(from);
  return NULL;
}

static void a_target_that_breaks(int threads) {
  const int full = open("/dev/full", O_WRONLY);
  struct job job = {.from = source, .to = full, .count = SIZE, .end = NO_END};
  copy_some(&job, buffer, threads);
  CHECK(!job.done && job.error == ENOSPC);
  close(full);
  int ends[2];
  pthread_t reader;
  CHECK(!pipe(ends) && !pthread_create(&reader, NULL, leave_early, ends));
  struct job broken = {.from = source, .to = ends[1], .count = SIZE, .end = NO_END};
  copy_some(&broken, buffer, threads);
  CHECK(broken.error == EPIPE && broken.done >= 6 * STEP && broken.done < SIZE);
  CHECK(!pthread_join(reader, NULL));
  close(ends[1]);
}

static void small_copies_start_no_thread(void) {
  sigset_t now;
  const int to = temporary();
  struct job job = {.from = source, .to = to, .count = WORTH_A_THREAD - 1, .end = NO_END};
  started = 0;
  copy_some(&job, buffer, 2);
  CHECK(job.done == WORTH_A_THREAD - 1 && !started);
  close(to);
  CHECK(!pthread_sigmask(SIG_SETMASK, NULL, &now) && !sigismember(&now, SIGINT));
}

static void without_a_thread(void) {
  no_threads = 1;
  everything_arrives(2);
  no_threads = 0;
}

static void large_files_are_written_in_smaller_pieces(int threads) {
  const int64_t places[] = {0, LARGE_FILE - SIZE, LARGE_FILE - SIZE + 1, 2 * LARGE_FILE};
  for (int i = 0; i < COUNT(places); i++) {
    const int to = temporary();
    CHECK(lseek(to, (off_t)places[i], SEEK_SET) == (off_t)places[i]);
    struct job job = {.from = source, .to = to, .count = SIZE, .end = NO_END};
    largest = 0;
    copy_some(&job, buffer, threads);
    CHECK(job.done == SIZE && largest == (size_t)(i < 2 ? STEP : SMALL_WRITE));
    same(to, places[i], data, SIZE);
    close(to);
  }
}

int main(void) {
  uint32_t state = 7;
  for (int64_t i = 0; i < SIZE; i++)
    data[i] = (uint8_t)((state = state * 1664525u + 1013904223u) >> 24);
  signal(SIGPIPE, SIG_IGN);
  source = temporary();
  CHECK(write(source, data, SIZE) == SIZE);
  void *aligned;
  CHECK(!posix_memalign(&aligned, 4096, (size_t)(SLOTS * STEP)));
  buffer = aligned;
  for (int threads = 1; threads <= 2; threads++) {
    RUN(everything_arrives, threads);
    RUN(one_piece_at_least_however_late_it_is, threads);
    RUN(a_source_that_ends, threads);
    RUN(a_target_that_breaks, threads);
    RUN(large_files_are_written_in_smaller_pieces, threads);
  }
  RUN(small_copies_start_no_thread);
  RUN(without_a_thread);
  free(aligned);
  return 0;
}
