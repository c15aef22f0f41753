#pragma once

namespace uroce::mem {

/// How the control path waits until no reader can still hold what was unpublished before the call. Readers
/// are pollers between quiescent states; `engine` implements it (design: quiescent-state based reclamation).
class GracePeriod {
 public:
  virtual ~GracePeriod() = default;
  /// Returns when every poller that was in a turn at the call has ended that turn. A poller that is not being
  /// turned counts as quiescent, and so does the one that the calling thread itself is turning.
  ///
  /// What the caller stored before (with release or relaxed order) is seen by every turn that begins later:
  /// an implementation needs a full barrier between the call and its first look at a poller, and one between
  /// the mark that a turn has begun and the first lookup in it.
  virtual void wait() = 0;
};

}  // namespace uroce::mem
