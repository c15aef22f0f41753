#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/process/descriptor.h"
#include "base/values/result.h"

namespace uroce::service {

/// The Unix socket (SOCK_SEQPACKET) at which programs find the service: a file, with a lock file beside it
/// as long as the service lives. Both are removed at the end. Errors are one line that names the path.
class ListeningSocket {
 public:
  struct Options {
    std::string path;
    uint32_t mode = 0600;
  };
  /// Makes the folder when there is none, for its owner only unless `mode` lets others in. EADDRINUSE:
  /// another service serves the path; EEXIST: something else than a socket has that name; EACCES: the folder
  /// or the lock is another user's, or other users may rename what is in the folder. What a service left that
  /// was killed is replaced.
  static Result<ListeningSocket> open(const Options& options);
  /// The socket that systemd hands over to a unit with a socket (LISTEN_FDS, sd_listen_fds(3)), and which
  /// stays systemd's. Nullopt: there is none.
  static std::optional<Result<ListeningSocket>> inherited();

  ListeningSocket(ListeningSocket&&) = default;
  ~ListeningSocket();

  /// Not systemd's, which others may go on listening at.
  [[nodiscard]] bool is_own() const { return lock_.ok(); }
  [[nodiscard]] int get() const { return socket_.get(); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  ListeningSocket(Descriptor socket, Descriptor lock, std::string path)
      : socket_(std::move(socket)), lock_(std::move(lock)), path_(std::move(path)) {}

  Descriptor socket_;
  Descriptor lock_;  // none: the socket is systemd's
  std::string path_;
};

}  // namespace uroce::service
