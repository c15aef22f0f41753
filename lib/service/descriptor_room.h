#pragma once

#include <sys/resource.h>

#include "host/packet_socket.h"

namespace uroce::service {

/// Numbers that are left for all descriptors that one message can bring: the process's limit is lower by as
/// many, but while such a message is received. What gets no number is closed by the kernel within recvmsg(),
/// which may block. One thread. Where the limit is below 512 nothing is kept.
class DescriptorRoom {
 public:
  DescriptorRoom() {
    constexpr rlim_t kKept = host::kDescriptorsOfDatagramMax + 1;
    if (getrlimit(RLIMIT_NOFILE, &all_) != 0 || all_.rlim_cur < 2 * kKept) return;
    kept_ = all_;
    kept_.rlim_cur -= kKept;
    set(kept_);
  }
  ~DescriptorRoom() { set(all_); }
  DescriptorRoom(const DescriptorRoom&) = delete;
  DescriptorRoom& operator=(const DescriptorRoom&) = delete;

  /// A datagram of a connection that brings descriptors.
  [[nodiscard]] host::Datagram receive(int socket) const {
    set(all_);
    host::Datagram datagram = host::receive_datagram(socket);
    set(kept_);
    return datagram;
  }

 private:
  void set(const rlimit& limit) const {
    if (kept_.rlim_cur != 0) setrlimit(RLIMIT_NOFILE, &limit);
  }

  rlimit all_{};
  rlimit kept_{};  // zero: nothing is kept
};

}  // namespace uroce::service
