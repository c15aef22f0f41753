#include "drivers/port/loopback/loopback.h"

#include <cerrno>
#include <charconv>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "base/process/per_process.h"
#include "base/values/contract.h"
#include "drivers/port/loopback/steering.h"
#include "drivers/port/loopback/wire.h"
#include "port/short_frame.h"

namespace uroce::drivers {
namespace {

constexpr std::string_view kPrefix = "loopback";
constexpr uint32_t kMtuDefault = 9000;
constexpr uint32_t kMtuMin = 576;
constexpr uint32_t kMtuMax = 9216;
constexpr uint32_t kLinkHeaderBytes = 14 + 4;  // with a VLAN tag
static_assert(kMtuMax + kLinkHeaderBytes <= Buffer::kFrameBytes);

struct Arguments {
  uint32_t number = 0;
  Steering steering = Steering::kHash;

  [[nodiscard]] uint32_t wire() const { return number / 2; }
  [[nodiscard]] uint32_t end() const { return number % 2; }
};

Result<Arguments> parse_arguments(std::string_view devargs) {
  Arguments arguments;
  const std::string_view name = devargs.substr(0, devargs.find(','));
  const std::string_view digits = name.substr(kPrefix.size());
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), arguments.number);
  if (error != std::errc{} || end != digits.data() + digits.size()) {
    return Error{EINVAL, std::string(devargs) + ": a loopback port is named by a number, as in loopback0"};
  }
  std::string_view rest = devargs.substr(name.size());
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view option = rest.substr(0, rest.find(','));
    rest.remove_prefix(option.size());
    if (option == "steer=hash") {
      arguments.steering = Steering::kHash;
    } else if (option == "steer=round_robin") {
      arguments.steering = Steering::kRoundRobin;
    } else {
      return Error{EINVAL, std::string(devargs) + ": unknown option '" + std::string(option) +
                               "' (known: steer=hash, steer=round_robin)"};
    }
  }
  return arguments;
}

/// The wires that have an open end. Control path only.
struct WireTable {
  std::mutex mutex;
  std::map<uint32_t, std::weak_ptr<Wire>> wires;

  std::shared_ptr<Wire> find_or_make(uint32_t number) {
    auto& entry = wires[number];
    std::shared_ptr<Wire> wire = entry.lock();
    if (wire == nullptr) entry = wire = std::make_shared<Wire>();
    return wire;
  }
};

WireTable& wire_table() {
  static PerProcess<WireTable> table;
  return table.get();
}

class LoopbackQueue final : public port::PortQueue {
 public:
  struct Place {
    uint16_t index = 0;
    BufferPool* pool = nullptr;
    const Lane* in = nullptr;
    const Lane* out = nullptr;
    const std::atomic<Steering>* far_steering = nullptr;
  };

  explicit LoopbackQueue(const Place& place) : place_(place) {}

  uint16_t receive(std::span<port::RxFrame> frames) override;
  void release(std::span<const port::RxFrame> frames) override;
  uint16_t allocate(std::span<port::TxFrame> frames) override;
  uint16_t transmit(std::span<const port::TxFrame> frames) override;
  void free(std::span<const port::TxFrame> frames) override;
  port::RxFrame loop(const port::TxFrame& frame) override {
    return {.data = frame.data, .length = frame.length, .handle = frame.handle};
  }

 private:
  uint16_t receiver_of(const port::TxFrame& frame, uint16_t receivers);

  const Place place_;
  uint16_t first_sender_ = 0;  // where the next receive() begins, so that no sender starves another
  uint16_t turn_ = 0;          // of round-robin steering
};

uint16_t following(uint16_t number, uint16_t count) {
  return static_cast<uint16_t>(number + 1 < count ? number + 1 : 0);
}

template <typename Frame>
Buffer* buffer_of(const Frame& frame) {
  return static_cast<Buffer*>(frame.handle);
}

uint16_t LoopbackQueue::receive(std::span<port::RxFrame> frames) {
  const uint16_t senders = place_.in->senders();
  size_t received = 0;
  uint16_t sender = first_sender_;
  for (uint16_t i = 0; i < senders; ++i) {
    Lane::Ring& ring = place_.in->ring(place_.index, sender);
    port::RxFrame* const to = frames.data() + received;
    received += ring.pop_burst(frames.size() - received, [to](size_t number, const FrameInFlight& frame) {
      if (number < kPrefetched) port::prefetch_frame(frame.buffer->frame);
      to[number] = {.data = frame.buffer->frame, .length = frame.length, .handle = frame.buffer};
    });
    sender = following(sender, senders);
  }
  if (received > 0) first_sender_ = following(first_sender_, senders);
  return static_cast<uint16_t>(received);
}

void LoopbackQueue::release(std::span<const port::RxFrame> frames) {
  // Those in a row that came from the same pool go back together.
  for (size_t i = 0; i < frames.size();) {
    Buffer* const first = buffer_of(frames[i]);
    Buffer* last = first;
    for (++i; i < frames.size() && buffer_of(frames[i])->home == first->home; ++i)
      last = last->next = buffer_of(frames[i]);
    first->home->give_back(first, last);
  }
}

uint16_t LoopbackQueue::allocate(std::span<port::TxFrame> frames) {
  port::TxFrame* const end = frames.data() + frames.size();
  port::TxFrame* to = frames.data();
  for (; to != end; ++to) {
    Buffer* const buffer = place_.pool->take();
    if (buffer == nullptr) break;
    *to = {.data = buffer->frame, .capacity = Buffer::kFrameBytes, .length = 0, .handle = buffer};
  }
  return static_cast<uint16_t>(to - frames.data());
}

uint16_t LoopbackQueue::receiver_of(const port::TxFrame& frame, uint16_t receivers) {
  if (receivers == 1) return 0;
  // Partner: the store at opening. Relaxed will do, because nothing else depends on it.
  if (place_.far_steering->load(std::memory_order_relaxed) == Steering::kRoundRobin) {
    return static_cast<uint16_t>(turn_ % receivers);
  }
  return static_cast<uint16_t>(steering_hash({frame.data, frame.length}) % receivers);
}

uint16_t LoopbackQueue::transmit(std::span<const port::TxFrame> frames) {
  const uint16_t receivers = place_.out->receivers();
  if (receivers == 0) {
    free(frames);
    return static_cast<uint16_t>(frames.size());
  }
  size_t sent = 0;
  while (sent < frames.size()) {
    const port::TxFrame* const from = &frames[sent];
    const size_t run = receivers == 1 ? frames.size() : 1;  // of frames that certainly go the same way
    Lane::Ring& ring = place_.out->ring(receiver_of(*from, receivers), place_.index);
    const size_t taken = ring.push_burst(run, [from](size_t number) -> FrameInFlight {
      UROCE_ASSERT(from[number].length > 0 && from[number].length <= from[number].capacity);
      return {buffer_of(from[number]), from[number].length};
    });
    turn_ = static_cast<uint16_t>(turn_ + taken);
    sent += taken;
    if (taken < run) break;
  }
  return static_cast<uint16_t>(sent);
}

void LoopbackQueue::free(std::span<const port::TxFrame> frames) {
  for (const port::TxFrame& frame : frames) place_.pool->put(buffer_of(frame));
}

MacAddress mac_of(uint32_t number) {
  return {{0x02, 0x00, static_cast<uint8_t>(number >> 24), static_cast<uint8_t>(number >> 16),
           static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number)}};
}

class LoopbackPort final : public port::Port {
 public:
  /// Under the table's lock.
  LoopbackPort(std::shared_ptr<Wire> wire, const Arguments& arguments,
               const port::Specification& specification);
  ~LoopbackPort() override;

  [[nodiscard]] const port::Capabilities& capabilities() const override { return capabilities_; }
  port::PortQueue& queue(uint16_t index) override { return queues_.at(index); }
  [[nodiscard]] bool link_up() const override { return true; }

 private:
  const std::shared_ptr<Wire> wire_;
  const uint32_t end_;
  port::Capabilities capabilities_;
  std::vector<LoopbackQueue> queues_;
};

LoopbackPort::LoopbackPort(std::shared_ptr<Wire> wire, const Arguments& arguments,
                           const port::Specification& specification)
    : wire_(std::move(wire)), end_(arguments.end()) {
  capabilities_.description = specification.devargs + ", wire inside the process";
  capabilities_.mac = specification.mac.value_or(mac_of(arguments.number));
  capabilities_.link_mtu = specification.mtu.value_or(kMtuDefault);
  capabilities_.frame_bytes_max = capabilities_.link_mtu + kLinkHeaderBytes;
  capabilities_.queues = specification.queues;
  capabilities_.queues_max = kLoopbackQueuesMax;
  capabilities_.in_process = true;

  for (uint16_t i = 0; i < specification.queues; ++i) {
    auto& pool = wire_->pools[end_][i];
    if (pool == nullptr) pool = std::make_unique<BufferPool>();
    queues_.emplace_back(LoopbackQueue::Place{.index = i,
                                              .pool = pool.get(),
                                              .in = &wire_->to[end_],
                                              .out = &wire_->to[1 - end_],
                                              .far_steering = &wire_->steering[1 - end_]});
  }
  wire_->steering[end_].store(arguments.steering, std::memory_order_relaxed);  // partner: receiver_of()
  wire_->to[1 - end_].send_from(specification.queues);
  wire_->to[end_].listen(specification.queues);
  wire_->open[end_] = true;
}

LoopbackPort::~LoopbackPort() {
  const std::lock_guard lock(wire_table().mutex);
  wire_->to[end_].listen(0);
  wire_->open[end_] = false;
}

}  // namespace

bool is_loopback(std::string_view devargs) { return devargs.starts_with(kPrefix); }

std::string loopback_wire(std::string_view devargs) {
  const Result<Arguments> arguments = parse_arguments(devargs);
  return arguments ? "loopback wire " + std::to_string(arguments->wire()) : std::string();
}

Result<std::unique_ptr<port::Port>> open_loopback(const port::Specification& specification) {
  const std::string& name = specification.devargs;
  const Result<Arguments> arguments = parse_arguments(name);
  if (!arguments) return arguments.error();
  if (specification.queues == 0 || specification.queues > kLoopbackQueuesMax) {
    return Error{ENOTSUP, name + ": " + std::to_string(specification.queues) + " queues asked for, 1 to " +
                              std::to_string(kLoopbackQueuesMax) + " are possible"};
  }
  const uint32_t mtu = specification.mtu.value_or(kMtuDefault);
  if (mtu < kMtuMin) {
    return Error{EINVAL, name + ": MTU " + std::to_string(mtu) + " is below " + std::to_string(kMtuMin)};
  }
  if (mtu > kMtuMax) {
    return Error{EMSGSIZE,
                 name + ": cannot carry MTU " + std::to_string(mtu) + ", at most " + std::to_string(kMtuMax)};
  }
  WireTable& table = wire_table();
  const std::lock_guard lock(table.mutex);
  std::shared_ptr<Wire> wire = table.find_or_make(arguments.value().wire());
  if (wire->open[arguments.value().end()]) return Error{EBUSY, name + ": is open already in this process"};
  try {
    return std::unique_ptr<port::Port>(
        std::make_unique<LoopbackPort>(std::move(wire), arguments.value(), specification));
  } catch (const std::bad_alloc&) {
    return Error{ENOMEM, name + ": no memory for packet buffers"};
  }
}

}  // namespace uroce::drivers
