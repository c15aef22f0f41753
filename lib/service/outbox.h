#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/process/descriptor.h"
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
    // Null, or what `message` is sent with, in as many parts as it takes.
    std::shared_ptr<const std::string> text = nullptr;
  };

  /// The socket outlives this.
  explicit Outbox(int socket) : socket_(socket) {}

  /// Sends it at once if nothing waits.
  void post(Letter letter);
  /// Sends what the socket takes.
  void flush();
  [[nodiscard]] size_t waiting() const { return letters_.size(); }
  /// A text waits to be sent.
  [[nodiscard]] bool has_text() const {
    return std::ranges::any_of(letters_, [](const Letter& letter) { return letter.text != nullptr; });
  }
  /// The program cannot be told anything any more.
  [[nodiscard]] bool broken() const { return broken_; }

  /// The program `about` has ended: introductions to it are dropped, and what a program awaits is answered by
  /// an error.
  void retract(uint32_t about);

  /// Messages that the text is sent in.
  static constexpr size_t parts_of(std::string_view text) { return (text.size() + kPart - 1) / kPart; }

 private:
  static constexpr size_t kPart = std::tuple_size_v<decltype(host::Message::text)> - 1;

  host::Sent send(Letter& letter);

  const int socket_;
  std::deque<Letter> letters_;
  size_t text_sent_ = 0;  // of the first letter
  bool broken_ = false;
};

}  // namespace uroce::service
