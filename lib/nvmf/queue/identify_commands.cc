// Identify.
//
// Decision: the target always reports a volatile write cache. Hosts read it once, and a namespace with a
// cache may come later.
#include <algorithm>
#include <bit>
#include <cstring>

#include "nvmf/format/data_area.h"
#include "nvmf/format/identify.h"
#include "nvmf/format/names.h"
#include "nvmf/queue/admin_commands.h"
#include "nvmf/queue/queue_state.h"
#include "nvmf/subsystem/subsystem.h"

namespace uroce::nvmf {

namespace {

constexpr uint16_t kCodeAt = 40;

IdentifyCode code_of(const Request& request) { return static_cast<IdentifyCode>(request.command.dword10); }

/// What controllers of both kinds have.
IdentifyController controller_page(const Controller& controller) {
  constexpr uint32_t kPageBytes = 4096;
  constexpr uint8_t kExtendedLogPages = 1u << 2;
  constexpr uint32_t kHostIdOf16Bytes = 1;
  const Subsystem& subsystem = controller.subsystem();
  const TransportCapabilities& transport = controller.identity().transport;
  IdentifyController page{};
  put_padded(page.serial, subsystem.serial());
  put_padded(page.model, subsystem.model());
  put_padded(page.firmware, subsystem.firmware());
  page.mdts = static_cast<uint8_t>(std::bit_width(transport.data_bytes_max / kPageBytes) - 1);
  page.controller_id = controller.identity().id;
  page.version = Registers::kVersion;
  page.ctratt = kHostIdOf16Bytes;
  page.abort_limit = Controller::kAbortsMax - 1;
  page.async_event_limit = Controller::kAsyncEventsMax - 1;
  page.log_page_attributes = kExtendedLogPages;
  page.error_log_entries = ErrorLog::kEntries - 1;
  page.keep_alive_granularity = Controller::kKeepAliveGranularity;
  page.commands_max = static_cast<uint16_t>(std::min<uint32_t>(transport.io_entries_max, UINT16_MAX));
  page.sgls = transport.sgls;
  put_terminated(page.nqn, subsystem.nqn());
  page.command_capsule_16_bytes = static_cast<uint32_t>((sizeof(Command) + transport.in_capsule_bytes) / 16);
  page.response_capsule_16_bytes = sizeof(Completion) / 16;
  page.sgl_descriptors_max = transport.data_descriptors_max;
  return page;
}

IdentifyController discovery_controller_page(const Controller& controller) {
  constexpr uint8_t kDiscoveryController = 2;
  IdentifyController page = controller_page(controller);
  page.controller_type = kDiscoveryController;
  page.oaes = notice_bit(Notice::kDiscoveryChange);
  return page;
}

IdentifyController io_controller_page(const Controller& controller) {
  constexpr uint8_t kPorts = 1, kControllers = 1u << 1, kAna = 1u << 3;
  constexpr uint8_t kIoController = 1;
  constexpr uint8_t kOneFirmwareSlotReadOnly = 1 | 1u << 1;
  constexpr uint8_t kCommandEffects = 1u << 1;
  constexpr uint8_t kAllAnaStates = 0x1F, kAnaGroupStays = 1u << 6;
  constexpr uint16_t kCompare = 1, kDatasetManagement = 1u << 2, kWriteZeroes = 1u << 3, kSelect = 1u << 4,
                     kVerify = 1u << 7;
  // Whether a cache is there depends on the namespace, and hosts ask once: those without one flush nothing.
  constexpr uint8_t kCachePresent = 1, kFlushesAll = 3u << 1;
  IdentifyController page = controller_page(controller);
  page.controller_type = kIoController;
  page.cmic = kPorts | kControllers | kAna;
  page.oaes = notice_bit(Notice::kNamespaceAttribute) | notice_bit(Notice::kAnaChange);
  page.firmware_updates = kOneFirmwareSlotReadOnly;
  page.log_page_attributes |= kCommandEffects;
  page.ana_transition_s = 10;
  page.ana_capabilities = kAllAnaStates | kAnaGroupStays;
  page.ana_group_max = kAnaGroupMax;
  page.ana_groups = kAnaGroupMax;
  page.sq_entry_size = 6 | 6u << 4;
  page.cq_entry_size = 4 | 4u << 4;
  page.namespaces = kNsidMax;
  page.namespaces_max = kNsidMax;
  page.oncs = kCompare | kDatasetManagement | kWriteZeroes | kSelect | kVerify;
  page.fuses = 1;
  page.volatile_write_cache = kCachePresent | kFlushesAll;
  page.optional_fabrics_commands = 1;  // Disconnect
  return page;
}

IdentifyNamespace namespace_page(const Namespace& subject) {
  constexpr uint8_t kShared = 1, kWriteZeroesDeallocates = 1u << 3, kWriteProtected = 1;
  const block::Properties& properties = subject.properties();
  IdentifyNamespace page{};
  page.size = page.capacity = page.utilization = properties.blocks;
  page.sharing = kShared;
  page.deallocate_features = kWriteZeroesDeallocates;  // what deallocated blocks read as is not promised
  page.ana_group = subject.options().ana_group;
  page.attributes = subject.read_only() ? kWriteProtected : 0;
  std::ranges::copy(subject.options().nguid, page.nguid);
  std::ranges::copy(subject.options().eui64, page.eui64);
  page.lba_formats[0].data_bytes_log2 = static_cast<uint8_t>(std::countr_zero(properties.block_bytes));
  return page;
}

void append_name(PageWriter& page, NamespaceName type, std::span<const uint8_t> name) {
  if (std::ranges::all_of(name, [](uint8_t byte) { return byte == 0; })) return;
  page.append(NamespaceDescriptor{static_cast<uint8_t>(type), static_cast<uint8_t>(name.size()), 0});
  page.append(name.data(), name.size());
}

CommandStatus identify_namespace(Subsystem& subsystem, Request& request) {
  const uint32_t nsid = request.command.nsid;
  if (nsid == 0 || nsid > kNsidMax) return invalid_field(request, kNsidAt, 0, StatusCode::kInvalidNamespace);
  PageWriter page(request.data);  // an NSID that is not attached has zeroes
  if (const auto subject = subsystem.find(nsid)) page.append(namespace_page(*subject));
  return {};
}

CommandStatus identify_descriptors(Subsystem& subsystem, Request& request) {
  const auto subject = subsystem.find(request.command.nsid);
  if (subject == nullptr) return invalid_field(request, kNsidAt, 0, StatusCode::kInvalidNamespace);
  PageWriter page(request.data);
  append_name(page, NamespaceName::kUuid, subject->options().uuid);
  append_name(page, NamespaceName::kNguid, subject->options().nguid);
  append_name(page, NamespaceName::kEui64, subject->options().eui64);
  return {};
}

CommandStatus list_active(Subsystem& subsystem, Request& request) {
  constexpr uint32_t kListMax = kIdentifyBytes / sizeof(uint32_t);
  const uint32_t after = request.command.nsid;
  if (after >= kAllNamespaces - 1) return invalid_field(request, kNsidAt, 0, StatusCode::kInvalidNamespace);
  PageWriter page(request.data);
  uint32_t listed = 0;
  for (const auto& subject : subsystem.namespaces()) {
    if (subject->nsid() <= after || listed == kListMax) continue;
    page.append(subject->nsid());
    ++listed;
  }
  return {};
}

}  // namespace

CommandStatus check_identify(QueueState& queue, Request& request) {
  request.data_bytes = kIdentifyBytes;
  const IdentifyCode code = code_of(request);
  if (code == IdentifyCode::kController) return {};
  const bool known = code == IdentifyCode::kNamespace || code == IdentifyCode::kActiveNamespaces ||
                     code == IdentifyCode::kNamespaceDescriptors;
  if (!known || queue.controller->subsystem().is_discovery()) return invalid_field(request, kCodeAt);
  return {};
}

std::optional<CommandStatus> identify(QueueState& queue, Request& request) {
  const Controller& controller = *queue.controller;
  Subsystem& subsystem = controller.subsystem();
  switch (code_of(request)) {
    case IdentifyCode::kNamespace:
      return identify_namespace(subsystem, request);
    case IdentifyCode::kController:
      PageWriter(request.data)
          .append(subsystem.is_discovery() ? discovery_controller_page(controller)
                                           : io_controller_page(controller));
      return CommandStatus{};
    case IdentifyCode::kActiveNamespaces:
      return list_active(subsystem, request);
    case IdentifyCode::kNamespaceDescriptors:
      return identify_descriptors(subsystem, request);
  }
  return refused(StatusCode::kInvalidField);
}

}  // namespace uroce::nvmf
