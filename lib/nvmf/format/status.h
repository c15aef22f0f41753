#pragma once

#include <cstdint>

namespace uroce::nvmf {

/// How a command ended: status code type (high byte) and status code (NVMe 1.4, figures 126 to 131, and
/// NVMe-oF 1.1, section 2.2.3).
enum class StatusCode : uint16_t {
  kSuccess = 0x0000,
  kInvalidOpcode = 0x0001,
  kInvalidField = 0x0002,
  kDataTransferError = 0x0004,
  kInternalError = 0x0006,
  kAbortRequested = 0x0007,
  kAbortedQueueDeleted = 0x0008,
  kAbortedFailedFused = 0x0009,
  kAbortedMissingFused = 0x000A,
  kInvalidNamespace = 0x000B,
  kCommandSequenceError = 0x000C,
  kInvalidSglSegmentDescriptor = 0x000D,
  kInvalidSglDescriptorCount = 0x000E,
  kDataSglLengthInvalid = 0x000F,
  kSglDescriptorTypeInvalid = 0x0011,
  kSglOffsetInvalid = 0x0016,
  kHostIdentifierFormat = 0x0018,
  kKeepAliveExpired = 0x0019,
  kKeepAliveInvalid = 0x001A,
  kSglDataBlockGranularity = 0x001E,
  kNamespaceWriteProtected = 0x0020,
  kTransientTransportError = 0x0022,
  kLbaOutOfRange = 0x0080,
  kCapacityExceeded = 0x0081,
  kNamespaceNotReady = 0x0082,

  kInvalidQueueIdentifier = 0x0101,
  kAbortLimitExceeded = 0x0103,
  kAsyncEventLimitExceeded = 0x0105,
  kInvalidLogPage = 0x0109,
  kFeatureNotSaveable = 0x010D,
  kFeatureNotChangeable = 0x010E,
  kFeatureNotNamespaceSpecific = 0x010F,
  kConflictingAttributes = 0x0180,      // I/O commands
  kInvalidProtectionInfo = 0x0181,      // I/O commands
  kWriteToReadOnlyRange = 0x0182,       // I/O commands
  kConnectIncompatibleFormat = 0x0180,  // Fabrics commands
  kConnectControllerBusy = 0x0181,
  kConnectInvalidParameters = 0x0182,
  kConnectRestartDiscovery = 0x0183,
  kConnectInvalidHost = 0x0184,
  kDisconnectInvalidQueueType = 0x0185,

  kWriteFault = 0x0280,
  kUnrecoveredReadError = 0x0281,
  kCompareFailure = 0x0285,

  kAnaPersistentLoss = 0x0301,
  kAnaInaccessible = 0x0302,
  kAnaTransition = 0x0303,
};

/// A command's outcome: the code, and whether it is of no use to send the same command again (DNR).
struct CommandStatus {
  StatusCode code = StatusCode::kSuccess;
  bool do_not_retry = false;

  [[nodiscard]] constexpr bool ok() const { return code == StatusCode::kSuccess; }
  /// Bytes 14 and 15 of the completion. Fabrics has no phase tag.
  [[nodiscard]] constexpr uint16_t field() const {
    const auto value = static_cast<uint16_t>(code);
    return static_cast<uint16_t>((value >> 8 & 7) << 9 | (value & 0xFF) << 1 | (do_not_retry ? 0x8000 : 0));
  }
  [[nodiscard]] constexpr bool operator==(const CommandStatus&) const = default;
};

/// The host asked for something that will be as wrong the next time.
constexpr CommandStatus refused(StatusCode code) { return {code, true}; }
/// Something went wrong that may go better the next time.
constexpr CommandStatus failed(StatusCode code) { return {code, false}; }

}  // namespace uroce::nvmf
