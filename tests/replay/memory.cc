#include "memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <stdexcept>
#include <utility>

#include "mem/rights/access.h"

namespace uroce::replay {

namespace {

constexpr size_t kGuard = 64;
constexpr std::byte kFill{0xA5};
constexpr MemoryKey kNoKey{0xFFFFFF00};
constexpr mem::Access kRemote = mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead | mem::kRemoteAtomic;

/// What an atomic leaves where `original` was.
Bytes outcome_of(const Message& message) {
  uint64_t value = 0;
  std::memcpy(&value, message.payload.data(), sizeof(value));
  const auto& [swap_or_add, compare] = message.operands;
  if (message.operation == queue::SendOperation::kFetchAdd) {
    value += swap_or_add;
  } else if (value == compare) {
    value = swap_or_add;
  }
  Bytes outcome(sizeof(value));
  std::memcpy(outcome.data(), &value, sizeof(value));
  return outcome;
}

bool refused_access(const Message& message) { return message.refusal == wire::NakCode::kRemoteAccess; }

}  // namespace

Memory::Memory(mem::RegionTable& regions, DomainId domain, const Requests& own, const Requests& peers)
    : regions_(regions), domain_(domain) {
  add_regions(peers);
  for (const Message& message : peers.messages) expect(message);
  add_buffers(own);
  add_receives(peers);
}

Memory::~Memory() {
  for (const Area& area : areas_) {
    if (area.fast != nullptr) {
      static_cast<void>(area.fast->end());
    } else if (area.keys.lkey != MemoryKey{}) {
      static_cast<void>(regions_.deregister(area.keys.lkey));
    }
  }
}

Memory::Area& Memory::add(std::string name, uint64_t length) {
  Area& area = areas_.emplace_back();
  area.name = std::move(name);
  area.bytes.assign(length + 2 * kGuard, kFill);
  area.expected = area.bytes;
  return area;
}

void Memory::register_area(Area& area, uint64_t iova, mem::Access access) {
  area.iova = iova;
  if (area.bytes.size() == 2 * kGuard) return;  // work requests without segments
  auto keys = regions_.register_user({.domain = domain_,
                                      .address = area.bytes.data() + kGuard,
                                      .length = area.bytes.size() - 2 * kGuard,
                                      .iova = iova,
                                      .access = access});
  if (!keys) throw std::runtime_error(keys.error().message);
  area.keys = *keys;
}

/// As a fast-registration region, which is what may be invalidated from afar.
void Memory::bind_area(Area& area) {
  constexpr uint64_t kPage = 4096;
  mem::BusSpace& bus = *regions_.bus_space();
  const uint64_t length = area.bytes.size() - 2 * kGuard;
  const auto pages = static_cast<uint32_t>(length / kPage + 2);
  const auto direction = mem::Direction::kBidirectional;
  const mem::BusRange run{bus.map(area.bytes.data() + kGuard, length, direction).value(), length};
  mem::PageList list(bus, pages);
  mem::PageExtent extent;
  uint64_t offset = 0;
  area.fast = std::move(mem::FastRegion::make(regions_, domain_, pages).value());
  area.keys = {area.fast->first_key(), area.fast->first_key()};
  static_cast<void>(list.fill({&run, 1}, offset, kPage, extent));
  const mem::FastBinding binding{area.keys.lkey, area.keys.lkey, kRemote, area.iova, &list};
  if (list.post(extent, kRemote) != 0 ||
      mem::bind_fast_region(regions_, binding, domain_) != mem::Outcome::kDone)
    throw std::runtime_error("a region cannot be bound");
}

queue::Segment Memory::segment(const Area& area) {
  return {area.iova, static_cast<uint32_t>(area.bytes.size() - 2 * kGuard), area.keys.lkey};
}

/// A key with which something was allowed names a region, of which no more is known than what was asked for.
/// Refused was either a key that names nothing, or, when it is the only one, an address outside of its
/// region: then that ends one byte too early.
void Memory::add_regions(const Requests& peers) {
  std::map<MemoryKey, Span> spans;
  const auto extend = [&](const Message& message, uint64_t length) {
    Span& span = spans[message.rkey];
    span.begin = std::min(span.begin, message.address);
    span.end = std::max(span.end, message.address + length);
  };
  for (const Message& message : peers.messages) {
    // Without a byte to read or write the key is not looked at.
    if (!message.is_send() && message.length > 0 && !refused_access(message)) extend(message, message.length);
  }
  if (spans.empty()) {
    for (const Message& message : peers.messages) {
      if (refused_access(message)) extend(message, message.length - 1);
    }
  }
  std::set<MemoryKey> invalidated;
  for (const Message& message : peers.messages) {
    if (!message.invalidates()) continue;
    invalidated.insert(message.invalidate);
    // No more need be known of it than that it was there.
    if (!spans.contains(message.invalidate)) spans[message.invalidate] = {.begin = 0, .end = 1};
  }
  for (const auto& [key, span] : spans) {
    Area& area = add(fmt::format("region {:#x}", key.value), span.end - span.begin);
    area.known.resize(area.bytes.size());
    remote_[key] = &area;
    area.invalidated = invalidated.contains(key);
    if (area.invalidated) {
      area.iova = span.begin;
      bind_area(area);
    } else {
      register_area(area, span.begin, kRemote);
    }
  }
}

/// What a request of the peer does to our memory, or says about what is in it.
void Memory::expect(const Message& message) {
  const auto found = remote_.find(message.rkey);
  if (message.is_send() || message.failed() || found == remote_.end()) return;
  Area& area = *found->second;
  const bool tells = message.is_read() || message.is_atomic();
  const Bytes outcome = message.is_atomic() ? outcome_of(message) : message.payload;
  for (size_t i = 0; i < message.payload.size(); ++i) {
    const size_t at = kGuard + static_cast<size_t>(message.address - area.iova) + i;
    const std::byte value = message.payload[i];
    const bool known = std::exchange(area.known[at], std::byte{1}) != std::byte{0};
    // A READ tells what was there from the beginning, unless something else was there before; so does an
    // atomic.
    if (tells && !known) area.bytes[at] = value;
    if (tells && known && area.expected[at] != value) {
      stores_.push_back({message.begun, &area, at, value});
    }
    area.expected[at] = outcome[i];
  }
}

void Memory::owner_stores(size_t frame) {
  for (const Store& store : stores_) {
    if (store.frame == frame) store.area->bytes[store.at] = store.value;
  }
}

void Memory::add_buffers(const Requests& own) {
  for (const Message& message : own.messages) {
    Area& area =
        add(fmt::format("buffer of the request at psn {:#x}", message.first.value()), message.length);
    const auto to = static_cast<ptrdiff_t>(kGuard);
    const bool filled = message.is_read() || message.is_atomic();
    if (!filled) std::ranges::copy(message.payload, area.bytes.begin() + to);
    if (message.is_read() && message.failed()) {
      area.content_open = true;
    } else if (!message.is_atomic() || !message.failed()) {
      std::ranges::copy(message.payload, area.expected.begin() + to);
    }
    register_area(area, reinterpret_cast<uint64_t>(area.bytes.data() + kGuard), mem::kLocalWrite);
    buffers_.push_back(&area);
  }
}

/// A receive is as long as its SEND. One that was too short had room for what was accepted before the NAK.
void Memory::add_receives(const Requests& peers) {
  for (const Message& message : peers.messages) {
    const bool refused = message.is_send() && message.refusal.has_value();
    Area& area = add(fmt::format("receive of the SEND at psn {:#x}", message.first.value()),
                     refused             ? message.accepted
                     : message.is_send() ? message.length
                                         : 0);
    // What a failed receive holds is open.
    area.content_open = refused;
    if (message.is_send() && !message.failed()) {
      std::ranges::copy(message.payload, area.expected.begin() + static_cast<ptrdiff_t>(kGuard));
    }
    register_area(area, reinterpret_cast<uint64_t>(area.bytes.data() + kGuard), mem::kLocalWrite);
    receives_.push_back(&area);
  }
}

MemoryKey Memory::key(const wire::Reth& captured) const {
  const auto found = remote_.find(captured.rkey);
  return captured.length == 0 || found == remote_.end() ? kNoKey : found->second->keys.rkey;
}

MemoryKey Memory::key(MemoryKey captured) const {
  const auto found = remote_.find(captured);
  return found == remote_.end() ? kNoKey : found->second->keys.rkey;
}

MemoryKey Memory::captured(MemoryKey ours) const {
  for (const auto& [key, area] : remote_) {
    if (area->keys.rkey == ours) return key;
  }
  return kNoKey;
}

std::vector<std::string> Memory::differences() const {
  std::vector<std::string> found;
  for (const Area& area : areas_) {
    if (area.invalidated && regions_.read_entry(area.keys.rkey).bound)
      found.push_back(fmt::format("memory: {} was not invalidated", area.name));
    for (size_t i = 0; i < area.bytes.size(); ++i) {
      const bool guard = i < kGuard || i >= area.bytes.size() - kGuard;
      if (area.bytes[i] == area.expected[i] || (area.content_open && !guard)) continue;
      found.push_back(fmt::format("memory: {}, byte {} is {:#04x} and should be {:#04x}", area.name,
                                  static_cast<ptrdiff_t>(i) - static_cast<ptrdiff_t>(kGuard),
                                  static_cast<unsigned>(area.bytes[i]),
                                  static_cast<unsigned>(area.expected[i])));
      break;
    }
  }
  return found;
}

void Memory::spoil() {
  if (!areas_.empty()) areas_.front().bytes[kGuard - 1] ^= std::byte{1};
}

}  // namespace uroce::replay
