#include "apps/dump/captured_frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/counter_texts.h"
#include "base/counters.h"
#include "wire/frame.h"
#include "wire/packet.h"

namespace uroce::dump {
namespace {

using capture::Record;
using capture::RecordKind;

constexpr std::array<const char*, 7> kStates{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

std::string context_of(const Record& record) {
  if (!record.has_context) return {};
  return fmt::format("qp 0x{:06x} {}, expects request 0x{:06x}, awaits response 0x{:06x}", record.queue_pair,
                     record.state < kStates.size() ? kStates[record.state] : "?", record.due_request,
                     record.due_response);
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

Status CapturedFrames::add(int descriptor) {
  const auto size = host::size_of_sealed_memory(descriptor);
  if (!size) return size.error();
  if (*size < capture::RingLayout::kHeadBytes ||
      *size > capture::kRingBytesMax + capture::RingLayout::kHeadBytes + 4096)
    return Error{EPROTO, "the memory of a capture has a size that there cannot be"};
  auto memory = host::map_sealed_memory(descriptor, *size);
  if (!memory) return memory.error();
  capture::RingPreamble preamble;
  std::memcpy(&preamble, memory->data(), sizeof preamble);
  const capture::RingLayout layout(preamble);
  if (!layout.sound() || layout.bytes() != memory->bytes())
    return Error{EPROTO, "the memory of a capture has another format"};
  Source source{.memory = std::move(*memory), .rings = {}};
  for (uint32_t i = 0; i < preamble.pollers; ++i)
    source.rings.push_back({.reader = capture::RingReader(source.memory.data(), layout, i)});
  sources_.push_back(std::move(source));
  return {};
}

void CapturedFrames::drain() {
  for (uint32_t i = 0; i < sources_.size(); ++i) {
    for (uint32_t j = 0; j < sources_[i].rings.size(); ++j) {
      Ring& ring = sources_[i].rings[j];
      for (uint32_t left = capture::kSlotsMax; left > 0; --left) {
        const auto record = ring.reader.read(bytes_);
        if (!record) break;
        take_record(*record, i, j, std::span(bytes_).first(record->captured));
      }
    }
  }
}

void CapturedFrames::take_record(const Record& record, uint32_t source, uint32_t ring,
                                 std::span<const std::byte> bytes) {
  Source& of = sources_[source];
  if (record.kind == RecordKind::kReason) return give_reason(record, source, ring);
  ++of.received;
  Ring& its = of.rings[ring];
  const uint64_t lost = its.reader.lost();
  Held held{.frame = {.record = record,
                      .source = source,
                      .lost_before = lost - std::exchange(its.lost, lost),
                      .bytes = {bytes.begin(), bytes.end()},
                      .comment = context_of(record)},
            .ring = ring,
            .position = its.reader.position()};
  complete(held.frame);
  // Most are the newest.
  const auto behind = std::find_if(held_.rbegin(), held_.rend(), [&](const Held& other) {
    return other.frame.record.time_ns <= record.time_ns;
  });
  held_.insert(behind.base(), std::move(held));
}

void CapturedFrames::give_reason(const Record& record, uint32_t source, uint32_t ring) {
  const auto found = std::find_if(held_.rbegin(), held_.rend(), [&](const Held& held) {
    return held.frame.source == source && held.ring == ring && held.position == record.about;
  });
  if (found == held_.rend() || record.reason >= kCounterCount) return;
  std::string& comment = found->frame.comment;
  if (!comment.empty()) comment += "; ";
  const std::string_view reason = texts_of(static_cast<Counter>(record.reason)).label;
  comment += record.candidates == 0
                 ? fmt::format("dropped: {}", reason)
                 : fmt::format("one of {} frames of which some were dropped: {}", record.candidates, reason);
}

std::optional<CapturedFrame> CapturedFrames::take(int64_t now_ns, bool all) {
  if (held_.empty() || (!all && held_.front().frame.record.time_ns > now_ns - kHeldBackNs))
    return std::nullopt;
  CapturedFrame frame = std::move(held_.front().frame);
  held_.pop_front();
  return frame;
}

CapturedFrames::Counts CapturedFrames::counts(uint32_t source) const {
  Counts counts{.received = sources_[source].received};
  for (const Ring& ring : sources_[source].rings) counts.lost += ring.reader.lost();
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
  for (const Source& source : sources_)
    for (const Ring& ring : source.rings) sum += ring.reader.errors();
  return sum;
}

}  // namespace uroce::dump
