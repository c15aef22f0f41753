#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/values/result.h"
#include "drivers/port/ethdev/gate.h"
#include "drivers/port/ethdev/memif/end.h"
#include "drivers/port/ethdev/memif/socket.h"
#include "drivers/port/kernel/devargs.h"

namespace uroce::drivers {

/// A memif's device as long as it is started, and its connection, which comes and goes: pollers are let in
/// when a peer is there (gate.h), and a client's driver, which tries to connect only when it is started, is
/// started again and again.
class MemifConnection {
 public:
  /// Replaces the socket in the arguments by the driver's own. Errors: as MemifSocket::make().
  static Result<std::unique_ptr<MemifConnection>> make(Devargs& devargs, const MemifEnd& end,
                                                       uint16_t queues);
  MemifConnection(const MemifConnection&) = delete;
  MemifConnection& operator=(const MemifConnection&) = delete;

  /// For the making of the device.
  [[nodiscard]] MemifSocket& socket() { return *socket_; }
  [[nodiscard]] Gate& gate() { return gate_; }
  /// Any thread: pollers are let in, or were before the link went down.
  [[nodiscard]] bool connected() const {
    return connected_.load(std::memory_order_acquire);  // pairs with note_connection(): after the gate
  }

  // On EAL's interrupt thread.

  /// Starts the device of that number and looks after it from now on; `connecting` is called again and again
  /// while a connection is new. Returns what DPDK does: not 0 is an error of a server only.
  int start(uint16_t port_id, std::function<void()> connecting);
  [[nodiscard]] bool started() const { return started_; }
  [[nodiscard]] bool tries_again() const { return client_; }
  /// No peer connects any more, and pollers stay out.
  void retire();
  /// After that: the device may be closed. False while the driver has yet to see a peer that has just
  /// connected.
  [[nodiscard]] bool may_close() const { return socket_->may_close(); }
  /// Stops and closes the device, which may never have been started, and gives the socket up.
  void close(uint16_t port_id);

 private:
  MemifConnection(std::shared_ptr<MemifSocket> socket, bool client, uint16_t queues)
      : socket_(std::move(socket)), client_(client), gate_(queues) {}

  static void look(void* connection);
  void look_again_later();
  int start_device();
  void note_connection();
  void keep_connected();

  std::shared_ptr<MemifSocket> socket_;
  const bool client_;
  Gate gate_;
  uint16_t port_id_ = 0;
  std::function<void()> connecting_;
  bool started_ = false;
  uint32_t looks_up_ = 0;    // looks at the link since it was last down
  uint32_t looks_down_ = 0;  // since it was last up or the device started
  std::atomic<bool> connected_{false};
};

}  // namespace uroce::drivers
