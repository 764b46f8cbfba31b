/* log_settings.h - TVM_LOG_DEBUG: which DLOG and VLOG lines are written. A part of logging.h.
 *
 *   0, or not set                       none
 *   1                                   DLOG
 *   DEFAULT=2,relay/a.cc=3,ir/b.cc=-1   DLOG, and VLOG up to a level in all files, or in those named:
 *                                       paths are told from the last folder `src` on */
#ifndef TVM_RUNTIME_LOG_SETTINGS_H_
#define TVM_RUNTIME_LOG_SETTINGS_H_

#include <tvm/runtime/error.h>

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <unordered_map>

MBLOB_FACE_BEGIN
namespace detail {

class MBLOB_HIDDEN TvmLogDebugSettings {
 public:
  static const TvmLogDebugSettings &FromFlag() {
    static const TvmLogDebugSettings settings = ParseSpec(std::getenv("TVM_LOG_DEBUG"));
    return settings;
  }

  /* Throws InternalError, which says where `spec` (may be null) is wrong. */
  static TvmLogDebugSettings ParseSpec(const char *spec) {
    TvmLogDebugSettings settings;
    const std::string_view text = spec ? spec : "";
    if (text.empty() || text == "0") return settings;
    settings.dlog_enabled_ = true;
    if (text == "1") return settings;
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      const std::string_view item = text.substr(at, end - at);
      const std::size_t equals = item.find('=');
      if (item.empty()) Fail(at, "expecting \"<file>=<level>\"");
      if (equals == std::string_view::npos || equals == 0)
        Fail(equals == 0 ? at : end, "expecting \"=<level>\" after " + Quoted(item));
      const std::string_view number = item.substr(equals + 1);
      int level = 0;
      const auto parsed = std::from_chars(number.data(), number.data() + number.size(), level);
      if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size())
        Fail(at + equals + 1, "invalid level: " + Quoted(number));
      settings.levels_[KeyOf(item.substr(0, equals))] = level;
      at = end + 1;
      if (end == text.size()) break;
    }
    return settings;
  }

  bool dlog_enabled() const { return dlog_enabled_; }
  bool VerboseEnabled(const char *file, int level) const {
    if (!file || level < 0 || levels_.empty()) return false;
    auto found = levels_.find(KeyOf(file));
    if (found == levels_.end()) found = levels_.find("DEFAULT");
    return found != levels_.end() && level <= found->second;
  }

 private:
  /* A path from the last folder `src` on. */
  static std::string KeyOf(std::string_view file) {
    constexpr std::string_view source = "/src/";
    const std::size_t at = file.rfind(source);
    if (at != std::string_view::npos) return std::string(file.substr(at + source.size()));
    const std::string_view first = source.substr(1);
    return std::string(file.substr(file.substr(0, first.size()) == first ? first.size() : 0));
  }
  static std::string Quoted(std::string_view text) { return '"' + std::string(text) + '"'; }
  [[noreturn]] static void Fail(std::size_t at, const std::string &why) {
    throw InternalError("TVM_LOG_DEBUG ill-formed at position " + std::to_string(at) + ": " + why);
  }

  bool dlog_enabled_ = false;
  std::unordered_map<std::string, int> levels_;
};

inline bool DebugLoggingEnabled() { return TvmLogDebugSettings::FromFlag().dlog_enabled(); }
inline bool VerboseLoggingEnabled(const char *file, int level) {
  return TvmLogDebugSettings::FromFlag().VerboseEnabled(file, level);
}

}  // namespace detail
MBLOB_FACE_END

#endif /* TVM_RUNTIME_LOG_SETTINGS_H_ */
