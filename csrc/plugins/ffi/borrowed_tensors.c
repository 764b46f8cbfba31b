#include "borrowed_tensors.h"

#include <string.h>

#include "base/base.h"
#include "common.h"
#include "objects.h"

/* Nearly no callee keeps what it is lent, so a thread has a few objects for its next calls. Each has
 * one reference all the time, and room for RANK dimensions; the record's owner is the next one. */
#define RANK 6
#define WAITING 8

struct loans {
  void *first;
  int count;
  bool is_known; /* to at_end */
};

static __thread struct loans own_loans;

static void free_loans(void *given) {
  struct loans *loans = given;
  while (loans->first) {
    void *object = loans->first;
    loans->first = mb_object_record(object)->owner;
    mb_ffi_object_release(MB_RELEASES_0_22, object);
  }
  loans->count = WAITING; /* what ends later is freed at once */
}

static struct mb_thread_end at_end = MB_THREAD_END(free_loans);

/* Of the thread that unloads this, or ends the process. */
MB_HANDLER(destructor) static void process_exit(void) { free_loans(&own_loans); }

static void *take_loan(struct loans *loans) {
  void *object = loans->first;
  if (!object) return NULL;
  struct mb_record *record = mb_object_record(object);
  loans->first = record->owner;
  loans->count--;
  record->owner = NULL;
  return object;
}

static void *new_loan(enum mb_releases releases, int32_t rank) {
  int64_t none[RANK] = {0};
  DLTensor room = {.shape = none, .strides = none, .ndim = RANK};
  return rank <= RANK ? mb_object_tensor(releases, &room, NULL, NULL) : NULL;
}

static void fill_cell(DLTensor *cell, const DLTensor *tensor, size_t rank) {
  int64_t *shape = cell->shape, *strides = shape + rank;
  *cell = *tensor;
  cell->shape = shape;
  cell->strides = strides;
  for (size_t i = 0; i < rank; i++) shape[i] = tensor->shape[i];
  mb_fill_strides(tensor, strides);
}

int mb_loan_begin(enum mb_releases releases, const mblob_lent_tensor *lent, struct mb_any *out) {
  const DLTensor *tensor = &lent->tensor;
  const int32_t rank = tensor->ndim > 0 ? tensor->ndim : 0;
  *out = (struct mb_any){.type = MB_ANY_NONE};
  if (rank && !tensor->shape)
    return mb_fail(MBLOB_E_ARGUMENT, "tensor: " MB_TEXT_SHAPE_IS_NULL, (int)rank);
  void *object = releases == MB_RELEASES_0_22 && rank <= RANK ? take_loan(&own_loans) : NULL;
  if (!object) object = new_loan(releases, rank);
  if (object)
    fill_cell(mb_object_cell(releases, object), tensor, (size_t)rank);
  else
    object = rank > RANK ? mb_object_tensor(releases, tensor, NULL, NULL) : NULL;
  if (!object) return MBLOB_E_MEMORY;
  DLTensor *cell = mb_object_cell(releases, object);
  cell->dtype = mb_dtype_of_releases(releases, cell->dtype);
  out->type = mb_type_of_releases(releases, MB_ANY_TENSOR);
  out->u.pointer = object;
  return MBLOB_OK;
}

static void keep_loan(struct loans *loans, void *object) {
  mb_object_record(object)->owner = loans->first;
  loans->first = object;
  loans->count++;
  if (loans->is_known) return;
  loans->is_known = true;
  mb_thread_end_set(&at_end, loans);
}

void mb_loan_end(enum mb_releases releases, const struct mb_any *any, mblob_lent_tensor *lent) {
  void *object = any->u.pointer;
  if (any->type < MB_ANY_OBJECT) return; /* it was never made */
  struct mb_record *record = mb_object_record(object);
  const bool kept = !mb_object_is_sole(releases, object);
  if (kept) (void)lent->keep(lent, &record->owner, &record->release);
  if (!kept && MB_BLOCKS_KEPT && releases == MB_RELEASES_0_22 && lent->tensor.ndim <= RANK &&
      own_loans.count < WAITING)
    keep_loan(&own_loans, object);
  else
    mb_ffi_object_release(releases, object);
}
