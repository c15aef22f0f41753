#pragma once

#include <infiniband/verbs.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/values/result.h"
#include "engine/device/device.h"
#include "engine/poller/device_events.h"
#include "engine/poller/gsi.h"
#include "rdmacm/ports.h"

namespace uroce::rdmacm {

struct Event;
struct Request;

/// A device as rdma_cm sees it: opened once and never closed, so that all ids have the same context. Hears
/// of the communication manager's events, in turns of poller 0.
class CmDevice final : public engine::ServicesUser, public engine::DeviceListener {
 public:
  explicit CmDevice(ibv_context& context);

  [[nodiscard]] ibv_context* verbs() const { return &verbs_; }
  [[nodiscard]] engine::Device& device() const { return device_; }
  /// Index of the interface that is the zone of its link-local addresses, as ibv_query_gid_ex says it.
  [[nodiscard]] uint32_t zone() const;
  /// The protection domain of ids whose program brings none. Null and errno.
  ibv_pd* default_domain();
  /// The XRC domain of such ids. Null and errno.
  ibv_xrcd* default_xrc_domain();

  /// Runs the function in a turn, where the agent is; the core's mutex is not held. 0, or ENODEV.
  int manage(const std::function<void(engine::Gsi&, Instant now)>& function);

  /// The process ends with ids that it has not destroyed: as if it had, so that peers hear of it. What the
  /// kernel does when a process closes its descriptors.
  void say_goodbye();

  // Of pollers.
  void on_event(const cm::Event& event) override;
  void on_resolved(uint64_t resolver, int error) override;
  // Of the engine's threads.
  void raised(engine::DeviceEvent event) override;

 private:
  void on_request(const cm::Event& event);
  void on_service_request(const cm::Event& event);
  void on_progress(const cm::Event& event);
  /// The addresses that REQ or SIDR_REQ say, or nothing where they have to and do not; unless the listener is
  /// at a GID, to which none are said.
  bool read_header(const cm::Event& event, std::span<const std::byte> private_data, Request& request);
  bool offer(uint64_t listener, std::unique_ptr<Request> request, std::unique_ptr<Event> event);

  ibv_context& verbs_;
  engine::Device& device_;
  std::mutex defaults_;
  ibv_pd* domain_ = nullptr;  // under the mutex, like the next
  ibv_xrcd* xrc_domain_ = nullptr;
  engine::Gsi* services_ = nullptr;  // of turns; there before anything happens
};

/// There until the process ends.
using OpenDevices = std::span<const std::unique_ptr<CmDevice>>;

/// All devices of the configuration that can be opened, opened on first use, which takes as long as
/// ibv_open_device of each. The error of the last when none can be.
Result<OpenDevices> devices();

/// Turns the pollers of those that are open once, as far as calls turn them; false: none are. Never waits for
/// a thread that is opening them.
bool turn_for_services();

/// The ports that ids are bound to: those of the open devices. Not to be called under the core's mutex. Never
/// opens a device.
Ports& ports();

/// The device that has the address, in the zone unless that is 0; or null.
CmDevice* device_of(const Gid& address, uint32_t zone = 0);
/// The device that is meant by a loopback address before it is known which address of this host is: the only
/// one of the process, if no frame of it leaves the host. Else null.
CmDevice* loopback_device();

struct Source {
  CmDevice* device;
  Gid address;
};
/// Where this host means itself, as 127.0.0.1 or ::1 say: the first device with an address of that family,
/// and the first of these, link-local ones last. Null: there is none.
std::optional<Source> this_host(bool ipv4);
/// From where `destination` is reached, in the zone unless that is 0; of what is ours, that itself. ENODEV:
/// no device is in the zone; ENETUNREACH: no way leads there.
Result<Source> source_to(const Gid& destination, uint32_t zone = 0);

}  // namespace uroce::rdmacm
