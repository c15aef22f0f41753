#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "nvmf/format/fabrics.h"
#include "nvmf/format/nvme.h"
#include "nvmf/rdma/private_data.h"
#include "nvmf_host/fast_regions.h"

namespace uroce::nvmf_host {

/// The target's answer to a connection request was no.
struct RdmaRefused : std::runtime_error {
  RdmaRefused(int why, std::optional<uint16_t> nvme_status)
      : std::runtime_error("refused"), reason(why), status(nvme_status) {}
  int reason;                      // of the communication manager
  std::optional<uint16_t> status;  // of the private data
};

/// One queue of an NVMe/RDMA host, on plain verbs: capsules out, completions in. Each command has a slot: a
/// number (its CID), and memory that the target may read and write. One thread. Throws what fails.
class RdmaHostQueue {
 public:
  struct Options {
    std::string target_address = "192.0.2.2";
    std::string own_address = "192.0.2.1";
    uint16_t port = 4420;
    uint16_t qid = 0;
    uint32_t entries = 32;
    uint32_t slot_bytes = 128 << 10;          // of memory for each command
    uint32_t in_capsule_bytes = 8192;         // that may come with a command
    uint8_t reads_answered = 16;              // at once
    uint32_t receives = UINT32_MAX;           // that are ever posted: so many completions are taken
    std::optional<uint8_t> ack_timeout = {};  // of the request: 4.096 us times 2 to that power; 0: for ever
    bool fast_registration =
        false;  // so that registered_memory() may be called; slot_bytes is of whole pages
    /// Instead of what the other options say.
    std::optional<std::vector<std::byte>> private_data = {};
  };

  explicit RdmaHostQueue(const Options& options);
  ~RdmaHostQueue();
  RdmaHostQueue(const RdmaHostQueue&) = delete;
  RdmaHostQueue& operator=(const RdmaHostQueue&) = delete;

  [[nodiscard]] uint32_t slots() const { return options_.entries; }
  [[nodiscard]] std::span<std::byte> memory(uint16_t cid) const;
  [[nodiscard]] uint32_t key() const { return region_->rkey; }
  [[nodiscard]] uint16_t controller_receive_size() const { return controller_receive_size_; }

  /// An SGL: the first `bytes` of the slot's memory, or `bytes` of data in the capsule.
  [[nodiscard]] nvmf::SglDescriptor host_memory(uint16_t cid, uint32_t bytes) const;
  /// The SGL of the same memory under a key of its own, which is registered right before the next capsule of
  /// the slot and which the response is to invalidate. Throws EBUSY unless is_acknowledged(cid).
  [[nodiscard]] nvmf::SglDescriptor registered_memory(uint16_t cid, uint32_t bytes);
  static nvmf::SglDescriptor keyed(uint64_t address, uint32_t bytes, uint32_t key, bool invalidate = false);
  static nvmf::SglDescriptor in_capsule(uint32_t bytes, uint64_t offset = 0);

  /// A capsule of the command, with what stands in `data` behind it. The CID says whose slot is used, and is
  /// free until the completion comes.
  void send(const nvmf::Command& command, std::span<const std::byte> data = {});
  /// At most slots() commands in one call of ibv_post_send, each with the first `data_bytes` of its slot's
  /// memory behind it in the capsule.
  void send(std::span<const nvmf::Command* const> commands, uint32_t data_bytes = 0);
  /// The capsule of the slot's last command needs not be sent again: it may hold another one.
  [[nodiscard]] bool is_acknowledged(uint16_t cid) const { return positions_[cid] <= acknowledged_; }
  /// The bytes of a capsule, whatever they are.
  void send_bytes(uint16_t slot, std::span<const std::byte> bytes);
  /// Completions that have come, a prefix of `completions`; how many. Sends among them are counted only.
  size_t poll(std::span<nvmf::Completion> completions);
  /// Send, and the completion of this command, others being lost. nullopt: the connection ended.
  std::optional<nvmf::Completion> run(const nvmf::Command& command, std::span<const std::byte> data = {});
  /// Keys that completions invalidated.
  [[nodiscard]] const std::vector<uint32_t>& invalidated() const { return invalidated_; }
  /// A window on the slot's memory, whose key one completion may invalidate.
  uint32_t bind_window(uint16_t cid, uint32_t bytes);

  void disconnect();
  /// The connection has ended, by the target or by this host.
  [[nodiscard]] bool has_ended();

 private:
  struct DestroyChannel {
    void operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }
  };

  void resolve();
  void map_memory();
  void make_queue_pair();
  /// Posts what is in `receives_`, as one list.
  void post_receives();
  void connect();
  std::byte* capsule(size_t slot) const {
    return capsules_ + slot * (sizeof(nvmf::Command) + options_.in_capsule_bytes);
  }
  void add_receive(size_t index);
  void send_capsule(uint16_t slot, size_t bytes);
  /// Puts it at this place of `sends_`, behind what is at the places before.
  void chain_capsule(uint16_t slot, size_t bytes, size_t at);
  /// The first `count` of `sends_`, with what goes before each. The last of them is signalled.
  void post_sends(size_t count);
  /// The next event, which must be of that type.
  void expect(rdma_cm_event_type type);
  void handle_completion(const ibv_wc& completion, std::span<nvmf::Completion> to, size_t& count);
  void release();

  const Options options_;
  std::unique_ptr<rdma_event_channel, DestroyChannel> channel_;
  rdma_cm_id* id_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_mr* region_ = nullptr;
  std::optional<FastRegions> fast_regions_;
  std::vector<ibv_mw*> windows_;
  std::byte* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  // Parts of the mapped memory.
  std::byte* capsules_ = nullptr;
  std::byte* completions_ = nullptr;
  std::byte* data_ = nullptr;
  // Work requests that are about to be posted, and their segments.
  std::vector<ibv_send_wr> sends_;
  ibv_send_wr* first_send_ = nullptr;
  std::vector<ibv_recv_wr> receives_;
  std::vector<std::array<ibv_sge, 2>> send_segments_;
  std::vector<ibv_sge> receive_segments_;
  size_t receives_ready_ = 0;
  // Of SENDs: how many were posted, which of them a slot's last was, and up to which all have ended.
  uint64_t posted_ = 0;
  std::vector<uint64_t> positions_;
  uint64_t acknowledged_ = 0;
  uint16_t controller_receive_size_ = 0;
  uint32_t binds_done_ = 0;
  uint32_t receives_left_ = options_.receives;
  bool ended_ = false;
  std::vector<uint32_t> invalidated_;
};

}  // namespace uroce::nvmf_host
