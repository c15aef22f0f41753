// The GUID of a device on an interface of the kernel is that of the interface's MAC before it is opened.
// Listing asks the kernel one question and opens nothing.
#include "verbs/calls/device_list.h"

#include <endian.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "engine/device/stack.h"
#include "net/gid_table.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/export.h"
#include "verbs/calls/standard_streams.h"

namespace uroce::verbs {

namespace {

std::unique_ptr<VerbsDevice> make_device(const engine::Stack& stack, size_t index) {
  const engine::DeviceConfiguration& configuration = stack.configuration().devices[index];
  auto device = std::make_unique<VerbsDevice>();
  ibv_device& face = device->face;
  const char* name = configuration.name.c_str();
  face.node_type = IBV_NODE_CA;
  face.transport_type = IBV_TRANSPORT_IB;
  std::snprintf(face.name, sizeof(face.name), "%s", name);
  std::snprintf(face.dev_name, sizeof(face.dev_name), "uverbs%zu", index);
  std::snprintf(face.dev_path, sizeof(face.dev_path), "/sys/class/infiniband_verbs/uverbs%zu", index);
  std::snprintf(face.ibdev_path, sizeof(face.ibdev_path), "/sys/class/infiniband/%s", face.name);
  device->index = index;
  if (const auto mac = stack.known_mac(index)) {
    uint64_t guid = 0;
    for (uint8_t byte : net::eui64(*mac)) guid = guid << 8 | byte;
    device->guid = guid;
  }
  return device;
}

}  // namespace

Result<const std::vector<std::unique_ptr<VerbsDevice>>*> configured_devices() {
  using Devices = std::vector<std::unique_ptr<VerbsDevice>>;
  const Result<engine::Stack*> stack = engine::Stack::instance();
  if (!stack) return stack.error();
  // Never freed: the application keeps pointers, also in its exit handlers. No lock, nor a static that is
  // made on first use: a child whose parent was making the list as it forked would wait for ever.
  static std::atomic<const Devices*> made{nullptr};
  // Acquire, here and below: pairs with the exchange of the thread that made it.
  const Devices* devices = made.load(std::memory_order_acquire);
  if (devices != nullptr) return devices;
  auto mine = std::make_unique<Devices>();
  const size_t count = stack.value()->configuration().devices.size();
  for (size_t i = 0; i < count; ++i) mine->push_back(make_device(*stack.value(), i));
  if (made.compare_exchange_strong(devices, mine.get(), std::memory_order_acq_rel, std::memory_order_acquire))
    devices = mine.release();
  return devices;
}

bool ours(const ibv_device& device) {
  const auto devices = configured_devices();
  if (!devices) return false;
  return std::ranges::any_of(**devices, [&](const auto& one) { return &one->face == &device; });
}

}  // namespace uroce::verbs

using namespace uroce::verbs;

extern "C" {

UROCE_EXPORT ibv_device** uroce_ibv_get_device_list(int* count) {
  return pointer_or_errno([&]() -> ibv_device** {
    if (count != nullptr) *count = 0;
    // A driver that EAL is loading asks: there is nothing here for it.
    if (uroce::engine::Stack::starting_on_this_thread()) {
      return static_cast<ibv_device**>(std::calloc(1, sizeof(ibv_device*)));
    }
    const auto devices = configured_devices();
    if (!devices) {
      complain(devices.error().message);
      return fail(devices.error().code);
    }
    const auto& all = **devices;
    auto** list = static_cast<ibv_device**>(std::calloc(all.size() + 1, sizeof(ibv_device*)));
    if (list == nullptr) return fail(ENOMEM);
    for (size_t i = 0; i < all.size(); ++i) list[i] = &all[i]->face;
    if (count != nullptr) *count = static_cast<int>(all.size());
    return list;
  });
}

UROCE_EXPORT void uroce_ibv_free_device_list(ibv_device** list) { std::free(list); }

UROCE_EXPORT const char* uroce_ibv_get_device_name(ibv_device* device) {
  if (!all_given(device)) return fail(EINVAL);
  return device->name;
}

UROCE_EXPORT int uroce_ibv_get_device_index(ibv_device* device) {
  if (!all_given(device)) return minus_one(EINVAL);
  return static_cast<int>(object(device).index);
}

/// 0 while neither the configuration nor the kernel says the MAC and the device was not opened: listing
/// starts nothing.
UROCE_EXPORT __be64 uroce_ibv_get_device_guid(ibv_device* device) {
  if (!all_given(device)) {
    errno = EINVAL;
    return 0;
  }
  return htobe64(object(device).guid);
}

UROCE_EXPORT const char* uroce_ibv_get_sysfs_path() { return "/sys"; }

UROCE_EXPORT int uroce_ibv_fork_init() { return 0; }

/// Nothing is pinned and all copies go through virtual addresses of the process that registered them, so a
/// fork does not take registered memory away from it.
UROCE_EXPORT ibv_fork_status uroce_ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }

}  // extern "C"
