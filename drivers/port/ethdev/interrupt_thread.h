#pragma once

#include <functional>

namespace uroce::drivers {

/// Runs `work` on EAL's interrupt thread and waits for it (never call it there). net_memif handles its peer's
/// messages and disappearance on that thread without a lock against start, stop and close, so these run
/// there, too.
void on_interrupt_thread(const std::function<void()>& work);

}  // namespace uroce::drivers
