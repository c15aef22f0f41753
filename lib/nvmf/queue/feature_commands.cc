// Get Features and Set Features.
#include <algorithm>

#include "nvmf/format/data_area.h"
#include "nvmf/queue/admin_commands.h"
#include "nvmf/queue/queue_state.h"
#include "nvmf/subsystem/subsystem.h"

namespace uroce::nvmf {

namespace {

constexpr uint16_t kFeatureAt = 40, kSelectAt = 41, kValueAt = 44;

enum class Select : uint8_t { kCurrent = 0, kDefault = 1, kSaved = 2, kSupported = 3 };

Feature feature_of(const Request& request) { return static_cast<Feature>(request.command.dword10); }
Select select_of(const Request& request) { return static_cast<Select>(request.command.dword10 >> 8 & 7); }

/// What the host may do with a feature; nullopt: there is none such.
struct Rights {
  bool changeable = false;
  bool discovery = false;  // discovery controllers have it, too
};
std::optional<Rights> rights(Feature feature) {
  switch (feature) {
    case Feature::kArbitration:
    case Feature::kPowerManagement:
    case Feature::kTemperatureThreshold:
    case Feature::kErrorRecovery:
    case Feature::kVolatileWriteCache:
    case Feature::kNumberOfQueues:
    case Feature::kWriteAtomicity:
      return Rights{.changeable = true};
    case Feature::kAsyncEventConfiguration:
    case Feature::kKeepAliveTimer:
      return Rights{.changeable = true, .discovery = true};
    case Feature::kHostIdentifier:
      return Rights{.changeable = false};
  }
  return std::nullopt;
}

CommandStatus check_feature(const QueueState& queue, Request& request) {
  const auto found = rights(feature_of(request));
  if (!found || (queue.controller->subsystem().is_discovery() && !found->discovery))
    return invalid_field(request, kFeatureAt);
  return {};
}

/// SMART warnings, which never come, may be asked for, too.
uint32_t event_mask(const Controller& controller) {
  constexpr uint32_t kSmartWarnings = 0x1F;
  if (controller.subsystem().is_discovery()) return notice_bit(Notice::kDiscoveryChange);
  return kSmartWarnings | notice_bit(Notice::kNamespaceAttribute) | notice_bit(Notice::kAnaChange);
}

constexpr uint32_t queue_numbers(uint16_t count) { return (count - 1u) | (count - 1u) << 16; }

struct Threshold {
  uint16_t kelvin;
  uint8_t sensor;
  uint8_t under;  // 0 over, 1 under
  explicit Threshold(uint32_t dword11)
      : kelvin(static_cast<uint16_t>(dword11)),
        sensor(static_cast<uint8_t>(dword11 >> 16 & 0xF)),
        under(static_cast<uint8_t>(dword11 >> 20 & 3)) {}
};

/// There is the composite temperature only, and no sensor.
CommandStatus check_threshold(Request& request, const Threshold& threshold) {
  constexpr uint8_t kAllSensors = 0xF;
  const bool all = feature_of(request) == Feature::kTemperatureThreshold && threshold.sensor == kAllSensors;
  if ((threshold.sensor == 0 || all) && threshold.under <= 1) return {};
  return invalid_field(request, kValueAt + 2);
}

uint32_t default_value(Controller& controller, Feature feature, uint32_t dword11) {
  switch (feature) {
    case Feature::kVolatileWriteCache:
      return 1;
    case Feature::kNumberOfQueues:
      return queue_numbers(controller.subsystem().io_queues_max());
    case Feature::kTemperatureThreshold:
      return Threshold(dword11).under != 0 ? Features::kNoUnderThreshold : Features::kNoOverThreshold;
    case Feature::kKeepAliveTimer:
      return controller.identity().keep_alive_ms;
    case Feature::kAsyncEventConfiguration:
    case Feature::kHostIdentifier:
      return 0;
    default:
      return Features::kept(feature)->initial;
  }
}

uint32_t current_value(Controller& controller, Feature feature, uint32_t dword11) {
  switch (feature) {
    case Feature::kVolatileWriteCache:
      return controller.writes_through() ? 0 : 1;
    case Feature::kNumberOfQueues:
      return queue_numbers(controller.granted_io_queues());
    case Feature::kTemperatureThreshold:
      return controller.features().temperature_thresholds[Threshold(dword11).under];
    case Feature::kKeepAliveTimer:
      return controller.features().keep_alive_ms;
    case Feature::kAsyncEventConfiguration:
      return controller.events().configuration();
    case Feature::kHostIdentifier:
      return 0;
    default:
      return controller.features().value(feature);
  }
}

CommandStatus set_number_of_queues(Controller& controller, Request& request) {
  const uint32_t asked = request.command.dword11;
  const uint32_t submission = asked & 0xFFFF, completion = asked >> 16;
  if (submission == 0xFFFF || completion == 0xFFFF) return invalid_field(request, kValueAt);
  // In a fabric they come in pairs.
  if (!controller.grant_io_queues(static_cast<uint16_t>(std::min(submission, completion) + 1)))
    return refused(StatusCode::kCommandSequenceError);
  request.completion.result = queue_numbers(controller.granted_io_queues());
  return {};
}

CommandStatus set_value(QueueState& queue, Request& request) {
  Controller& controller = *queue.controller;
  const uint32_t value = request.command.dword11;
  switch (const Feature feature = feature_of(request)) {
    case Feature::kVolatileWriteCache:
      if (value > 1) return invalid_field(request, kValueAt);
      controller.set_writes_through(value == 0);
      return {};
    case Feature::kNumberOfQueues:
      return set_number_of_queues(controller, request);
    case Feature::kTemperatureThreshold: {
      const Threshold threshold(value);
      if (const CommandStatus status = check_threshold(request, threshold); !status.ok()) return status;
      controller.features().temperature_thresholds[threshold.under] = threshold.kelvin;
      return {};
    }
    case Feature::kKeepAliveTimer:
      controller.set_keep_alive(value, queue.now);
      return {};
    case Feature::kAsyncEventConfiguration:
      if ((value & ~event_mask(controller)) != 0) return invalid_field(request, kValueAt);
      controller.events().configure(value);
      return {};
    case Feature::kHostIdentifier:
      return refused(StatusCode::kCommandSequenceError);  // Connect has set it
    default:
      if ((value & ~Features::kept(feature)->changeable) != 0) return invalid_field(request, kValueAt);
      controller.features().set(feature, value);
      return {};
  }
}

}  // namespace

CommandStatus check_get_features(QueueState& queue, Request& request) {
  if (const CommandStatus status = check_feature(queue, request); !status.ok()) return status;
  const Select select = select_of(request);
  if (select > Select::kSupported) return invalid_field(request, kSelectAt);
  const bool has_value = feature_of(request) == Feature::kHostIdentifier && select != Select::kSupported;
  if (!has_value) {
    request.direction = Direction::kNone;
    return {};
  }
  constexpr uint32_t kExtended = 1;
  if ((request.command.dword11 & kExtended) == 0) return invalid_field(request, kValueAt);
  request.data_bytes = sizeof(HostId);
  return {};
}

std::optional<CommandStatus> get_features(QueueState& queue, Request& request) {
  Controller& controller = *queue.controller;
  const Feature feature = feature_of(request);
  const uint32_t dword11 = request.command.dword11;
  if (feature == Feature::kTemperatureThreshold) {
    if (const CommandStatus status = check_threshold(request, Threshold(dword11)); !status.ok())
      return status;
  }
  switch (select_of(request)) {
    case Select::kSupported: {
      constexpr uint32_t kChangeable = 1u << 2;
      request.completion.result = rights(feature)->changeable ? kChangeable : 0;
      return CommandStatus{};
    }
    case Select::kDefault:
    case Select::kSaved:  // nothing is saveable: then the default is told
      request.completion.result = default_value(controller, feature, dword11);
      break;
    case Select::kCurrent:
      request.completion.result = current_value(controller, feature, dword11);
      break;
  }
  if (feature == Feature::kHostIdentifier) PageWriter(request.data).append(controller.identity().host_id);
  return CommandStatus{};
}

std::optional<CommandStatus> set_features(QueueState& queue, Request& request) {
  constexpr uint32_t kSave = 1u << 31;
  if (const CommandStatus status = check_feature(queue, request); !status.ok()) return status;
  if ((request.command.dword10 & kSave) != 0) return refused(StatusCode::kFeatureNotSaveable);
  const uint32_t nsid = request.command.nsid;
  if (nsid != 0 && nsid != kAllNamespaces) return refused(StatusCode::kFeatureNotNamespaceSpecific);
  return set_value(queue, request);
}

}  // namespace uroce::nvmf
