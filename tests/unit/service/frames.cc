#include "tests/unit/service/frames.h"

namespace uroce::testing {
namespace {

constexpr QpNumber kServices{1};

Bytes frame_of(const wire::Path& path, const wire::Headers& headers, uint32_t payload_bytes,
               const std::byte* payload = nullptr) {
  const wire::FrameTemplate start(path);
  Bytes frame(wire::frame_bytes(start, headers.bth.opcode, payload_bytes));
  std::byte* const to = wire::write_headers(frame, start, headers, payload_bytes);
  for (uint32_t i = 0; i < payload_bytes; ++i) to[i] = payload != nullptr ? payload[i] : std::byte(i);
  wire::finish_frame(frame, start, headers.bth.opcode, payload_bytes);
  return frame;
}

wire::Headers ud_headers(QpNumber from, QpNumber to) {
  wire::Headers headers;
  headers.bth.opcode = wire::Opcode::make(wire::Service::kUd, wire::Operation::kSendOnly);
  headers.bth.destination = to;
  headers.deth = {.qkey = wire::kGsiQkey, .source = from};
  return headers;
}

}  // namespace

wire::Path from_peer() {
  return {.source_mac = kPeerMac,
          .destination_mac = kDeviceMac,
          .source = kPeerAddress,
          .destination = kDeviceAddress};
}

wire::Path to_peer() {
  return {.source_mac = kDeviceMac,
          .destination_mac = kPeerMac,
          .source = kDeviceAddress,
          .destination = kPeerAddress};
}

wire::Path to_self() {
  return {.source_mac = kDeviceMac,
          .destination_mac = kDeviceMac,
          .source = kDeviceAddress,
          .destination = kDeviceAddress};
}

Bytes rc_frame(const wire::Path& path, QpNumber to, uint32_t payload_bytes) {
  wire::Headers headers;
  headers.bth.opcode = wire::Opcode::make(wire::Service::kRc, wire::Operation::kSendOnly);
  headers.bth.destination = to;
  return frame_of(path, headers, payload_bytes);
}

Bytes ud_frame(const wire::Path& path, QpNumber from, QpNumber to, uint32_t payload_bytes) {
  return frame_of(path, ud_headers(from, to), payload_bytes);
}

Bytes cm_frame(const wire::Path& path, const wire::CmMessage& message) {
  std::array<std::byte, wire::kMadBytes> mad{};
  wire::write_cm(mad.data(), {.transaction_id = 7, .message = message});
  return frame_of(path, ud_headers(kServices, kServices), wire::kMadBytes, mad.data());
}

}  // namespace uroce::testing
