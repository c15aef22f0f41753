#include "rdmacm/port_numbers.h"

#include <algorithm>
#include <cerrno>

namespace uroce::rdmacm {

/// Both are of one port.
bool PortNumbers::overlap(const BindRequest& one, const BindRequest& other) {
  if (one.address.family != other.address.family) {
    // [::] without IPV6_V6ONLY is everybody's address.
    const BindRequest& six = one.address.family == AF_INET6 ? one : other;
    return six.address.is_any() && !six.family_only;
  }
  return one.address.is_any() || other.address.is_any() || one.address.address == other.address.address;
}

bool PortNumbers::free(const BindRequest& request) const {
  const auto at = bound_.find(key_of(request));
  return at == bound_.end() || std::ranges::none_of(at->second, [&](const Bound& bound) {
           return overlap(request, bound.request) && !(request.reuse && bound.request.reuse);
         });
}

Result<uint16_t> PortNumbers::bind(const BindRequest& request, const void* who) {
  BindRequest with_port = request;
  if (request.address.port == 0) {
    constexpr uint16_t kCount = kLast - kFirst + 1;
    const auto start = static_cast<uint16_t>(random_.below(kCount));
    uint16_t tried = 0;
    do {
      if (tried == kCount) return Error{EADDRNOTAVAIL, "no port is left"};
      with_port.address.port = static_cast<uint16_t>(kFirst + (start + tried++) % kCount);
    } while (!free(with_port));
  } else if (!free(request)) {
    return Error{EADDRINUSE, "the port is another's"};
  }
  bound_[key_of(with_port)].push_back({with_port, who});
  of_[who] = key_of(with_port);
  return with_port.address.port;
}

Status PortNumbers::claim(const void* who) {
  const auto of = of_.find(who);
  if (of == of_.end()) return Error{EINVAL, "not bound"};
  std::vector<Bound>& all = bound_[of->second];
  Bound& own = *std::ranges::find(all, who, &Bound::who);
  own.request.reuse = false;
  const bool alone = std::ranges::none_of(
      all, [&](const Bound& bound) { return bound.who != who && overlap(own.request, bound.request); });
  return alone ? Status{} : Error{EADDRINUSE, "the port is shared"};
}

void PortNumbers::release(const void* who) {
  const auto of = of_.extract(who);
  if (of.empty()) return;
  const auto at = bound_.find(of.mapped());
  std::erase_if(at->second, [&](const Bound& bound) { return bound.who == who; });
  if (at->second.empty()) bound_.erase(at);
}

}  // namespace uroce::rdmacm
