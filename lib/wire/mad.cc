#include "wire/mad.h"

#include "wire/big_endian.h"

namespace uroce::wire {

std::optional<MadHeader> parse_mad_header(std::span<const std::byte> mad) {
  if (mad.size() != kMadBytes) return std::nullopt;
  const std::byte* const at = mad.data();
  MadHeader header;
  header.base_version = load_u8(at);
  header.management_class = load_u8(at + 1);
  header.class_version = load_u8(at + 2);
  header.method = load_u8(at + 3);
  header.status = load_be16(at + 4);
  header.class_specific = load_be16(at + 6);
  header.transaction_id = load_be64(at + 8);
  header.attribute = load_be16(at + 16);
  header.modifier = load_be32(at + 20);
  return header;
}

void write_mad_header(std::byte* to, const MadHeader& header) {
  store_u8(to, header.base_version);
  store_u8(to + 1, header.management_class);
  store_u8(to + 2, header.class_version);
  store_u8(to + 3, header.method);
  store_be16(to + 4, header.status);
  store_be16(to + 6, header.class_specific);
  store_be64(to + 8, header.transaction_id);
  store_be16(to + 16, header.attribute);
  store_be16(to + 18, 0);
  store_be32(to + 20, header.modifier);
}

}  // namespace uroce::wire
