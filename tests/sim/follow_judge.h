#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/values/identifiers.h"
#include "base/values/sequence_number.h"
#include "tests/sim/frame.h"
#include "wire/packet.h"

namespace uroce::sim {

/// Judges by the frames whether hosts follow peers that go back (MigReq 0): after a sequence NAK nothing that
/// is answered names a packet that the peer has not sent once more, behind the one that was missing. Of
/// machines whose frames come to one poller, in their order. Any thread.
class FollowJudge {
 public:
  /// Requests go to the queue pair `responder` of host `side`, answers from there to `requester`.
  void watch(size_t side, QpNumber responder, QpNumber requester, uint32_t mtu);
  /// An intact frame is taken by the host, or leaves it.
  void arrived(size_t side, std::span<const std::byte> frame);
  void left(size_t side, std::span<const std::byte> frame);

  [[nodiscard]] std::string failure() const;
  /// Sequence NAKs to peers that go back.
  [[nodiscard]] uint64_t naks() const;

 private:
  /// PSNs that a request takes.
  struct Request {
    Psn first;
    Psn last;
  };
  struct Way {
    uint32_t mtu = 0;
    std::deque<Request> requests;  // that came last
    bool goes_back = false;
    std::optional<Psn> told;   // the sequence NAK that was sent last
    std::optional<Psn> reach;  // of what has come since that packet did
  };
  /// A host, and a queue pair there or at its peer.
  using Key = std::pair<size_t, uint32_t>;
  static constexpr size_t kRequestsMax = 4096;

  void judge_answer(Way& way, const wire::Packet& packet);
  static void tell(Way& way, Psn missing);

  mutable std::mutex mutex_;
  std::map<Key, Way> ways_;             // by the responder
  std::map<Key, uint32_t> responders_;  // by the requester
  std::string failure_;
  uint64_t naks_ = 0;
};

}  // namespace uroce::sim
