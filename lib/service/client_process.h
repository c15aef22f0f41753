#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/values/time.h"
#include "service/client_session.h"
#include "service/outbox.h"
#include "service/served_device.h"
#include "service/traffic_meter.h"
#include "service/user_accounts.h"
#include "service/user_shares.h"

namespace uroce::service {

/// One connected program, from its connection to its end. Belongs to the control thread, but for the
/// attachment.
struct ClientProcess {
  ClientProcess(uint32_t number, Descriptor connection, const ucred& credentials)
      : id(number), socket(std::move(connection)), peer(credentials), outbox(socket.get()) {}

  [[nodiscard]] bool attached() const { return attachment != nullptr; }

  const uint32_t id;  // never 0
  Descriptor socket;  // closed by a thread of its own (DescriptorCloser)
  const ucred peer;
  Outbox outbox;
  bool ended = false;
  Instant connected{};             // one that does not attach soon is closed
  UserAccount* account = nullptr;  // of its user
  UserShares::Held unattached;     // its place among connections that are not
  bool paused = false;             // nothing is read of it before account->budget.ready_at()
  uint32_t events = 0;             // that epoll waits for

  // Once attached.
  Descriptor process;  // readable when it has ended
  ServedDevice* device = nullptr;
  std::string name;  // as it calls itself, printable
  std::shared_ptr<const Descriptor> memory;
  std::unique_ptr<ClientSession> attachment;
  TrafficMeter traffic;
  std::set<uint64_t> bound;  // ids; ordered, for the program chooses them
  std::set<Gid> groups;
  // Of its user's shares; of numbers its device keeps account.
  UserShares::Held place, memory_share, descriptors, memberships;
  size_t introductions = 0;  // that it waits for
  size_t resolutions = 0;    // likewise

  // What it was notified of, and is to be notified of: a program that does not read for long hears of the
  // latest state only.
  std::vector<host::SharedAddress> told_addresses;
  ServedDevice::Link told_link;
  uint32_t told_programs = 0;
  std::vector<NumberBlock> gone;
  bool forget_neighbours = false;
  std::vector<uint32_t> told_faults;
  std::vector<uint32_t> unanswered_faults;  // orders, each of which it answers once
};

}  // namespace uroce::service
