#include "apps/decode/cm_text.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace uroce::decode {
namespace {

std::string_view transport_name(wire::CmTransport transport) {
  constexpr std::array<std::string_view, 4> kNames = {"rc", "uc", "reserved-transport", "xrc"};
  return kNames[static_cast<size_t>(transport) & 3];
}

std::string_view answered_name(wire::CmAnswered answered) {
  constexpr std::array<std::string_view, 4> kNames = {"req", "rep", "other", "other"};
  return kNames[static_cast<size_t>(answered) & 3];
}

/// The numbers of both ends, which most messages have.
template <typename Message>
std::string numbers(const char* name, const Message& message) {
  return fmt::format("CM {} local=0x{:08x} remote=0x{:08x}", name, message.local.value, message.remote.value);
}

struct Writer {
  std::string operator()(const wire::CmReq& m) const {
    return fmt::format(
        "CM REQ local=0x{:08x} {} qp 0x{:06x} psn 0x{:06x} service=0x{:x} path-mtu={} responder-resources={} "
        "initiator-depth={} retry={} rnr-retry={}{}",
        m.local.value, transport_name(m.transport), m.qp.value, m.starting_psn.value(), m.service.value,
        m.path_mtu, m.responder_resources, m.initiator_depth, m.retry_count, m.rnr_retry_count,
        m.srq ? " srq" : "");
  }
  std::string operator()(const wire::CmMra& m) const {
    return fmt::format("{} of {} timeout={}", numbers("MRA", m), answered_name(m.answered),
                       m.service_timeout);
  }
  std::string operator()(const wire::CmRej& m) const {
    return fmt::format("{} of {} reason={}", numbers("REJ", m), answered_name(m.answered),
                       static_cast<uint16_t>(m.reason));
  }
  std::string operator()(const wire::CmRep& m) const {
    return fmt::format("{} qp 0x{:06x} psn 0x{:06x} responder-resources={} initiator-depth={} rnr-retry={}{}",
                       numbers("REP", m), m.qp.value, m.starting_psn.value(), m.responder_resources,
                       m.initiator_depth, m.rnr_retry_count, m.srq ? " srq" : "");
  }
  std::string operator()(const wire::CmRtu& m) const { return numbers("RTU", m); }
  std::string operator()(const wire::CmDreq& m) const {
    return fmt::format("{} remote-qp 0x{:06x}", numbers("DREQ", m), m.remote_qp.value);
  }
  std::string operator()(const wire::CmDrep& m) const { return numbers("DREP", m); }
  std::string operator()(const wire::CmSidrReq& m) const {
    return fmt::format("CM SIDR_REQ request=0x{:08x} service=0x{:x}", m.request.value, m.service.value);
  }
  std::string operator()(const wire::CmSidrRep& m) const {
    return fmt::format("CM SIDR_REP request=0x{:08x} status={} qp 0x{:06x} qkey=0x{:08x}", m.request.value,
                       static_cast<uint8_t>(m.status), m.qp.value, m.qkey);
  }
  std::string operator()(const wire::CmLap& m) const { return numbers("LAP", m); }
  std::string operator()(const wire::CmApr& m) const {
    return fmt::format("{} status={}", numbers("APR", m), static_cast<uint8_t>(m.status));
  }
};

}  // namespace

std::string to_text(const wire::CmMad& mad) {
  return fmt::format("{} transaction=0x{:x}", std::visit(Writer{}, mad.message), mad.transaction_id);
}

}  // namespace uroce::decode
