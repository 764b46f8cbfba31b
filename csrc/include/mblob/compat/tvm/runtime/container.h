/* container.h - the containers, under the path of TVM 0.7. */
#ifndef TVM_RUNTIME_CONTAINER_H_
#define TVM_RUNTIME_CONTAINER_H_

#include <tvm/runtime/container/base.h>

#endif /* TVM_RUNTIME_CONTAINER_H_ */
