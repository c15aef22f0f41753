#pragma once

namespace uroce {

/// Puts off pthread_cancel() of the calling thread for as long as this lives: what it does in the meantime is
/// done to its end, whatever system calls that takes. Objects nest; all but the first cost a few
/// instructions, the first about 15 ns, so it stands around system calls and control calls, not in the path
/// of packets.
class CancellationDisabled {
 public:
  CancellationDisabled() noexcept;
  ~CancellationDisabled();
  CancellationDisabled(const CancellationDisabled&) = delete;
  CancellationDisabled& operator=(const CancellationDisabled&) = delete;
};

/// Within CancellationDisabled, around a wait that may last for ever: the thread may be cancelled there as
/// far as the program permits it. No lock is held that is not given up as the stack unwinds.
class CancellableWait {
 public:
  CancellableWait() noexcept;
  ~CancellableWait();
  CancellableWait(const CancellableWait&) = delete;
  CancellableWait& operator=(const CancellableWait&) = delete;
};

}  // namespace uroce
