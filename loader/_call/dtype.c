/* dtype.c - element types: buffer-protocol formats on one side, DLDataType on the other. */
#include "call.h"

#include <stdio.h>
#include <string.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FOREIGN_ORDER(c) ((c) == '>' || (c) == '!')
#else
#define FOREIGN_ORDER(c) ((c) == '<')
#endif

static bool is_order_mark(char c) {
  return c == '@' || c == '=' || c == '<' || c == '>' || c == '!';
}

static DLDataType make(uint8_t code, Py_ssize_t itemsize) {
  DLDataType dtype = {code, (uint8_t)(itemsize * 8), 1};
  return dtype;
}

bool call_dtype_from_format(const char *format, Py_ssize_t itemsize, DLDataType *out) {
  if (format == NULL) format = "B";
  if (is_order_mark(*format)) {
    /* A one-byte element has no order, whatever the mark says. */
    if (FOREIGN_ORDER(*format) && itemsize > 1) return false;
    ++format;
  }
  bool complex_number = *format == 'Z';
  if (complex_number) ++format;
  if (format[0] == '\0' || format[1] != '\0' || itemsize < 1 || itemsize > 16) return false;
  if (complex_number) {
    if (!((*format == 'f' && itemsize == 8) || (*format == 'd' && itemsize == 16))) return false;
    *out = make(kDLComplex, itemsize);
    return true;
  }
  switch (*format) {
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n': *out = make(kDLInt, itemsize); return true;
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N':
    case 'c': *out = make(kDLUInt, itemsize); return true;
    case 'u': /* wchar_t of ctypes */
      *out = make((wchar_t)-1 < 1 ? kDLInt : kDLUInt, itemsize);
      return true;
    case 'e':
    case 'f':
    case 'd': *out = make(kDLFloat, itemsize); return true;
    case 'F':
    case 'D': /* complex, as Python 3.14 writes it */
      *out = make(kDLComplex, itemsize);
      return true;
    case '?':
      *out = make(kDLUInt, 1);
      out->bits = 1; /* TVM's bool */
      return true;
    default: return false;
  }
}

const char *call_dtype_format(DLDataType dtype) {
  switch (dtype.code) {
    case kDLInt:
      return dtype.bits == 8    ? "b"
             : dtype.bits == 16 ? "h"
             : dtype.bits == 32 ? "i"
             : dtype.bits == 64 ? "q"
                                : NULL;
    case kDLUInt:
      return dtype.bits == 1    ? "?"
             : dtype.bits == 8  ? "B"
             : dtype.bits == 16 ? "H"
             : dtype.bits == 32 ? "I"
             : dtype.bits == 64 ? "Q"
                                : NULL;
    case kDLFloat:
      return dtype.bits == 16 ? "e" : dtype.bits == 32 ? "f" : dtype.bits == 64 ? "d" : NULL;
    case kDLComplex: return dtype.bits == 64 ? "Zf" : dtype.bits == 128 ? "Zd" : NULL;
    default: return NULL;
  }
}

size_t call_dtype_size(DLDataType dtype) { return ((size_t)dtype.bits * dtype.lanes + 7) / 8; }

bool call_dtype_equal(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

DLDataType call_dtype_for_dlpack(DLDataType dtype) {
  if (dtype.code == MB_E4M3_FLOAT8) dtype.code = kDLFloat8_e4m3fn;
  if (dtype.code == MB_E5M2_FLOAT8) dtype.code = kDLFloat8_e5m2;
  return dtype;
}

/* Float types whose name says their bits. */
static const char *small_float(DLDataType dtype) {
  static const struct {
    uint8_t code, bits;
    const char *name;
  } rows[] = {MB_SMALL_FLOATS};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (rows[i].code == dtype.code && rows[i].bits == dtype.bits) return rows[i].name;
  return NULL;
}

bool call_dtype_is_small_float(DLDataType dtype) {
  return (dtype.code == kDLBfloat && dtype.bits == 16) || (dtype.bits == 8 && small_float(dtype));
}

bool call_dtype_of_small_float(const char *name, DLDataType *out) {
  if (strcmp(name, "bfloat16") == 0) {
    *out = (DLDataType){kDLBfloat, 16, 1};
    return true;
  }
  for (unsigned code = MB_E4M3_FLOAT8; code <= MBLOB_FLOAT8_E3M4; ++code) {
    const DLDataType dtype = {(uint8_t)code, 8, 1};
    const char *text = small_float(dtype);
    if (text == NULL || strcmp(text, name) != 0) continue;
    *out = dtype;
    return true;
  }
  return false;
}

void call_dtype_text(DLDataType dtype, char out[48]) {
  static const char *const names[] = {MB_DTYPE_NAMES};
  char lanes[16] = "";
  if (dtype.lanes != 1) snprintf(lanes, sizeof lanes, "x%u", (unsigned)dtype.lanes);
  if (dtype.code == kDLUInt && dtype.bits == 1 && dtype.lanes == 1) {
    snprintf(out, 48, "bool");
  } else if (dtype.code == 3 && (dtype.lanes == 1 || dtype.bits == 0)) {
    snprintf(out, 48, dtype.bits ? "handle" : "void");
  } else if (small_float(dtype)) {
    snprintf(out, 48, "%s%s", small_float(dtype), lanes);
  } else if (dtype.code < sizeof names / sizeof names[0]) {
    snprintf(out, 48, "%s%u%s", names[dtype.code], (unsigned)dtype.bits, lanes);
  } else {
    snprintf(out, 48, "custom[%u]%u%s", (unsigned)dtype.code, (unsigned)dtype.bits, lanes);
  }
}
