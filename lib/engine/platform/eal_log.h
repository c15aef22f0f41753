#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

namespace uroce::engine {

/// UROCE_LOG when it is set, else the configuration's.
std::string log_level_in_force(const std::string& configured);

/// Where DPDK's log goes: to standard error from the chosen level on, and the last error is kept for our own
/// message.
class EalLog {
 public:
  /// Takes DPDK's log over for the rest of the process. `level` as in the configuration.
  static EalLog& install(std::string_view level);

  [[nodiscard]] std::string last_error() const;
  /// The first error since this was called last: the cause of those that follow it. Empty: none, or DPDK's
  /// log is not ours.
  static std::string take_first_error();
  static void show(int level, std::string_view text);
  void note_error(std::string_view text);

 private:
  static EalLog& instance();
  static ssize_t write(void* cookie, const char* text, size_t bytes);

  mutable std::mutex mutex_;
  std::string last_error_;
  std::string first_error_;
  uint32_t level_ = 0;  // messages with a level up to this one are shown
};

/// Keeps what is written to the descriptors 1 and 2 away from the user while it lives. The destructor writes
/// it out after all, unless it was discarded.
class OutputCapture {
 public:
  OutputCapture();
  ~OutputCapture();
  OutputCapture(const OutputCapture&) = delete;
  OutputCapture& operator=(const OutputCapture&) = delete;

  void discard() { discarded_ = true; }

 private:
  struct Stream {
    int descriptor = -1;  // 1 or 2
    int original = -1;
    int kept = -1;
  };
  void divert(Stream& stream, int descriptor);
  void restore(Stream& stream) const;

  Stream out_;
  Stream error_;
  bool discarded_ = false;
};

}  // namespace uroce::engine
