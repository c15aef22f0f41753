#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/values/identifiers.h"

// What a program and the service tell each other: datagrams of a Unix socket (SOCK_SEQPACKET), each one
// Message, some with descriptors. README.md has the conversation.
namespace uroce::host {

inline constexpr uint32_t kControlVersion = 7;

enum class MessageType : uint32_t {
  // A program's first message.
  kList = 1,  // `version`. Answers: kDevice for each device, behind it kAddressAdded for each of its
              // addresses; then kDone
  kAttach,  // `version`, `name` (device), `text` (program), `count` (queue pair numbers; `number`: those held
            // before, or 0);
  // descriptors: the program's memory and, with numbers held before, the former service's memory for
  // this program (memory_format.h, Grant). Answer: kAttached, or kDone with an error
  kStatus,       // `version`. Answers: kText for each part of a JSON document, then kDone
  kReload,       // `version`. Reads the configuration again; answer: kDone
  kFaultAdd,     // `version`, `text`: a rule. Answer: kDone, `number`: by which it is ended
  kFaultRemove,  // `version`, `number`; 0: all. Answer: kDone
  kFaultList,    // `version`. Answers: kText for each part of a JSON document, then kDone
  kWhose,  // `version`, `number` (of a queue pair), `address` (of its device). Answer: kOwner, or kDone with
           // an error: ENOENT

  // Answers, with the `request` of what they answer.
  kDone,      // `error`: 0 or an errno, then `text` says what is wrong; `port`: of kBind
  kDevice,    // a device: `name`, `mac`, `mtu`, `text` (its port, for people), `interface`, `network`
  kAttached,  // `number` and `count` (queue pair numbers), `mac`, `mtu`, `up`, `port`: addresses;
              // `interface`, `network`, `flags`;
              // descriptors: the service's
              // memory for this
              // program, and the service's bell. kAddressAdded follows for each address,
              // and then kPrograms
  kText,      // `text`
  kOwner,     // `id`: the program's user; `number` and `count`: its block, but of another user's the number
              // that was asked for

  // Requests of a program.
  kIntroduce,   // to the program that has queue pair `number`; `channel`: of this program, for that one.
                // Answer:
                // kIntroduced, or kDone with an error
  kBind,        // `id`, `space`, `address`, `port`, `flags`. Answer: kDone
  kListen,      // `id`. Answer: kDone
  kRelease,     // `id`. No answer
  kJoin,        // `address`: a group. Answer: kDone
  kLeave,       // likewise
  kSourceTo,    // `address`. Answer: kSource or kDone with an error
  kResolve,     // `address`, `vlan`. kResolved follows some time
  kFound,       // answer to kIntroduction: `request`, `channel`; or `error`
  kConfirm,     // kIntroduced has come: its `request`. No answer
  kFaultTaken,  // answer to kFault: its `number`; or `error`. Descriptor, of an order to capture: the memory

  // Of the service, to a program.
  kSource,           // answer: `address`
  kIntroduced,       // answer: `number` and `count` of the other program, `channel`; descriptor: its memory
  kIntroduction,     // a program asks for a channel: `request`, else as kIntroduced. Answer: kFound
  kGone,             // the program with `number` and `count` has ended
  kResolved,         // `address`, `vlan`, `hop` and `mac`, or `error`: EHOSTUNREACH, ETIMEDOUT
  kForgetNeighbour,  // `hop` and `mac` (zero: has none), or `hop` zero: all
  kAddressAdded,     // `address`, `prefix_bits`, `vlan`
  kAddressRemoved,   // `address`
  kLink,             // `up`, `mtu`
  kPrograms,         // `count`: how many are attached
  kFault,            // packets are to meet a fault: `number`, `text`. Answer: kFaultTaken
  kFaultRemoved,     // `number`
  // To the program whose kFaultAdd begins with `kCaptureOrder`, for as long as it is connected.
  kCaptured,  // a program captures: `number` of the order, `id`: its process, `name` (device), `text`
              // (program);
              // descriptor: its memory (capture/ring.h)
  kLast = kCaptured,
};

/// What a service says that cannot begin because another one has its socket, which may have just begun or be
/// about to end.
inline constexpr std::string_view kAnotherService = "another service listens there";

/// Begins the text of a kFaultAdd or kFault that breaks something at once, instead of a rule.
inline constexpr std::string_view kBreakOrder = "break,";

/// Begins the text of a kFaultAdd or kFault that has frames captured, for as long as the one that ordered it
/// is connected. Message::count: not 0, if it is to wait for programs that there are not yet.
inline constexpr std::string_view kCaptureOrder = "capture,";

/// Bits of Message::flags.
inline constexpr uint32_t kBindReuse = 1;       // the port is shared with others that say so
inline constexpr uint32_t kBindFamilyOnly = 2;  // IPv4's, or IPV6_V6ONLY
inline constexpr uint32_t kBindIpv6 = 4;

/// Bits of Message::flags in kAttached.
inline constexpr uint32_t kWithinHost = 1;  // no frame of the device leaves the host

/// One message. Fields that its type does not name are zero. Both ends are of one machine, so numbers are in
/// its byte order.
struct Message {
  MessageType type = MessageType::kDone;
  uint32_t version = 0;
  uint32_t request = 0;  // the sender's choice; answers repeat it
  int32_t error = 0;
  uint32_t number = 0;  // the first queue pair number of a block
  uint32_t count = 0;   // how many it has
  uint32_t channel = 0;
  uint32_t mtu = 0;  // of the link
  uint32_t flags = 0;
  uint16_t space = 0;  // of ports, as rdma_cm numbers it
  uint16_t port = 0;
  uint16_t vlan = 0;
  uint8_t prefix_bits = 0;
  uint8_t up = 0;
  uint32_t interface = 0;  // index of the kernel's interface that the device goes through; 0: none
  uint64_t network = 0;    // own_network_namespace() of the service, in which that index counts
  uint64_t id = 0;         // of what the program has bound, its choice
  Gid address;
  Gid hop;
  MacAddress mac;
  uint16_t partition_keys_count = 0;  // kAttached; the keys follow in order
  std::array<uint16_t, 16> partition_keys{};
  std::array<char, 64> name{};   // ends with a zero
  std::array<char, 512> text{};  // likewise
};
static_assert(std::is_trivially_copyable_v<Message>);

/// Descriptors that come with a message, at most.
inline constexpr size_t kDescriptorsMax = 2;

/// What a datagram holds, or nothing: it has another length, an unknown type, or a text without an end. What
/// a field says is for its reader to check.
std::optional<Message> parse_message(std::span<const std::byte> datagram);
std::span<const std::byte> bytes_of(const Message& message);

/// Copies as much of `from` as there is room for.
template <size_t N>
void set_text(std::array<char, N>& to, std::string_view from) {
  to = {};
  from.substr(0, N - 1).copy(to.data(), N - 1);
}
template <size_t N>
std::string_view text_of(const std::array<char, N>& from) {
  return from.data();
}

}  // namespace uroce::host
