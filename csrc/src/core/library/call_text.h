/* call_text.h - calls whose arguments are described by a text, which is read once (call_text.c) to a
 * list of what is to be read from the arguments of each call (prepared.c). The items of a tuple come
 * before the tuple: a call goes through the list with a stack of values, of which a tuple takes its
 * items. */
#ifndef MB_CALL_TEXT_H
#define MB_CALL_TEXT_H

#include <mblob.h>
#include <stdbool.h>

#include "base/base.h"
#include "core/loaded/loaded.h"

/* How a value arrives: numbers as C passes them where no prototype says their type. */
enum passed {
  AS_INT,
  AS_UNSIGNED,
  AS_INT64,
  AS_UINT64,
  AS_DOUBLE,
  AS_POINTER,
  AS_ARRAY, /* extents that the text leaves open, then a pointer */
  AS_SHAPE, /* extents that the text leaves open */
  AS_TUPLE  /* nothing: of the values before it */
};

/* A word for one value. */
struct mb_word {
  char name[MB_ARGUMENT_WORD_SIZE];
  uint8_t passed; /* enum passed */
  int8_t code;    /* type code of the argument */
  uint8_t bits;   /* of a number, 1: a flag */
};

struct mb_argument {
  const struct mb_word *word; /* NULL: array, shape or tuple */
  bool is_plain;     /* an array that is used as it is, unless its address says otherwise */
  uint8_t passed;    /* enum passed */
  bool is_inner;     /* an item of a tuple */
  bool takes_uint64; /* so says the signature */
  bool is_checked;   /* a number that arrives wider than it may be */
  int code;          /* type code of the argument, if a word says it */
  size_t misaligned; /* bits that its data's address must not have */
  uint64_t guarded;  /* bytes of the blob, if the signature says that the function writes */
  size_t count;      /* of items of a tuple */
  size_t number;     /* of the argument in the text that it is, or is in */
  DLTensor tensor;   /* of an array; of a shape only the extents */
  uint32_t open;     /* bits of the extents that come from the arguments */
  ptrdiff_t
      step; /* bytes of an element, times the other extents; 0: mb_call_measure has to look at them */
  size_t size; /* bytes of the array */
  /* Of a call: */
  void *original; /* where data was copied from, NULL if it is used in place */
  DLTensor *view; /* of a tensor in a tuple */
  TVMValue made;  /* shape or tuple */
  int made_code;  /* kTVMObjectHandle if there is one */
};

struct mblob_prepared {
  mblob_function *function;
  const char *name, *types, *signature; /* `signature`: what the library recorded, "" if nothing */
  uint64_t blob; /* address of the blob of the module that was asked, which may not be written */
  uint64_t blob_size;
  bool is_ffi, has_result, cleans; /* `cleans`: a call may leave something to be given back */
  size_t count;                    /* of `arguments` */
  size_t passed;                   /* arguments of the function */
  TVMValue *values;
  int *codes;
  struct mb_argument *arguments;
  struct mb_argument result;
};

/* Read `types`, for calls of `function`: it is taken over if that succeeds. */
int mb_call_read(mblob_module *module, mblob_function *function, const char *name,
                 const char *types, mblob_prepared **out);
/* Bytes of the array, whose extents are known; a mblob_status. */
int mb_call_measure(const mblob_prepared *c, struct mb_argument *a);
/* MBLOB_E_ARGUMENT about argument `i` of the text. */
int mb_call_wrong(const mblob_prepared *c, size_t i, const char *what);

#endif
