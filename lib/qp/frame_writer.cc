#include "qp/frame_writer.h"

#include "base/contract.h"
#include "wire/icrc/icrc.h"
#include "wire/icrc/join.h"

namespace uroce::qp {

bool FrameBuilder::finish_long(port::TxFrame& to_send, const wire::FrameTemplate& path,
                               const wire::OpcodeRow& row, const Payload& payload, bool wants_icrc,
                               uint32_t before_psn) {
  std::byte* const frame = to_send.data;
  const wire::FrameLayout layout(path, row, payload.bytes);
  std::byte* const to = frame + layout.payload;
  const wire::CopyWithIcrc copy = wire::copy_with_icrc(payload.bytes);
  const bool in_pieces = payload.data == nullptr && payload.bytes > 0;
  if (!wants_icrc || in_pieces || copy == nullptr || layout.pad != layout.icrc) {
    const bool there =
        in_pieces ? payload.pieces->gather(to) : copy::guarded_read(to, payload.data, payload.bytes);
    if (!there) return false;
    if (wants_icrc) {
      wire::write_pad_and_icrc(frame, path, layout);
    } else {
      wire::write_pad(frame, layout);
      omit_icrc(to_send, layout);
    }
    return true;
  }
  const auto icrc_of_headers = [&] {
    constexpr uint32_t kPsnOffset = wire::kBthBytes - wire::kPsnWordBytes;
    if (before_psn != 0) return wire::short_icrc_from(before_psn, {frame + layout.bth + kPsnOffset, to});
    return wire::icrc_of({frame + path.ip_offset(), to});
  };
  const wire::IcrcJoin* const join = wire::IcrcJoin::of_payload(payload.bytes);
  uint32_t icrc = join != nullptr ? wire::kIcrcOfNothing : icrc_of_headers();
  if (!copy::guarded_copy_from(copy, to, payload.data, payload.bytes, &icrc)) return false;
  if (join != nullptr) icrc = (*join)(icrc_of_headers(), icrc);
  wire::write_icrc(frame + layout.icrc, icrc);
  return true;
}

bool write_datagram(port::TxFrame& frame, const Connection& connection, const DatagramAddress& address,
                    wire::Headers headers, const Payload& payload, port::TxBatch& tx) {
  UROCE_ASSERT(!connection.connected);
  const bool ours = connection.options.numbers.contains(address.destination);
  frame.to_self = address.to_self && ours;
  frame.on_host = address.to_self && !ours;
  frame.to_group = address.to_group;
  headers.bth.destination = address.destination;
  headers.bth.partition_key = connection.partition_key;
  headers.deth.source = connection.options.number;
  const bool own = (address.qkey & DatagramAddress::kOwnQkey) != 0;
  headers.deth.qkey = own ? connection.attributes.qkey : address.qkey;
  FrameBuilder making(frame, address.frame, headers.bth, payload.bytes);
  wire::write_extensions(making.extensions(), making.bth(), headers);
  return making.finish(payload, tx);
}

}  // namespace uroce::qp
