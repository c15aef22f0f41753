// A program changes the algorithm alone and reads the whole: the parameters belong to the network, that is to
// the configuration, while a program knows its own traffic.
#include <infiniband/urocedv.h>

#include <cerrno>
#include <cmath>

#include "qp/congestion/options.h"
#include "verbs/call_guard.h"
#include "verbs/dv.h"
#include "verbs/export.h"
#include "verbs/objects.h"

using namespace uroce::verbs;
using uroce::qp::CongestionControl;
using uroce::qp::kCongestionAlgorithmCount;

static_assert(static_cast<int>(CongestionControl::kNone) == UROCEDV_CONGESTION_NONE);
static_assert(static_cast<int>(CongestionControl::kDcqcn) == UROCEDV_CONGESTION_DCQCN);
static_assert(static_cast<int>(CongestionControl::kSwift) == UROCEDV_CONGESTION_SWIFT);

extern "C" {

UROCE_EXPORT int uroce_urocedv_query_qp_congestion(ibv_qp* face, urocedv_qp_congestion* congestion) {
  if (congestion == nullptr) return with_errno(EINVAL);
  return checked_errno(face, [&] {
    if (congestion->comp_mask != 0) return EINVAL;
    VerbsQp& qp = object(face);
    const uroce::qp::CongestionState now = qp.owner->device->query_congestion(*qp.handle);
    constexpr double kKbpsPerMbps = 1000;
    *congestion = {.comp_mask = 0,
                   .control = static_cast<urocedv_congestion_control>(now.control),
                   .window_packets = now.window,
                   .rate_kbps = static_cast<uint64_t>(std::ceil(now.mbps * kKbpsPerMbps)),
                   .cnps = now.cnps,
                   .round_trip_ns = static_cast<uint64_t>(now.smoothed_ns),
                   .least_round_trip_ns = static_cast<uint64_t>(now.least_ns)};
    return 0;
  });
}

UROCE_EXPORT int uroce_urocedv_modify_qp_congestion(ibv_qp* face, urocedv_congestion_control control) {
  return checked_errno(face, [&] {
    const unsigned wanted = bits_of(control);
    if (wanted >= kCongestionAlgorithmCount) return EINVAL;
    VerbsQp& qp = object(face);
    return qp.owner->device->set_congestion_control(*qp.handle, static_cast<CongestionControl>(wanted));
  });
}

UROCE_EXPORT const char* uroce_urocedv_congestion_name(urocedv_congestion_control control) {
  const unsigned wanted = bits_of(control);
  if (wanted < kCongestionAlgorithmCount) return uroce::qp::kCongestionNames[wanted].data();
  errno = EINVAL;
  return nullptr;
}

}  // extern "C"
