#include "apps/mem/exports.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "client/failure.h"

namespace uroce::memory_export {

Result<Exports> Exports::open(const std::vector<RegionConfiguration>& configuration) {
  Exports exports;
  exports.files_.reserve(configuration.size());
  std::vector<Entry> entries;
  exports.regions_.push_back({});
  for (const RegionConfiguration& one : configuration) {
    auto file = BackingFile::open(one);
    if (!file) return file.error();
    const BackingFile& kept = exports.files_.emplace_back(std::move(*file));
    exports.regions_.push_back({one.name, one.writable, kept.bytes(), &kept});
    entries.push_back({one.name, kept.bytes().size(), one.writable});
  }
  std::ranges::sort(entries, {}, &Entry::name);
  for (const Entry& entry : entries) exports.directory_.push_back(encode(entry));
  exports.regions_.front().bytes = std::as_writable_bytes(std::span(exports.directory_));
  return exports;
}

std::optional<size_t> Exports::find(std::string_view name) const {
  const auto at = std::ranges::find(regions_, name, &Region::name);
  if (at == regions_.end()) return std::nullopt;
  return static_cast<size_t>(at - regions_.begin());
}

DeviceRegions::DeviceRegions(ibv_context& device, const Exports& exports, std::span<std::byte> messages,
                             int completions_max)
    : device_(device) {
  const char* const name = ibv_get_device_name(device.device);
  const auto failed = [&](std::string_view what) {
    return client::failed(fmt::format("device {}: {}", name, what), errno);
  };
  ibv_device_attr limits{};
  if (const int error = ibv_query_device(&device, &limits); error != 0) {
    errno = error;
    throw failed("ibv_query_device");
  }
  reads_max_ = static_cast<uint8_t>(std::clamp(limits.max_qp_rd_atom, 0, UINT8_MAX));
  channel_.reset(ibv_create_comp_channel(&device));
  if (channel_ == nullptr) throw failed("ibv_create_comp_channel");
  fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  completions_.reset(ibv_create_cq(&device, completions_max, nullptr, channel_.get(), 0));
  if (completions_ == nullptr) throw failed("ibv_create_cq");
  if (ibv_req_notify_cq(completions_.get(), 0) != 0) throw failed("ibv_req_notify_cq");
  for (const Region& region : exports.regions()) {
    Registered& one = regions_.emplace_back();
    one.domain.reset(ibv_alloc_pd(&device));
    if (one.domain == nullptr) throw failed("ibv_alloc_pd");
    const int access = region.writable
                           ? int{IBV_ACCESS_LOCAL_WRITE} | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
                           : int{IBV_ACCESS_REMOTE_READ};
    one.memory.reset(ibv_reg_mr(one.domain.get(), region.bytes.data(), region.bytes.size(), access));
    if (one.memory == nullptr)
      throw failed(
          fmt::format("region \"{}\": {} bytes cannot be registered", region.name, region.bytes.size()));
    one.messages.reset(
        ibv_reg_mr(one.domain.get(), messages.data(), messages.size(), int{IBV_ACCESS_LOCAL_WRITE}));
    if (one.messages == nullptr) throw failed("memory for messages cannot be registered");
  }
}

void DeviceRegions::rearm() {
  ibv_cq* which = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(channel_.get(), &which, &context) == 0) ibv_ack_cq_events(which, 1);
  ibv_req_notify_cq(completions_.get(), 0);
}

}  // namespace uroce::memory_export
