/* error.h - errors as exceptions, in both directions.
 *
 * A call of the C API that fails throws InternalError with the text of TVMGetLastError(). An
 * exception that leaves a C++ function which the runtime called becomes the error of that call,
 * with what() as its text. If the caller at the other end is C++ too and the text arrived
 * unchanged on the same thread, it gets the very exception that was thrown. */
#ifndef TVM_RUNTIME_ERROR_H_
#define TVM_RUNTIME_ERROR_H_

#include <tvm/runtime/cxx_base.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

/* Seen by all libraries of the process, so that an exception finds its way between them. */
namespace mblob {
namespace MBLOB_FACE {

struct KeptException {
  std::exception_ptr exception;
  std::string text; /* under which it went to the runtime */
};

inline KeptException &ThreadException() {
  static thread_local KeptException kept;
  return kept;
}

}  // namespace MBLOB_FACE
}  // namespace mblob

MBLOB_FACE_BEGIN

class MBLOB_HIDDEN Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/* What the runtime, a check or a kernel reported. */
class MBLOB_HIDDEN InternalError : public Error {
 public:
  explicit InternalError(const std::string &message) : Error(message), message_(message) {}
  InternalError(const std::string &file, int line, const std::string &message)
      : Error(file + ":" + std::to_string(line) + ": InternalError: " + message),
        file_(file),
        line_(line),
        message_(message) {}
  /* Where a check or LOG(FATAL) failed; "" and 0 of what the runtime or a kernel reported. */
  const std::string &file() const { return file_; }
  int lineno() const { return line_; }
  const std::string &message() const { return message_; }

 private:
  std::string file_;
  int line_ = 0;
  std::string message_;
};

namespace detail {

using ::mblob::MBLOB_FACE::KeptException;
using ::mblob::MBLOB_FACE::ThreadException;

/* Make the exception being handled the runtime's error of this thread. Returns -1. */
inline int ReportException() noexcept {
  try {
    try {
      throw;
    } catch (const std::exception &error) {
      ThreadException() = {std::current_exception(), error.what()};
    } catch (...) {
      ThreadException() = {std::current_exception(), "a C++ exception that is no std::exception"};
    }
    TVMAPISetLastError(ThreadException().text.c_str());
  } catch (...) { /* no memory for the copy */
    TVMAPISetLastError("a C++ exception, and no memory for its text");
  }
  return -1;
}

[[noreturn]] inline void ThrowLastError() {
  std::string text = TVMGetLastError();
  KeptException kept = std::exchange(ThreadException(), KeptException());
  if (kept.exception && kept.text == text) std::rethrow_exception(kept.exception);
  throw InternalError(text);
}

inline void CheckCall(int rc) {
  if (rc != 0) ThrowLastError();
}

}  // namespace detail
MBLOB_FACE_END

namespace tvm {
using runtime::Error;
using runtime::InternalError;
}  // namespace tvm

namespace dmlc { /* programs catch it under this name, too */
using Error = tvm::runtime::Error;
}

#endif /* TVM_RUNTIME_ERROR_H_ */
