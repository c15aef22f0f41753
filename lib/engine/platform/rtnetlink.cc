#include "engine/platform/rtnetlink.h"

#include <linux/if_arp.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/values/contract.h"

namespace uroce::engine {
namespace {

constexpr size_t kAlignment = 4;
constexpr size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

/// The value at the beginning of the bytes; zero when they are too few.
template <typename T>
T load(std::span<const std::byte> bytes) {
  T value{};
  if (bytes.size() >= sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// Calls `each(type, body)` for the messages of a datagram.
template <typename Each>
void for_each_message(std::span<const std::byte> datagram, Each each) {
  while (datagram.size() >= sizeof(nlmsghdr)) {
    const auto header = load<nlmsghdr>(datagram);
    if (header.nlmsg_len < sizeof(nlmsghdr) || header.nlmsg_len > datagram.size()) return;
    each(header, datagram.first(header.nlmsg_len).subspan(sizeof(nlmsghdr)));
    datagram = datagram.subspan(std::min(aligned(header.nlmsg_len), datagram.size()));
  }
}

/// Calls `each(type, value)` for the attributes behind the first `fixed` bytes.
template <typename Each>
void for_each_attribute(std::span<const std::byte> body, size_t fixed, Each each) {
  body = body.subspan(std::min(aligned(fixed), body.size()));
  while (body.size() >= sizeof(rtattr)) {
    const auto header = load<rtattr>(body);
    if (header.rta_len < sizeof(rtattr) || header.rta_len > body.size()) return;
    each(header.rta_type, body.first(header.rta_len).subspan(sizeof(rtattr)));
    body = body.subspan(std::min(aligned(header.rta_len), body.size()));
  }
}

uint8_t family_of(const Gid& address) { return address.is_ipv4() ? AF_INET : AF_INET6; }

/// The address as netlink has it.
std::span<const std::byte> raw(const Gid& address) {
  return std::as_bytes(std::span(address.bytes)).subspan(address.is_ipv4() ? 12 : 0);
}

std::optional<Gid> address_of(uint8_t family, std::span<const std::byte> bytes) {
  if (family == AF_INET && bytes.size() == 4) {
    const auto b = load<std::array<uint8_t, 4>>(bytes);
    return Gid::from_ipv4({b[0], b[1], b[2], b[3]});
  }
  if (family == AF_INET6 && bytes.size() == 16) return load<Gid>(bytes);
  return std::nullopt;
}

/// The index of the interface that the message is about; 0: of none, or of all.
unsigned interface_of(uint16_t type, std::span<const std::byte> body) {
  switch (type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
      return static_cast<unsigned>(load<ifinfomsg>(body).ifi_index);
    case RTM_NEWADDR:
    case RTM_DELADDR:
      return load<ifaddrmsg>(body).ifa_index;
    case RTM_NEWNEIGH:
    case RTM_DELNEIGH:
      return static_cast<unsigned>(load<ndmsg>(body).ndm_ifindex);
    default:
      return 0;
  }
}

}  // namespace

class RtNetlink::Request {
 public:
  template <typename Fixed>
  Request(uint16_t type, uint16_t flags, const Fixed& fixed) {
    header_.nlmsg_type = type;
    header_.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
    append(std::as_bytes(std::span(&fixed, 1)));
  }
  void add(uint16_t type, std::span<const std::byte> value) {
    const rtattr header{.rta_len = static_cast<uint16_t>(sizeof(rtattr) + value.size()), .rta_type = type};
    append(std::as_bytes(std::span(&header, 1)));
    append(value);
  }
  void add(uint16_t type, uint32_t value) { add(type, std::as_bytes(std::span(&value, 1))); }

  std::span<const std::byte> finish(uint32_t sequence) {
    header_.nlmsg_seq = sequence;
    header_.nlmsg_len = static_cast<uint32_t>(length_);
    std::memcpy(bytes_.data(), &header_, sizeof header_);
    return std::span(bytes_).first(length_);
  }

 private:
  void append(std::span<const std::byte> value) {
    UROCE_ASSERT(length_ + aligned(value.size()) <= bytes_.size());
    std::ranges::copy(value, bytes_.begin() + static_cast<ptrdiff_t>(length_));
    length_ += aligned(value.size());
  }
  nlmsghdr header_{};
  std::array<std::byte, 256> bytes_{};
  size_t length_ = sizeof(nlmsghdr);
};

namespace {

/// The neighbour that RTM_NEWNEIGH and RTM_DELNEIGH are about.
void read_neighbour(std::span<const std::byte> body, RtNetlink::Notice& notice) {
  constexpr uint16_t kHasMac = NUD_REACHABLE | NUD_PERMANENT | NUD_NOARP | NUD_DELAY | NUD_PROBE | NUD_STALE;
  const auto fixed = load<ndmsg>(body);
  const bool has_mac = notice.type == RTM_NEWNEIGH && (fixed.ndm_state & kHasMac) != 0;
  for_each_attribute(body, sizeof fixed, [&](uint16_t type, std::span<const std::byte> value) {
    if (type == NDA_DST) notice.address = address_of(fixed.ndm_family, value).value_or(Gid{});
    if (type == NDA_LLADDR && has_mac) notice.mac = load<MacAddress>(value);
  });
}

}  // namespace

Result<RtNetlink> RtNetlink::open(uint32_t groups) {
  const int descriptor = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (descriptor < 0) return Error{errno, "cannot ask the kernel for its network"};
  RtNetlink netlink(descriptor);
  sockaddr_nl own{};
  own.nl_family = AF_NETLINK;
  own.nl_groups = groups;
  if (bind(descriptor, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0)
    return Error{errno, "cannot hear of the kernel's network"};
  constexpr timeval kPatience{.tv_sec = 5, .tv_usec = 0};  // the kernel answers at once
  setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  return netlink;
}

RtNetlink::RtNetlink(RtNetlink&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      sequence_(other.sequence_),
      buffer_(std::move(other.buffer_)) {}

RtNetlink::~RtNetlink() {
  if (socket_ >= 0) close(socket_);
}

std::optional<std::span<const std::byte>> RtNetlink::next_datagram(int flags) {
  ssize_t length = -1;
  do {
    length = recv(socket_, buffer_.data(), buffer_.size(), flags);
  } while (length < 0 && errno == EINTR);
  if (length < 0) return std::nullopt;
  return std::span<const std::byte>(buffer_).first(static_cast<size_t>(length));
}

bool RtNetlink::receive(const std::function<void(const Notice&)>& each) {
  while (const auto datagram = next_datagram(MSG_DONTWAIT)) {
    for_each_message(*datagram, [&](const nlmsghdr& header, std::span<const std::byte> body) {
      Notice notice{.type = header.nlmsg_type, .interface_index = interface_of(header.nlmsg_type, body)};
      if (notice.type == RTM_NEWNEIGH || notice.type == RTM_DELNEIGH) read_neighbour(body, notice);
      each(notice);
    });
  }
  return errno != ENOBUFS;
}

bool RtNetlink::ask(Request& request, const Each& each) {
  const std::span<const std::byte> bytes = request.finish(++sequence_);
  if (send(socket_, bytes.data(), bytes.size(), 0) < 0) return false;
  std::optional<bool> good;
  while (!good) {
    const auto datagram = next_datagram(0);
    if (!datagram) return false;
    for_each_message(*datagram, [&](const nlmsghdr& header, std::span<const std::byte> body) {
      if (header.nlmsg_seq != sequence_ || good) return;  // of a question that was given up
      const bool of_many = (header.nlmsg_flags & NLM_F_MULTI) != 0;
      if (header.nlmsg_type == NLMSG_DONE) {
        good = true;
      } else if (header.nlmsg_type == NLMSG_ERROR) {
        good = load<int>(body) == 0;
      } else {
        each(header.nlmsg_type, body);
        if (!of_many) good = true;
      }
    });
  }
  return *good;
}

std::optional<RtNetlink::Link> RtNetlink::link(unsigned index) {
  ifinfomsg fixed{};
  fixed.ifi_index = static_cast<int>(index);
  Request request(RTM_GETLINK, 0, fixed);
  Link link;
  const bool answered = ask(request, [&](uint16_t, std::span<const std::byte> body) {
    link.ethernet = load<ifinfomsg>(body).ifi_type == ARPHRD_ETHER;
    for_each_attribute(body, sizeof(ifinfomsg), [&](uint16_t type, std::span<const std::byte> value) {
      if (type == IFLA_ADDRESS) link.mac = load<MacAddress>(value);
      if (type == IFLA_MTU) link.mtu = load<uint32_t>(value);
    });
  });
  return answered ? std::optional(link) : std::nullopt;
}

std::optional<std::vector<InterfaceAddress>> RtNetlink::addresses(unsigned index) {
  std::vector<InterfaceAddress> all;
  const auto take = [&](uint16_t, std::span<const std::byte> body) {
    const auto fixed = load<ifaddrmsg>(body);
    if (fixed.ifa_index != index) return;
    uint32_t flags = fixed.ifa_flags;
    std::optional<Gid> address;
    for_each_attribute(body, sizeof fixed, [&](uint16_t type, std::span<const std::byte> value) {
      // Where both are there, the second is the other end of a point-to-point link.
      if (type == IFA_LOCAL || (type == IFA_ADDRESS && !address))
        address = address_of(fixed.ifa_family, value);
      if (type == IFA_FLAGS) flags = load<uint32_t>(value);
    });
    // An address that another host may have is not ours yet.
    if (!address || (flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) != 0) return;
    all.push_back({*address, fixed.ifa_prefixlen});
  };
  for (const uint8_t family : {uint8_t{AF_INET}, uint8_t{AF_INET6}}) {
    ifaddrmsg fixed{};
    fixed.ifa_family = family;
    Request request(RTM_GETADDR, NLM_F_DUMP, fixed);
    if (!ask(request, take)) return std::nullopt;
  }
  return all;
}

bool RtNetlink::has_route(const Gid& destination, unsigned index, uint32_t flags, Way& way) {
  rtmsg fixed{};
  fixed.rtm_family = family_of(destination);
  fixed.rtm_dst_len = destination.is_ipv4() ? 32 : 128;
  fixed.rtm_flags = flags;
  Request request(RTM_GETROUTE, 0, fixed);
  request.add(RTA_DST, raw(destination));
  request.add(RTA_OIF, index);
  bool unicast = false;
  const bool answered = ask(request, [&](uint16_t, std::span<const std::byte> body) {
    const auto route = load<rtmsg>(body);
    unicast = route.rtm_type == RTN_UNICAST;
    for_each_attribute(body, sizeof route, [&](uint16_t type, std::span<const std::byte> value) {
      const auto own_family = address_of(route.rtm_family, value);
      if (type == RTA_GATEWAY) way.hop = own_family.value_or(destination);
      if (type == RTA_PREFSRC) way.source = own_family;
      // A router of the other family: its family, and its address.
      if (type == RTA_VIA && value.size() > 2)
        way.hop =
            address_of(static_cast<uint8_t>(load<uint16_t>(value)), value.subspan(2)).value_or(destination);
    });
  });
  return answered && unicast;
}

std::optional<RtNetlink::Way> RtNetlink::way_to(const Gid& destination, unsigned index) {
  Way way{destination, std::nullopt};
  // When it is told the interface, the kernel takes for a neighbour whatever IPv4 address it has no route to.
  Way ignored = way;
  if (destination.is_ipv4() && !has_route(destination, index, RTM_F_FIB_MATCH, ignored)) return std::nullopt;
  if (!has_route(destination, index, 0, way)) return std::nullopt;
  return way;
}

unsigned RtNetlink::interface_to(const Gid& destination) {
  rtmsg fixed{};
  fixed.rtm_family = family_of(destination);
  fixed.rtm_dst_len = destination.is_ipv4() ? 32 : 128;
  Request request(RTM_GETROUTE, 0, fixed);
  request.add(RTA_DST, raw(destination));
  unsigned index = 0;
  const bool answered = ask(request, [&](uint16_t, std::span<const std::byte> body) {
    for_each_attribute(body, sizeof(rtmsg), [&](uint16_t type, std::span<const std::byte> value) {
      if (type == RTA_OIF) index = load<uint32_t>(value);
    });
  });
  return answered ? index : 0;
}

RtNetlink::Neighbour RtNetlink::neighbour(const Gid& address, unsigned index) {
  ndmsg fixed{};
  fixed.ndm_family = family_of(address);
  fixed.ndm_ifindex = static_cast<int>(index);
  Request request(RTM_GETNEIGH, 0, fixed);
  request.add(NDA_DST, raw(address));
  Neighbour neighbour;
  const auto take = [&](uint16_t, std::span<const std::byte> body) {
    constexpr uint16_t kSure = NUD_REACHABLE | NUD_PERMANENT | NUD_NOARP | NUD_DELAY | NUD_PROBE;
    const uint16_t state = load<ndmsg>(body).ndm_state;
    neighbour.known = (state & kSure) != 0            ? Known::kYes
                      : (state & NUD_STALE) != 0      ? Known::kOnceWas
                      : (state & NUD_INCOMPLETE) != 0 ? Known::kAsked
                      : (state & NUD_FAILED) != 0     ? Known::kSilent
                                                      : Known::kNo;
    for_each_attribute(body, sizeof(ndmsg), [&](uint16_t type, std::span<const std::byte> value) {
      if (type == NDA_LLADDR) neighbour.mac = load<MacAddress>(value);
    });
  };
  return ask(request, take) ? neighbour : Neighbour{};
}

}  // namespace uroce::engine
