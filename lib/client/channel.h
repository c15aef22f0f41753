#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace uroce::client {

/// A TCP connection that carries one JSON object per line. Every failure throws, the end of the peer
/// included.
class Channel {
 public:
  /// `where` is HOST, HOST:PORT or [IPV6]:PORT.
  static Channel connect(const std::string& where);

  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&&) = delete;
  ~Channel();

  [[nodiscard]] const std::string& peer() const { return peer_; }
  [[nodiscard]] int socket() const { return socket_; }

  void send(const nlohmann::json& message);
  /// Waits, at most for that long; a message {"error": text} of the peer throws.
  nlohmann::json receive(std::optional<std::chrono::seconds> patience = std::nullopt);
  /// Like receive(), but none when nothing has come yet. One system call.
  std::optional<nlohmann::json> receive_if_any();

 private:
  friend class Listener;
  Channel(int socket, std::string peer) : socket_(socket), peer_(std::move(peer)) {}
  std::optional<nlohmann::json> take_line();
  bool read_some();

  int socket_;
  std::string peer_;
  std::string received_;
};

class Listener {
 public:
  static constexpr uint16_t kDefaultPort = 18515;

  /// IPv6 and IPv4, all addresses. Port 0 takes any free one.
  explicit Listener(uint16_t port);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] int socket() const { return socket_; }
  /// None when the peer that was there has gone. Does not wait when the socket is readable.
  std::optional<Channel> accept();

 private:
  int socket_;
  uint16_t port_;
};

}  // namespace uroce::client
