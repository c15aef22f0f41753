// Responses, by the requests that were captured.
#include <fmt/format.h>

#include <algorithm>

#include "apps/decode/requester_track.h"
#include "wire/print.h"

namespace uroce::decode {
namespace {

using wire::AethKind;
using wire::Family;

bool is_sequence_error(const wire::Aeth& aeth) {
  return aeth.kind == AethKind::kNak && aeth.value == static_cast<uint8_t>(wire::NakCode::kSequenceError);
}

bool is_plain(const Inspected& packet) {
  return packet.row->opcode.operation() == wire::Operation::kAcknowledge;
}

/// A response to an operation of that kind: of FLUSH and ATOMIC WRITE it is a READ response without bytes.
bool answers(const Inspected& packet, Family request) {
  if (is_plain(packet)) return true;
  if (packet.row->family == Family::kAck) return request == Family::kAtomic;
  if (request == Family::kReadRequest) return true;
  return (request == Family::kFlush || request == Family::kAtomicWrite) &&
         packet.row->position == wire::Position::kOnly;
}

}  // namespace

bool RequesterTrack::explains(const Inspected& response, uint32_t mtu) {
  const Psn psn = response.bth.psn;
  if (!begun_ || psn.before(first_)) return false;
  if (response.row->family == Family::kReadResponse && read_at(psn, mtu) != nullptr) return true;
  if (!is_plain(response)) {
    const SentPacket* const sent = sent_.find(psn);
    return sent != nullptr && answers(response, wire::opcode_row(sent->opcode).family);
  }
  return next_is_known_ ? psn.before(next_) : sent_.find(psn) != nullptr || read_at(psn, mtu) != nullptr;
}

void RequesterTrack::receive_response(const Inspected& packet, uint32_t& mtu, FlowCounts& counts,
                                      Findings& findings) {
  if (!begun_) return;
  check_payload(packet, mtu, findings);
  const Psn psn = packet.bth.psn;
  acknowledge(packet);
  const bool refuses = is_plain(packet) && packet.aeth.kind != AethKind::kAck;
  if (refused_ && !refuses && psn - *refused_ >= 0 && psn.before(next_))
    findings.push_back({Rule::kAfterError, 0,
                        fmt::format("{} with PSN 0x{:06x}, and PSN 0x{:06x} was refused", packet.row->name,
                                    psn.value(), refused_->value())});
  if (next_is_known_ && psn - next_ >= 0) {
    if (!early_ && is_plain(packet) && !refuses) early_ = {packet.number, psn, {}};
    return;
  }
  if (is_plain(packet)) return receive_acknowledge(packet, mtu, counts, findings);
  check_kind(packet, mtu, findings);
}

void RequesterTrack::receive_acknowledge(const Inspected& packet, uint32_t mtu, FlowCounts& counts,
                                         Findings& findings) {
  const Psn psn = packet.bth.psn;
  switch (packet.aeth.kind) {
    case AethKind::kRnrNak: {
      ++counts.rnr_naks;
      asked_for_ = psn;
      // The network may have doubled it, or the request: the first one counts until that is sent again.
      if (!not_ready_ || not_ready_->psn != psn) not_ready_ = {psn, packet.time_ns, packet.aeth.value};
      return;
    }
    case AethKind::kNak:
      ++(is_sequence_error(packet.aeth) ? counts.sequence_naks : counts.fatal_naks);
      if (is_sequence_error(packet.aeth)) {
        asked_for_ = psn;
      } else if (!refused_ || psn.before(*refused_)) {
        refused_ = psn;
      }
      return;
    case AethKind::kAck:
      check_early(psn, findings);
      check_name(packet, mtu, findings);
      // What is acknowledged is not waited for any more.
      if (not_ready_ && psn - not_ready_->psn >= 0) not_ready_.reset();
      return;
    case AethKind::kReserved:
      return;
  }
}

void RequesterTrack::check_early(Psn acknowledged, Findings& findings) {
  if (!early_ || !early_->sent_since || acknowledged.before(*early_->sent_since)) return;
  if (acknowledged.before(early_->psn))
    findings.push_back({Rule::kAckImpossible, early_->number,
                        fmt::format("an ACK with PSN 0x{:06x} came before the requester sent PSN 0x{:06x}",
                                    early_->psn.value(), early_->sent_since->value())});
  early_.reset();
}

/// An ACK tells the requester that a READ or atomic is done whose response may be lost: rxe takes it so, and
/// the program reads what was in its memory before.
void RequesterTrack::check_name(const Inspected& acknowledge, uint32_t mtu, Findings& findings) {
  const Psn psn = acknowledge.bth.psn;
  const Read* const read = read_at(psn, mtu);
  if (read != nullptr && (mtu != 0 || read->all.psn == psn)) {
    findings.push_back({Rule::kAckNamesResponse, 0,
                        fmt::format("an ACK with PSN 0x{:06x}, which is of the READ with PSN 0x{:06x}",
                                    psn.value(), read->all.psn.value())});
    return;
  }
  const SentPacket* const sent = sent_.find(psn);
  if (sent == nullptr) return;
  const wire::OpcodeRow& row = wire::opcode_row(sent->opcode);
  if (row.family == Family::kAtomic || row.family == Family::kFlush || row.family == Family::kAtomicWrite)
    findings.push_back({Rule::kAckNamesResponse, 0,
                        fmt::format("an ACK with PSN 0x{:06x}, which was {}", psn.value(), row.name)});
}

/// A response that is more than an ACK is to a request of its kind.
void RequesterTrack::check_kind(const Inspected& packet, uint32_t mtu, Findings& findings) {
  const Psn psn = packet.bth.psn;
  const SentPacket* const sent = sent_.find(psn);
  const Read* const read = read_at(psn, mtu);
  const bool in_read = read != nullptr && (mtu != 0 || read->all.psn == psn);
  if (in_read && packet.row->family == Family::kReadResponse)
    return receive_read_response(packet, *read, mtu, findings);
  if (sent != nullptr && !answers(packet, wire::opcode_row(sent->opcode).family)) {
    findings.push_back({Rule::kAckImpossible, 0,
                        fmt::format("{} to PSN 0x{:06x}, which was {}", packet.row->name, psn.value(),
                                    wire::opcode_row(sent->opcode).name)});
  } else if (in_read) {
    findings.push_back(
        {Rule::kAckImpossible, 0,
         fmt::format("{} to PSN 0x{:06x}, which is of a READ", packet.row->name, psn.value())});
  } else if (sent != nullptr && packet.payload_bytes != 0) {
    findings.push_back(
        {Rule::kResponseLength, 0,
         fmt::format("{} bytes to {}", packet.payload_bytes, wire::opcode_row(sent->opcode).name)});
  }
}

/// The bytes that belong to its PSN, as the READ was asked for, or a part of it again.
void RequesterTrack::receive_read_response(const Inspected& packet, const Read& read, uint32_t mtu,
                                           Findings& findings) {
  const Psn psn = packet.bth.psn;
  const auto is_right = [&](const Asked& asked) {
    const int32_t index = psn - asked.psn;
    if (index < 0) return false;
    if (mtu == 0) return !ends(packet.row->position) || packet.payload_bytes <= asked.bytes;
    const uint64_t before = uint64_t{mtu} * static_cast<uint32_t>(index);
    if (before > asked.bytes || (before == asked.bytes && index != 0)) return false;
    const uint64_t left = asked.bytes - before;
    return ends(packet.row->position) ? packet.payload_bytes == left : left > mtu;
  };
  if (is_right(read.all) || std::ranges::any_of(read.again, is_right)) return;
  const uint64_t before = uint64_t{mtu} * static_cast<uint32_t>(psn - read.all.psn);
  findings.push_back(
      {Rule::kResponseLength, 0,
       fmt::format("{} of {} bytes with PSN 0x{:06x}; the READ with PSN 0x{:06x} has {} bytes left there",
                   packet.row->name, packet.payload_bytes, psn.value(), read.all.psn.value(),
                   read.all.bytes - before)});
}

}  // namespace uroce::decode
