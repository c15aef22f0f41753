#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "drivers/port/buffer_pool.h"
#include "drivers/port/host/peer_exchange.h"
#include "host/shared_device.h"
#include "port/port.h"

namespace uroce::drivers {

/// The one queue of a port that several programs share: frames for other programs of this host go to them by
/// channels, all others to the service. What is received is copied into buffers of this process before it is
/// looked at, since its sender may change it at any time; payloads of long frames, which are placed as they
/// are, may be left where they are. In turns of one poller.
class HostQueue final : public port::PortQueue {
 public:
  struct Options {
    std::byte* memory = nullptr;  // of host::kProgramMemory, mapped as long as the queue lives
    bool icrc_on_host = false;
  };
  HostQueue(const Options& options, PeerExchange& exchange);

  [[nodiscard]] host::OwnMemory& memory() { return own_; }

  uint16_t receive(std::span<port::RxFrame> frames) override;
  void release(std::span<const port::RxFrame> frames) override;
  /// Only where the ICRC is computed: that brings the body into the cache. Without it the copy does.
  void leave_bodies() override { leaves_bodies_ = icrc_on_host_; }
  uint16_t allocate(std::span<port::TxFrame> frames) override;
  uint16_t transmit(std::span<const port::TxFrame> frames) override;
  void free(std::span<const port::TxFrame> frames) override;
  port::RxFrame loop(const port::TxFrame& frame) override {
    return {.data = frame.data, .length = frame.length};
  }

  [[nodiscard]] bool wants_icrc_on_host() const override { return icrc_on_host_; }
  [[nodiscard]] bool is_shared() const override { return true; }
  [[nodiscard]] bool has_room(std::optional<QpNumber> to) override;
  [[nodiscard]] bool takes_datagrams(std::optional<QpNumber> to, Instant now) override;
  [[nodiscard]] uint64_t dropped() const override;

 private:
  /// The frames of a turn, for which there must be room before a queue pair makes one.
  static constexpr uint32_t kTurnFrames = 64;
  /// Frames for a program that is being asked for wait here, at most so many.
  static constexpr size_t kWaitingMax = 2 * kTurnFrames;
  static constexpr size_t kBurst = 64;
  /// So long datagrams wait for a program to make room for those of a turn (head of host_queue.cc).
  static constexpr Duration kFullMax = milliseconds(500);

  struct WaitingFrame {
    uint32_t frame;
    uint32_t length;
    bool has_icrc;
  };
  /// How a block of the least size is reached.
  struct Slot {
    Peer* peer = nullptr;
    std::unique_ptr<std::vector<WaitingFrame>> waiting = nullptr;  // the program is being asked for
    bool absent = false;  // the last introduction failed: datagrams wait for no other
  };

  Slot& slot_of(QpNumber number) { return slots_[(number.value & QpNumber::kMask) >> host::kBlockBits]; }
  /// For the answer, the frames of a turn.
  static bool may_wait(const Slot& slot) {
    return slot.waiting == nullptr || slot.waiting->size() + kTurnFrames <= kWaitingMax;
  }
  static bool has_room(Peer& peer);
  void take_changes();
  void apply(PeerChange& change);
  void reach(std::unique_ptr<Peer> peer);
  void remove(NumberBlock block);
  void retire_ended();
  void replace_service(std::unique_ptr<Peer> peer);
  void retire(std::unique_ptr<Peer> peer);
  void flush(Slot& slot);
  void drop_waiting(Slot& slot);
  void send_on_host(QpNumber to, const WaitingFrame& frame);
  void send(Peer* peer, const WaitingFrame& frame);
  void drop(uint32_t frame);
  bool take(port::RxFrame& frame, const std::byte* data) const;
  void release_received();
  void wake_sleepers();
  void reclaim();

  host::OwnMemory own_;
  PeerExchange& exchange_;
  const bool icrc_on_host_;
  BufferPool received_;
  std::vector<Slot> slots_;
  std::unique_ptr<Peer> service_;  // null: there is none
  std::vector<std::unique_ptr<Peer>> programs_;
  std::vector<Peer*> peers_;  // all of these
  bool some_ended_ = false;
  size_t first_ = 0;  // of them, where the next receive() begins, so that none starves another
  std::vector<Peer*> sent_to_;
  std::vector<Peer*> received_from_;  // whose frames have bodies that are read until the next receive()
  bool leaves_bodies_ = false;
  std::atomic<uint64_t>& dropped_;  // which `uroce status` shows
};

}  // namespace uroce::drivers
