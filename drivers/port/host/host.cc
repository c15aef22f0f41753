#include "drivers/port/host/host.h"

#include <net/if.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <optional>
#include <thread>

#include "base/values/printable.h"
#include "drivers/port/host/attachment.h"
#include "drivers/port/host/host_queue.h"
#include "drivers/port/host/service_start.h"
#include "drivers/port/host/socket_path.h"

namespace uroce::drivers {
namespace {

constexpr std::string_view kPrefix = "host";
constexpr uint32_t kLinkHeaderBytes = 14 + 4;  // with a VLAN tag
/// Queue pairs at once. There are eight times as many numbers, because numbers rest after use.
constexpr uint32_t kQueuePairsDefault = 8192;
constexpr uint32_t kNumbersPerQueuePair = 8;
constexpr uint32_t kQueuePairsMax = 1u << 17;

struct Arguments {
  std::optional<std::string> socket;
  std::string device = "uroce0";
  bool icrc_on_host = false;
  uint32_t queue_pairs = kQueuePairsDefault;
};

bool store(std::string_view name, std::string_view value, Arguments& to) {
  if (name == "socket") {
    to.socket = value;
  } else if (name == "device") {
    to.device = value;
  } else if (name == "icrc" && (value == "full" || value == "uplink")) {
    to.icrc_on_host = value == "full";
  } else if (name == "queue_pairs") {
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), to.queue_pairs);
    return error == std::errc{} && end == value.data() + value.size() && to.queue_pairs > 0 &&
           to.queue_pairs <= kQueuePairsMax;
  } else {
    return false;
  }
  return !value.empty();
}

Result<Arguments> parse_arguments(std::string_view devargs) {
  Arguments arguments;
  std::string_view rest = devargs.substr(kPrefix.size());
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view option = rest.substr(0, rest.find(','));
    rest.remove_prefix(option.size());
    const size_t equals = option.find('=');
    const bool known = equals != std::string_view::npos &&
                       store(option.substr(0, equals), option.substr(equals + 1), arguments);
    if (!known) {
      return Error{EINVAL, std::string(devargs) + ": '" + std::string(option) +
                               "' is none of socket=PATH, device=NAME, icrc=full|uplink, queue_pairs=1.." +
                               std::to_string(kQueuePairsMax)};
    }
  }
  return arguments;
}

bool is_absent(const Error& error) { return error.code == ENOENT || error.code == ECONNREFUSED; }
/// The service ended before it had answered: one that was not in use for a while, or that is replaced.
bool has_gone(const Error& error) {
  return error.code == ENOTCONN || error.code == ECONNRESET || error.code == EPIPE;
}

/// Runs `use(path)` with the service's socket, and once more when there was no service or it ended just then.
template <typename Use>
auto with_named_service(const std::string& path, Use use) -> decltype(use(path)) {
  auto result = use(path);
  if (!result && has_gone(result.error())) result = use(path);
  if (result || !is_absent(result.error())) return result;
  return Error{result.error().code,
               result.error().message + ": no host service is there; start one with uroce serve --socket"};
}

/// Runs `use(path)` with the service's socket, and once more when the service had to be started. When several
/// processes do so at once, one of them becomes the service, and the others wait for it.
template <typename Use>
auto with_own_service(const std::string& path, Use use) -> decltype(use(path)) {
  constexpr int kOthersMs = 10'000;
  constexpr auto kPause = std::chrono::milliseconds(20);
  const Deadline deadline = deadline_in(kOthersMs);
  bool started = false;
  for (;;) {
    auto result = use(path);
    // One that is replaced is there again, or is started by others.
    if (!result && has_gone(result.error())) result = use(path);
    const bool none = !result && (is_absent(result.error()) || has_gone(result.error()));
    if (!none || started) return result;
    const Status status = start_service(path);
    started = status.ok();
    if (started) continue;
    if (status.error().code != EADDRINUSE || std::chrono::steady_clock::now() > deadline) {
      return Error{status.error().code, "the host service at " + path + " cannot be started: " +
                                            status.error().message + "; try: uroce serve"};
    }
    std::this_thread::sleep_for(kPause);
  }
}

/// A service that is busy (many programs of the user begin at once) is asked again for a while.
template <typename Use>
auto with_service(const Arguments& arguments, Use use) -> decltype(use(std::string())) {
  constexpr int kBusyMs = 2'000;
  constexpr auto kPause = std::chrono::milliseconds(20);
  const Deadline deadline = deadline_in(kBusyMs);
  for (;;) {
    auto result = arguments.socket ? with_named_service(*arguments.socket, use)
                                   : with_own_service(service_socket_path(), use);
    if (result || result.error().code != EAGAIN || std::chrono::steady_clock::now() > deadline) return result;
    std::this_thread::sleep_for(kPause);
  }
}

class HostPort final : public port::Port {
 public:
  HostPort(const port::Specification& specification, const Arguments& arguments,
           std::unique_ptr<Attachment> attachment);
  ~HostPort() override { attachment_->stop(); }
  Status begin() { return attachment_->begin(queue_.memory()); }

  [[nodiscard]] const port::Capabilities& capabilities() const override { return capabilities_; }
  port::PortQueue& queue(uint16_t) override { return queue_; }
  [[nodiscard]] bool link_up() const override { return attachment_->link_up(); }
  [[nodiscard]] bool link_changes() const override { return true; }
  [[nodiscard]] bool gone() const override { return attachment_->gone(); }
  [[nodiscard]] host::SharedDevice* shared_device() override { return attachment_.get(); }
  [[nodiscard]] std::atomic<uint32_t>* bell() override { return &queue_.memory().bell().word; }

 private:
  // Its thread ends before the queue does, but the memory stays until then.
  struct EndOfThread {
    Attachment& attachment;
    ~EndOfThread() { attachment.end(); }
  };

  const std::unique_ptr<Attachment> attachment_;
  HostQueue queue_;
  const EndOfThread end_{*attachment_};
  port::Capabilities capabilities_;
};

HostPort::HostPort(const port::Specification& specification, const Arguments& arguments,
                   std::unique_ptr<Attachment> attachment)
    : attachment_(std::move(attachment)),
      queue_({.memory = attachment_->memory(), .icrc_on_host = arguments.icrc_on_host},
             attachment_->exchange()) {
  capabilities_.description =
      specification.devargs + ", shared by the programs of " + attachment_->socket() +
      " (ICRC of frames within this host: " + (arguments.icrc_on_host ? "computed" : "none") + ")";
  capabilities_.mac = attachment_->mac();
  capabilities_.link_mtu = std::min(attachment_->link_mtu(), host::kFrameBytes - kLinkHeaderBytes);
  capabilities_.link_mtu_reason = attachment_->link_mtu() > capabilities_.link_mtu
                                      ? "the frames of the host's memory"
                                      : "the service's uplink";
  capabilities_.frame_bytes_max = capabilities_.link_mtu + kLinkHeaderBytes;
}

}  // namespace

bool is_host(std::string_view devargs) { return devargs.substr(0, devargs.find(',')) == kPrefix; }

Result<std::unique_ptr<port::Port>> open_host(const port::Specification& specification) {
  const Result<Arguments> arguments = parse_arguments(specification.devargs);
  if (!arguments) return arguments.error();
  if (specification.queues != 1)
    return Error{ENOTSUP, "host: a device of the host service has one queue, so poller.per_device is 1"};
  auto attachment = with_service(*arguments, [&](const std::string& path) {
    return Attachment::open({.socket = path,
                             .device = arguments->device,
                             .numbers = arguments->queue_pairs * kNumbersPerQueuePair});
  });
  if (!attachment) return attachment.error();
  auto port = std::make_unique<HostPort>(specification, *arguments, std::move(*attachment));
  if (Status begun = port->begin(); !begun) return begun.error();
  return std::unique_ptr<port::Port>(std::move(port));
}

Result<std::vector<ServiceDevice>> devices_of_service(std::string_view devargs) {
  const Result<Arguments> arguments = parse_arguments(devargs);
  if (!arguments) return arguments.error();
  const auto listed = with_service(*arguments, list_devices);
  if (!listed) return listed.error();
  std::vector<ServiceDevice> devices;
  for (const ListedDevice& one : *listed) {
    std::array<char, IF_NAMESIZE> interface {};
    if_indextoname(interface_here(one.device), interface.data());
    devices.push_back({.name = printable(one.device.name),
                       .mac = one.device.mac,
                       .interface = interface.data(),
                       .addresses = one.addresses});
  }
  return devices;
}

}  // namespace uroce::drivers
