#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <map>
#include <optional>
#include <utility>

#include "service/service.h"

// Connections, until they attach.
//
// Decision: when a user's places for connections that have not attached are taken, the process of that user
// with most of them gives up its oldest; likewise the user with most when all places are. A process that
// connects in a loop and says nothing then costs other programs of its user no place. Cost: many processes
// with one connection each still push each other out, the oldest first.

namespace uroce::service {

void Service::accept_all() {
  UnattachedOfProcess unattached;
  for (const auto& [id, program] : programs_)
    if (is_unattached(*program)) ++unattached[{program->peer.uid, program->peer.pid}];
  // Without a descriptor left, or with too many that wait to be closed, the listener would be ready for ever.
  size_t accepted = 0;
  for (; accepted < kAcceptedAtOnce && !closer_.full(); ++accepted) {
    Descriptor connection(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.ok()) {
      accept_one(std::move(connection), unattached);
      continue;
    }
    if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS) return;
    break;
  }
  if (accepted == kAcceptedAtOnce) return;  // the rest comes in the next round
  accept_at_ = now_ + kAcceptPause;
  epoll_ctl(poll_.get(), EPOLL_CTL_DEL, socket_.get(), nullptr);
}

void Service::accept_one(Descriptor connection, UnattachedOfProcess& unattached) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return closer_.close_connection(0, std::move(connection));
  const bool user_full =
      connections_.of(peer.uid) >= kUnattachedOfUserMax || descriptors_.available(peer.uid) == 0;
  const bool full = user_full || connections_.total() >= kUnattachedMax;
  if (full) end_oldest_unattached(user_full ? std::optional(peer.uid) : std::nullopt, unattached);
  auto place = connections_.take(peer.uid, 1);
  auto descriptor = place ? descriptors_.take(peer.uid, 1) : place.error();
  if (!descriptor) {
    Message busy{.type = host::MessageType::kDone, .error = EAGAIN};
    host::set_text(busy.text,
                   !place ? "too many connections have said nothing yet" : descriptor.error().message);
    host::send_message(connection.get(), busy, {});
    return closer_.close_connection(peer.uid, std::move(connection));
  }
  const uint32_t id = next_id_++;
  const int socket = connection.get();
  if (!watch(socket, id)) return closer_.close_connection(peer.uid, std::move(connection));
  auto program = std::make_unique<ClientProcess>(id, std::move(connection), peer);
  program->unattached = std::move(*place);
  program->descriptors = std::move(*descriptor);
  program->account = &accounts_.open(peer.uid);
  // Connections leave no debt, or all programs of the user would wait for the one that connects in a loop. A
  // round takes kAcceptedAtOnce, whatever they cost.
  RequestBudget& budget = program->account->budget;
  if (budget.ask(round_, now_) == RequestBudget::Answer::kRead) budget.charge(kCostOfConnection, now_);
  ++unattached[{peer.uid, peer.pid}];
  program->connected = now_;
  program->events = EPOLLIN;
  programs_.emplace(id, std::move(program));
}

/// Whether the connection has a place that it may lose to another one.
bool Service::is_unattached(const ClientProcess& program) const {
  return !program.attached() && !program.ended && !owns_capture(program);
}

/// Ends one connection that has not attached: the oldest of the process with most of them, of `user`, or of
/// the user that has most.
void Service::end_oldest_unattached(std::optional<uid_t> user, UnattachedOfProcess& unattached) {
  const auto share = [&](const ClientProcess& program) {
    return std::pair(connections_.of(program.peer.uid), unattached[{program.peer.uid, program.peer.pid}]);
  };
  ClientProcess* oldest = nullptr;  // ids, and so programs_, are in the order of time
  for (const auto& [id, program] : programs_) {
    if (!is_unattached(*program) || (user && program->peer.uid != *user)) continue;
    if (oldest == nullptr || share(*program) > share(*oldest)) oldest = program.get();
  }
  if (oldest == nullptr) return;
  --unattached[{oldest->peer.uid, oldest->peer.pid}];
  end(*oldest, EAGAIN, "the service needs the connection's place for another program");
  oldest->unattached = {};
  oldest->descriptors = {};
}

/// Ends all connections that have not attached within kUnattachedFor, whatever they have asked meanwhile.
void Service::end_late_unattached() {
  for (auto& [id, program] : programs_)
    if (!program->attached() && !owns_capture(*program) && now_ - program->connected >= kUnattachedFor)
      end(*program, ETIMEDOUT, "the connection was not attached within 5 s");
}

}  // namespace uroce::service
