#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <optional>
#include <string>
#include <vector>

namespace uroce::drivers {

/// The address of a Unix socket: a file, or a name in the abstract namespace.
class UnixAddress {
 public:
  /// `name` is shorter than sockaddr_un::sun_path.
  UnixAddress(const std::string& name, bool abstract);

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  [[nodiscard]] socklen_t length() const { return length_; }

 private:
  sockaddr_un address_{};
  socklen_t length_ = 0;
};

/// Sockets of sequenced packets that never block and are closed on exec. -1: errno says why. A file that is
/// listened at can be used by its owner only.
int connect_to(const UnixAddress& address);
int listen_at(const UnixAddress& address);
int accept_one(int listener);

/// The process that connected, or listens, at the other end is of our user, or the superuser, who can do
/// everything anyway.
bool same_user(int socket);

/// What one recvmsg() brings: a message and at most one descriptor with it.
struct UnixMessage {
  std::vector<char> bytes;
  std::optional<int> descriptor;  // the receiver's to close
};
enum class Reception { kMessage, kNothing, kEnd };
Reception receive_message(int socket, UnixMessage& message);
/// Does not take the message's descriptor.
bool send_message(int socket, const UnixMessage& message);

/// Its other end has not read all that was sent.
bool has_unread(int socket);

}  // namespace uroce::drivers
