// Users of the machine: which of them may use the service, and what each may have.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "engine/device/joined_groups.h"
#include "engine/platform/log.h"
#include "service/service.h"

namespace uroce::service {
namespace {

constexpr uint64_t kMebibyte = 1u << 20;
/// A user's share of what the machine and the process have, where nothing is configured.
constexpr uint64_t kUsersPart = 8;
/// Memberships in groups of all programs: a device joins no more groups.
constexpr uint64_t kMemberships = engine::JoinedGroups::kMax;
/// What the service needs for itself and its devices.
constexpr uint64_t kOwnDescriptors = 64;
constexpr uint64_t kDescriptorsMin = 256;
/// How often a line of the log tells of one user's refusals.
constexpr Duration kComplaintInterval = seconds(10);

uint64_t machine_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return std::numeric_limits<uint32_t>::max();
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page);
}

uint64_t descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kDescriptorsMin;
  return std::max<uint64_t>(limit.rlim_cur, kOwnDescriptors + kDescriptorsMin) - kOwnDescriptors;
}

}  // namespace

/// What is configured, for what is taken from now on.
void Service::apply_quotas() {
  using Limits = UserShares::Limits;
  const Quotas& quotas = configuration_.quotas;
  const auto set = [](UserShares& shares, Limits limits, std::string_view what, std::string_view key) {
    limits.what = what;
    limits.key = key;
    shares.set_limits(limits);
  };
  // Nothing is kept of connections: the oldest of the largest holder gives way.
  set(connections_, {.all = kUnattachedMax, .per_user = kUnattachedOfUserMax}, "connections", "fixed");
  Limits places = Limits::with_reserve(quotas.programs, quotas.programs_per_user);
  places.key_all = "service.programs";
  set(places_, places, "programs", "service.programs_per_user");
  const uint64_t memory = machine_memory();
  const uint64_t of_user =
      quotas.memory_mb_per_user ? *quotas.memory_mb_per_user * kMebibyte : memory / kUsersPart;
  set(memory_, Limits::with_reserve(std::max(memory / 2, of_user), of_user), "bytes of the service's memory",
      "service.memory_mb_per_user");
  const uint64_t descriptors = descriptor_limit();
  set(descriptors_,
      Limits::with_reserve(descriptors, quotas.descriptors_per_user.value_or(descriptors / kUsersPart)),
      "descriptors of the service", "service.descriptors_per_user");
  set(memberships_, Limits::with_reserve(kMemberships, quotas.groups_per_user), "memberships in groups",
      "service.groups_per_user");
  for (const auto& device : devices_) device->numbers().set_quota(quotas.numbers_per_user);
}

bool Service::is_privileged(uid_t user) const { return user == 0 || user == geteuid(); }

/// Whether its user may have anything of the service but the list of its devices.
Status Service::may_use(const ClientProcess& program) const {
  const uid_t user = program.peer.uid;
  const auto& users = configuration_.users;
  if (is_privileged(user) || !users || std::ranges::find(*users, user) != users->end()) return {};
  return Error{EACCES, fmt::format("user {} may not use this service (service.users)", user)};
}

/// What the program is answered; a line of the log says so, now and then.
Error Service::refuse(const ClientProcess& program, Error why) {
  Instant& complained = program.account->complained;
  if (why.code == EDQUOT && now_ - complained >= kComplaintInterval) {
    complained = now_;
    engine::write_log(
        engine::LogLevel::kWarning, "uroce serve",
        fmt::format("process {} of user {} is refused: {}", program.peer.pid, program.peer.uid, why.message));
  }
  return why;
}

}  // namespace uroce::service
