#pragma once

#include <array>

namespace uroce::queue {

/// What ibv_wc_status_str() says of each `enum ibv_wc_status`: the texts of rdma-core, which users search for
/// and `uroce explain` takes.
inline constexpr std::array kStatusTexts = {
    "success",
    "local length error",
    "local QP operation error",
    "local EE context operation error",
    "local protection error",
    "Work Request Flushed Error",
    "memory management operation error",
    "bad response error",
    "local access error",
    "remote invalid request error",
    "remote access error",
    "remote operation error",
    "transport retry counter exceeded",
    "RNR retry counter exceeded",
    "local RDD violation error",
    "remote invalid RD request",
    "aborted error",
    "invalid EE context number",
    "invalid EE context state",
    "fatal error",
    "response timeout error",
    "general error",
    "TM error",
    "TM software rendezvous",
};

}  // namespace uroce::queue
