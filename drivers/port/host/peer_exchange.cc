#include "drivers/port/host/peer_exchange.h"

#include <sys/eventfd.h>

namespace uroce::drivers {

PeerExchange::PeerExchange() : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

PeerExchange::~PeerExchange() {
  while (take_change() != nullptr) {
  }
  while (take_retired() != nullptr) {
  }
}

bool PeerExchange::tell(std::unique_ptr<PeerChange>& change) {
  if (!changes_.push(change.get())) return false;
  static_cast<void>(change.release());
  return true;
}

std::optional<QpNumber> PeerExchange::take_question() {
  QpNumber number;
  return questions_.pop(number) ? std::optional(number) : std::nullopt;
}

std::unique_ptr<Peer> PeerExchange::take_retired() {
  Peer* peer = nullptr;
  return std::unique_ptr<Peer>(retired_.pop(peer) ? peer : nullptr);
}

void PeerExchange::clear_wake() const {
  uint64_t count = 0;
  // EAGAIN: it was not woken.
  if (read(wake_.get(), &count, sizeof count) < 0) return;
}

std::unique_ptr<PeerChange> PeerExchange::take_change() {
  if (changes_.empty()) [[likely]]
    return nullptr;
  PeerChange* change = nullptr;
  return std::unique_ptr<PeerChange>(changes_.pop(change) ? change : nullptr);
}

bool PeerExchange::ask(QpNumber queue_pair) {
  if (!questions_.push(queue_pair)) return false;
  wake();
  return true;
}

void PeerExchange::retire(std::unique_ptr<Peer> peer) {
  [[maybe_unused]] const bool room = retired_.push(peer.release());
  UROCE_ASSERT(room);  // there are fewer peers than places
  wake();
}

void PeerExchange::wake() const {
  constexpr uint64_t kOne = 1;
  // EAGAIN: the reader has not looked since more than it can count.
  if (write(wake_.get(), &kOne, sizeof kOne) < 0) return;
}

}  // namespace uroce::drivers
