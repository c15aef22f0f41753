#include "engine/platform/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <mutex>
#include <thread>
#include <utility>

namespace uroce::engine {
namespace {

std::atomic<LogFormat> format_in_force = LogFormat::kText;

/// Bytes of the UTF-8 character that `text` begins with; 0: it does not begin with any.
size_t character_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t bytes = byte(0) < 0x80         ? 1
                       : byte(0) >> 5 == 0x6  ? 2
                       : byte(0) >> 4 == 0xE  ? 3
                       : byte(0) >> 3 == 0x1E ? 4
                                              : 0;
  if (bytes == 0 || bytes > text.size()) return 0;
  uint32_t code = bytes == 1 ? byte(0) : byte(0) & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if (byte(i) >> 6 != 0x2) return 0;
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  // Neither written longer than need be, nor a half of a pair, nor beyond Unicode.
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool valid = code >= kLeast[bytes] && (code < 0xD800 || code > 0xDFFF) && code <= 0x10FFFF;
  return valid ? bytes : 0;
}

/// Quotes a JSON string; bytes that are no UTF-8 become the replacement character.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text.front());
    const size_t bytes = character_bytes(text);
    if (bytes == 0) {
      out += "\\ufffd";
    } else if (first == '"' || first == '\\') {
      out += '\\';
      out += text.front();
    } else if (first < 0x20 || first == 0x7F) {
      out += fmt::format("\\u{:04x}", first);
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return out + "\"";
}

std::string_view name_of(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kDebug:
      break;
  }
  return "debug";
}

std::string text_of(const timespec& now) {
  std::tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, now.tv_nsec / 1000);
}

void write_line(const timespec& now, LogLevel level, std::string_view origin, std::string_view message,
                std::span<const LogField> fields) {
  const bool json = log_format() == LogFormat::kJson;
  const std::string line = json ? json_line(text_of(now), level, origin, message, fields) + "\n"
                                : fmt::format("{}: {}\n", origin, message);
  // A failure has no addressee.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void set_log_format(LogFormat format) {
  // Relaxed: a format alone, which nothing else depends on.
  format_in_force.store(format, std::memory_order_relaxed);
}

LogFormat log_format() {
  // Relaxed: as above.
  return format_in_force.load(std::memory_order_relaxed);
}

std::string json_line(std::string_view time, LogLevel level, std::string_view origin,
                      std::string_view message, std::span<const LogField> fields) {
  std::string line = fmt::format(R"({{"time":{},"level":{},"origin":{},"pid":{},"message":{})", quoted(time),
                                 quoted(name_of(level)), quoted(origin), getpid(), quoted(message));
  for (const LogField& field : fields) {
    const auto* number = std::get_if<uint64_t>(&field.value);
    line += fmt::format(
        ",{}:{}", quoted(field.name),
        number != nullptr ? std::to_string(*number) : quoted(std::get<std::string_view>(field.value)));
  }
  return line + "}";
}

bool LogLimit::admits(int64_t second) {
  if (second != second_) {
    second_ = second;
    lines_ = 0;
  }
  if (lines_ < kLinesMax) {
    ++lines_;
    return true;
  }
  ++suppressed_;
  return false;
}

uint64_t LogLimit::take_suppressed() { return std::exchange(suppressed_, 0); }

void write_log(LogLevel level, std::string_view origin, std::string_view message,
               std::span<const LogField> fields) {
  static auto& mutex = *new std::mutex;  // lines are written until the process ends
  static LogLimit limit;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  // In the child of a process that was writing just then it is never free.
  std::unique_lock guard(mutex, std::try_to_lock);
  for (int waits = 0; !guard.owns_lock() && waits < 100; ++waits) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    (void)guard.try_lock();
  }
  if (!guard.owns_lock()) return write_line(now, level, origin, message, fields);
  if (!limit.admits(now.tv_sec)) return;
  if (const uint64_t suppressed = limit.take_suppressed(); suppressed != 0) {
    const LogField count{"suppressed", suppressed};
    write_line(now, LogLevel::kWarning, origin, fmt::format("{} lines were not written", suppressed),
               {&count, 1});
  }
  write_line(now, level, origin, message, fields);
}

}  // namespace uroce::engine
