// The control connection goes through this relay, so that the driver hears of a message or an end only while
// no poller is in a burst: the PMD unmaps rings and closes descriptors under a running one.
// Before the driver hears of a peer's end, each queue's poller has found its ring empty twice, 100 ms at
// most: the driver unmaps frames that were not received, such as the last ACKs. Cost: EAL's interrupt thread
// waits meanwhile, usually 50 us.
#include "drivers/port/ethdev/memif/relay.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "drivers/port/ethdev/memif/unix_socket.h"

namespace uroce::drivers {

namespace {

/// Whether a message of a peer ends the connection. Each begins with its type, 16 bits in the order of the
/// CPU.
bool disconnects(const UnixMessage& message) {
  constexpr uint16_t kDisconnect = 8;
  uint16_t type = 0;
  if (message.bytes.size() < sizeof(type)) return false;
  std::memcpy(&type, message.bytes.data(), sizeof(type));
  return type == kDisconnect;
}

}  // namespace

void MemifRelay::attach(Gate& gate, std::function<void()> settled) {
  devices_.push_back({&gate, std::move(settled)});
}

void MemifRelay::detach(const Gate& gate) {
  for (const Device& device : devices_)
    if (device.gate == &gate) device.gate->close();
  std::erase_if(devices_, [&](const Device& device) { return device.gate == &gate; });
}

void MemifRelay::join(int peer, int driver) {
  const Place pair = pairs_.emplace(pairs_.end());
  pair->peer = std::make_unique<WatchedSocket>(peer, [this, pair] { from_peer(pair); });
  pair->driver = std::make_unique<WatchedSocket>(driver, [this, pair] { from_driver(pair); });
}

void MemifRelay::cut() { pairs_.clear(); }

/// Which device a connection belongs to stands in its messages; that there are several at one socket is rare.
void MemifRelay::keep_out() {
  for (const Device& device : devices_) device.gate->close();
}

/// What the peer has left in the rings before it went, an acknowledgement for example, is lost when the
/// driver hears that it has gone. Only the end of a connection is worth that wait: the poller of another
/// device at the same socket may not be turned, and a peer whose handshake takes too long begins anew.
void MemifRelay::let_finish() const {
  constexpr Duration kPatience = milliseconds(100);
  for (const Device& device : devices_) device.gate->wait_until_empty(kPatience);
}

void MemifRelay::from_peer(Place pair) {
  // One message at a time: the driver has handled what it has read, as it does so on this thread.
  if (has_unread(pair->driver->descriptor())) return;
  UnixMessage message;
  const Reception reception = receive_message(pair->peer->descriptor(), message);
  if (reception == Reception::kNothing) return;
  if (reception == Reception::kEnd || disconnects(message)) let_finish();
  keep_out();
  if (reception == Reception::kEnd || !send_message(pair->driver->descriptor(), message)) end_peer(pair);
  if (message.descriptor) close(*message.descriptor);
}

/// The driver disconnects upon a message of a wrong size, as it does at the end of a connection; but that it
/// has read a message can be seen, and that it has closed its socket cannot if some child process has a copy.
/// Our end stays until then: the driver does not survive that a client has gone before it was greeted.
void MemifRelay::end_peer(Place pair) {
  keep_out();
  pair->peer.reset();
  send_message(pair->driver->descriptor(), {.bytes = {0}, .descriptor = {}});
}

void MemifRelay::from_driver(Place pair) {
  UnixMessage message;
  switch (receive_message(pair->driver->descriptor(), message)) {
    case Reception::kNothing:
      return;
    case Reception::kEnd:
      pairs_.erase(pair);
      break;
    case Reception::kMessage:
      pair->spoken = true;
      // A peer that does not read is as good as gone; nothing here waits for it.
      if (pair->peer != nullptr && !send_message(pair->peer->descriptor(), message)) end_peer(pair);
      break;
  }
  if (message.descriptor) close(*message.descriptor);
  settle();
}

void MemifRelay::settle() {
  const auto unread = [](const Pair& pair) { return has_unread(pair.driver->descriptor()); };
  if (std::ranges::any_of(pairs_, unread)) return;
  std::erase_if(pairs_, [](const Pair& pair) { return pair.peer == nullptr && pair.spoken; });
  for (const Device& device : devices_) device.settled();
}

void MemifRelay::look() {
  // EAL has been through its descriptors several times: the driver closed this one before it read that, and
  // there is a copy of it in a child process.
  constexpr uint32_t kLooksMax = 10;
  for (Pair& pair : pairs_)
    pair.unread_for = pair.spoken && has_unread(pair.driver->descriptor()) ? pair.unread_for + 1 : 0;
  std::erase_if(pairs_, [](const Pair& pair) { return pair.unread_for > kLooksMax; });
  settle();
}

bool MemifRelay::accepted() const {
  return std::ranges::all_of(pairs_, [](const Pair& pair) { return pair.spoken; });
}

}  // namespace uroce::drivers
