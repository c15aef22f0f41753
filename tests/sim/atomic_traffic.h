#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <set>
#include <string>

#include "base/values/random.h"
#include "tests/sim/endpoint.h"

namespace uroce::sim {

/// A word that several endpoints count up with atomics, each by one at a time: so no two of them may find the
/// same value.
struct SharedCounter {
  alignas(8) uint64_t value = 0;
  std::set<uint64_t> found;
};

/// One endpoint that counts up a word at the other by FETCH_ADD and, from the value that it saw last, by
/// COMPARE_SWAP, with READs and WRITEs of something else in between.
class AtomicTraffic {
 public:
  struct Options {
    uint32_t operations = 40;
    uint64_t seed = 0;
  };
  AtomicTraffic(Endpoint& user, Endpoint& owner, SharedCounter& counter, const Options& options);
  ~AtomicTraffic() { close(); }
  AtomicTraffic(const AtomicTraffic&) = delete;
  AtomicTraffic& operator=(const AtomicTraffic&) = delete;

  void act();
  [[nodiscard]] bool done() const {
    return !failure_.empty() || (posted_ == options_.operations && outstanding_.empty());
  }
  [[nodiscard]] const std::string& failure() const { return failure_; }
  [[nodiscard]] uint32_t completed() const { return completed_; }
  /// Ends the regions; before the endpoints close.
  void close();

 private:
  struct Posted {
    queue::SendOperation operation;
    size_t slot;
    uint64_t compare = 0;
  };
  /// What the owner keeps beside the counter.
  static constexpr uint64_t kOtherBytes = 4096;

  void post();
  void take(const queue::Completion& completion);

  Endpoint& user_;
  Endpoint& owner_;
  SharedCounter& counter_;
  const Options options_;
  Random random_;
  std::string failure_;
  uint32_t posted_ = 0;
  uint32_t completed_ = 0;
  uint64_t seen_ = 0;  // of the counter
  std::deque<Posted> outstanding_;
  std::array<uint64_t, Endpoint::kDepth> results_{};
  std::array<std::byte, kOtherBytes> other_{};    // of the owner
  std::array<std::byte, kOtherBytes> scratch_{};  // of the user
  mem::RegionKeys counter_keys_;
  mem::RegionKeys other_keys_;
  mem::RegionKeys result_keys_;
  mem::RegionKeys scratch_keys_;
  bool open_ = true;
};

}  // namespace uroce::sim
