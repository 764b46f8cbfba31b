/* _copy_loop.h - the loop of packing that passes every byte: from file to file, with a checksum
 * on the way.
 *
 * One thread reads, sums and writes; or a second one reads and sums what the first one writes,
 * which takes little more than half the time where there are two processors: writing to the page
 * cache is the larger part of a copy. */
#ifndef MBLOB_COPY_LOOP_H
#define MBLOB_COPY_LOOP_H
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "_crc32_wide.h"

/* As mblob.bytes.sink.STEP: what a core's cache holds while it is read, summed and written. */
#define STEP ((int64_t)256 << 10)
/* The page cache takes pieces of memory as large as writes are. Those of 256 KiB take a tenth
 * less than those of 64 KiB, but they are found less often in memory that was used a moment ago,
 * and for several GiB that is the larger part: fresh memory of a virtual machine comes from its
 * host, page by page, which lasts longer than the copy. */
#define SMALL_WRITE ((int64_t)64 << 10)
#define LARGE_FILE ((int64_t)2 << 30)
#define SLOTS \
  4 /* pieces between the threads; a reader that finds all of them full sleeps until half of them \
       are empty */
#define WORTH_A_THREAD \
  (8 * STEP) /* bytes left, which take ten times as long as a thread's start \
                                   */

struct job {
  int from, to;
  int64_t offset, count; /* of `from`; `to` is written at its position */
  int64_t end;           /* of CLOCK_MONOTONIC, in ns: no piece is begun after it */
  int sums;
  uint32_t crc;
  int64_t done;
  int64_t write_size;
  int error; /* of writing; what cannot be read ends the copy, and is told by whoever reads there
                next */
};

static inline int64_t now_ns(void) {
  struct timespec t;
  return clock_gettime(CLOCK_MONOTONIC, &t) ? 0 : t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The reading half: where it is, and where `to` will be when that is written. */
struct reading {
  struct job *job;
  int64_t taken, to;
};

/* The next piece; its size, 0 for none. Pieces end at whole steps of the file that is written. */
static int64_t take(struct reading *r, uint8_t *data) {
  struct job *job = r->job;
  const int64_t size = least(job->count - r->taken, STEP - r->to % STEP);
  if (!size || (r->taken && now_ns() >= job->end)) return 0;
  const ssize_t n = pread(job->from, data, (size_t)size, (off_t)(job->offset + r->taken));
  if (n <= 0) return 0;
  if (job->sums) job->crc = crc32_of(job->crc, data, (uint64_t)n);
  r->taken += n;
  r->to += n;
  return n;
}

/* Write all of a piece; 0 if that failed. */
static int put(struct job *job, const uint8_t *data, int64_t size) {
  while (size) {
    const ssize_t n = write(job->to, data, (size_t)least(size, job->write_size));
    if (n < 0) {
      if (errno == EINTR) continue;
      job->error = errno;
      return 0;
    }
    data += n;
    size -= n;
    job->done += n;
  }
  return 1;
}

static void copy_alone(struct reading *r, uint8_t *buffer) {
  int64_t n;
  do n = take(r, buffer);
  while (n && put(r->job, buffer, n));
}

/* Two threads and the pieces between them, which are filled and emptied in a circle. */
struct pipe {
  struct reading *reading;
  uint8_t *slots;
  int64_t sizes[SLOTS];
  pthread_mutex_t lock; /* of what follows */
  pthread_cond_t changed;
  uint64_t filled, emptied;
  int reader_waits, writer_waits,
      ended; /* ended: nothing more is filled, or nothing more is wanted */
};

static void *fill(void *pointer) {
  struct pipe *p = pointer;
  for (uint64_t i = 0;; i++) {
    pthread_mutex_lock(&p->lock);
    if (i - p->emptied == SLOTS) {
      p->reader_waits = 1;
      while (i - p->emptied > SLOTS / 2 && !p->ended) pthread_cond_wait(&p->changed, &p->lock);
      p->reader_waits = 0;
    }
    const int ended = p->ended;
    pthread_mutex_unlock(&p->lock);
    const int64_t n = ended ? 0 : take(p->reading, p->slots + i % SLOTS * STEP);
    pthread_mutex_lock(&p->lock);
    p->sizes[i % SLOTS] = n;
    p->filled += n != 0;
    p->ended |= !n;
    if (p->writer_waits) pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
    if (!n) return NULL;
  }
}

static void empty(struct pipe *p) {
  for (uint64_t i = 0, go_on = 1; go_on; i++) {
    pthread_mutex_lock(&p->lock);
    p->writer_waits = 1;
    while (p->filled == i && !p->ended) pthread_cond_wait(&p->changed, &p->lock);
    p->writer_waits = 0;
    const int64_t n = p->filled == i ? 0 : p->sizes[i % SLOTS];
    pthread_mutex_unlock(&p->lock);
    if (!n) return;
    go_on = (uint64_t)put(p->reading->job, p->slots + i % SLOTS * STEP, n);
    pthread_mutex_lock(&p->lock);
    p->emptied++;
    p->ended |= !go_on;
    if (p->reader_waits && (!go_on || p->filled - p->emptied <= SLOTS / 2))
      pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
  }
}

/* 0 if no thread could be started; nothing is copied then. */
static int copy_with_a_reader(struct reading *r, uint8_t *slots) {
  struct pipe p = {.reading = r,
                   .slots = slots,
                   .lock = PTHREAD_MUTEX_INITIALIZER,
                   .changed = PTHREAD_COND_INITIALIZER};
  pthread_t reader;
  sigset_t all, before;
  sigfillset(&all); /* signals are for the threads that the program knows; they do not end a read
                       that hangs */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int failed = pthread_create(&reader, NULL, fill, &p);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) return 0;
  empty(&p);
  pthread_join(reader, NULL);
  return 1;
}

/* Copy until all is done, nothing more can be read, something cannot be written, or the time is
 * over; at least a piece.
 *
 * Params:
 *   buffer: SLOTS * STEP bytes. Where it starts at a cache line, copies take a tenth less than 16
 *     bytes behind one.
 *   threads: of which 2 are used at most. */
static inline void copy_some(struct job *job, uint8_t *buffer, int threads) {
  const off_t at = lseek(job->to, 0, SEEK_CUR);
  struct reading r = {job, 0, at < 0 ? 0 : at};
  job->write_size = r.to > LARGE_FILE - least(job->count, LARGE_FILE) ? SMALL_WRITE : STEP;
  if (job->count &&
      !(threads > 1 && job->count >= WORTH_A_THREAD && copy_with_a_reader(&r, buffer)))
    copy_alone(&r, buffer);
}
#endif
