/* _copy.c - the loops of packing that pass every byte, and room for them in a file, without the
 * interpreter lock. Each step of a Python loop has to win that lock from the threads that
 * compile and link beside it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* fallocate; Python.h defines it as 1 */
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <fcntl.h>
#include <sys/vfs.h>

#include "_copy_loop.h"

#define SMALL 4096 /* bytes that are summed sooner than the lock is let go and taken again */
#define WHILE_NS \
  50000000 /* a call ends after so long: between calls, signals are seen and progress is shown */
#define EXT4_SUPER_MAGIC 0xef53 /* of <linux/magic.h> */

PyDoc_STRVAR(
    copy_doc,
    "copy(from, offset, to, count, crc, threads)\n--\n\n"
    "Copy up to `count` bytes at `offset` of the file `from` to the position of the file `to`, for about 50 ms.\n\n"
    "Args:\n"
    "    crc: CRC-32 so far, of which that of the bytes is returned; None for none.\n"
    "    threads: how many may work; a second one reads and sums what the first one writes.\n\n"
    "Returns:\n"
    "    How many bytes, and their checksum. Fewer than wanted, 0 too: time, the end of `from`, or that it\n"
    "    cannot be read, which is for the caller to find out.\n\n"
    "Raises:\n"
    "    OSError: `to` cannot be written; some bytes may be.");

static PyObject *py_copy(PyObject *module, PyObject *args) {
  struct job job = {0};
  PyObject *crc;
  long long offset, count;
  int threads;
  (void)module;
  if (!PyArg_ParseTuple(args, "iLiLOi:copy", &job.from, &offset, &job.to, &count, &crc, &threads))
    return NULL;
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
  void *buffer;
  if (posix_memalign(&buffer, 4096, (size_t)(SLOTS * STEP))) return PyErr_NoMemory();
  Py_BEGIN_ALLOW_THREADS;
  job.end = now_ns() + WHILE_NS;
  copy_some(&job, buffer, threads);
  Py_END_ALLOW_THREADS;
  free(buffer);
  if (job.error) {
    errno = job.error;
    return PyErr_SetFromErrno(PyExc_OSError);
  }
  return job.sums ? Py_BuildValue("Lk", (long long)job.done, (unsigned long)job.crc)
                  : Py_BuildValue("LO", (long long)job.done, Py_None);
}

PyDoc_STRVAR(
    reserve_doc,
    "reserve(file, offset, count)\n--\n\n"
    "Reserve blocks for `count` bytes that are about to be written at `offset`, where that makes writing faster:\n"
    "ext4 otherwise accounts for each block of 4 KiB by itself, which is a fifth of a copy. The size stays.\n\n"
    "Raises:\n"
    "    OSError: there is no room. All else that might be wrong, writing will tell.");

static PyObject *py_reserve(PyObject *module, PyObject *args) {
  int file, error = 0;
  long long offset, count;
  struct statfs system;
  (void)module;
  if (!PyArg_ParseTuple(args, "iLL:reserve", &file, &offset, &count)) return NULL;
  Py_BEGIN_ALLOW_THREADS;
  if (!fstatfs(file, &system) && system.f_type == EXT4_SUPER_MAGIC && count > 0) {
    const uint64_t blocks = (uint64_t)count / (uint64_t)system.f_bsize;
    if (blocks > (uint64_t)system.f_bfree) /* ext4 would take all that there is before it says so */
      error = ENOSPC;
    else if (fallocate(file, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)count))
      error = errno;
  }
  Py_END_ALLOW_THREADS;
  if (error != ENOSPC && error != EDQUOT) Py_RETURN_NONE;
  errno = error;
  return PyErr_SetFromErrno(PyExc_OSError);
}

PyDoc_STRVAR(
    crc32_doc,
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
    {"reserve", py_reserve, METH_VARARGS, reserve_doc},
    {"crc32", py_crc32, METH_VARARGS, crc32_doc},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "mblob.bytes._copy",
                                        "Copying and checksums without the interpreter lock.",
                                        0,
                                        methods,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL};

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
