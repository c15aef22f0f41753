// Decision: a device has one capture at a time, and a second one is refused. Several taps in a row would each
// copy all frames.
#include "engine/device/captures.h"

#include <time.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>

#include "engine/poller/poller.h"

namespace uroce::engine {
namespace {

/// For frames of each poller that wait to be read: at a million a second, of headers, those of 130 ms.
constexpr size_t kBytesOfPoller = size_t{32} << 20;

/// Captures of different processes, and of the kernel, are put beside each other by the time of day.
int64_t time_of_day_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

capture::RingPreamble preamble_for(size_t pollers, uint32_t snap_bytes) {
  const auto slot_bytes = static_cast<uint32_t>((sizeof(capture::SlotHead) + snap_bytes + 63) / 64 * 64);
  const auto slots = std::bit_floor(static_cast<uint32_t>(kBytesOfPoller / slot_bytes));
  return {.pollers = static_cast<uint32_t>(pollers),
          .slots = std::min(slots, capture::kSlotsMax),
          .slot_bytes = slot_bytes};
}

}  // namespace

std::optional<capture::QueuePairFacts> Captures::Finder::find(QpNumber number) const {
  const PollerQp* const entry = context_.queue_pairs.find(number);
  if (entry == nullptr || !entry->is_of(poller_.index())) return std::nullopt;
  const qp::QueuePairStorage& queue_pair = entry->queue_pair;
  const qp::Attributes& attributes = queue_pair.attributes();
  return capture::QueuePairFacts{.number = number,
                                 .state = static_cast<uint8_t>(queue_pair.state()),
                                 .due_request = queue_pair.due_request().value(),
                                 .due_response = queue_pair.due_response().value(),
                                 .peer = attributes.destination,
                                 .peer_address = attributes.path.destination};
}

Result<int> Captures::start(std::span<const std::unique_ptr<Poller>> pollers, uint32_t id,
                            const capture::Order& order) {
  const std::lock_guard guard(mutex_);
  if (running_) return Error{EBUSY, "another capture of this device is under way"};
  const capture::RingPreamble preamble = preamble_for(pollers.size(), order.snap_bytes);
  const capture::RingLayout layout(preamble);
  auto memory = host::make_sealed_memory("uroce-capture", layout.bytes());
  if (!memory) return memory.error();
  std::byte* const data = memory->mapping.data();
  new (data) capture::RingPreamble(preamble);
  running_.emplace(Running{.id = id, .memory = std::move(*memory), .parts = {}});
  for (const auto& poller : pollers) {
    const uint16_t index = poller->index();
    Part& part = running_->parts.emplace_back();
    part.finder = std::make_unique<Finder>(context_, *poller);
    part.tap = std::make_unique<capture::Tap>(capture::Tap::Options{.port = port_.queue(index),
                                                                    .counters = poller->counters(),
                                                                    .queue_pairs = *part.finder,
                                                                    .clock_ns = time_of_day_ns,
                                                                    .order = order},
                                              capture::RingWriter(data, layout, index));
    poller->run([&](qp::Turn&) { poller->tap(part.tap.get()); });
  }
  return running_->memory.descriptor.get();
}

bool Captures::stop(std::span<const std::unique_ptr<Poller>> pollers, uint32_t id) {
  const std::lock_guard guard(mutex_);
  if (!running_ || running_->id != id) return false;
  for (const auto& poller : pollers) {
    // A poller that is closed makes no turn any more, but one that was left in the middle of a turn may be
    // anywhere.
    if (!poller->run([&](qp::Turn&) { poller->tap(nullptr); }) && poller->lost()) return true;
  }
  running_.reset();
  return true;
}

}  // namespace uroce::engine
