#include "perf/nvmf/initiator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "client/failure.h"
#include "client/pattern.h"

namespace uroce::perf {
namespace {

constexpr auto kPatience = std::chrono::seconds(30);
/// Units that are written at once, however few the traffic has under way.
constexpr uint32_t kFilledAtOnce = 64;
/// Polls between two looks at whether the connection is still there.
constexpr uint32_t kSilentPolls = 1u << 16;

nvmf_host::RdmaSession::Options session_options(const IoTraffic& traffic, const IoPlace& place) {
  nvmf_host::RdmaSession::Options options{.subsystem_nqn = kExportedNqn};
  options.queue.target_address = place.target_address;
  options.queue.own_address = place.own_address;
  options.queue.port = place.port;
  options.queue.fast_registration = traffic.registered;
  options.queue.slot_bytes = std::max(traffic.bytes, 4096u);
  options.queue.in_capsule_bytes = 0;
  options.io_entries = std::clamp(2 * traffic.depth, 2 * kFilledAtOnce, kIoEntriesMax);
  return options;
}

uint64_t next_random(uint64_t& state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

}  // namespace

Initiator::Initiator(const IoTraffic& traffic, const IoPlace& place)
    : traffic_(traffic),
      units_(place.namespace_bytes / traffic.bytes),
      session_(session_options(traffic, place)),
      queue_(session_.connect_io(1)),
      slots_(traffic.depth) {
  if (units_ < 2 * uint64_t{traffic.depth} || traffic.depth >= kIoEntriesMax)
    throw client::Failure("the namespace, or an I/O queue, is too small for so many commands at once");
  for (uint32_t i = 0; i < traffic.depth; ++i) {
    slots_[i].command = command_of(traffic.write, static_cast<uint16_t>(i), 0);
    free_.push_back(static_cast<uint16_t>(i));
  }
}

nvmf::Command Initiator::command_of(bool write, uint16_t cid, uint64_t unit) const {
  namespace command = nvmf_host::command;
  const uint32_t blocks = traffic_.bytes / kExportedBlockBytes;
  nvmf::Command made =
      command::blocks(write ? command::kWrite : command::kRead, kExportedNsid, unit * blocks, blocks);
  made.cid = cid;
  made.sgl = in_capsule_bytes() != 0 ? nvmf_host::RdmaHostQueue::in_capsule(traffic_.bytes)
                                     : queue_.host_memory(cid, traffic_.bytes);
  return made;
}

void Initiator::prepare(const std::function<void()>& far_end) {
  if (!traffic_.write && traffic_.verified && !std::exchange(filled_, true)) fill(far_end);
  seed_ += traffic_.depth;
  for (uint32_t i = 0; i < traffic_.depth; ++i) {
    if (traffic_.write) {
      client::fill_pattern(memory(i), seed_ + i);
    } else {
      std::ranges::fill(memory(i), client::kPoison);
    }
  }
}

void Initiator::fill(const std::function<void()>& far_end) {
  std::vector<uint64_t> units;
  for (uint64_t first = 0; first < units_; first += kFilledAtOnce) {
    units.clear();
    for (uint64_t unit = first; unit < std::min(first + kFilledAtOnce, units_); ++unit) {
      client::fill_pattern(memory(static_cast<uint32_t>(unit - first)), unit);
      units.push_back(unit);
    }
    move(true, units, far_end);
  }
}

void Initiator::move(bool write, std::span<const uint64_t> units, const std::function<void()>& far_end) {
  std::vector<nvmf::Command> commands;
  for (size_t i = 0; i < units.size(); ++i) {
    commands.push_back(command_of(write, static_cast<uint16_t>(i), units[i]));
    commands.back().sgl = queue_.host_memory(static_cast<uint16_t>(i), traffic_.bytes);
  }
  batch_.clear();
  for (const nvmf::Command& command : commands) batch_.push_back(&command);
  queue_.send(batch_);
  std::array<nvmf::Completion, 32> came;
  const auto last = static_cast<uint16_t>(units.size() - 1);
  for (size_t left = units.size(); left > 0 || !queue_.is_acknowledged(last);) {
    const size_t count = queue_.poll(came);
    for (size_t i = 0; i < count; ++i) check(came[i]);
    left -= count;
    far_end();
    if (count == 0) give_up_if_ended();
  }
  silent_ = 0;
}

void Initiator::check(const nvmf::Completion& completion) {
  if (nvmf_host::code_of(completion) != nvmf::StatusCode::kSuccess)
    throw client::Failure(fmt::format("a command ended with status {:#x}", completion.status));
}

void Initiator::begin(double seconds, uint64_t commands) {
  latencies_.clear();
  full_ = false;
  first_ = completed_;
  end_ = commands != 0 ? posted_ + commands : std::numeric_limits<uint64_t>::max();
  started_ = last_seen_ = Clock::now();
  until_ = commands != 0 ? Clock::time_point::max()
                         : started_ + std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

/// In random order each slot has units of its own: no two writes of one unit are under way at once.
void Initiator::aim(Slot& slot, uint32_t index) {
  const uint64_t last_unit = slot.unit;
  if (traffic_.random) {
    const uint64_t choices = units_ / traffic_.depth;
    slot.unit = index + traffic_.depth * (next_random(random_) % choices);
  } else {
    slot.unit = next_;
    next_ = next_ + 1 < units_ ? next_ + 1 : 0;
  }
  if (slot.unit == last_unit) return;
  const uint64_t block = slot.unit * (traffic_.bytes / kExportedBlockBytes);
  slot.command.dword10 = static_cast<uint32_t>(block);
  slot.command.dword11 = static_cast<uint32_t>(block >> 32);
}

void Initiator::post() {
  if (full_) return;
  batch_.clear();
  while (!free_.empty() && posted_ < end_) {
    const uint16_t index = free_.back();
    free_.pop_back();
    Slot& slot = slots_[index];
    aim(slot, index);
    if (traffic_.registered && in_capsule_bytes() == 0)
      slot.command.sgl = queue_.registered_memory(index, traffic_.bytes);
    slot.sent = last_seen_;
    batch_.push_back(&slot.command);
    ++posted_;
  }
  full_ = posted_ == end_;
  if (!batch_.empty()) queue_.send(batch_, in_capsule_bytes());
}

void Initiator::take() {
  std::array<nvmf::Completion, 32> came;
  const size_t count = queue_.poll(came);
  if (!unacknowledged_.empty()) {
    std::erase_if(unacknowledged_, [this](uint16_t slot) {
      if (!queue_.is_acknowledged(slot)) return false;
      free_.push_back(slot);
      return true;
    });
  }
  if (count == 0) return give_up_if_ended();
  silent_ = 0;
  last_seen_ = Clock::now();
  full_ |= last_seen_ >= until_;
  for (size_t i = 0; i < count; ++i) complete(came[i]);
}

void Initiator::complete(const nvmf::Completion& completion) {
  check(completion);
  if (completion.cid >= slots_.size()) throw client::Failure("a completion of no command");
  latencies_.record(static_cast<uint64_t>((last_seen_ - slots_[completion.cid].sent).count()));
  ++completed_;
  (queue_.is_acknowledged(completion.cid) ? free_ : unacknowledged_).push_back(completion.cid);
}

void Initiator::give_up_if_ended() {
  if (++silent_ % kSilentPolls != 0) return;
  if (queue_.has_ended()) throw client::Failure("the target has ended the connection");
  if (started_ != Clock::time_point{} && Clock::now() - last_seen_ > kPatience)
    throw client::Failure("no answer from the target");
}

void Initiator::verify(const std::function<void()>& far_end) {
  if (!traffic_.verified) return;
  // A run of few commands does not come to every slot.
  std::vector<uint32_t> used;
  std::vector<uint64_t> units;
  for (uint32_t i = 0; i < traffic_.depth; ++i) {
    if (slots_[i].sent < started_) continue;
    used.push_back(i);
    units.push_back(slots_[i].unit);
  }
  if (traffic_.write) {
    for (uint32_t i = 0; i < traffic_.depth; ++i) std::ranges::fill(memory(i), client::kPoison);
    move(false, units, far_end);
  }
  for (uint32_t i = 0; i < used.size(); ++i) {
    const std::span<std::byte> bytes = memory(traffic_.write ? i : used[i]);
    if (const auto at = client::first_difference(bytes, traffic_.write ? seed_ + used[i] : units[i]))
      throw client::Failure(fmt::format("byte {} of I/O {} of the namespace is wrong", *at, units[i]));
  }
}

}  // namespace uroce::perf
