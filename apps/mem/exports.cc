// A region whose table changes is a new one of the same name, and its connections end: a client learns
// address, length and access when it connects, and nothing tells it later. The directory is the exception; a
// client that reads an old one reads it to its end.
// Each region has a protection domain of its own, so that a connection reaches no other region, even with a
// guessed key.
#include "apps/mem/exports.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace uroce::memory_export {

namespace {

SharedRegion directory_of(std::span<const SharedRegion> regions) {
  std::vector<Entry> entries;
  for (const SharedRegion& region : regions)
    entries.push_back({region->name(), region->bytes().size(), region->writable()});
  std::ranges::sort(entries, {}, &Entry::name);
  const auto directory = std::make_shared<Region>();
  for (const Entry& entry : entries) directory->entries.push_back(encode(entry));
  return directory;
}

}  // namespace

std::span<std::byte> Region::bytes() const {
  if (file) return file->bytes();
  const auto bytes = std::as_bytes(std::span(entries));
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

Result<Exports> Exports::open(const std::vector<RegionConfiguration>& configuration, const Exports& before) {
  Exports exports;
  for (const RegionConfiguration& one : configuration) {
    SharedRegion same = before.find(one.name);
    if (same == nullptr || same->configuration != one) {
      auto file = BackingFile::open(one);
      if (!file) return file.error();
      auto opened = std::make_shared<Region>(one, std::vector<EntryBytes>{}, std::move(*file));
      same = exports.opened_.emplace_back(std::move(opened));
    }
    exports.regions_.push_back(std::move(same));
  }
  SharedRegion directory = directory_of(exports.regions_);
  const SharedRegion old = before.find("");
  if (old != nullptr && old->entries == directory->entries) directory = old;
  exports.regions_.insert(exports.regions_.begin(), std::move(directory));
  return exports;
}

void Exports::keep() {
  for (const auto& region : opened_) region->file->keep();
  opened_.clear();
}

SharedRegion Exports::find(std::string_view name) const {
  const auto at = std::ranges::find(regions_, name, [](const SharedRegion& one) { return one->name(); });
  return at == regions_.end() ? nullptr : *at;
}

DeviceRegions::DeviceRegions(ibv_context& device, std::span<std::byte> messages, int completions_max)
    : device_(device), messages_(messages) {
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
}

client::Failure DeviceRegions::failed(std::string_view what) const {
  return client::failed(fmt::format("device {}: {}", ibv_get_device_name(device_.device), what), errno);
}

DeviceRegions::Registrations DeviceRegions::prepare(const Exports& exports) const {
  Registrations all;
  for (const SharedRegion& region : exports.regions()) {
    SharedRegistration registered = find(*region);
    all.push_back(registered != nullptr ? std::move(registered) : enrol(region));
  }
  return all;
}

SharedRegistration DeviceRegions::find(const Region& region) const {
  const auto at = std::ranges::find(registrations_, &region,
                                    [](const SharedRegistration& one) { return one->region.get(); });
  return at == registrations_.end() ? nullptr : *at;
}

SharedRegistration DeviceRegions::enrol(const SharedRegion& region) const {
  const auto one = std::make_shared<RegisteredRegion>();
  one->region = region;
  one->domain.reset(ibv_alloc_pd(&device_));
  if (one->domain == nullptr) throw failed("ibv_alloc_pd");
  const int access = region->writable()
                         ? int{IBV_ACCESS_LOCAL_WRITE} | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
                         : int{IBV_ACCESS_REMOTE_READ};
  const std::span<std::byte> bytes = region->bytes();
  one->memory.reset(ibv_reg_mr(one->domain.get(), bytes.data(), bytes.size(), access));
  if (one->memory == nullptr)
    throw failed(fmt::format("region \"{}\": {} bytes cannot be registered", region->name(), bytes.size()));
  one->messages.reset(
      ibv_reg_mr(one->domain.get(), messages_.data(), messages_.size(), int{IBV_ACCESS_LOCAL_WRITE}));
  if (one->messages == nullptr) throw failed("memory for messages cannot be registered");
  return one;
}

void DeviceRegions::rearm() {
  ibv_cq* which = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(channel_.get(), &which, &context) == 0) ibv_ack_cq_events(which, 1);
  ibv_req_notify_cq(completions_.get(), 0);
}

}  // namespace uroce::memory_export
