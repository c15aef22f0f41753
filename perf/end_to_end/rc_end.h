#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/perf/plan/plan.h"
#include "base/values/random.h"
#include "client/verbs_device.h"
#include "client/verbs_objects.h"

namespace uroce::perf {

/// What both ends agree on.
struct Traffic {
  Operation operation = Operation::kWrite;  // WRITE, READ or SEND
  uint32_t size = 64;
  uint64_t region_bytes = 512u << 20;  // of targets
  uint64_t mtu = 4096;
  uint32_t queue_pairs = 1;    // of each end, which take their turns post by post; SEND: only 1
  bool all_addresses = false;  // queue pairs take turns in using those of their end, instead of one
  bool crossed = false;  // of several pollers, the near end's queue pairs have one and the far end's another
  bool random_order = false;  // of the queue pairs, instead of one after the other
  uint32_t batch = 16;        // messages in one post, of which the last is signalled
  uint32_t outstanding = 64;  // messages on all queue pairs together; a multiple of `batch`
  bool no_queues = false;     // queue pairs that nothing can be posted to, for what they take beside queues
  uint32_t depth = 0;         // of each send queue, `batch` at least; 0: four times its share

  [[nodiscard]] uint64_t stride() const { return (uint64_t{size} + 63) / 64 * 64; }
  [[nodiscard]] uint64_t targets() const { return region_bytes / stride() / batch * batch; }
  /// Large messages share them, as long as they take turns at all.
  [[nodiscard]] uint64_t sources() const {
    return std::clamp<uint64_t>((64u << 20) / stride() / batch * batch, batch, outstanding);
  }
};

/// What the other end of a connection, which may be in another process, needs to know.
struct RcPlace {
  uint64_t sources = 0;
  uint64_t targets = 0;
  uint32_t key = 0;
  ibv_gid gid{};
};

/// What an end needs memory for.
enum class Part : uint8_t { kSources, kTargets, kBoth };

/// One end of the traffic: a device, sources or a large region of targets or both, and queue pairs whose
/// posts and polls do as little as a program can. Every failure throws. One thread.
class RcEnd {
 public:
  /// `crossed`: as Traffic::crossed has it for the far end.
  RcEnd(const std::string& device, const Traffic& traffic, Part part, bool crossed = false);

  [[nodiscard]] const RcPlace& place() const { return place_; }
  /// Numbers of the queue pairs.
  [[nodiscard]] std::vector<uint32_t> numbers() const;

  /// `peer` is of this process. With all addresses each pair of them is a path of its own, as far as there
  /// are queue pairs, if the ends have counts of addresses that have no divisor in common.
  void connect(const RcEnd& peer);
  /// `numbers` are those of the peer's queue pairs, as many as there are here.
  void connect(const RcPlace& peer, std::span<const uint32_t> numbers);

  /// Whether the next queue pair takes a batch. It may have fallen behind the others when a packet of
  /// its own was lost.
  [[nodiscard]] bool has_room() const { return under_way_[next_queue_pair_] < batches_max_; }
  /// Posts the next batch of messages to or from `peer`, on the next queue pair. Throws without has_room().
  void post(const RcEnd& peer) { post(peer.place()); }
  void post(const RcPlace& peer);
  /// Posts receives for the next batch of messages.
  void post_receives();

  /// Messages.
  struct Found {
    uint32_t completed = 0;
    uint32_t received = 0;
  };
  Found poll();

  [[nodiscard]] std::span<std::byte> source(uint64_t message) {
    return {memory_.get() + message % traffic_.sources() * traffic_.stride(), traffic_.size};
  }
  [[nodiscard]] std::span<std::byte> target(uint64_t message) {
    return {targets() + message % traffic_.targets() * traffic_.stride(), traffic_.size};
  }

 private:
  [[nodiscard]] uint64_t source_bytes() const {
    return part_ == Part::kTargets ? 0 : traffic_.sources() * traffic_.stride();
  }
  [[nodiscard]] std::byte* targets() const { return memory_.get() + source_bytes(); }
  void make_queue_pairs();
  void occupy_first_poller();
  static void modify(ibv_qp& queue_pair, ibv_qp_attr attributes, int mask);
  /// A GID of ours, by its index, and one of the peer.
  struct Path {
    uint8_t ours = 0;
    ibv_gid peers{};
  };
  void connect(ibv_qp& queue_pair, const Path& path, uint32_t peers_number) const;
  /// Offset of the next batch of targets.
  uint64_t next_targets();
  [[nodiscard]] size_t queue_pair_after(size_t queue_pair);

  const Traffic traffic_;
  const Part part_;
  client::VerbsDevice device_;
  std::vector<ibv_gid> gids_;  // that are used, from that of the device on
  client::Buffer memory_;
  client::ProtectionDomain domain_;
  client::MemoryRegion region_;
  client::CompletionQueue idle_completions_;  // of a poller that has nothing to do otherwise
  client::QueuePair idle_;
  client::CompletionQueue completions_;
  std::vector<client::QueuePair> queue_pairs_;
  RcPlace place_;
  size_t next_queue_pair_ = 0;
  bool all_used_ = false;  // queue pairs
  Random random_{1};
  std::vector<uint32_t> under_way_;  // batches, of each queue pair
  uint32_t batches_max_ = 0;
  uint64_t sources_offset_ = 0;
  uint64_t targets_offset_ = 0;
  std::vector<ibv_send_wr> sends_;
  std::vector<ibv_recv_wr> receives_;
  std::vector<ibv_sge> segments_;
};

}  // namespace uroce::perf
