// Two hosts on one link, A and B, whose neighbour caches talk through byte frames; the test is the link.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "net/neighbours.h"
#include "outbox.h"
#include "wire/address_text.h"

namespace uroce::net {

using Frame = std::vector<std::byte>;

inline Gid ip(const std::string& text) { return wire::parse_ip(text).value(); }
inline MacAddress mac(const char* text) { return wire::parse_mac(text).value(); }

inline const MacAddress kMacA = mac("02:00:00:00:00:0a");
inline const MacAddress kMacB = mac("02:00:00:00:00:0b");
inline const Gid kA4 = ip("192.0.2.10");
inline const Gid kB4 = ip("192.0.2.11");
inline const Gid kA6 = ip("2001:db8::10");
inline const Gid kB6 = ip("2001:db8::11");
inline const Gid kLinkLocalB = ip("fe80::ff:fe00:b");

inline NeighbourOptions options_of(MacAddress own, const Gid& v4, const Gid& v6) {
  return {.mac = own, .addresses = {{v4, 24}, {v6, 64}}};
}

struct Host {
  explicit Host(NeighbourOptions options) : neighbours(std::move(options)) {}

  std::vector<Frame> pumped(Instant now) {
    neighbours.pump(now, outbox.batch());
    return outbox.take();
  }
  /// The answers to a frame.
  std::vector<Frame> received(const Frame& frame, Instant now) {
    accepted = neighbours.receive(frame, now, outbox.batch());
    return outbox.take();
  }

  uroce::testing::Outbox outbox;
  Neighbours neighbours;
  bool accepted = false;
};

class TwoHosts : public ::testing::Test {
 protected:
  /// Everything that is due travels, and the answers do.
  void exchange() {
    for (const Frame& question : a_.pumped(now_)) {
      for (const Frame& answer : b_.received(question, now_)) a_.received(answer, now_);
    }
  }

  explicit TwoHosts(const NeighbourOptions& a = options_of(kMacA, kA4, kA6)) : a_(a) {}

  Host a_;
  Host b_{options_of(kMacB, kB4, kB6)};
  Instant now_{1'000'000};
};

}  // namespace uroce::net
