#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/dump/capture_file.h"
#include "apps/dump/captured_frames.h"
#include "apps/serve/process_orders.h"
#include "base/process/descriptor.h"
#include "base/values/result.h"
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
  bool wire = false;               // what the service's own ports receive and send
};

/// A capture from the order to its end: what programs give is read and written until enough is there, the
/// program that was meant has ended, or stop() is called.
class Session {
 public:
  explicit Session(const Options& options);
  /// The exit status, after one line on standard error about what went wrong.
  int run();
  /// Signal handlers.
  static void stop() { stopped = 1; }

 private:
  /// Memory for what is kept for an error.
  static constexpr size_t kKeptBytesMax = size_t{256} << 20;
  static volatile int stopped;

  Status order();
  Status order_of_service();
  [[nodiscard]] Result<bool> order_of_process();
  Status connect();
  [[nodiscard]] Result<uint32_t> whom_to_ask() const;
  Status begin_file();
  void add_source(int memory, const std::string& device, const std::string& program, uint64_t pid);
  void say_left_out(const std::string& line);
  [[nodiscard]] Error named(const Error& error) const;
  void take_messages();
  void on_captured(host::Datagram& datagram);
  Status wait_for_capture();
  Status pass_on(int64_t now_ns, bool all);
  void keep(CapturedFrame frame, int64_t now_ns);
  Status write_kept();
  [[nodiscard]] bool enough() const;
  [[nodiscard]] bool is_over() const;
  int say_end(const Status& status);

  const Options options_;
  std::string path_;                             // of the service's socket
  Descriptor connection_;                        // to the service, or ...
  std::optional<serve::ProcessOrders> process_;  // ... a process with a port of its own
  uint32_t pid_ = 0;
  std::vector<serve::ProcessOrders::Capture> of_process_;  // before there is a file
  std::optional<CaptureFile> file_;
  std::optional<host::Datagram> first_;  // a program that captures, before there is a file
  CapturedFrames frames_;
  std::deque<CapturedFrame> kept_;
  size_t kept_bytes_ = 0;
  bool kept_less_ = false;
  uint64_t left_out_ = 0;  // programs that do not capture, or whose memory is unsound
  bool ended_ = false;     // the service has gone, or the program that was meant
};

}  // namespace uroce::dump
