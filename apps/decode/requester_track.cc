#include "apps/decode/requester_track.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "qp/recovery/transport_timers.h"

namespace uroce::decode {
namespace {

using wire::Family;

/// Two copies of a packet within this time are the network's, where nothing else tells.
constexpr int64_t kCopiesApartNs = 50'000;
/// The clock of a capture is not that of the requester.
constexpr int64_t kWaitTolerance = 4;  // one part of so many

uint32_t responses_of(uint32_t bytes, uint32_t mtu) {
  return bytes == 0 ? 1 : static_cast<uint32_t>((uint64_t{bytes} + mtu - 1) / mtu);
}

}  // namespace

void RequesterTrack::receive(const Inspected& packet, uint32_t& mtu, FlowCounts& counts, std::string& note,
                             Findings& findings) {
  check_payload(packet, mtu, findings);
  if (!next_is_known_ && mtu != 0 && !reads_.empty()) {
    const Asked& newest = reads_.back().all;
    next_ = newest.psn + responses_of(newest.bytes, mtu);
    next_is_known_ = true;
  }
  const Psn psn = packet.bth.psn;
  if (!begun_ || std::abs(psn - next_) > kDistanceMax) return begin(packet, mtu, findings);
  if (psn - next_ >= 0) {
    if (!next_is_known_ && receive_in_read(packet, mtu, counts, note, findings)) return;
    return receive_new(packet, mtu, counts, findings);
  }
  receive_old(packet, mtu, counts, note, findings);
}

void RequesterTrack::begin(const Inspected& packet, uint32_t mtu, Findings& findings) {
  const Psn psn = packet.bth.psn;
  if (!begun_ && agreed_ && psn.before(*agreed_))
    findings.push_back({Rule::kPsnExpected, 0,
                        fmt::format("the first request has PSN 0x{:06x}, and 0x{:06x} was agreed on",
                                    psn.value(), agreed_->value())});
  *this = RequesterTrack({}, not_captured());
  begun_ = true;
  first_ = psn;
  message_.receive(packet, false, findings);
  record(packet);
  advance(packet, mtu);
}

/// `packet` is the newest.
void RequesterTrack::advance(const Inspected& packet, uint32_t mtu) {
  next_ = packet.bth.psn + 1;
  next_is_known_ = true;
  if (packet.row->family != Family::kReadRequest || packet.reth.length <= path_mtu_bytes(PathMtu::k256))
    return;
  next_is_known_ = mtu != 0;
  if (next_is_known_) next_ = packet.bth.psn + responses_of(packet.reth.length, mtu);
}

void RequesterTrack::record(const Inspected& packet) {
  sent_.put({.time_ns = packet.time_ns,
             .psn = packet.bth.psn.value(),
             .icrc = packet.icrc,
             .payload_bytes = packet.payload_bytes,
             .ip_identification = packet.ip_identification,
             .opcode = packet.row->opcode});
  if (packet.row->family != Family::kReadRequest) return;
  if (reads_.size() == kReadsMax) reads_.pop_front();
  const Psn psn = packet.bth.psn;
  const auto behind = std::ranges::find_if(reads_, [&](const Read& read) { return read.all.psn.after(psn); });
  reads_.insert(
      behind, {.all = {psn, packet.reth.address, packet.reth.length}, .key = packet.reth.rkey, .again = {}});
}

void RequesterTrack::receive_new(const Inspected& packet, uint32_t mtu, FlowCounts& counts,
                                 Findings& findings) {
  const Psn psn = packet.bth.psn;
  note_sent(psn);
  const bool in_order = next_is_known_ && psn == next_;
  if (next_is_known_ && !in_order) {
    counts.missing += static_cast<uint64_t>(psn - next_);
    add_gap(next_, psn);
  }
  if (in_order) {
    if (const SentPacket* const before = sent_.find(psn - 1)) check_order(before->opcode, packet, findings);
  }
  message_.receive(packet, in_order, findings);
  record(packet);
  advance(packet, mtu);
}

/// One that is behind the newest: it comes again, or for the first time, late.
void RequesterTrack::receive_old(const Inspected& packet, uint32_t mtu, FlowCounts& counts, std::string& note,
                                 Findings& findings) {
  const Psn psn = packet.bth.psn;
  if (SentPacket* const sent = sent_.find(psn)) return receive_again(packet, *sent, counts, note, findings);
  if (receive_in_read(packet, mtu, counts, note, findings)) return;
  if (psn.before(first_)) first_ = psn;
  ++counts.late;
  note = "late";
  const bool is_read = packet.row->family == Family::kReadRequest;
  // Without a path MTU a READ may have all PSNs behind its own.
  const uint32_t psns = mtu != 0 ? responses_of(packet.reth.length, mtu) : kDistanceMax;
  close_gap(psn, psn + (is_read ? psns : 1));
  if (const SentPacket* const before = sent_.find(psn - 1)) check_order(before->opcode, packet, findings);
  record(packet);
}

/// With a PSN that one of a READ's responses has: the rest of it may be asked for, and nothing else. False:
/// it has not.
bool RequesterTrack::receive_in_read(const Inspected& packet, uint32_t mtu, FlowCounts& counts,
                                     std::string& note, Findings& findings) {
  const Psn psn = packet.bth.psn;
  Read* const read = read_at(psn, mtu);
  if (read == nullptr || read->all.psn == psn) return false;
  if (packet.row->family != Family::kReadRequest) {
    if (mtu == 0) return false;
    findings.push_back({Rule::kPsnBehindRead, 0,
                        fmt::format("{} with PSN 0x{:06x}, but the READ with PSN 0x{:06x} has {} responses",
                                    packet.row->name, psn.value(), read->all.psn.value(),
                                    responses_of(read->all.bytes, mtu))});
    return false;
  }
  const Asked asked{psn, packet.reth.address, packet.reth.length};
  const uint64_t skipped = asked.address - read->all.address;
  const bool lies_in = packet.reth.rkey == read->key && skipped < read->all.bytes &&
                       asked.bytes <= read->all.bytes - skipped &&
                       (mtu == 0 || skipped == uint64_t{mtu} * static_cast<uint32_t>(psn - read->all.psn));
  if (!lies_in) {
    if (mtu == 0) return false;
    findings.push_back(
        {Rule::kDuplicateRead, 0,
         fmt::format("{} bytes from 0x{:x} with PSN 0x{:06x} are no part of the READ with PSN 0x{:06x}",
                     asked.bytes, asked.address, psn.value(), read->all.psn.value())});
    return true;
  }
  if (read->again.size() < kAsksMax) read->again.push_back(asked);
  ++counts.retransmissions;
  note = "retransmission of the rest";
  return true;
}

void RequesterTrack::receive_again(const Inspected& packet, SentPacket& sent, FlowCounts& counts,
                                   std::string& note, Findings& findings) {
  const Psn psn = packet.bth.psn;
  Read* const read = read_at(psn, 0);
  const bool is_read = packet.row->family == Family::kReadRequest;
  if (packet.row->opcode != sent.opcode || packet.payload_bytes != sent.payload_bytes) {
    findings.push_back({Rule::kPsnPerPacket, 0,
                        fmt::format("PSN 0x{:06x} was {} of {} bytes, and now is {} of {}", psn.value(),
                                    wire::opcode_row(sent.opcode).name, sent.payload_bytes, packet.row->name,
                                    packet.payload_bytes)});
    return;
  }
  if (is_read && read != nullptr && read->all.psn == psn) {
    if (packet.reth.rkey != read->key || packet.reth.address != read->all.address ||
        packet.reth.length > read->all.bytes) {
      findings.push_back(
          {Rule::kDuplicateRead, 0,
           fmt::format("{} bytes from 0x{:x} with PSN 0x{:06x}, which asked for {} from 0x{:x}",
                       packet.reth.length, packet.reth.address, psn.value(), read->all.bytes,
                       read->all.address)});
      return;
    }
    if (read->again.size() < kAsksMax) read->again.push_back({psn, packet.reth.address, packet.reth.length});
  }
  if (is_duplicate(packet, sent)) {
    ++counts.duplicates;
    note = "duplicate";
    return;
  }
  check_wait(packet, findings);
  ++counts.retransmissions;
  note = asked_for_ && psn - *asked_for_ >= 0
             ? std::string("retransmission")
             : fmt::format("retransmission after {:.3f} ms",
                           static_cast<double>(packet.time_ns - sent.time_ns) / 1e6);
  sent.time_ns = packet.time_ns;
  sent.ip_identification = packet.ip_identification;
  sent.icrc = packet.icrc;
}

/// The network doubles a packet with all its fields; a requester that sends again counts up the
/// identification of IPv4, where it has one. Else time tells.
bool RequesterTrack::is_duplicate(const Inspected& packet, const SentPacket& sent) {
  if (packet.icrc != sent.icrc) return false;
  if (packet.ipv4 && (packet.ip_identification != 0 || sent.ip_identification != 0)) {
    if (packet.ip_identification != sent.ip_identification) return false;
    const SentPacket* const before = sent_.find(packet.bth.psn - 1);
    if (before != nullptr && before->ip_identification != sent.ip_identification) return true;
  }
  return !(asked_for_ && packet.bth.psn - *asked_for_ >= 0) && packet.time_ns - sent.time_ns < kCopiesApartNs;
}

void RequesterTrack::note_sent(Psn psn) {
  if (!early_ || early_->sent_since) return;
  if (psn - early_->psn > 0) return early_.reset();
  early_->sent_since = psn;
}

void RequesterTrack::check_wait(const Inspected& packet, Findings& findings) {
  if (!not_ready_ || packet.bth.psn != not_ready_->psn) return;
  const int64_t least = qp::rnr_wait(not_ready_->timer).ns;
  const int64_t waited = packet.time_ns - not_ready_->time_ns;
  if (waited < least - least / kWaitTolerance)
    findings.push_back({Rule::kRnrWait, 0,
                        fmt::format("sent again after {:.3f} ms; the RNR NAK's timer {} is {:.2f} ms",
                                    static_cast<double>(waited) / 1e6, not_ready_->timer,
                                    static_cast<double>(least) / 1e6)});
  not_ready_.reset();
}

RequesterTrack::Read* RequesterTrack::read_at(Psn psn, uint32_t mtu) {
  const uint32_t bytes_of_one = mtu == 0 ? path_mtu_bytes(PathMtu::k256) : mtu;
  for (auto read = reads_.rbegin(); read != reads_.rend(); ++read) {
    const int32_t ahead = psn - read->all.psn;
    if (ahead >= 0)
      return static_cast<uint32_t>(ahead) < responses_of(read->all.bytes, bytes_of_one) ? &*read : nullptr;
  }
  return nullptr;
}

}  // namespace uroce::decode
