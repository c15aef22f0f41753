#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "apps/dump/capture_file.h"
#include "apps/dump/captured_frames.h"
#include "base/descriptor.h"
#include "base/result.h"
#include "capture/order.h"
#include "host/packet_socket.h"

namespace uroce::dump {

struct Options {
  std::string socket;  // of the service; empty: the default one
  std::string file;
  capture::Order order;
  uint64_t count = 0;              // packets; 0: any number
  std::optional<int64_t> last_ns;  // keep these, and write them when an error comes
  bool waits = false;              // for programs that there are not yet
};

/// A capture from the order to its end: what programs give is read and written until enough is there, the
/// program that was meant has ended, or stop() is called.
class Session {
 public:
  explicit Session(const Options& options) : options_(options) {}
  /// The exit status, after one line on standard error about what went wrong.
  int run();
  /// Signal handlers.
  static void stop() { stopped = 1; }

 private:
  /// Memory for what is kept for an error.
  static constexpr size_t kKeptBytesMax = size_t{256} << 20;
  static volatile int stopped;

  Status order();
  Status take_messages();
  Status on_captured(host::Datagram& datagram);
  Status wait_for_capture();
  Status pass_on(int64_t now_ns, bool all);
  void keep(CapturedFrame frame, int64_t now_ns);
  Status write_kept();
  [[nodiscard]] bool is_over() const;
  int say_end(const Status& status);

  const Options options_;
  Descriptor connection_;
  std::optional<CaptureFile> file_;
  std::optional<host::Datagram> first_;  // a program that captures, before there is a file
  CapturedFrames frames_;
  std::deque<CapturedFrame> kept_;
  size_t kept_bytes_ = 0;
  bool kept_less_ = false;
  bool ended_ = false;  // the service has gone, or the program that was meant
};

}  // namespace uroce::dump
