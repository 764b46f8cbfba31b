/* inplace_array.h - InplaceArrayBase: elements behind an object, in one piece of memory
 * (make_inplace_array_object). A part of container/base.h. */
#ifndef TVM_RUNTIME_CONTAINER_INPLACE_ARRAY_H_
#define TVM_RUNTIME_CONTAINER_INPLACE_ARRAY_H_

#include <tvm/runtime/object.h>

MBLOB_FACE_BEGIN

/* `Self` derives from it, and says in GetSize() how many elements have been made. */
template <typename Self, typename Element>
class MBLOB_HIDDEN InplaceArrayBase {
 public:
  Element &operator[](std::size_t i) {
    if (i >= Whole()->GetSize())
      throw InternalError("index " + std::to_string(i) + " of " +
                          std::to_string(Whole()->GetSize()) + " elements");
    return *At(i);
  }
  const Element &operator[](std::size_t i) const {
    return const_cast<InplaceArrayBase &>(*this)[i];
  }
  ~InplaceArrayBase() {
    for (std::size_t i = 0, n = Whole()->GetSize(); i < n; ++i) At(i)->~Element();
  }

 protected:
  /* Make element i; GetSize() grows after it. */
  template <typename... Args>
  void EmplaceInit(std::size_t i, Args &&...args) {
    new (static_cast<void *>(At(i))) Element(std::forward<Args>(args)...);
  }

 private:
  Self *Whole() const { return static_cast<Self *>(const_cast<InplaceArrayBase *>(this)); }
  Element *At(std::size_t i) const {
    return reinterpret_cast<Element *>(reinterpret_cast<char *>(Whole()) + sizeof(Self)) + i;
  }
};

MBLOB_FACE_END

#endif /* TVM_RUNTIME_CONTAINER_INPLACE_ARRAY_H_ */
