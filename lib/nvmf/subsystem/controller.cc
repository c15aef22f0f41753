#include "nvmf/subsystem/controller.h"

#include <algorithm>

namespace uroce::nvmf {

Controller::Controller(std::shared_ptr<Subsystem> subsystem, Identity identity, const Limits& limits)
    : subsystem_(std::move(subsystem)),
      identity_(std::move(identity)),
      limits_(limits),
      registers_(identity_.transport.io_entries_max, limits_.discovery),
      granted_(limits_.io_queues),
      heard_at_(identity_.now),
      disabled_at_(identity_.now) {
  set_keep_alive(identity_.keep_alive_ms, identity_.now);
}

void Controller::stop_io_queues() {
  io_life_.fetch_add(1, std::memory_order_relaxed);  // as in io_life()
}

void Controller::end() {
  over_.store(true, std::memory_order_relaxed);  // as in over()
  stop_io_queues();
}

CommandStatus Controller::add_io_queue(uint16_t qid, uint32_t& life) {
  const std::lock_guard guard(mutex_);
  if (over() || !registers_.running()) return refused(StatusCode::kConnectInvalidParameters);
  if (io_queues_.test(qid)) return refused(StatusCode::kCommandSequenceError);
  if (qid > granted_) return refused(StatusCode::kConnectInvalidParameters);
  io_queues_.set(qid);
  ++io_queue_count_;
  life = io_life();
  return {};
}

void Controller::remove_io_queue(uint16_t qid) {
  const std::lock_guard guard(mutex_);
  io_queues_.reset(qid);
  if (--io_queue_count_ == 0) registers_.finish();
}

bool Controller::grant_io_queues(uint16_t count) {
  const std::lock_guard guard(mutex_);
  if (io_queue_count_ > 0) return false;
  granted_ = std::min(count, limits_.io_queues);
  return true;
}

uint16_t Controller::granted_io_queues() {
  const std::lock_guard guard(mutex_);
  return granted_;
}

std::optional<uint64_t> Controller::property(uint32_t offset, bool eight_bytes) {
  const std::lock_guard guard(mutex_);
  return registers_.get(offset, eight_bytes);
}

bool Controller::ready() {
  const std::lock_guard guard(mutex_);
  return registers_.ready();
}

CommandStatus Controller::configure(uint32_t configuration, Instant now) {
  Registers::Change change;
  {
    const std::lock_guard guard(mutex_);
    change = registers_.set_configuration(configuration);
    if (change == Registers::Change::kReset || change == Registers::Change::kShutdown) {
      stop_io_queues();
      if (io_queue_count_ == 0) registers_.finish();
    }
    if (change == Registers::Change::kReset) granted_ = limits_.io_queues;
  }
  switch (change) {
    case Registers::Change::kNone:
      break;
    case Registers::Change::kEnabled:
      heard_at_ = now;
      break;
    case Registers::Change::kReset:
      reset_features(now);
      [[fallthrough]];
    case Registers::Change::kShutdown:
      disabled_at_ = now;
      break;
    case Registers::Change::kRefused:
      return failed(StatusCode::kCommandSequenceError);
  }
  return {};
}

void Controller::reset_features(Instant now) {
  features_.reset();
  events_.reset();
  set_writes_through(false);
  set_keep_alive(identity_.keep_alive_ms, now);
}

void Controller::set_keep_alive(uint32_t timeout_ms, Instant now) {
  constexpr uint64_t kUnitMs = kKeepAliveGranularity * 100;
  const uint64_t rounded = (timeout_ms + kUnitMs - 1) / kUnitMs * kUnitMs;
  features_.keep_alive_ms = static_cast<uint32_t>(std::min<uint64_t>(rounded, UINT32_MAX));
  heard_at_ = now;
}

void Controller::watch(Instant now) {
  if (now - watched_at_ < kWatchInterval) return;
  watched_at_ = now;
  bool running;
  {
    const std::lock_guard guard(mutex_);
    running = registers_.running();
  }
  if (!running) {
    if (now - disabled_at_ > kDisabledMax) end();
    return;
  }
  uint32_t silence_max_ms = features_.keep_alive_ms;
  if (silence_max_ms == 0 && limits_.discovery) silence_max_ms = kDiscoveryIdleMaxMs;
  if (silence_max_ms == 0 || now - heard_at_ <= milliseconds(silence_max_ms)) return;
  {
    const std::lock_guard guard(mutex_);
    registers_.fail();
  }
  end();
}

}  // namespace uroce::nvmf
