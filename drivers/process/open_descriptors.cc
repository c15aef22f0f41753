// DPDK's descriptors are marked close-on-exec by comparing what is open before and after, because DPDK marks
// none. When EAL's own are gone its ports are left as they lie: DPDK panics or waits for ever without them.
#include "drivers/process/open_descriptors.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace uroce::drivers {
namespace {

namespace fs = std::filesystem;

bool is_of_dpdk(int descriptor, std::string_view target) {
  constexpr std::array<std::string_view, 6> kKinds = {"anon_inode:[eventpoll]",
                                                      "anon_inode:[timerfd]",
                                                      "anon_inode:[eventfd]",
                                                      "anon_inode:bpf",
                                                      "/memfd:",
                                                      "/dev/net/tun"};
  if (std::ranges::any_of(kKinds, [&](std::string_view kind) { return target.starts_with(kind); }))
    return true;
  int domain = -1;
  int type = -1;
  socklen_t length = sizeof domain;
  if (getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0) return false;
  length = sizeof type;
  if (getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &length) != 0) return false;
  return domain == AF_PACKET || domain == AF_XDP || domain == AF_NETLINK ||
         (domain == AF_UNIX && type == SOCK_SEQPACKET);
}

}  // namespace

OpenDescriptors open_descriptors() {
  OpenDescriptors descriptors;
  std::error_code error;
  // The program may close the descriptor that the folder is read through, too.
  fs::directory_iterator entry("/proc/self/fd", error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const int number = std::stoi(entry->path().filename());
    std::error_code gone;
    const std::string target = fs::read_symlink(entry->path(), gone).string();
    const int flags = fcntl(number, F_GETFD);
    if (!gone && flags >= 0) descriptors[number] = {target, (flags & FD_CLOEXEC) != 0};
  }
  return descriptors;
}

bool program_has_threads() {
  size_t others = 0;
  std::error_code error;
  fs::directory_iterator entry("/proc/self/task", error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::string name;
    std::getline(std::ifstream(entry->path() / "comm"), name);
    const bool ours = name.starts_with("uroce-") || name.starts_with("eal-") || name.starts_with("rte_");
    if (!ours) ++others;
  }
  return others != 1;
}

void close_new_on_exec(const OpenDescriptors& before, bool selective) {
  for (const auto& [number, descriptor] : open_descriptors()) {
    // One that was closed and made anew may have its old number, but not our mark.
    const auto known = before.find(number);
    if (descriptor.closes_on_exec || (known != before.end() && known->second == descriptor)) continue;
    if (!selective || is_of_dpdk(number, descriptor.target)) fcntl(number, F_SETFD, FD_CLOEXEC);
  }
}

}  // namespace uroce::drivers
