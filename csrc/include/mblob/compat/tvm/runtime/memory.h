/* memory.h - make_object and ObjectPtr, for objects that are written in C++: nodes of modules. */
#ifndef TVM_RUNTIME_MEMORY_H_
#define TVM_RUNTIME_MEMORY_H_

#include <tvm/runtime/object.h>

#endif /* TVM_RUNTIME_MEMORY_H_ */
