#pragma once

#include "base/values/contract.h"
#include "copy/message_mark.h"
#include "qp/connection/turn.h"

namespace uroce::qp {

/// A queue pair, as what it has placed knows it.
class PlacementOwner : public copy::MessageOwner {
 public:
  /// A message that it placed was lost: memory was gone when its last byte was to be written.
  virtual void lost(const copy::MessageMark& mark, Turn& turn) = 0;

 protected:
  ~PlacementOwner() = default;
};

/// turn.placer.commit(); queue pairs of which it has lost a message fail before the application sees more of
/// it. Due before completions are published, before pump(), and as soon as placer.losses() is not empty.
inline void commit_placements(Turn& turn) {
  const auto losses = turn.placer.commit();
  if (losses.empty()) [[likely]]
    return;
  UROCE_ASSERT(!turn.placer.dirty());
  // Every mark in a turn's placer was made by a queue pair.
  for (const copy::MessageMark& mark : losses) static_cast<PlacementOwner*>(mark.owner)->lost(mark, turn);
  turn.placer.forget_losses();
}

}  // namespace uroce::qp
