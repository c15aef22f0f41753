#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "qp/queue_pair/queue_pair.h"
#include "tests/unit/mem/other_poller.h"
#include "wire/packet.h"

// What strangers can make the responders of UC and UD do: a stream of frames, each behind two bytes of
// length, of which those that parse are shown to a queue pair of their service. Nothing outside the receives
// and the registered region may change, and no completion may say more than was there.

namespace uroce::fuzz {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

class NoPort final : public port::PortQueue {
 public:
  uint16_t receive(std::span<port::RxFrame>) override { return 0; }
  void release(std::span<const port::RxFrame>) override {}
  uint16_t allocate(std::span<port::TxFrame>) override { return 0; }
  uint16_t transmit(std::span<const port::TxFrame>) override { return 0; }
  void free(std::span<const port::TxFrame>) override {}
  port::RxFrame loop(const port::TxFrame&) override { return {}; }
};

/// A queue pair that is ready to receive into one region.
class Target {
 public:
  explicit Target(qp::Type type)
      : memory_(kGuard + kMemory + kGuard, kUntouched),
        queue_pair_({.type = type,
                     .number = {2},
                     .domain = kDomain,
                     .datagram_mtu = 1024,
                     .send_queue = &sends_,
                     .receive_queue = &receives_,
                     .send_completions = &completions_of_sends_,
                     .receive_completions = &completions_of_receives_}) {
    mem::UserRegion region{
        .domain = kDomain, .address = memory_.data() + kGuard, .length = kMemory, .iova = 0};
    region.access = mem::kLocalWrite | mem::kRemoteWrite;
    keys_ = regions_.register_user(region).value();
    qp::Attributes attributes;
    attributes.access = mem::kRemoteWrite;
    attributes.state = qp::State::kInit;
    const bool datagrams = type == qp::Type::kUd;
    step(attributes, qp::kMaskPkeyIndex | qp::kMaskPort | (datagrams ? qp::kMaskQkey : qp::kMaskAccessFlags));
    attributes.state = qp::State::kRtr;
    step(attributes, datagrams ? qp::AttributeMask{}
                               : qp::kMaskAv | qp::kMaskPathMtu | qp::kMaskDestQpn | qp::kMaskRqPsn);
  }

  void show(wire::Packet packet) {
    while (receives_.outstanding() < 4) post();
    // Whose the frame is and which key it names a mutation will not guess.
    packet.source = packet.destination = {};
    packet.headers.deth.qkey &= 1;
    if (packet.headers.reth.rkey.value % 2 == 0) packet.headers.reth.rkey = keys_.rkey;
    packet.headers.reth.address &= 0xFFFF;
    require(queue_pair_.receive(packet, turn_) == qp::Receipt::kTaken);
    qp::commit_placements(turn_);
    completions_.publish_all();
    check();
    if (queue_pair_.state() != qp::State::kErr) return;
    require(false);  // nothing that a peer sends breaks a queue pair whose own receives are good
  }

 private:
  static constexpr size_t kGuard = 4096;
  static constexpr size_t kMemory = 32768;
  static constexpr uint32_t kReceiveBytes = 1500;
  static constexpr std::byte kUntouched{0xA5};
  static constexpr DomainId kDomain{1};

  void step(const qp::Attributes& attributes, qp::AttributeMask mask) {
    require(queue_pair_.modify(attributes, mask | qp::kMaskState, turn_) == 0);
  }
  void post() {
    queue::ReceiveRequest& request = *receives_.reserve();
    request.length = kReceiveBytes;
    request.segments = 1;
    receives_.segments(request)[0] = {0, kReceiveBytes, keys_.lkey};
    receives_.publish();
  }
  void check() {
    std::array<queue::Completion, 8> found;
    for (const queue::Completion& completion : std::span(found).first(completions_of_receives_.poll(found))) {
      require(completion.status == queue::CompletionStatus::kSuccess);
      require(completion.opcode != queue::CompletionOpcode::kReceive || completion.bytes <= kReceiveBytes);
    }
    for (size_t i = 0; i < kGuard; ++i)
      require(memory_[i] == kUntouched && memory_[kGuard + kMemory + i] == kUntouched);
  }

  mem::testing::OtherPoller other_poller_;
  mem::BusSpace bus_{{}};
  mem::RegionTable regions_{{.entries_max = 16, .grace_period = &other_poller_, .bus_space = &bus_}};
  std::vector<std::byte> memory_;
  mem::RegionKeys keys_;
  queue::SendQueue sends_{{.depth = 1}};
  queue::ReceiveQueue receives_{{.depth = 8}};
  queue::CompletionQueue completions_of_sends_{{.depth = 8}};
  queue::CompletionQueue completions_of_receives_{{.depth = 8}};
  NoPort port_;
  port::TxBatch tx_{port_};
  copy::Placer placer_{copy::Kind::kAuto};
  queue::CompletionBatch completions_{0};
  Counters counters_;
  qp::Turn turn_{{}, tx_, placer_, completions_, regions_, counters_};
  qp::QueuePair queue_pair_;
};

void show_all(std::span<const std::byte> stream) {
  Target connection(qp::Type::kUc);
  Target datagrams(qp::Type::kUd);
  while (stream.size() > 2) {
    const size_t wanted = static_cast<size_t>(stream[0]) << 8 | static_cast<size_t>(stream[1]);
    stream = stream.subspan(2);
    const size_t bytes = std::min(wanted, stream.size());
    wire::Packet packet;
    if (wire::parse_frame(stream.first(bytes), packet).result == wire::ParseResult::kRoce) {
      if (packet.row->opcode.service() == wire::Service::kUc) connection.show(packet);
      if (packet.row->opcode.service() == wire::Service::kUd) datagrams.show(packet);
    }
    stream = stream.subspan(bytes);
  }
}

}  // namespace
}  // namespace uroce::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uroce::fuzz::show_all(std::as_bytes(std::span(data, size)));
  return 0;
}
