#include "qp/frame_writer.h"

#include <immintrin.h>

#include "base/contract.h"
#include "copy/kind.h"
#include "wire/ecn.h"
#include "wire/icrc/icrc.h"
#include "wire/icrc/join.h"

namespace uroce::qp {

namespace {

/// Shorter payloads are not worth the fence.
constexpr uint32_t kStreamedBytesMin = 1024;

bool copy_streaming(std::byte* to, const std::byte* from, size_t bytes) {
  static const copy::CopyFunction kStream = copy::find_kind(copy::Kind::kNonTemporal)->cold;
  const bool there = copy::guarded_copy_from(kStream, to, from, bytes);
  _mm_sfence();
  return there;
}

bool copy_payload(std::byte* to, const Payload& payload, bool streams) {
  if (payload.data == nullptr && payload.bytes > 0) return payload.pieces->gather(to);
  return streams ? copy_streaming(to, payload.data, payload.bytes)
                 : copy::guarded_read(to, payload.data, payload.bytes);
}

/// Copies the payload and takes it into `icrc`.
bool copy_into_icrc(std::byte* to, const Payload& payload, bool streams, uint32_t& icrc) {
  const wire::CopyWithIcrc copy = streams ? wire::widest_stream_with_icrc() : wire::widest_copy_with_icrc();
  const bool there = copy::guarded_copy_from(copy, to, payload.data, payload.bytes, &icrc);
  // One for each frame: with one for a burst more of it waits at once, for longer (README.md).
  if (streams) _mm_sfence();
  return there;
}

}  // namespace

bool FrameBuilder::finish_long(port::TxFrame& to_send, const wire::FrameTemplate& path,
                               const wire::OpcodeRow& row, const Payload& payload, uint32_t before_psn,
                               port::TxBatch& tx) {
  std::byte* const frame = to_send.data;
  const wire::FrameLayout layout(path, row, payload.bytes);
  std::byte* const to = frame + layout.payload;
  const bool at_one_place = payload.data != nullptr;
  bool streams = false;
  if (at_one_place && payload.bytes >= kStreamedBytesMin) {
    tx.reader().observe(frame + layout.icrc);
    streams = tx.reader().is_far();
  }
  if (!tx.wants_icrc(to_send)) {
    if (!copy_payload(to, payload, streams)) return false;
    wire::write_pad(frame, layout);
    omit_icrc(to_send, layout.icrc);
    return true;
  }
  if (!at_one_place || wire::copy_with_icrc(payload.bytes) == nullptr || layout.pad != layout.icrc) {
    if (!copy_payload(to, payload, false)) return false;  // it is read again at once
    wire::write_pad_and_icrc(frame, path, layout);
    return true;
  }
  const auto icrc_of_headers = [&] {
    constexpr uint32_t kPsnOffset = wire::kBthBytes - wire::kPsnWordBytes;
    if (before_psn != 0) return wire::short_icrc_from(before_psn, {frame + layout.bth + kPsnOffset, to});
    return wire::icrc_of({frame + path.ip_offset(), to});
  };
  const wire::IcrcJoin* const join = wire::IcrcJoin::of_payload(payload.bytes);
  uint32_t icrc = join != nullptr ? wire::kIcrcOfNothing : icrc_of_headers();
  if (!copy_into_icrc(to, payload, streams, icrc)) return false;
  if (join != nullptr) icrc = (*join)(icrc_of_headers(), icrc);
  wire::write_icrc(frame + layout.icrc, icrc);
  return true;
}

bool write_datagram(port::TxFrame& frame, const Connection& connection, const DatagramAddress& address,
                    wire::Headers headers, const Payload& payload, port::TxBatch& tx) {
  UROCE_ASSERT(!connection.connected);
  const bool ours = connection.transport.numbers.contains(address.destination);
  frame.to_self = address.to_self && ours;
  frame.on_host = address.to_self && !ours;
  frame.to_group = address.to_group;
  headers.bth.destination = address.destination;
  headers.bth.partition_key = connection.partition_key;
  headers.deth.source = connection.number;
  const bool own = (address.qkey & DatagramAddress::kOwnQkey) != 0;
  headers.deth.qkey = own ? connection.attributes.qkey : address.qkey;
  FrameBuilder making(frame, address.frame, headers.bth, payload.bytes);
  wire::write_extensions(making.extensions(), making.bth(), headers);
  return making.finish(payload, tx);
}

void write_cnp(port::TxFrame& frame, const Connection& connection, port::TxBatch& tx) {
  const Attributes& attributes = connection.attributes;
  wire::Path path = attributes.path;
  // CNPs are ECN-capable, as those of NICs: where packets are marked, others are dropped instead.
  path.traffic_class = static_cast<uint8_t>(connection.transport.congestion.cnp_dscp << 2 | wire::kEct0);
  path.udp_source_port = wire::udp_source_port(connection.transport.source_ports, path.flow_label,
                                               connection.number, attributes.destination);
  const wire::FrameTemplate start(path);
  wire::Headers headers;
  headers.bth = {.opcode = wire::kCnpOpcode,
                 .partition_key = connection.partition_key,
                 .becn = true,
                 .destination = attributes.destination};
  frame.to_self = attributes.to_self;
  frame.on_host = attributes.on_host;
  frame.to_group = false;
  const FrameBuilder making(frame, start, headers.bth, 0);
  wire::write_extensions(making.extensions(), making.bth(), headers);
  making.finish(tx);
}

}  // namespace uroce::qp
