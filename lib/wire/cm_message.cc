#include "wire/cm_message.h"

#include <concepts>
#include <cstring>
#include <type_traits>

#include "wire/big_endian.h"

namespace uroce::wire {
namespace {

constexpr uint8_t kCmClass = 0x07;
constexpr uint8_t kCmClassVersion = 2;
constexpr uint8_t kMethodSend = 0x03;

/// Up to 64 bits that begin `bit` bits after the most significant end of byte `byte`.
struct Place {
  size_t byte;
  unsigned bit;
  unsigned width;
};

// Both work bit by byte: a connection is set up once.
class FieldReader {
 public:
  explicit FieldReader(const std::byte* message) : message_(message) {}

  void operator()(Place place, std::unsigned_integral auto& value) {
    value = static_cast<std::remove_reference_t<decltype(value)>>(bits(place));
  }
  void operator()(Place place, bool& value) { value = bits(place) != 0; }
  template <typename Enum>
    requires std::is_enum_v<Enum>
  void operator()(Place place, Enum& value) {
    value = static_cast<Enum>(bits(place));
  }
  void operator()(Place place, Psn& value) { value = Psn(static_cast<uint32_t>(bits(place))); }
  template <size_t N>
  void bytes(size_t at, std::array<std::byte, N>& value) {
    std::memcpy(value.data(), message_ + at, N);
  }
  void bytes(size_t at, Gid& value) { std::memcpy(value.bytes.data(), message_ + at, value.bytes.size()); }
  /// Eight bits of `value`, `shift` from its least significant end.
  void part(size_t at, uint32_t& value, unsigned shift) {
    value = (value & ~(0xFFu << shift)) | static_cast<uint32_t>(load_u8(message_ + at)) << shift;
  }

 private:
  [[nodiscard]] uint64_t bits(Place place) const {
    uint64_t value = 0;
    for (unsigned i = place.bit; i < place.bit + place.width; ++i) {
      const uint8_t byte = load_u8(message_ + place.byte + i / 8);
      value = value << 1 | (byte >> (7 - i % 8) & 1);
    }
    return value;
  }

  const std::byte* message_;
};

/// Into bytes that are zero.
class FieldWriter {
 public:
  explicit FieldWriter(std::byte* message) : message_(message) {}

  void operator()(Place place, std::unsigned_integral auto value) { bits(place, value); }
  void operator()(Place place, bool value) { bits(place, value ? 1 : 0); }
  template <typename Enum>
    requires std::is_enum_v<Enum>
  void operator()(Place place, Enum value) {
    bits(place, static_cast<uint64_t>(value));
  }
  void operator()(Place place, Psn value) { bits(place, value.value()); }
  template <size_t N>
  void bytes(size_t at, const std::array<std::byte, N>& value) {
    std::memcpy(message_ + at, value.data(), N);
  }
  void bytes(size_t at, const Gid& value) {
    std::memcpy(message_ + at, value.bytes.data(), value.bytes.size());
  }
  void part(size_t at, uint32_t value, unsigned shift) {
    store_u8(message_ + at, static_cast<uint8_t>(value >> shift));
  }

 private:
  void bits(Place place, uint64_t value) {
    for (unsigned i = place.bit + place.width; i-- > place.bit; value >>= 1) {
      std::byte& byte = message_[place.byte + i / 8];
      byte |= static_cast<std::byte>((value & 1) << (7 - i % 8));
    }
  }

  std::byte* message_;
};

/// A message of this type, to be filled or to be read.
template <typename T, typename Message>
concept Is = std::same_as<std::remove_const_t<T>, Message>;

// One list of fields for each message, for reading and for writing.

template <typename Field>
void connection(Field& field, auto& local, auto& remote) {
  field({0, 0, 32}, local.value);
  field({4, 0, 32}, remote.value);
}

template <typename Field>
void path(Field& field, size_t at, Is<CmPath> auto& p) {
  field({at, 0, 16}, p.local_lid);
  field({at + 2, 0, 16}, p.remote_lid);
  field.bytes(at + 4, p.local_gid);
  field.bytes(at + 20, p.remote_gid);
  field({at + 36, 0, 20}, p.flow_label);
  field({at + 39, 2, 6}, p.packet_rate);
  field({at + 40, 0, 8}, p.traffic_class);
  field({at + 41, 0, 8}, p.hop_limit);
  field({at + 42, 0, 4}, p.service_level);
  field({at + 42, 4, 1}, p.subnet_local);
  field({at + 43, 0, 5}, p.ack_timeout);
}

template <typename Field>
void fields(Field& field, Is<CmReq> auto& m) {
  field({0, 0, 32}, m.local.value);
  field({5, 0, 24}, m.vendor_id);
  field({8, 0, 64}, m.service.value);
  field({16, 0, 64}, m.ca_guid);
  field({28, 0, 32}, m.qkey);
  field({32, 0, 24}, m.qp.value);
  field({35, 0, 8}, m.responder_resources);
  field({36, 0, 24}, m.local_eecn);
  field({39, 0, 8}, m.initiator_depth);
  field({40, 0, 24}, m.remote_eecn);
  field({43, 0, 5}, m.remote_cm_response_timeout);
  field({43, 5, 2}, m.transport);
  field({43, 7, 1}, m.flow_control);
  field({44, 0, 24}, m.starting_psn);
  field({47, 0, 5}, m.local_cm_response_timeout);
  field({47, 5, 3}, m.retry_count);
  field({48, 0, 16}, m.partition_key);
  field({50, 0, 4}, m.path_mtu);
  field({50, 4, 1}, m.rdc_exists);
  field({50, 5, 3}, m.rnr_retry_count);
  field({51, 0, 4}, m.max_cm_retries);
  field({51, 4, 1}, m.srq);
  field({51, 5, 3}, m.extended_transport);
  path(field, 52, m.primary);
  path(field, 96, m.alternate);
  field.bytes(140, m.private_data);
}

template <typename Field>
void fields(Field& field, Is<CmRep> auto& m) {
  connection(field, m.local, m.remote);
  field({8, 0, 32}, m.qkey);
  field({12, 0, 24}, m.qp.value);
  field.part(15, m.vendor_id, 16);
  field({16, 0, 24}, m.local_eecn);
  field.part(19, m.vendor_id, 8);
  field({20, 0, 24}, m.starting_psn);
  field.part(23, m.vendor_id, 0);
  field({24, 0, 8}, m.responder_resources);
  field({25, 0, 8}, m.initiator_depth);
  field({26, 0, 5}, m.target_ack_delay);
  field({26, 5, 2}, m.failover_accepted);
  field({26, 7, 1}, m.flow_control);
  field({27, 0, 3}, m.rnr_retry_count);
  field({27, 3, 1}, m.srq);
  field({28, 0, 64}, m.ca_guid);
  field.bytes(36, m.private_data);
}

template <typename Field, typename M>
  requires Is<M, CmRtu> || Is<M, CmDrep>
void fields(Field& field, M& m) {
  connection(field, m.local, m.remote);
  field.bytes(8, m.private_data);
}

template <typename Field>
void fields(Field& field, Is<CmMra> auto& m) {
  connection(field, m.local, m.remote);
  field({8, 0, 2}, m.answered);
  field({9, 0, 5}, m.service_timeout);
  field.bytes(10, m.private_data);
}

template <typename Field>
void fields(Field& field, Is<CmRej> auto& m) {
  connection(field, m.local, m.remote);
  field({8, 0, 2}, m.answered);
  field({9, 0, 7}, m.information_length);
  field({10, 0, 16}, m.reason);
  field.bytes(12, m.information);
  field.bytes(84, m.private_data);
}

template <typename Field>
void fields(Field& field, Is<CmDreq> auto& m) {
  connection(field, m.local, m.remote);
  field({8, 0, 24}, m.remote_qp.value);
  field.bytes(12, m.private_data);
}

template <typename Field>
void fields(Field& field, Is<CmSidrReq> auto& m) {
  field({0, 0, 32}, m.request.value);
  field({4, 0, 16}, m.partition_key);
  field({8, 0, 64}, m.service.value);
  field.bytes(16, m.private_data);
}

template <typename Field>
void fields(Field& field, Is<CmSidrRep> auto& m) {
  field({0, 0, 32}, m.request.value);
  field({4, 0, 8}, m.status);
  field({5, 0, 8}, m.information_length);
  field({8, 0, 24}, m.qp.value);
  field({12, 0, 64}, m.service.value);
  field({20, 0, 32}, m.qkey);
  field.bytes(24, m.information);
  field.bytes(96, m.private_data);
}

template <typename Field>
void fields(Field& field, Is<CmLap> auto& m) {
  connection(field, m.local, m.remote);
  field({12, 0, 24}, m.remote_qp.value);
  field({15, 0, 5}, m.remote_cm_response_timeout);
  field({20, 0, 16}, m.alternate.local_lid);
  field({22, 0, 16}, m.alternate.remote_lid);
  field.bytes(24, m.alternate.local_gid);
  field.bytes(40, m.alternate.remote_gid);
  field({56, 0, 20}, m.alternate.flow_label);
  field({59, 0, 8}, m.alternate.traffic_class);
  field({60, 0, 8}, m.alternate.hop_limit);
  field({61, 2, 6}, m.alternate.packet_rate);
  field({62, 0, 4}, m.alternate.service_level);
  field({62, 4, 1}, m.alternate.subnet_local);
  field({63, 0, 5}, m.alternate.ack_timeout);
  field.bytes(64, m.private_data);
}

template <typename Field>
void fields(Field& field, Is<CmApr> auto& m) {
  connection(field, m.local, m.remote);
  field({8, 0, 8}, m.information_length);
  field({9, 0, 8}, m.status);
  field.bytes(12, m.information);
  field.bytes(84, m.private_data);
}

template <typename Message>
constexpr uint16_t kAttribute = 0;
template <>
constexpr uint16_t kAttribute<CmReq> = 0x10;
template <>
constexpr uint16_t kAttribute<CmMra> = 0x11;
template <>
constexpr uint16_t kAttribute<CmRej> = 0x12;
template <>
constexpr uint16_t kAttribute<CmRep> = 0x13;
template <>
constexpr uint16_t kAttribute<CmRtu> = 0x14;
template <>
constexpr uint16_t kAttribute<CmDreq> = 0x15;
template <>
constexpr uint16_t kAttribute<CmDrep> = 0x16;
template <>
constexpr uint16_t kAttribute<CmSidrReq> = 0x17;
template <>
constexpr uint16_t kAttribute<CmSidrRep> = 0x18;
template <>
constexpr uint16_t kAttribute<CmLap> = 0x19;
template <>
constexpr uint16_t kAttribute<CmApr> = 0x1A;

/// Fills the alternative of `message` that the attribute names.
template <typename First, typename... Rest>
bool read_message(uint16_t attribute, const std::byte* data, std::variant<First, Rest...>& message) {
  const auto try_one = [&]<typename Message>(std::type_identity<Message>) {
    if (attribute != kAttribute<Message>) return false;
    FieldReader field(data);
    fields(field, message.template emplace<Message>());
    return true;
  };
  return try_one(std::type_identity<First>{}) || (try_one(std::type_identity<Rest>{}) || ...);
}

}  // namespace

CmParse parse_cm(std::span<const std::byte> bytes, CmMad& mad) {
  const std::optional<MadHeader> header = parse_mad_header(bytes);
  if (!header) return CmParse::kLength;
  if (header->base_version != 1) return CmParse::kBaseVersion;
  if (header->management_class != kCmClass) return CmParse::kClass;
  if (header->class_version != kCmClassVersion) return CmParse::kClassVersion;
  if (header->method != kMethodSend) return CmParse::kMethod;
  if (!read_message(header->attribute, bytes.data() + kMadHeaderBytes, mad.message))
    return CmParse::kAttribute;
  mad.transaction_id = header->transaction_id;
  mad.ece_options = header->modifier;
  return CmParse::kOk;
}

void write_cm(std::byte* to, const CmMad& mad) {
  std::memset(to, 0, kMadBytes);
  std::visit(
      [&]<typename Message>(const Message& message) {
        write_mad_header(to, {.management_class = kCmClass,
                              .class_version = kCmClassVersion,
                              .method = kMethodSend,
                              .transaction_id = mad.transaction_id,
                              .attribute = kAttribute<Message>,
                              .modifier = mad.ece_options});
        FieldWriter field(to + kMadHeaderBytes);
        fields(field, message);
      },
      mad.message);
}

}  // namespace uroce::wire
