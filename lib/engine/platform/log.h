#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/configuration/configuration.h"

namespace uroce::engine {

enum class LogLevel : uint8_t { kError, kWarning, kInfo, kDebug };

/// What a line is about, as a value of its own: a device, a queue pair, a count.
struct LogField {
  std::string_view name;
  std::variant<uint64_t, std::string_view> value;
};

/// How lines of this process look from now on. Thread-safe.
void set_log_format(LogFormat format);
[[nodiscard]] LogFormat log_format();

/// Whether refused calls and failed queue pairs are worth a line: from "info" on, and at "warning" when
/// standard error is a terminal. Set when devices are opened. Thread-safe.
void set_failures_logged(bool logged);
[[nodiscard]] bool failures_logged();

/// One line on standard error, in one call, so that those of two processes do not mix. As text it is "ORIGIN:
/// MESSAGE"; as JSON an object with time, level, origin, pid, message and the fields. Of more than a hundred
/// in a second the rest is counted, and the next line that is written says how many. Control path;
/// thread-safe.
void write_log(LogLevel level, std::string_view origin, std::string_view message,
               std::span<const LogField> fields = {});

/// Lines of others, ends included, as they are. One call counts as one line of write_log().
void write_log_text(std::string_view text);

/// The object of a line, without its end.
std::string json_line(std::string_view time, LogLevel level, std::string_view origin,
                      std::string_view message, std::span<const LogField> fields);

/// Lets so many lines through in each second, and counts the others. One thread at a time.
class LogLimit {
 public:
  static constexpr uint32_t kLinesMax = 100;

  /// Whether a line at that second may be written.
  bool admits(int64_t second);
  /// How many were not, and from now on none.
  uint64_t take_suppressed();

 private:
  int64_t second_ = -1;
  uint32_t lines_ = 0;
  uint64_t suppressed_ = 0;
};

}  // namespace uroce::engine
