
/* checks_overloads.h - choose among overloads of C++ by the arguments of a call. Behind checks.h, in files that have
 * some. */

/* What a parameter takes: MBLOB_OTHER is an address of anything, MBLOB_NULL a text or an array of characters. */
typedef struct {
  mblob_kind kind;
  mblob_element element; /* of a tensor */
} mblob_wanted;

typedef struct {
  int count;
  const mblob_wanted *wanted;
} mblob_overload;

/* 2: an argument is what a parameter takes, 1: it can be, 0: neither. */
MBLOB_STATIC int mblob_fit(const mblob_call_info *call, int i, const mblob_wanted *w) {
  const mblob_kind kind = mblob_kind_of(call, i);
  DLDataType type = {0};
  if (kind == MBLOB_TENSOR) type = mblob_tensor_of(call, i)->dtype;
  switch (w->kind) {
    case MBLOB_FLOAT: return kind == MBLOB_FLOAT ? 2 : kind == MBLOB_INT;
    case MBLOB_OTHER: return kind == MBLOB_HANDLE ? 2 : kind == MBLOB_TENSOR || kind == MBLOB_NONE;
    case MBLOB_NULL:
      return kind == MBLOB_STRING ? 2 : kind == MBLOB_TENSOR && type.code <= 1 && type.bits == 8;
    case MBLOB_TENSOR:
      if (kind != MBLOB_TENSOR || type.bits != w->element.bits || type.lanes != 1) return 0;
      return 2 * (type.code == w->element.code || type.code == w->element.other);
    default: return 2 * (kind == w->kind);
  }
}

MBLOB_STATIC bool mblob_may_be(const mblob_call_info *call, int count, const mblob_overload *o) {
  bool fits = o->count == count;
  for (int i = 0; fits && i < count; i++) fits = mblob_fit(call, i, &o->wanted[i]) != 0;
  return fits;
}

/* True if an overload fits each argument as well as another one, and one better. */
MBLOB_STATIC bool mblob_is_better(const mblob_call_info *call, const mblob_overload *o,
                                  const mblob_overload *other) {
  bool better = false;
  for (int i = 0; i < o->count; i++) {
    const int a = mblob_fit(call, i, &o->wanted[i]), b = mblob_fit(call, i, &other->wanted[i]);
    if (a < b) return false;
    better = better || a > b;
  }
  return better;
}

/* The overload for a call; `names` of all of them are in the error if it is none, or more than one. */
MBLOB_STATIC int mblob_choose(const mblob_call_info *call, int count, const mblob_overload *list,
                              int size, const char *names) {
  int possible = 0;
  for (int a = 0; a < size; a++) {
    if (!mblob_may_be(call, count, &list[a])) continue;
    possible++;
    bool best = true;
    for (int b = 0; best && b < size; b++)
      best = b == a || !mblob_may_be(call, count, &list[b]) ||
             mblob_is_better(call, &list[a], &list[b]);
    if (best) return a;
  }
  const char *what = possible ? "several overloads fit the arguments; call one by its name: "
                              : "no overload fits the arguments; there are: ";
#ifdef TVM_FFI_C_API_H_
  const char *parts[] = {call->function, ": ", what, names};
  TVMFFIErrorSetRaisedFromCStrParts("TypeError", parts, 4);
#else
  char text[4096];
  (void)snprintf(text, sizeof text, "%s: %s%s", call->function, what, names);
  TVMAPISetLastError(text);
#endif
  return -1;
}
