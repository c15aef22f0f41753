#pragma once

#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace uroce::testing {

/// A host that only shakes hands, and ends each handshake as it likes: no queue pair stands behind it. One
/// request at a time. One thread. Throws what cannot fail in a test.
class RdmaStranger {
 public:
  struct Options {
    std::string target_address = "192.0.2.2";
    std::string own_address = "192.0.2.1";
    uint16_t port = 4420;
  };

  RdmaStranger() : RdmaStranger(Options{}) {}
  explicit RdmaStranger(Options options);
  ~RdmaStranger();
  RdmaStranger(const RdmaStranger&) = delete;
  RdmaStranger& operator=(const RdmaStranger&) = delete;

  /// REQ. What was before it is withdrawn. Two connections from one queue pair are one to the target: without
  /// a number each request names another.
  void request(std::span<const std::byte> private_data, std::optional<uint32_t> queue_pair = {});
  /// REQ of a queue of 32 entries.
  void request_queue(uint16_t qid);
  enum class Answer { kNone, kAccepted, kRefused };
  /// REP or REJ, if it comes in time.
  Answer wait_ms(int timeout_ms);
  /// RTU. After kAccepted.
  void establish();
  /// REJ. After kAccepted.
  void reject();
  /// DREQ. After establish().
  void disconnect();
  /// Forgets the request: REJ, or DREQ when it was established.
  void withdraw();

 private:
  struct DestroyChannel {
    void operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }
  };
  /// nullopt: none in time.
  std::optional<rdma_cm_event_type> next_event(int timeout_ms);
  void resolve();

  const Options options_;
  const std::unique_ptr<rdma_event_channel, DestroyChannel> channel_;
  rdma_cm_id* id_ = nullptr;
};

}  // namespace uroce::testing
