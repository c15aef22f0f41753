#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/values/random.h"
#include "tests/judge/end.h"
#include "tests/judge/model.h"
#include "tests/judge/windows.h"

namespace uroce::judge {

/// Receives what a list of the peer's requests sends, and compares it and the target with the model.
class Responder {
 public:
  /// Fills the target. `tag`: begins each receive's wr_id. The list has to outlive this.
  Responder(End& end, Windows& windows, const List& list, uint64_t tag);

  /// Posts receives, not always as soon as it can.
  void step();
  /// Throws Wrong.
  void completed(const ibv_wc& completion);
  /// Every receive has come; what needs none may be under way.
  [[nodiscard]] bool is_done() const { return completed_ == receives_.size(); }
  /// All requests are complete at the peer: throws Wrong unless the target is as the model.
  void finish();
  [[nodiscard]] std::string progress() const;

 private:
  void check_completion(const ibv_wc& completion, const Operation& operation);
  void check_message(const Operation& operation);
  void check_target(size_t begin, size_t end);
  [[nodiscard]] std::string named(size_t receive) const;

  End& end_;
  Windows& windows_;
  const List& list_;
  uint64_t tag_;
  Model model_;
  Random random_;
  std::vector<size_t> receives_;  // the requests that take one
  std::vector<std::byte> seen_;
  size_t posted_ = 0;
  size_t completed_ = 0;
  size_t performed_ = 0;  // requests that the model has performed
};

}  // namespace uroce::judge
