/* borrowed_tensors.c - tensors as arguments of functions of C++, which may keep them.
 *
 * A call lends the memory of its arrays: the callee gets an object, which costs no reference to the
 * array. If the callee still has the object after the call, the array, or the aligned copy of it,
 * is kept for as long as the object. */
#include "call.h"

#include <stdlib.h>

static void drop(void *owner) {
  if (!Py_IsInitialized()) return; /* the process ends; its memory goes with it */
  PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF((PyObject *)owner);
  PyGILState_Release(state);
}

static void free_copy(PyObject *capsule) { free(PyCapsule_GetPointer(capsule, NULL)); }

static void delete_plain(PyObject *capsule) {
  call_dlpack_delete(PyCapsule_GetPointer(capsule, NULL), NULL);
}

static void delete_versioned(PyObject *capsule) {
  call_dlpack_delete(NULL, PyCapsule_GetPointer(capsule, NULL));
}

/* An owner of the copy that an argument has, which may be that of an earlier one. Without memory
 * for it the copy stays for ever. */
static PyObject *owner_of_copy(call_slot *slot) {
  while (slot->shared) slot--;
  if (slot->copy_owner == NULL) {
    slot->copy_owner = PyCapsule_New((char *)slot->copy - slot->pad, NULL, free_copy);
    if (slot->copy_owner == NULL) slot->copy_owner = Py_NewRef(Py_None);
  }
  return Py_NewRef(slot->copy_owner);
}

/* An owner of the memory itself: the array, its buffer, or what __dlpack__ gave. */
static PyObject *owner_of_memory(call_slot *slot) {
  PyObject *owner = NULL;
  switch (slot->kind) {
    case SLOT_BUFFER: return PyMemoryView_FromObject(slot->lender);
    case SLOT_DLPACK: owner = PyCapsule_New(slot->u.managed, NULL, delete_plain); break;
    case SLOT_DLPACK_VERSIONED:
      owner = PyCapsule_New(slot->u.versioned, NULL, delete_versioned);
      break;
    case SLOT_OWNED: return Py_NewRef(slot->u.owner);
    default: return call_tensor_owner(slot->lender);
  }
  if (owner != NULL) {
    slot->kind = SLOT_OWNED;
    slot->u.owner = Py_NewRef(owner);
  }
  return owner;
}

static int keep(mblob_lent_tensor *lent, void **owner, void (**release)(void *owner)) {
  if (!Py_IsInitialized()) return -1;
  call_slot *slot = (call_slot *)(void *)lent;
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject *kept = slot->copy != NULL ? owner_of_copy(slot) : owner_of_memory(slot->origin);
  if (kept == NULL) { /* no memory: what the object needs is never freed */
    PyErr_Clear();
    kept = Py_NewRef(slot->lender);
    slot->origin->kind = SLOT_NONE;
  }
  PyGILState_Release(state);
  *owner = kept;
  *release = drop;
  return 0;
}

void call_lend_tensors(call_frame *frame, PyObject *const *args) {
  for (int i = 0; i < frame->count; ++i) {
    call_slot *slot = &frame->slots[i];
    if (!slot->is_tensor) continue;
    slot->keep = keep;
    slot->lender = args[i];
    slot->origin = slot;
    frame->codes[i] = MBLOB_LENT_TENSOR;
  }
}
