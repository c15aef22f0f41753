#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/descriptor.h"
#include "host/control.h"
#include "host/packet_socket.h"

namespace uroce::service {

/// Messages on their way to one program, which may be slow to read them.
class Outbox {
 public:
  struct Letter {
    host::Message message;
    std::vector<std::shared_ptr<const Descriptor>> descriptors;
    uint32_t about = 0;  // the program whose memory this brings; 0: none's
  };

  /// The socket outlives this.
  explicit Outbox(int socket) : socket_(socket) {}

  /// Sends it at once if nothing waits.
  void post(Letter letter);
  /// Sends what the socket takes.
  void flush();
  [[nodiscard]] size_t waiting() const { return letters_.size(); }
  /// The program cannot be told anything any more.
  [[nodiscard]] bool broken() const { return broken_; }

  /// The program `about` has ended: introductions to it are dropped, and what a program awaits is answered by
  /// an error.
  void retract(uint32_t about);

 private:
  const int socket_;
  std::deque<Letter> letters_;
  bool broken_ = false;
};

}  // namespace uroce::service
