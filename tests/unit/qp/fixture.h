#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "copy/placer.h"
#include "mem/keys/region_table.h"
#include "port/tx_batch.h"
#include "qp/queue_pair/queue_pair_storage.h"
#include "qp/requester/local_operation.h"
#include "tests/unit/mem/other_poller.h"
#include "wire/packet.h"

namespace uroce::qp::testing {

using Bytes = std::vector<std::byte>;

/// `count` bytes that differ from each other and, by `salt`, from other patterns.
Bytes pattern(size_t count, uint32_t salt = 0);

/// A frame that the queue pair sent, as the peer parses it.
struct Sent {
  Bytes frame;
  wire::Packet packet;  // points into frame

  [[nodiscard]] wire::Operation operation() const { return packet.row->opcode.operation(); }
  [[nodiscard]] uint32_t psn() const { return packet.headers.bth.psn.value(); }
  [[nodiscard]] bool ack_request() const { return packet.headers.bth.ack_request; }
  [[nodiscard]] const wire::Aeth& aeth() const { return packet.headers.aeth; }
  [[nodiscard]] const wire::Reth& reth() const { return packet.headers.reth; }
  [[nodiscard]] Bytes payload() const { return {packet.payload.begin(), packet.payload.end()}; }
};

/// What goes out is kept.
class CapturingQueue final : public port::PortQueue {
 public:
  /// `icrc_on_host`: what wants_icrc_on_host() says.
  explicit CapturingQueue(bool icrc_on_host = true) : icrc_on_host_(icrc_on_host) {}

  uint16_t receive(std::span<port::RxFrame>) override { return 0; }
  void release(std::span<const port::RxFrame>) override {}
  uint16_t allocate(std::span<port::TxFrame> frames) override;
  uint16_t transmit(std::span<const port::TxFrame> frames) override;
  void free(std::span<const port::TxFrame> frames) override;
  port::RxFrame loop(const port::TxFrame&) override { return {}; }
  [[nodiscard]] bool wants_icrc_on_host() const override { return icrc_on_host_; }

  std::vector<Bytes> sent;

 private:
  bool icrc_on_host_;
};

class RecordedEvents final : public EventListener {
 public:
  void raised(Event event) override { list.push_back(event); }
  std::vector<Event> list;
};

/// A queue pair as its poller has it: what is done with it but modify() uses it, and a state that it had
/// before is restored then.
class UsedQueuePair {
 public:
  UsedQueuePair& operator=(std::unique_ptr<QueuePairStorage> made) {
    lazy_ = std::move(made);
    return *this;
  }
  [[nodiscard]] QueuePairStorage& lazy() { return *lazy_; }
  QueuePair* operator->() { return lazy_->use(); }

 private:
  std::unique_ptr<QueuePairStorage> lazy_;
};

/// A queue pair with everything it needs, whose peer is the test: it sends crafted packets and sees what
/// comes back.
class QueuePairTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kMtu = 256;
  static constexpr uint32_t kDepth = 512;
  static constexpr Psn kOurPsn{100};    // of our first request
  static constexpr Psn kPeerPsn{5000};  // of the peer's first request
  static constexpr uint64_t kIova = 0x10000;
  static constexpr size_t kMemory = 512 << 10;
  static constexpr uint32_t kRkey = 0x7700;  // of the peer's memory, in our requests
  static constexpr uint64_t kRemote = 0xABCD000;

  static constexpr mem::QpIdentity kOurIdentity{0x5'0000'0011};

  static constexpr uint32_t kQkey = 0x11111111;       // ours, of UD
  static constexpr uint32_t kPeersQkey = 0x22222222;  // of our datagrams

  static constexpr queue::SrqNumber kPeersReceives{0x123456};  // of our XRC requests

  explicit QueuePairTest(Type type = Type::kRc, uint32_t datagram_mtu = kMtu);

  /// The values that bring_up() uses; a test may change them before.
  Attributes attributes;
  void bring_up(State to = State::kRts);
  int modify(State state, AttributeMask mask = {});

  /// A region of the queue pair's domain.
  mem::RegionKeys register_region(std::byte* at, uint64_t bytes, uint64_t iova, mem::Access access);
  /// The queue pair grants it, and so does the region of `keys`, which is a new one.
  void grant(mem::Access access);

  // Posting. The data is at `offset` of memory.
  queue::SendRequest& post(queue::SendOperation operation, uint32_t length, uint64_t offset = 0);
  /// A local operation, to be published when it has its arguments.
  queue::SendRequest& reserve_local(queue::SendOperation operation);
  queue::SendRequest& post_invalidate(MemoryKey of);
  void post_receive(uint32_t length, uint64_t offset = 0);
  void post_receive_pieces(const std::vector<queue::Segment>& segments);
  [[nodiscard]] queue::Segment segment(uint64_t offset, uint32_t length) const;

  // The peer. Headers start out as a well-behaved peer's.
  [[nodiscard]] wire::Headers from_peer(wire::Operation operation, uint32_t psn) const;
  void receive(const wire::Headers& headers, const Bytes& payload = {});
  void receive(wire::Operation operation, uint32_t psn, const Bytes& payload = {}, bool ack_request = false);
  void receive_ack(uint32_t psn);
  void receive_nak(wire::NakCode code, uint32_t psn);
  void receive_rnr(uint8_t timer, uint32_t psn);
  void receive_write(wire::Operation operation, uint32_t psn, uint64_t offset, uint32_t length,
                     const Bytes& payload);
  void receive_read(uint32_t psn, uint64_t offset, uint32_t length);

  /// Whether the queue pair took the last packet.
  bool last_taken = true;
  /// Whether it wanted the last packet kept, which is lost here.
  bool last_early = false;

  /// False: packets belong to one burst, nothing is committed between them.
  bool commit_after_receive = true;

  /// Ends the turn: pumps until nothing is left to send, and returns what went out.
  std::vector<Sent> pump(uint32_t budget = 64);
  bool pump_once(uint32_t budget);
  std::vector<Sent> take_sent();
  void advance(Duration time);
  /// Goes to the deadline and lets it expire.
  void expire();

  std::vector<queue::Completion> send_completions();
  std::vector<queue::Completion> receive_completions();
  [[nodiscard]] uint64_t counter(Counter counter) const { return counters.read(counter); }
  [[nodiscard]] Bytes memory_at(uint64_t offset, size_t length) const;
  void fill(uint64_t offset, const Bytes& bytes);

  /// What the only completion says.
  void expect_failed_send(queue::CompletionStatus status);
  void expect_failed_receive(queue::CompletionStatus status);
  void expect_completions(
      const std::vector<std::pair<queue::CompletionOpcode, queue::CompletionStatus>>& expected);
  /// Each posts something in a new life of the queue pair that ends with `refused`, and what is behind it is
  /// flushed.
  void expect_each_refused(const std::vector<std::function<void()>>& wrong, queue::CompletionStatus refused);
  static void expect_answer(const Sent& frame, wire::AethKind kind, uint8_t value, uint32_t psn);
  static void expect_nak(const Sent& frame, wire::NakCode code, uint32_t psn);
  /// The only frame is an answer to `psn`.
  static void expect_answer(const std::vector<Sent>& frames, wire::AethKind kind, uint8_t value,
                            uint32_t psn);
  static void expect_nak(const std::vector<Sent>& frames, wire::NakCode code, uint32_t psn);

  Receipt show(const wire::Packet& packet);

  std::vector<Bytes> burst;  // frames whose bytes may not be committed yet

  const Type type;
  DomainId domain{1};
  Bytes memory;
  mem::BusSpace bus{{.offset = uint64_t{3} << 21}};
  mem::testing::OtherPoller other_poller;
  mem::RegionTable regions;
  mem::RegionKeys keys;
  mem::RegionKeys read_only_keys;  // same memory, readable from remote, not writable
  queue::SendQueue sends;
  queue::ReceiveQueue receives;
  queue::CompletionQueue send_queue_completions;
  queue::CompletionQueue receive_queue_completions;
  CapturingQueue port;
  port::TxBatch tx{port};
  copy::Placer placer{copy::Kind::kAuto};
  queue::CompletionBatch completions{0};
  Counters counters;
  RecordedEvents events;
  Turn turn;
  TransportOptions transport;
  QueuePair::Options options;  // that it was made with, and `transport`
  UsedQueuePair queue_pair;
};

}  // namespace uroce::qp::testing
