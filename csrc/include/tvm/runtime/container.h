/* container.h - the containers that there are, under the path of TVM 0.7. */
#ifndef TVM_RUNTIME_CONTAINER_H_
#define TVM_RUNTIME_CONTAINER_H_

#include <tvm/runtime/container/shape_tuple.h>
#include <tvm/runtime/container/string.h>

#endif /* TVM_RUNTIME_CONTAINER_H_ */
