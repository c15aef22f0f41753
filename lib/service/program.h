#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/time.h"
#include "service/attachment.h"
#include "service/outbox.h"
#include "service/served_device.h"
#include "service/traffic_meter.h"

namespace uroce::service {

/// How many requests a program may make: so many at once, and then so many a second.
class Allowance {
 public:
  static constexpr int64_t kBurst = 1000;
  static constexpr Duration kEach = microseconds(100);

  /// False: not before ready_at().
  bool take(Instant now) {
    full_at_ = std::max(full_at_, now);
    if (full_at_ - now > kEach * (kBurst - 1)) return false;
    full_at_ = full_at_ + kEach;
    return true;
  }
  [[nodiscard]] Instant ready_at() const { return full_at_ - kEach * (kBurst - 1); }

 private:
  Instant full_at_{INT64_MIN / 2};
};

/// One connected program, from its connection to its end. Belongs to the control thread, but for the
/// attachment.
struct Program {
  Program(uint32_t number, Descriptor connection, const ucred& credentials)
      : id(number), socket(std::move(connection)), peer(credentials), outbox(socket.get()) {}

  [[nodiscard]] bool attached() const { return attachment != nullptr; }

  const uint32_t id;  // never 0
  Descriptor socket;  // closed by a thread of its own (DescriptorCloser)
  const ucred peer;
  Outbox outbox;
  bool ended = false;
  Instant silent_since{};  // an unattached one that says nothing for long is closed
  Allowance allowance;
  bool paused = false;  // nothing is read of it before allowance.ready_at()
  uint32_t events = 0;  // that epoll waits for

  // Once attached.
  ServedDevice* device = nullptr;
  std::string name;  // as it calls itself, printable
  std::shared_ptr<const Descriptor> memory;
  std::unique_ptr<Attachment> attachment;
  TrafficMeter traffic;
  std::unordered_set<uint64_t> bound;
  std::set<Gid> groups;
  size_t introductions = 0;  // that it waits for
  size_t resolutions = 0;    // likewise

  // What it has been told, and is to be told: a program that does not read for long hears of the latest state
  // only.
  std::vector<host::SharedAddress> told_addresses;
  ServedDevice::Link told_link;
  uint32_t told_programs = 0;
  std::vector<NumberBlock> gone;
  bool forget_neighbours = false;
  std::vector<uint32_t> told_faults;
};

}  // namespace uroce::service
