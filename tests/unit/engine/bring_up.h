#pragma once

#include <cstdint>

#include "engine/device/device.h"

namespace uroce::engine {

/// What a queue pair is connected to, with 1 KiB to a packet. Of UD nothing but the PSN and the Q_Key, its
/// own, counts.
struct FarPeer {
  Gid address;
  QpNumber number;
  Psn first_psn;  // of both directions
  uint32_t qkey = 0;
};

/// Brings a queue pair from RESET to `to`, RTS at most, as ibv_modify_qp does; any access but of windows is
/// allowed. 0, or the first errno.
[[nodiscard]] int bring_up(Device& device, QpSlot& queue_pair, qp::Type type, const FarPeer& peer,
                           qp::State to = qp::State::kRts);

}  // namespace uroce::engine
