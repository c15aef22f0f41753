// Get Log Page.
#include <array>
#include <cstring>

#include "nvmf/format/data_area.h"
#include "nvmf/format/log_page.h"
#include "nvmf/format/names.h"
#include "nvmf/queue/admin_commands.h"
#include "nvmf/queue/command_table.h"
#include "nvmf/queue/queue_state.h"
#include "nvmf/subsystem/subsystem.h"

namespace uroce::nvmf {

namespace {

constexpr uint16_t kPageAt = 40, kDwordsAt = 42, kLogOffsetAt = 48;

/// The fields of Get Log Page.
struct Asked {
  LogPage page;
  uint8_t specific;
  bool retain_event;
  uint64_t bytes;
  uint64_t offset;

  explicit Asked(const Command& command)
      : page(static_cast<LogPage>(command.dword10)),
        specific(static_cast<uint8_t>(command.dword10 >> 8 & 0xF)),
        retain_event((command.dword10 & 1u << 15) != 0),
        bytes((uint64_t{command.dword10 >> 16 | (command.dword11 & 0xFFFF) << 16} + 1) * 4),
        offset(command.dword12 | uint64_t{command.dword13} << 32) {}
};

void write_errors(QueueState& queue, PageWriter& page) { page.append(queue.controller->errors().entries()); }

Uint128 data_units(uint64_t units_of_512) { return {(units_of_512 + 999) / 1000, 0}; }

void write_smart(QueueState& queue, PageWriter& page) {
  Subsystem& subsystem = queue.controller->subsystem();
  const IoTotals totals = subsystem.totals();
  const auto total = [&totals](IoCounter counter) { return totals[static_cast<size_t>(counter)]; };
  SmartLog log{};
  log.spare_percent = 100;
  log.data_units_read = data_units(total(IoCounter::kReadUnits));
  log.data_units_written = data_units(total(IoCounter::kWrittenUnits));
  log.host_reads.low = total(IoCounter::kReads);
  log.host_writes.low = total(IoCounter::kWrites);
  log.power_on_hours.low = static_cast<uint64_t>(subsystem.age(queue.now).ns / seconds(3600).ns);
  log.media_errors.low = total(IoCounter::kMediaErrors);
  log.error_log_entries.low = queue.controller->errors().count();
  page.append(log);
}

void write_firmware(QueueState& queue, PageWriter& page) {
  FirmwareSlotLog log{};
  log.active = 1;
  put_padded(log.revisions[0], queue.controller->subsystem().firmware());
  page.append(log);
}

void write_changed_namespaces(QueueState& queue, const Asked& asked, PageWriter& page) {
  const auto changed = queue.controller->events().changed_namespaces(asked.retain_event);
  std::array<uint32_t, kChangedNamespacesMax> list{};
  static_assert(kNsidMax <= kChangedNamespacesMax);
  size_t listed = 0;
  for (uint32_t nsid = 1; nsid <= kNsidMax; ++nsid)
    if (changed.test(nsid)) list[listed++] = nsid;
  page.append(list);
}

void write_effects(PageWriter& page) {
  CommandEffectsLog log{};
  for (const CommandRow& row : admin_commands()) log.admin[row.code] = row.effects;
  for (const CommandRow& row : io_commands()) log.io[row.code] = row.effects;
  page.append(log);
}

void write_ana(QueueState& queue, const Asked& asked, PageWriter& page) {
  constexpr uint8_t kGroupsOnly = 1;
  const bool groups_only = (asked.specific & kGroupsOnly) != 0;
  const Subsystem::AnaReport report = queue.controller->subsystem().ana();
  page.append(
      AnaLogHeader{.change_count = report.changes, .groups = static_cast<uint16_t>(report.groups.size())});
  for (const Subsystem::AnaGroup& group : report.groups) {
    page.append(AnaGroupDescriptor{.group = group.group,
                                   .namespaces = groups_only ? 0 : static_cast<uint32_t>(group.nsids.size()),
                                   .change_count = group.changes,
                                   .state = static_cast<uint8_t>(group.state)});
    if (!groups_only) page.append(group.nsids.data(), group.nsids.size() * sizeof(uint32_t));
  }
}

DiscoveryLogEntry discovery_entry(const Target::Discovery::Entry& of) {
  constexpr uint8_t kNvmSubsystem = 2;
  constexpr uint8_t kFlowControlMayBeDisabled = 1u << 2;
  constexpr uint16_t kAdminEntriesMax = 32;
  DiscoveryLogEntry entry{};
  entry.transport = of.listener.transport;
  entry.address_family = of.listener.address_family;
  entry.subsystem_type = kNvmSubsystem;
  entry.transport_requirements = kFlowControlMayBeDisabled;
  entry.port_id = of.listener.port_id;
  entry.controller_id = kDynamicController;
  entry.admin_entries_max = kAdminEntriesMax;
  put_padded(entry.service, of.listener.service);
  put_terminated(entry.subsystem_nqn, of.nqn);
  put_padded(entry.address, of.listener.address);
  std::memcpy(entry.transport_specific, of.listener.specific.data(), of.listener.specific.size());
  return entry;
}

void write_discovery(QueueState& queue, PageWriter& page) {
  const Target::Discovery found = queue.target.discovery(queue.controller->identity().host_nqn);
  page.append(DiscoveryLogHeader{.generation = found.generation, .records = found.entries.size()});
  for (const auto& entry : found.entries) page.append(discovery_entry(entry));
}

}  // namespace

CommandStatus check_get_log_page(QueueState& queue, Request& request) {
  const Asked asked(request.command);
  const bool discovery = queue.controller->subsystem().is_discovery();
  switch (asked.page) {
    case LogPage::kError:
      break;
    case LogPage::kSmart:
      // Not one for each namespace.
      if (request.command.nsid != 0 && request.command.nsid != kAllNamespaces)
        return invalid_field(request, kNsidAt);
      [[fallthrough]];
    case LogPage::kFirmwareSlot:
    case LogPage::kChangedNamespaces:
    case LogPage::kCommandEffects:
    case LogPage::kAna:
      if (discovery) return invalid_field(request, kPageAt, 0, StatusCode::kInvalidLogPage);
      break;
    case LogPage::kDiscovery:
      if (!discovery) return invalid_field(request, kPageAt, 0, StatusCode::kInvalidLogPage);
      break;
    default:
      return invalid_field(request, kPageAt, 0, StatusCode::kInvalidLogPage);
  }
  if (asked.offset % 4 != 0) return invalid_field(request, kLogOffsetAt);
  if (asked.bytes > queue.controller->identity().transport.data_bytes_max)
    return invalid_field(request, kDwordsAt);
  request.data_bytes = static_cast<uint32_t>(asked.bytes);
  return {};
}

std::optional<CommandStatus> get_log_page(QueueState& queue, Request& request) {
  const Asked asked(request.command);
  // First, so that what happens while the page is written is told again.
  if (!asked.retain_event) queue.controller->events().acknowledge(asked.page);
  PageWriter page(request.data, asked.offset);
  switch (asked.page) {
    case LogPage::kError:
      write_errors(queue, page);
      break;
    case LogPage::kSmart:
      write_smart(queue, page);
      break;
    case LogPage::kFirmwareSlot:
      write_firmware(queue, page);
      break;
    case LogPage::kChangedNamespaces:
      write_changed_namespaces(queue, asked, page);
      break;
    case LogPage::kCommandEffects:
      write_effects(page);
      break;
    case LogPage::kAna:
      write_ana(queue, asked, page);
      break;
    case LogPage::kDiscovery:
      write_discovery(queue, page);
      break;
  }
  if (asked.offset > page.size()) return invalid_field(request, kLogOffsetAt);
  return CommandStatus{};
}

}  // namespace uroce::nvmf
