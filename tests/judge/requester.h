#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/values/random.h"
#include "tests/judge/end.h"
#include "tests/judge/model.h"
#include "tests/judge/windows.h"

namespace uroce::judge {

/// Where the peer's target is, and the keys of it.
struct PeerTarget {
  uint64_t address = 0;
  uint32_t key = 0;
  std::vector<uint32_t> window_keys;
};

/// Performs a list of own requests, and compares what comes back with the model.
class Requester {
 public:
  /// `tag`: begins each request's wr_id. The list has to outlive this.
  Requester(End& end, Windows& windows, const List& list, uint64_t tag);

  void set_peer(PeerTarget peer) { peer_ = std::move(peer); }
  /// Posts what the depth allows.
  void step();
  /// Throws Wrong.
  void completed(const ibv_wc& completion);
  [[nodiscard]] bool is_done() const { return completed_ == list_.operations.size(); }
  /// Nothing was written behind the completions.
  void finish();
  [[nodiscard]] std::string progress() const;

 private:
  struct Request {
    ibv_send_wr request{};
    std::array<ibv_sge, kSegmentsMax> segments{};
  };
  void prepare(Request& prepared, size_t index);
  void set_key(ibv_send_wr& request, const Operation& operation);
  void complete_one(size_t index);
  void check(size_t index);
  [[nodiscard]] std::string named(size_t index) const;

  End& end_;
  Windows& windows_;
  const List& list_;
  uint64_t tag_;
  PeerTarget peer_;
  Model model_;
  Random random_;
  std::vector<Request> batch_;
  size_t posted_ = 0;
  size_t completed_ = 0;
};

/// Cuts the slot into so many pieces; how many there are, none of an empty one.
int cut(Arena& arena, Range slot, uint32_t pieces, std::span<ibv_sge> into);

}  // namespace uroce::judge
