#include "engine/platform/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/values/printable.h"

namespace uroce::engine {
namespace {

std::atomic<LogFormat> format_in_force = LogFormat::kText;
std::atomic<bool> failures_wanted = false;

/// A JSON string of ASCII alone; bytes that are no UTF-8 become the replacement character.
std::string json_quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
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
                                : fmt::format("{}: {}\n", printable(origin), printable(message));
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

void set_failures_logged(bool logged) {
  // Relaxed: as above.
  failures_wanted.store(logged, std::memory_order_relaxed);
}

bool failures_logged() {
  // Relaxed: as above.
  return failures_wanted.load(std::memory_order_relaxed);
}

std::string json_line(std::string_view time, LogLevel level, std::string_view origin,
                      std::string_view message, std::span<const LogField> fields) {
  std::string line =
      fmt::format(R"({{"time":{},"level":{},"origin":{},"pid":{},"message":{})", json_quoted(time),
                  json_quoted(name_of(level)), json_quoted(origin), getpid(), json_quoted(message));
  for (const LogField& field : fields) {
    const auto* number = std::get_if<uint64_t>(&field.value);
    line += fmt::format(
        ",{}:{}", json_quoted(field.name),
        number != nullptr ? std::to_string(*number) : json_quoted(std::get<std::string_view>(field.value)));
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

namespace {

/// write(now), unless too many have written in this second.
template <typename Write>
void write_within_limit(Write write) {
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
  if (!guard.owns_lock()) return write(now);
  if (!limit.admits(now.tv_sec)) return;
  if (const uint64_t suppressed = limit.take_suppressed(); suppressed != 0) {
    const LogField count{"suppressed", suppressed};
    write_line(now, LogLevel::kWarning, "uroce", fmt::format("{} lines were not written", suppressed),
               {&count, 1});
  }
  write(now);
}

}  // namespace

void write_log(LogLevel level, std::string_view origin, std::string_view message,
               std::span<const LogField> fields) {
  write_within_limit([&](const timespec& now) { write_line(now, level, origin, message, fields); });
}

void write_log_text(std::string_view text) {
  write_within_limit([&](const timespec&) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  });
}

}  // namespace uroce::engine
