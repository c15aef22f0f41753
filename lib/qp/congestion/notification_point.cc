#include "qp/congestion/notification_point.h"

#include "qp/connection.h"
#include "qp/frame_writer.h"
#include "wire/ecn.h"

namespace uroce::qp {

bool NotificationPoint::send(const Connection& connection, port::TxBatch& tx, Instant now) {
  port::TxFrame* const frame = tx.next();
  if (frame == nullptr) return false;
  const CongestionOptions& options = connection.transport.congestion;
  const Attributes& attributes = connection.attributes;
  wire::Path path = attributes.path;
  // CNPs are ECN-capable, as those of NICs: where packets are marked, others are dropped instead.
  path.traffic_class = static_cast<uint8_t>(options.cnp_dscp << 2 | wire::kEct0);
  path.udp_source_port = wire::udp_source_port(connection.transport.source_ports, path.flow_label,
                                               connection.number, attributes.destination);
  const wire::FrameTemplate start(path);
  wire::Headers headers;
  headers.bth = {.opcode = wire::kCnpOpcode,
                 .partition_key = connection.partition_key,
                 .becn = true,
                 .destination = attributes.destination};
  frame->to_self = attributes.to_self;
  frame->on_host = attributes.on_host;
  frame->to_group = false;
  const FrameBuilder making(*frame, start, headers.bth, 0);
  wire::write_extensions(making.extensions(), making.bth(), headers);
  making.finish(tx);
  tx.commit();
  owes_ = false;
  quiet_until_ = now + microseconds(options.cnp_interval_us);
  return true;
}

}  // namespace uroce::qp
