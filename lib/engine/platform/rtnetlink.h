#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/values/identifiers.h"
#include "base/values/result.h"
#include "engine/configuration/configuration.h"

// What the kernel knows of an interface, its addresses, and the ways that lead through it: the few messages
// of rtnetlink(7) that we need.
namespace uroce::engine {

/// A netlink socket of the network namespace of the thread that opened it. One thread at a time.
class RtNetlink {
 public:
  /// `groups`: bits of RTMGRP_*, whose messages receive() then gets; 0: for questions. EMFILE, ...
  static Result<RtNetlink> open(uint32_t groups);

  RtNetlink(RtNetlink&& other) noexcept;
  RtNetlink& operator=(RtNetlink&&) = delete;
  ~RtNetlink();

  [[nodiscard]] int descriptor() const { return socket_; }

  /// A message of the kernel's that was not asked for.
  struct Notice {
    uint16_t type = 0;             // RTM_*
    unsigned interface_index = 0;  // which it is about; 0: all
    // Of a neighbour's:
    Gid address;
    std::optional<MacAddress> mac;  // null: it has none, or the kernel has to find out
  };
  /// Passes the notices that wait to `each`, without waiting for more. False: some were lost.
  bool receive(const std::function<void(const Notice&)>& each);

  // Questions. They wait for the kernel's answer; nullopt: there is none.

  struct Link {
    MacAddress mac;
    uint32_t mtu = 0;
    bool ethernet = false;
  };
  std::optional<Link> link(unsigned index);
  /// Addresses of the interface that may be used, in the kernel's order, IPv4 first.
  std::optional<std::vector<InterfaceAddress>> addresses(unsigned index);
  /// The next hop of a packet to `destination`, through the interface: that is it itself, or a router; and
  /// from which address it is sent.
  struct Way {
    Gid hop;
    std::optional<Gid> source;
  };
  std::optional<Way> way_to(const Gid& destination, unsigned index);
  /// Index of the interface by which the kernel reaches `destination`; 0: no route leads there.
  unsigned interface_to(const Gid& destination);

  enum class Known : uint8_t {
    kNo,       // not asked for yet
    kAsked,    // the kernel is asking
    kYes,      // the MAC is right, as far as is known
    kOnceWas,  // the MAC may be right; the kernel looks when it sends something
    kSilent,   // the kernel's resolution failed
  };
  struct Neighbour {
    Known known = Known::kNo;
    MacAddress mac;
  };
  Neighbour neighbour(const Gid& address, unsigned index);

 private:
  explicit RtNetlink(int socket) : socket_(socket), buffer_(kBufferBytes) {}
  static constexpr size_t kBufferBytes = 32768;

  class Request;
  using Each = std::function<void(uint16_t type, std::span<const std::byte> body)>;
  /// Calls `each` for the messages of the answer. False: refused, or no answer.
  bool ask(Request& request, const Each& each);
  std::optional<std::span<const std::byte>> next_datagram(int flags);
  bool has_route(const Gid& destination, unsigned index, uint32_t flags, Way& way);

  int socket_;
  uint32_t sequence_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace uroce::engine
