// Descriptors that programs send, and the connections that they come by. Nothing that their sender can delay
// is done in this thread: no descriptor is received but from a program that may send it, and none is closed
// here before its seals have shown that it is memory.
#include <fmt/format.h>
#include <sys/epoll.h>

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "engine/platform/log.h"
#include "service/service.h"

namespace uroce::service {

using host::Datagram;
using host::MessageType;

/// Whether the descriptors of the program's next message may be received. It is looked at where it waits, for
/// nothing that arrives here can be refused any more.
Status Service::may_bring_descriptors(const ClientProcess& program, const Message& message) const {
  const bool captures = message.type == MessageType::kFaultTaken && program.attached();
  const bool attaches = message.type == MessageType::kAttach && !program.attached();
  if (!captures && !attaches)
    return Error{EPROTO, "a message comes with other descriptors than belong to it"};
  // One that is over a quota is told so when its descriptors are here, and may ask again.
  if (attaches)
    if (Status status = admit(program, message); !status && status.error().code == EACCES) return status;
  if (closer_.admits(program.peer.uid)) return {};
  return Error{EAGAIN,
               fmt::format("descriptors that user {} has sent are still being closed, which takes their "
                           "files or sockets as long as they like",
                           program.peer.uid)};
}

/// The next message of the program, or none. One whose descriptors may not come ends the program, and stays
/// where it is until the connection is closed.
Datagram Service::take_datagram(ClientProcess& program) {
  const host::PeekedDatagram peeked = host::peek_datagram(program.socket.get());
  Datagram datagram;
  datagram.kind = peeked.kind;
  if (peeked.kind != Datagram::Kind::kMessage) return datagram;
  if (!peeked.brings_descriptors) return host::receive_datagram(program.socket.get());
  const Status status = may_bring_descriptors(program, peeked.message);
  if (status) return descriptor_room_.receive(program.socket.get());
  if (status.error().code != EPROTO) answer(program, peeked.message, status);
  end(program, status.error().code, status.error().message);
  datagram.kind = Datagram::Kind::kNothing;
  return datagram;
}

/// Closes the descriptors of a message that no request has taken.
void Service::close_rest(const ClientProcess& program, Datagram& datagram) {
  std::vector<Descriptor> rest = std::move(datagram.surplus);
  for (Descriptor& descriptor : datagram.descriptor) {
    if (!descriptor.ok()) continue;
    // A capture that is over is no reason to count its memory as a descriptor that may hang.
    if (program.attached() && host::size_of_sealed_memory(descriptor.get())) {
      closer_.close_memory(program.peer.uid, std::move(descriptor));
    } else {
      rest.push_back(std::move(descriptor));
    }
  }
  closer_.close(program.peer.uid, std::move(rest));
}

/// Memory of the program for another one. Its size is the program's choice.
std::shared_ptr<const Descriptor> Service::handed_on(const ClientProcess& program, Descriptor memory) {
  const auto close = [this, user = program.peer.uid](Descriptor* descriptor) {
    closer_.close_memory(user, std::move(*descriptor));
    delete descriptor;
  };
  return {new Descriptor(std::move(memory)), close};
}

/// Messages that were not read may have descriptors.
void Service::close_connection(ClientProcess& program) {
  epoll_ctl(poll_.get(), EPOLL_CTL_DEL, program.socket.get(), nullptr);
  closer_.close_connection(program.peer.uid, std::move(program.socket));
}

void Service::watch_closing() {
  const auto user = closer_.look(now_);
  if (!user || now_ < closing_told_at_ + kTick) return;
  closing_told_at_ = now_;
  engine::write_log(
      engine::LogLevel::kWarning, "uroce serve",
      fmt::format("closing a descriptor that a program of user {} has sent does not end: a thread waits "
                  "for it, and the service goes on",
                  *user));
}

}  // namespace uroce::service
