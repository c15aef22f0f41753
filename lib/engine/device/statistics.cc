// Decision: a thread writes the rows, not the pollers by a flag that they check. No instruction of a turn is
// spent, and an idle process answers as well. Cost: a thread, which sleeps.
#include "engine/device/statistics.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "engine/device/device_state.h"
#include "engine/device/notice_lines.h"
#include "engine/device/telemetry.h"
#include "host/control.h"

namespace uroce::engine {
namespace {

constexpr int64_t kForeverNs = 3'600'000'000'000;

}  // namespace

Status Statistics::make(size_t devices, uint16_t pollers, std::string_view log_level) {
  auto made = host::OwnStatistics::make(static_cast<uint32_t>(devices), pollers);
  if (!made) return made.error();
  shared_ = std::make_shared<Shared>(std::move(*made));
  pollers_ = pollers;
  const bool everything = log_level == "debug";
  if (!everything && log_level != "info") return {};
  const auto wanted = everything ? NoticeRing::Wanted::kEverything : NoticeRing::Wanted::kFailures;
  for (size_t i = 0; i < devices * pollers; ++i)
    shared_->notices.push_back(std::make_unique<NoticeRing>(shared_->sleep, wanted));
  return {};
}

std::vector<qp::NoticeListener*> Statistics::notices_of(size_t index) const {
  std::vector<qp::NoticeListener*> all;
  if (shared_ == nullptr || shared_->notices.empty()) return all;
  for (size_t i = 0; i < pollers_; ++i) all.push_back(shared_->notices[index * pollers_ + i].get());
  return all;
}

bool Statistics::has_notices() const {
  return std::ranges::any_of(shared_->notices, [](const auto& ring) { return ring->pending(); });
}

void Statistics::write_notices() {
  for (size_t i = 0; i < shared_->notices.size() && i / pollers_ < devices_.size(); ++i) {
    const std::string& device = devices_[i / pollers_]->configuration.name;
    const uint64_t lost =
        shared_->notices[i]->take_all([&](const qp::Notice& notice) { write_notice(device, notice); });
    if (lost != 0) write_lost_notices(device, lost);
  }
}

std::vector<Counters*> Statistics::counters_of(size_t index) const {
  std::vector<Counters*> all;
  if (shared_ == nullptr) return all;
  for (uint32_t i = 0; i < pollers_; ++i)
    all.push_back(&shared_->memory.counters(static_cast<uint32_t>(index), i));
  return all;
}

std::vector<Latencies*> Statistics::latencies_of(size_t index) const {
  std::vector<Latencies*> all;
  if (shared_ == nullptr) return all;
  for (uint32_t i = 0; i < pollers_; ++i)
    all.push_back(&shared_->memory.latencies(static_cast<uint32_t>(index), i));
  return all;
}

void Statistics::add(DeviceState& device) {
  if (shared_ == nullptr) return;
  host::DeviceShown& shown = shared_->memory.device(static_cast<uint32_t>(devices_.size()));
  host::set_text(shown.name, device.configuration.name);
  const std::string& interface = device.configuration.interface;
  host::set_text(shown.port, interface.empty() ? device.configuration.port : interface);
  shown.pollers = static_cast<uint32_t>(device.pollers.size());
  devices_.push_back(&device);
}

Status Statistics::start(bool eal) {
  if (shared_ == nullptr) return {};
  host::StatisticsHeader& header = shared_->memory.header();
  shared_->sleep.sleep_at(header.question.bell);
  auto thread = Thread::start("uroce-stat", {}, [this, &header] {
    const auto is_asked = [&] { return header.question.is_pending(); };
    const auto is_stopping = [&] { return stopping_.load(std::memory_order_seq_cst); };  // partner: stop()
    while (!is_stopping()) {
      shared_->sleep.park_unless([&] { return is_asked() || has_notices() || is_stopping(); }, kForeverNs);
      if (has_notices()) write_notices();
      if (is_asked()) answer();
    }
    write_notices();
  });
  if (!thread) return thread.error();
  thread_.emplace(std::move(*thread));
  if (eal) show_in_telemetry(shared_->memory);
  header.question.begin();
  return {};
}

void Statistics::answer() {
  host::StatisticsHeader& header = shared_->memory.header();
  const uint32_t asked = header.question.take();
  const QpNumber wanted{header.wanted_queue_pair & QpNumber::kMask};
  std::span<host::QueuePairRow> left = shared_->memory.rows();
  const bool regions = header.wants_regions != 0;
  std::span<host::RegionRow> regions_left = shared_->memory.regions();
  uint32_t queue_pairs = 0;
  for (uint32_t i = 0; i < devices_.size(); ++i) {
    if (stopping_.load(std::memory_order_relaxed)) return;  // as in start()
    describe(i);
    if (regions) regions_left = regions_left.subspan(describe_regions(i, regions_left));
    queue_pairs += shared_->memory.device(i).queue_pairs;
    const size_t rows =
        devices_[i]->describe_queue_pairs(left, wanted == QpNumber{} ? std::nullopt : std::optional(wanted));
    for (host::QueuePairRow& row : left.first(rows)) row.device = i;
    left = left.subspan(rows);
  }
  header.rows = static_cast<uint32_t>(shared_->memory.rows().size() - left.size());
  header.region_rows = static_cast<uint32_t>(shared_->memory.regions().size() - regions_left.size());
  header.queue_pairs = queue_pairs;
  header.answered_ns.store(MachineClocks::system().ns, std::memory_order_relaxed);  // ordered by what follows
  header.question.answer(asked);
}

void Statistics::describe(uint32_t index) {
  DeviceState& device = *devices_[index];
  host::DeviceShown& shown = shared_->memory.device(index);
  const port::Port& port = *device.port;
  shown.link_up = port.link_up() ? 1 : 0;
  shown.link_mbps = port.link_mbps();
  shown.regions = device.regions.regions();
  shown.completion_queues = device.completion_queues.load(std::memory_order_relaxed);  // a count
  uint64_t dropped = 0;
  uint64_t calls = 0;
  for (uint16_t i = 0; i < device.pollers.size(); ++i) {
    dropped += device.port->queue(i).dropped();
    calls += device.port->queue(i).transmit_calls();
  }
  shown.port_dropped = dropped;
  shown.port_transmit_calls = calls;
  const std::lock_guard guard(device.mutex);
  shown.queue_pairs = static_cast<uint32_t>(device.entries.size());
}

size_t Statistics::describe_regions(uint32_t index, std::span<host::RegionRow> rows) {
  static_assert(static_cast<size_t>(mem::RegionKind::kNull) + 1 == host::kRegionKinds);
  host::DeviceShown& shown = shared_->memory.device(index);
  shown.regions_of_kind = {};
  shown.region_bytes_of_kind = {};
  size_t filled = 0;
  devices_[index]->regions.for_each([&](const mem::RegionBinding& region) {
    const auto kind = static_cast<uint32_t>(region.kind);
    ++shown.regions_of_kind[kind];
    // A region of everything that is mapped on the bus has no length of its own, and a null region none.
    const bool has_length = region.layout != mem::Layout::kBus && region.layout != mem::Layout::kNull;
    const uint64_t bytes = region.bound && has_length ? region.length : 0;
    shown.region_bytes_of_kind[kind] += bytes;
    if (filled == rows.size()) return;
    rows[filled++] = {.key = region.key.value,
                      .device = index,
                      .domain = region.domain.value,
                      .access = region.bound ? region.access.bits() : 0,
                      .kind = kind,
                      .bound = region.bound ? 1u : 0u,
                      .address = region.iova,
                      .length = bytes};
  });
  return filled;
}

void Statistics::stop() {
  if (shared_ == nullptr) return;
  forget_in_telemetry(shared_->memory);
  shared_->memory.header().question.end();
  stopping_.store(true, std::memory_order_seq_cst);  // partner: the thread that falls asleep
  shared_->sleep.wake();
  if (thread_) thread_->join();
  thread_.reset();
}

void Statistics::abandon() {
  if (thread_) thread_->abandon();
  thread_.reset();
  shared_.reset();
}

namespace {

host::QueuePairRow row_of(const PollerQp& entry) {
  const qp::QueuePairStorage& queue_pair = entry.queue_pair;
  const qp::Attributes& attributes = queue_pair.attributes();
  const qp::CongestionState congestion = queue_pair.congestion();
  const qp::Incidents incidents = queue_pair.incidents();
  host::QueuePairRow row{};
  row.number = entry.number.value;
  row.poller = entry.poller_index();
  row.destination = attributes.destination.value;
  row.type = static_cast<uint8_t>(queue_pair.type());
  row.state = static_cast<uint8_t>(attributes.state);
  row.congestion_control = static_cast<uint8_t>(congestion.control);
  row.mtu = path_mtu_bytes(attributes.path_mtu);
  row.peer = attributes.path.destination.bytes;
  row.sent_messages = queue_pair.sent().messages;
  row.sent_bytes = queue_pair.sent().bytes;
  row.received_messages = queue_pair.received().messages;
  row.received_bytes = queue_pair.received().bytes;
  row.retransmitted = incidents.retransmitted;
  row.timeouts = incidents.timeouts;
  row.naks_received = incidents.naks_received;
  row.rnr_naks_received = incidents.rnr_naks_received;
  row.naks_sent = incidents.naks_sent;
  row.rnr_naks_sent = incidents.rnr_naks_sent;
  row.posted_sends = entry.send_queue.published() - entry.send_queue.retired();
  row.posted_receives = entry.receive_queue.published() - entry.receive_queue.retired();
  row.window = congestion.window;
  row.unanswered = queue_pair.unanswered();
  row.mbps = congestion.mbps;
  row.cnps = congestion.cnps;
  row.round_trip_ns = congestion.smoothed_ns;
  row.round_trip_least_ns = congestion.least_ns;
  return row;
}

}  // namespace

/// A queue pair that ends meanwhile has no row.
size_t DeviceState::describe_queue_pairs(std::span<host::QueuePairRow> rows, std::optional<QpNumber> number) {
  constexpr size_t kPerTurn = 64;
  std::vector<std::vector<QpNumber>> described(pollers.size());
  {
    const std::lock_guard guard(mutex);
    size_t count = 0;
    for (const PollerQp* entry = entries.first(); entry != nullptr && count < rows.size();
         entry = entry->next) {
      if (number && entry->number != *number) continue;
      described[entry->poller_index()].push_back(entry->number);
      ++count;
    }
  }
  size_t filled = 0;
  std::vector<QpNumber> moved;
  for (size_t i = 0; i < pollers.size(); ++i) {
    for (std::span<const QpNumber> left = described[i]; !left.empty();) {
      const auto some = left.first(std::min(left.size(), kPerTurn));
      left = left.subspan(some.size());
      pollers[i]->run([&](qp::Turn&) {
        for (const QpNumber one : some) {
          // One that is found stays until the turn is over.
          const PollerQp* const entry = queue_pairs.find(one);
          if (entry == nullptr) continue;
          if (entry->is_of(pollers[i]->index())) {
            rows[filled++] = row_of(*entry);
          } else {
            moved.push_back(one);
          }
        }
      });
    }
  }
  for (const QpNumber one : moved)
    run_with(one, [&](const PollerQp& entry, qp::Turn&) { rows[filled++] = row_of(entry); });
  return filled;
}

}  // namespace uroce::engine
