/* logging.h - LOG, CHECK and dmlc::Error under the path of dmlc-core, which programs of TVM 0.8
 * and before include. Installed by `make install COMPAT=1` only: a real dmlc-core has a file of
 * this name. */
#ifndef DMLC_LOGGING_H_
#define DMLC_LOGGING_H_

#include <tvm/runtime/error.h>
#include <tvm/runtime/logging.h>

#endif /* DMLC_LOGGING_H_ */
