#pragma once

#include <cstdint>

#include "qp/inbound_message.h"
#include "qp/request_context.h"
#include "qp/response_queue.h"

namespace uroce::qp {

/// PSNs that a READ of `length` bytes takes.
constexpr uint32_t response_packets(uint32_t length, uint32_t mtu) {
  return length == 0 ? 1u : static_cast<uint32_t>((uint64_t{length} + mtu - 1) / mtu);
}

/// All checks of a request that is answered by itself and whose PSN is the expected one, in the order in
/// which their answers take precedence. An accepted one has room among `responses`; the word that it is
/// about, if any, is resolved.
Verdict check_operation(const RequestContext& context, ResponseQueue& responses,
                        InboundMessage::Kind in_progress);

}  // namespace uroce::qp
