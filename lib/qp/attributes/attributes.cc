#include "qp/attributes/attributes.h"

#include <cerrno>

namespace uroce::qp {

int check_values(const Attributes& attributes, AttributeMask mask, ReadLimits reads, size_t partition_keys) {
  // Alternate paths, resizing and rate limits are not there; they are not advertised either.
  if (mask.any(kMaskAltPath | kMaskCap | kMaskRateLimit)) return EOPNOTSUPP;
  const auto out_of_range = [mask](AttributeMask attribute, uint32_t value, uint32_t lowest,
                                   uint32_t highest) {
    return mask.any(attribute) && (value < lowest || value > highest);
  };
  const bool wrong =
      out_of_range(kMaskPort, attributes.port, 1, 1) ||
      out_of_range(kMaskPkeyIndex, attributes.pkey_index, 0, static_cast<uint32_t>(partition_keys) - 1) ||
      out_of_range(kMaskPathMtu, static_cast<uint32_t>(attributes.path_mtu), 1, 5) ||
      out_of_range(kMaskDestQpn, attributes.destination.value, 0, QpNumber::kMask) ||
      out_of_range(kMaskTimeout, attributes.timeout, 0, 31) ||
      out_of_range(kMaskRetryCount, attributes.retry_count, 0, 7) ||
      out_of_range(kMaskRnrRetry, attributes.rnr_retry, 0, 7) ||
      out_of_range(kMaskMinRnrTimer, attributes.min_rnr_timer, 0, 31) ||
      out_of_range(kMaskMaxRdAtomic, attributes.max_rd_atomic, 0, reads.sent) ||
      out_of_range(kMaskMaxDestRdAtomic, attributes.max_dest_rd_atomic, 0, reads.answered);
  return wrong ? EINVAL : 0;
}

void apply(const Attributes& from, AttributeMask mask, Attributes& to) {
  const auto has = [mask](AttributeMask attribute) { return mask.any(attribute); };
  if (has(kMaskAccessFlags)) to.access = from.access;
  if (has(kMaskPkeyIndex)) to.pkey_index = from.pkey_index;
  if (has(kMaskPort)) to.port = from.port;
  if (has(kMaskAv)) {
    to.path = from.path;
    to.to_self = from.to_self;
    to.on_host = from.on_host;
  }
  if (has(kMaskPathMtu)) to.path_mtu = from.path_mtu;
  if (has(kMaskTimeout)) to.timeout = from.timeout;
  if (has(kMaskRetryCount)) to.retry_count = from.retry_count;
  if (has(kMaskRnrRetry)) to.rnr_retry = from.rnr_retry;
  if (has(kMaskRqPsn)) to.rq_psn = from.rq_psn;
  if (has(kMaskMaxRdAtomic)) to.max_rd_atomic = from.max_rd_atomic;
  if (has(kMaskMinRnrTimer)) to.min_rnr_timer = from.min_rnr_timer;
  if (has(kMaskSqPsn)) to.sq_psn = from.sq_psn;
  if (has(kMaskMaxDestRdAtomic)) to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  if (has(kMaskDestQpn)) to.destination = from.destination;
  if (has(kMaskQkey)) to.qkey = from.qkey;
}

}  // namespace uroce::qp
