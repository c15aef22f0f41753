#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "base/process/descriptor.h"
#include "base/values/result.h"

namespace uroce::statistics {

/// HTTP for those that scrape: GET /metrics, one answer for each connection. Each client may be
/// slow or many, and none of that keeps the answer from others: one thread serves all connections without
/// waiting for any, each has its deadlines, and when there are too many the oldest that has not asked yet
/// gives way.
class ScrapeServer {
 public:
  static constexpr size_t kConnectionsMax = 64;
  static constexpr std::chrono::seconds kRequestMax{2};  // from the connection to the whole request
  static constexpr std::chrono::seconds kAnswerMax{10};  // from the request to the last byte of the answer
  static constexpr size_t kRequestBytesMax = 8192;

  using Text = std::function<std::string()>;

  /// Listens at ADDRESS:PORT, [ADDRESS]:PORT or PORT. `text`: what is answered, made anew for a request
  /// unless the last one took longer than it is old.
  static Result<ScrapeServer> listen(const std::string& where, Text text);

  [[nodiscard]] uint16_t port() const { return port_; }
  /// Serves until `stop` is readable.
  void serve(int stop);

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    Descriptor socket;
    Clock::time_point until;
    std::string request = {};
    std::string head = {};  // of the answer; empty: there is none yet
    std::shared_ptr<const std::string> body = nullptr;
    size_t sent = 0;  // of both
  };

  ScrapeServer(Descriptor socket, uint16_t port, Text text)
      : socket_(std::move(socket)), port_(port), text_(std::move(text)) {}
  void accept_some();
  void make_room();
  /// False: the connection is over.
  bool go_on(Connection& connection);
  bool read_some(Connection& connection) const;
  void answer(Connection& connection);
  static bool send_some(Connection& connection);
  std::shared_ptr<const std::string> current_text();

  Descriptor socket_;
  uint16_t port_;
  Text text_;
  std::list<Connection> connections_;  // by age
  std::shared_ptr<const std::string> last_;
  Clock::time_point last_at_{};
  Clock::duration last_took_{};
};

}  // namespace uroce::statistics
