/* logging.h - LOG(severity), CHECK*, ICHECK*, DCHECK*: what programs of TVM's guides write.
 *
 *   LOG(INFO) << ...          a line on stderr: time, place, text; also DEBUG, WARNING, ERROR
 *   LOG(FATAL) << ...         throws InternalError
 *   CHECK(x) << ...           throws InternalError unless x; ICHECK is the same
 *   CHECK_EQ(x, y) << ...     and _NE _LT _LE _GT _GE; the text has both values
 *   DCHECK...                 nothing with NDEBUG
 *   DLOG(severity) << ...     nothing with NDEBUG, or unless TVM_LOG_DEBUG says otherwise
 *   VLOG(level) << ...        the same
 *
 * A macro that exists already (glog, abseil, dmlc) is left alone. */
#ifndef TVM_RUNTIME_LOGGING_H_
#define TVM_RUNTIME_LOGGING_H_

#include <tvm/runtime/error.h>
#include <tvm/runtime/log_settings.h>

#include <cstdio>
#include <ctime>
#include <optional>
#include <sstream>

MBLOB_FACE_BEGIN
namespace detail {

/* Swallows a stream where an expression of type void is due: binds looser than <<, tighter than
 * ?:. */
struct MBLOB_HIDDEN Voidify {
  void operator&(std::ostream &) const {}
};

inline std::string Place(const char *file, int line) {
  return std::string(file) + ":" + std::to_string(line) + ": ";
}

/* Throws at the end of the full expression. */
class MBLOB_HIDDEN LogFatal {
 public:
  LogFatal(const char *file, int line) : file_(file), line_(line) {}
  LogFatal(const char *file, int line, const std::string &failed) : LogFatal(file, line) {
    stream_ << "Check failed: " << failed;
  }
  LogFatal(const LogFatal &) = delete;
  LogFatal &operator=(const LogFatal &) = delete;
  [[noreturn]] ~LogFatal() noexcept(false) { throw InternalError(file_, line_, stream_.str()); }
  std::ostream &stream() { return stream_; }

 private:
  const char *file_;
  int line_;
  std::ostringstream stream_;
};

/* Writes its line when it ends, in one piece. */
class MBLOB_HIDDEN LogMessage {
 public:
  LogMessage(const char *file, int line, const char *severity) {
    char now[16] = "";
    const std::time_t seconds = std::time(nullptr);
    std::tm parts = {};
    if (localtime_r(&seconds, &parts)) (void)std::strftime(now, sizeof(now), "%H:%M:%S", &parts);
    stream_ << '[' << now << "] " << Place(file, line) << severity;
  }
  LogMessage(const LogMessage &) = delete;
  LogMessage &operator=(const LogMessage &) = delete;
  ~LogMessage() {
    stream_ << '\n';
    (void)std::fputs(stream_.str().c_str(), stderr);
  }
  std::ostream &stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored \
    "-Wsign-compare" /* between the user's types, as the user wrote it \
                                                 */
#define MBLOB_DEFINE_CHECK(name, op)                                                       \
  template <typename X, typename Y>                                                        \
  std::optional<std::string> Check##name(const X &x, const Y &y, const char *expression) { \
    if (x op y) return std::nullopt;                                                       \
    std::ostringstream text;                                                               \
    text << expression << " (" << x << " vs. " << y << ") : ";                             \
    return text.str();                                                                     \
  }
MBLOB_DEFINE_CHECK(EQ, ==)
MBLOB_DEFINE_CHECK(NE, !=)
MBLOB_DEFINE_CHECK(LT, <)
MBLOB_DEFINE_CHECK(LE, <=)
MBLOB_DEFINE_CHECK(GT, >)
MBLOB_DEFINE_CHECK(GE, >=)
#undef MBLOB_DEFINE_CHECK
#pragma GCC diagnostic pop

template <typename T>
T &&CheckNotNull(const char *file, int line, const char *expression, T &&value) {
  if (value == nullptr) LogFatal(file, line, std::string(expression) + " is null: ");
  return std::forward<T>(value);
}

}  // namespace detail
MBLOB_FACE_END

/* ---- the macros ------------------------------------------------------------------------------ */

#define MBLOB_CHECK(x)                      \
  static_cast<bool>(x)                      \
      ? (void)0                             \
      : ::tvm::runtime::detail::Voidify() & \
            ::tvm::runtime::detail::LogFatal(__FILE__, __LINE__, "(" #x ") is false: ").stream()
/* A loop, so that it may stand wherever a statement may; the body throws. */
#define MBLOB_CHECK_OP(name, op, x, y)                                                         \
  while (auto mblob_failed = ::tvm::runtime::detail::Check##name((x), (y), #x " " #op " " #y)) \
  ::tvm::runtime::detail::LogFatal(__FILE__, __LINE__, *mblob_failed).stream()
#define MBLOB_CHECK_NOTNULL(x) ::tvm::runtime::detail::CheckNotNull(__FILE__, __LINE__, #x, (x))
#define MBLOB_LOG_DEBUG ::tvm::runtime::detail::LogMessage(__FILE__, __LINE__, "Debug: ").stream()
#define MBLOB_LOG_INFO ::tvm::runtime::detail::LogMessage(__FILE__, __LINE__, "").stream()
#define MBLOB_LOG_WARNING \
  ::tvm::runtime::detail::LogMessage(__FILE__, __LINE__, "Warning: ").stream()
#define MBLOB_LOG_ERROR ::tvm::runtime::detail::LogMessage(__FILE__, __LINE__, "Error: ").stream()
#define MBLOB_LOG_FATAL ::tvm::runtime::detail::LogFatal(__FILE__, __LINE__).stream()
/* The stream is made only if the condition holds; with `true` it is never made and costs
 * nothing. */
#define MBLOB_STREAM_UNLESS(silent, stream) \
  (silent) ? (void)0 : ::tvm::runtime::detail::Voidify() & stream

#ifndef LOG
#define LOG(severity) MBLOB_LOG_##severity
#endif
#ifndef LOG_IF
#define LOG_IF(severity, condition) MBLOB_STREAM_UNLESS(!(condition), MBLOB_LOG_##severity)
#endif
#ifdef NDEBUG
#define MBLOB_DLOG_ON false
#define MBLOB_VLOG_ON(level) false
#else
#define MBLOB_DLOG_ON ::tvm::runtime::detail::DebugLoggingEnabled()
#define MBLOB_VLOG_ON(level) ::tvm::runtime::detail::VerboseLoggingEnabled(__FILE__, (level))
#endif
#ifndef DLOG
#define DLOG(severity) MBLOB_STREAM_UNLESS(!MBLOB_DLOG_ON, MBLOB_LOG_##severity)
#endif
#ifndef DLOG_IF
#define DLOG_IF(severity, condition) \
  MBLOB_STREAM_UNLESS(!(MBLOB_DLOG_ON && (condition)), MBLOB_LOG_##severity)
#endif
#ifndef VLOG
#define VLOG(level) MBLOB_STREAM_UNLESS(!MBLOB_VLOG_ON(level), MBLOB_LOG_DEBUG)
#endif
#ifndef VLOG_IS_ON
#define VLOG_IS_ON(level) MBLOB_VLOG_ON(level)
#endif

#ifndef CHECK
#define CHECK(x) MBLOB_CHECK(x)
#endif
#ifndef CHECK_EQ
#define CHECK_EQ(x, y) MBLOB_CHECK_OP(EQ, ==, x, y)
#define CHECK_NE(x, y) MBLOB_CHECK_OP(NE, !=, x, y)
#define CHECK_LT(x, y) MBLOB_CHECK_OP(LT, <, x, y)
#define CHECK_LE(x, y) MBLOB_CHECK_OP(LE, <=, x, y)
#define CHECK_GT(x, y) MBLOB_CHECK_OP(GT, >, x, y)
#define CHECK_GE(x, y) MBLOB_CHECK_OP(GE, >=, x, y)
#endif
#ifndef CHECK_NOTNULL
#define CHECK_NOTNULL(x) MBLOB_CHECK_NOTNULL(x)
#endif

#ifndef ICHECK
#define ICHECK(x) MBLOB_CHECK(x)
#define ICHECK_EQ(x, y) MBLOB_CHECK_OP(EQ, ==, x, y)
#define ICHECK_NE(x, y) MBLOB_CHECK_OP(NE, !=, x, y)
#define ICHECK_LT(x, y) MBLOB_CHECK_OP(LT, <, x, y)
#define ICHECK_LE(x, y) MBLOB_CHECK_OP(LE, <=, x, y)
#define ICHECK_GT(x, y) MBLOB_CHECK_OP(GT, >, x, y)
#define ICHECK_GE(x, y) MBLOB_CHECK_OP(GE, >=, x, y)
#define ICHECK_NOTNULL(x) MBLOB_CHECK_NOTNULL(x)
#endif

#ifndef DCHECK
#ifdef NDEBUG
#define MBLOB_DCHECK(check) \
  while (false) check
#else
#define MBLOB_DCHECK(check) check
#endif
#define DCHECK(x) MBLOB_DCHECK(MBLOB_CHECK(x))
#define DCHECK_EQ(x, y) MBLOB_DCHECK(MBLOB_CHECK_OP(EQ, ==, x, y))
#define DCHECK_NE(x, y) MBLOB_DCHECK(MBLOB_CHECK_OP(NE, !=, x, y))
#define DCHECK_LT(x, y) MBLOB_DCHECK(MBLOB_CHECK_OP(LT, <, x, y))
#define DCHECK_LE(x, y) MBLOB_DCHECK(MBLOB_CHECK_OP(LE, <=, x, y))
#define DCHECK_GT(x, y) MBLOB_DCHECK(MBLOB_CHECK_OP(GT, >, x, y))
#define DCHECK_GE(x, y) MBLOB_DCHECK(MBLOB_CHECK_OP(GE, >=, x, y))
#endif

#endif /* TVM_RUNTIME_LOGGING_H_ */
