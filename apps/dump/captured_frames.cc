// Decision: frames wait in a queue of their ring, and the ring with the oldest frame is next. A poller writes
// in the order of time, so nothing is sorted, and times that contradict the order cost no search. Cost: such
// times are changed.
#include "apps/dump/captured_frames.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "base/counters/counter_texts.h"
#include "base/counters/counters.h"
#include "qp/attributes/state_name.h"
#include "wire/frame.h"
#include "wire/packet.h"

namespace uroce::dump {
namespace {

using capture::Record;
using capture::RecordKind;

/// A frame has few reasons, if its program keeps to the format.
constexpr size_t kCommentBytesMax = 4096;

std::string context_of(const Record& record) {
  if (!record.has_context) return {};
  return fmt::format("qp 0x{:06x} {}, expects request 0x{:06x}, awaits response 0x{:06x}", record.queue_pair,
                     qp::state_name(record.state), record.due_request, record.due_response);
}

/// A frame that stays on the host has no ICRC: for those that read the capture it gets the right one.
void complete(CapturedFrame& frame) {
  if (frame.record.has_icrc || frame.bytes.size() < frame.record.bytes) return;
  wire::Packet packet;
  if (wire::parse_frame(frame.bytes, packet).result != wire::ParseResult::kRoce) return;
  const auto begin = static_cast<size_t>(packet.ip_packet.data() - frame.bytes.data());
  wire::append_icrc(frame.bytes.data() + begin, packet.ip_packet.size());
}

}  // namespace

Status CapturedFrames::add(int descriptor, int pid) {
  const auto size = host::size_of_sealed_memory(descriptor);
  if (!size) return size.error();
  if (*size < capture::RingLayout::kHeadBytes ||
      *size > capture::kRingBytesMax + capture::RingLayout::kHeadBytes + 4096)
    return Error{EPROTO, "the memory of a capture has a size that there cannot be"};
  auto memory = host::map_sealed_memory(descriptor, *size);
  if (!memory) return memory.error();
  struct stat status {};  // of memory the kernel alone is asked
  if (fstat(descriptor, &status) != 0) return Error{errno, "the memory of a capture cannot be looked at"};
  capture::RingPreamble preamble;
  std::memcpy(&preamble, memory->data(), sizeof preamble);
  const capture::RingLayout layout(preamble);
  if (!layout.sound() || layout.bytes() != memory->bytes())
    return Error{EPROTO, "the memory of a capture has another format"};
  if (Status allowed = may_add(status.st_uid, preamble.pollers); !allowed) return allowed;
  rings_of_users_[status.st_uid] += preamble.pollers;
  open_rings_ += preamble.pollers;
  const auto source = static_cast<uint32_t>(sources_.size());
  sources_.push_back({.memory = std::move(*memory),
                      .pid = pid,
                      .user = status.st_uid,
                      .first_ring = static_cast<uint32_t>(rings_.size()),
                      .rings = preamble.pollers});
  for (uint32_t i = 0; i < preamble.pollers; ++i)
    rings_.push_back({.source = source,
                      .reader = capture::RingReader(sources_.back().memory.data(), layout, i),
                      .newest_ns = begin_ns_});
  return {};
}

/// The user is the owner of the memory, that made it.
Status CapturedFrames::may_add(uint32_t user, uint32_t rings) const {
  const auto of_user = rings_of_users_.find(user);
  if ((of_user == rings_of_users_.end() ? 0 : of_user->second) + rings > kRingsOfUserMax)
    return Error{EDQUOT, fmt::format("more than {} pollers of user {} capture", kRingsOfUserMax, user)};
  if (open_rings_ + rings > kRingsMax)
    return Error{EDQUOT, fmt::format("more than {} pollers capture", kRingsMax)};
  return {};
}

bool CapturedFrames::drain(int64_t now_ns) {
  const size_t share = kHeldBytesMax / std::max(open_rings_, 1u);
  bool any = false;
  for (uint32_t i = 0; i < rings_.size(); ++i) {
    Ring& ring = rings_[i];
    if (!ring.reader) continue;
    if (ring.pass_over != 0) {
      --ring.pass_over;
    } else {
      any |= drain_ring(i, share, now_ns);
    }
  }
  return any;
}

bool CapturedFrames::drain_ring(uint32_t index, size_t share, int64_t now_ns) {
  Ring& ring = rings_[index];
  const uint64_t lost_before = ring.reader->lost();
  bool any = false;
  for (uint32_t left = kAtOnce; left > 0 && ring.held_bytes < share; --left) {
    const auto record = ring.reader->read(bytes_);
    ring.drained = !record;
    if (!record) break;
    take_record(*record, index, now_ns);
    any = true;
  }
  // Of a ring that says that it holds what it does not, each slot is looked at.
  if (!any)
    ring.pass_over = static_cast<uint32_t>(std::min<uint64_t>(
        (ring.reader->lost() - lost_before) / kLookedInVainMax, capture::kSlotsMax / kLookedInVainMax));
  return any;
}

void CapturedFrames::forget_ended(const std::function<bool(int pid)>& has_ended) {
  for (Source& source : sources_) {
    if (source.memory.data() == nullptr) continue;
    // What it wrote last was there before it was seen to have ended.
    const auto all_read = [](const Ring& ring) { return ring.drained && ring.held.empty(); };
    if (source.ended && std::ranges::all_of(rings_of(source), all_read)) {
      give_back(source);
      continue;
    }
    source.ended = has_ended(source.pid);
  }
}

void CapturedFrames::give_back(Source& source) {
  for (Ring& ring : rings_of(source)) {
    ring.lost_at_end = ring.reader->lost();
    ring.errors_at_end = ring.reader->errors();
    ring.reader.reset();
  }
  source.memory = host::Mapping();
  open_rings_ -= source.rings;
  rings_of_users_[source.user] -= source.rings;
}

/// `record`: its bytes are in `bytes_`. Its time is put between that of the frame before it and now: one of
/// the far future would be held for ever, and one of the past would come before what is written already.
void CapturedFrames::take_record(Record record, uint32_t ring, int64_t now_ns) {
  Ring& its = rings_[ring];
  if (record.kind == RecordKind::kReason) return give_reason(record, its);
  // What comes meanwhile is a little later than `now_ns`.
  its.newest_ns = std::max(its.newest_ns, std::min(record.time_ns, now_ns + kHeldBackNs));
  record.time_ns = its.newest_ns;
  ++sources_[its.source].received;
  const uint64_t lost = its.reader->lost();
  Held held{.frame = {.record = record,
                      .source = its.source,
                      .lost_before = lost - std::exchange(its.lost, lost),
                      .bytes = {bytes_.begin(), bytes_.begin() + record.captured},
                      .comment = context_of(record)},
            .position = its.reader->position()};
  complete(held.frame);
  held.bytes = sizeof held + held.frame.bytes.size() + held.frame.comment.size();
  its.held_bytes += held.bytes;
  if (its.held.empty()) next_.emplace(record.time_ns, ring);
  its.held.push_back(std::move(held));
}

void CapturedFrames::give_reason(const Record& record, Ring& ring) {
  const auto found = std::ranges::lower_bound(ring.held, record.about, {}, &Held::position);
  if (found == ring.held.end() || found->position != record.about || record.reason >= kCounterCount) return;
  std::string& comment = found->frame.comment;
  if (comment.size() > kCommentBytesMax) return;
  if (!comment.empty()) comment += "; ";
  const std::string_view reason = texts_of(static_cast<Counter>(record.reason)).label;
  comment += record.candidates == 0
                 ? fmt::format("dropped: {}", reason)
                 : fmt::format("one of {} frames of which some were dropped: {}", record.candidates, reason);
}

std::optional<CapturedFrame> CapturedFrames::take(int64_t now_ns, bool all) {
  if (next_.empty() || (!all && next_.begin()->first > now_ns - kHeldBackNs)) return std::nullopt;
  const uint32_t index = next_.extract(next_.begin()).value().second;
  Ring& ring = rings_[index];
  CapturedFrame frame = std::move(ring.held.front().frame);
  ring.held_bytes -= ring.held.front().bytes;
  ring.held.pop_front();
  if (!ring.held.empty()) next_.emplace(ring.held.front().frame.record.time_ns, index);
  return frame;
}

CapturedFrames::Counts CapturedFrames::counts(uint32_t source) const {
  const Source& one = sources_[source];
  Counts counts{.received = one.received};
  for (const Ring& ring : std::span(rings_).subspan(one.first_ring, one.rings))
    counts.lost += ring.all_lost();
  return counts;
}

CapturedFrames::Counts CapturedFrames::counts() const {
  Counts sum;
  for (uint32_t i = 0; i < sources_.size(); ++i) {
    const Counts one = counts(i);
    sum.received += one.received;
    sum.lost += one.lost;
  }
  return sum;
}

uint64_t CapturedFrames::errors() const {
  uint64_t sum = 0;
  for (const Ring& ring : rings_) sum += ring.all_errors();
  return sum;
}

}  // namespace uroce::dump
