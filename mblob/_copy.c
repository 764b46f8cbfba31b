/* _copy.c - the loops of packing that pass every byte: file to file, with a checksum on the way, without the
 * interpreter lock. Each step of a Python loop has to win that lock from the threads that compile and link beside it. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "_crc32_wide.h"

/* As mblob.sink.STEP: what a core's cache holds while it is read, summed and written. Steps of 512 KiB take a tenth less
 * up to some hundred MiB, and twice as long for several GiB: the page cache then wants larger pieces of free memory. */
#define STEP ((int64_t)256 << 10)
#define SMALL 4096               /* bytes that are summed sooner than the lock is let go and taken again */
#define WHILE_NS 50000000        /* a call ends after so long: between calls, signals are seen and progress is shown */

static int64_t now_ns(void) {
  struct timespec t;
  return clock_gettime(CLOCK_MONOTONIC, &t) ? 0 : t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

struct job {
  int from, to;
  int64_t offset, count;
  int sums;
  uint32_t crc;
  int64_t done;
  int error; /* of writing; what cannot be read ends the copy, and is told by whoever reads there next */
};

/* Write all of a piece; 0 if that failed. */
static int put(struct job *job, const uint8_t *data, size_t size) {
  while (size) {
    ssize_t n = write(job->to, data, size);
    if (n < 0) {
      if (errno == EINTR) continue;
      job->error = errno;
      return 0;
    }
    data += n;
    size -= (size_t)n;
  }
  return 1;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Writes end at whole steps of the file. */
static void copy(struct job *job, uint8_t *buffer) {
  const off_t at = lseek(job->to, 0, SEEK_CUR);
  int64_t room = STEP - (at < 0 ? 0 : at % STEP);
  const int64_t end = now_ns() + WHILE_NS;
  do {
    const size_t size = (size_t)least(job->count - job->done, room);
    const ssize_t n = pread(job->from, buffer, size, (off_t)(job->offset + job->done));
    if (n <= 0) return;
    if (job->sums) job->crc = crc32_of(job->crc, buffer, (uint64_t)n);
    if (!put(job, buffer, (size_t)n)) return;
    job->done += n;
    room = n < room ? room - n : STEP;
  } while (job->done < job->count && now_ns() < end);
}

PyDoc_STRVAR(copy_doc,
             "copy(from, offset, to, count, crc)\n--\n\n"
             "Copy up to `count` bytes at `offset` of the file `from` to the position of the file `to`, for about 50 ms.\n\n"
             "Args:\n"
             "    crc: CRC-32 so far, of which that of the bytes is returned; None for none.\n\n"
             "Returns:\n"
             "    How many bytes, and their checksum. Fewer than wanted, 0 too: time, the end of `from`, or that it\n"
             "    cannot be read, which is for the caller to find out.\n\n"
             "Raises:\n"
             "    OSError: `to` cannot be written; some bytes may be.");

static PyObject *py_copy(PyObject *module, PyObject *args) {
  struct job job = {0};
  PyObject *crc;
  long long offset, count;
  (void)module;
  if (!PyArg_ParseTuple(args, "iLiLO:copy", &job.from, &offset, &job.to, &count, &crc)) return NULL;
  if (offset < 0 || count < 0 || offset > INT64_MAX - count)
    return PyErr_Format(PyExc_ValueError, "copy: %lld bytes at %lld", count, offset);
  job.offset = offset;
  job.count = count;
  if (crc != Py_None) {
    const unsigned long value = PyLong_AsUnsignedLong(crc);
    if (PyErr_Occurred()) return NULL;
    job.sums = 1;
    job.crc = (uint32_t)value;
  }
  void *buffer; /* where a cache line starts: 16 bytes behind one, copies take a tenth longer */
  if (posix_memalign(&buffer, 4096, (size_t)STEP)) return PyErr_NoMemory();
  Py_BEGIN_ALLOW_THREADS;
  if (job.count) copy(&job, buffer);
  Py_END_ALLOW_THREADS;
  free(buffer);
  if (job.error) {
    errno = job.error;
    return PyErr_SetFromErrno(PyExc_OSError);
  }
  return job.sums ? Py_BuildValue("Lk", (long long)job.done, (unsigned long)job.crc) : Py_BuildValue("LO", (long long)job.done, Py_None);
}

PyDoc_STRVAR(crc32_doc,
             "crc32(data, value=0, /)\n--\n\n"
             "What zlib.crc32 returns, several times as fast where the processor multiplies polynomials.");

static PyObject *py_crc32(PyObject *module, PyObject *args) {
  Py_buffer data;
  unsigned long value = 0;
  (void)module;
  if (!PyArg_ParseTuple(args, "y*|k:crc32", &data, &value)) return NULL;
  uint32_t crc = (uint32_t)value;
  if (data.len > SMALL) {
    Py_BEGIN_ALLOW_THREADS;
    crc = crc32_of(crc, data.buf, (uint64_t)data.len);
    Py_END_ALLOW_THREADS;
  } else {
    crc = crc32_of(crc, data.buf, (uint64_t)data.len);
  }
  PyBuffer_Release(&data);
  return PyLong_FromUnsignedLong(crc);
}

static PyMethodDef methods[] = {
    {"copy", py_copy, METH_VARARGS, copy_doc},
    {"crc32", py_crc32, METH_VARARGS, crc32_doc},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "mblob._copy", "Copying and checksums without the interpreter lock.", 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__copy(void);
PyMODINIT_FUNC PyInit__copy(void) {
  PyObject *module = PyModule_Create(&definition);
  PyObject *is_fast = PyBool_FromLong(mb_crc32_is_fast());
  if (module && PyModule_AddObject(module, "IS_FAST", is_fast) < 0) {
    Py_DECREF(is_fast);
    Py_CLEAR(module);
  }
  return module;
}
