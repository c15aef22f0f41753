#include "wire/icrc/icrc.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "sample_frames.h"
#include "tests/support/thread_sanitizer.h"
#include "wire/icrc/join.h"
#include "wire/icrc/short.h"
#include "wire/icrc/wide.h"

namespace uroce::wire {
namespace {

struct Vector {
  const char* what;
  const char* hex;  // IP header first, ICRC last
};

constexpr Vector kVectors[] = {
    {"RC SEND Only with 3 bytes of pad",
     "45000034123440004011d41ac6336401c6336402c12312b7002000000470ffff0000001280000abc68656c6c6f000000 "
     "c18582bf"},
    {"RC WRITE Only",
     "45000044123440004011d40ac6336401c6336402c12312b7003000000a40ffff0000001280fffffe00000000000010000001020"
     "300000008"
     "0001020304050607 5d064264"},
    {"RC ACK",
     "45000030123440004011d41ec6336402c6336401c12312b7001c00001140ffff0000001100000abc1f000001 1bc8435c"},
    {"CNP with DSCP 48 and BECN",
     "45c0003c123440004011d352c6336402c6336401c12312b7002800008100ffff400000110000000000000000000000000000000"
     "000000000 "
     "468e3d9c"},
    {"UD SEND Only over IPv6",
     "600abcde0024114020010db800000000000000000000000120010db8000000000000000000000002c12312b7002400006440fff"
     "f00000021"
     "00000007111111110000002001020304 4d324c86"},
};

uint32_t received_icrc(const Bytes& packet) {
  uint32_t icrc = 0;
  std::memcpy(&icrc, packet.data() + packet.size() - 4, 4);
  return icrc;
}

uint32_t zlib_crc(uint32_t crc, std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(
      crc32(crc, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

/// The recipe word for word, on zlib: a copy, the mask, eight bytes of ones before it.
uint32_t icrc_by_recipe_up_to(std::span<const std::byte> ip_packet, size_t end) {
  Bytes copy(ip_packet.begin(), ip_packet.end());
  const bool ipv4 = std::to_integer<int>(copy[0]) >> 4 == 4;
  const size_t udp = ipv4 ? 20 : 40;
  const std::vector<size_t> whole =
      ipv4 ? std::vector<size_t>{1, 8, 10, 11} : std::vector<size_t>{1, 2, 3, 7};
  for (const size_t at : whole) copy[at] = std::byte{0xFF};
  if (!ipv4) copy[0] |= std::byte{0x0F};
  copy[udp + 6] = copy[udp + 7] = copy[udp + 8 + 4] = std::byte{0xFF};
  const Bytes link_header(8, std::byte{0xFF});
  return zlib_crc(zlib_crc(0, link_header), std::span(copy).first(end));
}
uint32_t icrc_by_recipe(std::span<const std::byte> ip_packet) {
  return icrc_by_recipe_up_to(ip_packet, ip_packet.size());
}

TEST(Icrc, MatchesThePublishedVectors) {
  for (const Vector& vector : kVectors) {
    SCOPED_TRACE(vector.what);
    const Bytes packet = from_hex(vector.hex);
    EXPECT_EQ(icrc_of(std::span(packet).first(packet.size() - 4)), received_icrc(packet));
  }
}

TEST(Icrc, EqualsZlibOnRandomPacketsInRandomPieces) {
  const uint64_t seed = 0x1C5C;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (int round = 0; round < 3000; ++round) {
    const bool ipv4 = random.chance(1, 2);
    const size_t masked = ipv4 ? 40 : 60;
    Bytes packet = sample_payload(masked + random.below(4200), random);
    packet[0] = ipv4 ? std::byte{0x45} : std::byte{0x60} | (packet[0] & std::byte{0x0F});
    const uint32_t expected = icrc_by_recipe(packet);
    ASSERT_EQ(icrc_of(packet), expected) << "bytes " << packet.size();

    Icrc icrc;
    icrc.add_masked_headers(std::span(packet).first(masked));
    for (size_t at = masked; at < packet.size();) {
      // Mostly short pieces, now and then everything; a piece of no bytes changes nothing.
      const size_t left = packet.size() - at;
      const size_t piece = random.chance(1, 8) ? left : std::min<size_t>(left, random.below(300));
      icrc.add(std::span(packet).subspan(at, piece));
      at += piece;
    }
    ASSERT_EQ(icrc.value(), expected) << "bytes " << packet.size();
  }
}

TEST(Icrc, EqualsZlibAtEveryShortLengthInBothWays) {
  Random random(7);
  const Bytes source = sample_payload(kShortIcrcBytesMax + 100, random);
  for (const bool ipv4 : {true, false}) {
    const size_t masked = ipv4 ? 40 : 60;
    for (size_t bytes = masked; bytes <= source.size(); ++bytes) {
      Bytes packet(source.begin(), source.begin() + static_cast<ptrdiff_t>(bytes));
      packet[0] = ipv4 ? std::byte{0x45} : std::byte{0x6A};
      const uint32_t expected = icrc_by_recipe(packet);
      ASSERT_EQ(icrc_of(packet), expected) << bytes << " bytes";
      Icrc pieces;
      pieces.add_masked_headers(std::span(packet).first(masked));
      pieces.add(std::span(packet).subspan(masked));
      ASSERT_EQ(pieces.value(), expected) << bytes << " bytes";
      const size_t before_psn = masked - 4;
      if (has_short_icrc() && (bytes - before_psn) % 4 == 0) {
        const uint32_t before = icrc_before_psn(packet);
        ASSERT_EQ(before, icrc_by_recipe_up_to(packet, before_psn));
        ASSERT_EQ(short_icrc_from(before, std::span(packet).subspan(before_psn)), expected) << bytes;
      }
      if (has_short_icrc()) {
        ASSERT_EQ(short_icrc(packet), expected) << bytes << " bytes";
      }
      if (bytes < kWideIcrcBytesMin) continue;
      if (has_wide_icrc_256()) {
        ASSERT_EQ(wide_icrc_256(packet), expected) << bytes << " bytes";
      }
      if (has_wide_icrc_512()) {
        ASSERT_EQ(wide_icrc_512(packet), expected) << bytes << " bytes";
      }
    }
  }
}

TEST(Icrc, IsTheSameWhateverPacketIsNext) {
  Random random(8);
  const Bytes source = sample_payload(9000, random);
  const std::span<const std::byte> all(source);
  for (const size_t bytes : {kWideIcrcBytesMin, kWideIcrcBytesMin + 1, size_t{511}, size_t{4136}}) {
    Bytes packet(source.begin(), source.begin() + static_cast<ptrdiff_t>(bytes));
    packet[0] = std::byte{0x45};
    const uint32_t expected = icrc_by_recipe(packet);
    for (const size_t next : {size_t{0}, size_t{40}, size_t{300}, bytes, source.size()})
      ASSERT_EQ(icrc_of_long(packet, all.last(next)), expected) << bytes << " bytes before " << next;
  }
}

TEST(Icrc, OfWhateverClaimsToBeIp_ReadsNoByteBehindIt) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const memory = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::byte* const end = static_cast<std::byte*>(memory) + page;
  ASSERT_EQ(mprotect(end, page, PROT_NONE), 0);
  for (unsigned version = 0; version < 16; ++version) {
    for (size_t bytes = 40; bytes <= 128; ++bytes) {
      const std::span packet(end - bytes, bytes);
      packet[0] = static_cast<std::byte>(version << 4);
      Icrc pieces;
      const size_t masked = version == 4 || bytes < 60 ? 40 : 60;
      pieces.add_masked_headers(packet.first(masked));
      pieces.add(packet.subspan(masked));
      EXPECT_EQ(icrc_of(packet), pieces.value()) << "version " << version << ", " << bytes << " bytes";
    }
  }
  munmap(memory, 2 * page);
}

/// Copies by `copy` with headers in front, at any offset, and looks at the bytes and the ICRC of the whole.
void expect_copies_with_icrc(CopyWithIcrc copy) {
  Random random(13);
  const Bytes source = sample_payload(4096 + 64, random);
  for (size_t bytes = kWideIcrcBytesMin; bytes <= 4096; bytes += bytes < 700 ? 1 : 61) {
    for (const size_t headers : {40u, 56u, 60u, 76u}) {
      SCOPED_TRACE(std::to_string(headers) + " and " + std::to_string(bytes) + " bytes");
      Bytes packet(source.begin(), source.begin() + static_cast<ptrdiff_t>(headers));
      packet[0] = headers % 40 < 20 ? std::byte{0x45} : std::byte{0x6A};
      packet.resize(headers + bytes + 1);
      uint32_t icrc = icrc_of(std::span(packet).first(headers));
      const std::byte* const from = source.data() + headers % 32 + bytes % 7;
      copy(packet.data() + headers, from, bytes, &icrc);
      std::atomic_thread_fence(std::memory_order_seq_cst);  // of those that stream
      ASSERT_TRUE(std::equal(from, from + bytes, packet.data() + headers));
      ASSERT_EQ(packet.back(), std::byte{0});
      ASSERT_EQ(icrc, icrc_by_recipe(std::span(packet).first(headers + bytes)));
    }
  }
}

TEST(Icrc, TakenWhileThePayloadIsCopied_ExpectTheBytesAndTheIcrcOfTheWhole) {
  if (!has_wide_icrc_256()) GTEST_SKIP() << "this CPU has no ICRC that copies at the same time";
  EXPECT_EQ(copy_with_icrc(64), nullptr);
  EXPECT_EQ(copy_with_icrc(4096), has_wide_icrc_512() ? wide_copy_with_icrc_512 : wide_copy_with_icrc_256);
  expect_copies_with_icrc(wide_copy_with_icrc_256);
  if (has_wide_icrc_512()) expect_copies_with_icrc(wide_copy_with_icrc_512);
  EXPECT_EQ(widest_stream_with_icrc(),
            has_wide_icrc_512() ? wide_stream_with_icrc_512 : wide_stream_with_icrc_256);
  expect_copies_with_icrc(wide_stream_with_icrc_256);
  if (has_wide_icrc_512()) expect_copies_with_icrc(wide_stream_with_icrc_512);
}

TEST(Icrc, OfAPayloadJoinedToThatOfTheHeaders_ExpectThatOfTheWhole) {
  if (!has_wide_icrc_256()) GTEST_SKIP() << "this CPU has no ICRC that copies at the same time";
  Random random(19);
  size_t joined = 0;
  for (size_t bytes = kWideIcrcBytesMin; bytes <= 8192; ++bytes) {
    const IcrcJoin* const join = IcrcJoin::of_payload(bytes);
    if (join == nullptr) continue;
    ++joined;
    for (const size_t headers : {40u, 44u, 56u, 60u, 76u}) {
      SCOPED_TRACE(std::to_string(headers) + " and " + std::to_string(bytes) + " bytes");
      Bytes packet = sample_payload(headers + bytes, random);
      packet[0] = headers < 60 ? std::byte{0x45} : std::byte{0x6A};
      const Bytes payload(packet.begin() + static_cast<ptrdiff_t>(headers), packet.end());
      uint32_t icrc = kIcrcOfNothing;
      copy_with_icrc(bytes)(packet.data() + headers, payload.data(), bytes, &icrc);
      EXPECT_EQ((*join)(icrc_of(std::span(packet).first(headers)), icrc), icrc_by_recipe(packet));
    }
  }
  EXPECT_EQ(joined, 5u) << "path MTUs";
  EXPECT_EQ(IcrcJoin::of_payload(0), nullptr);
  EXPECT_EQ(IcrcJoin::of_payload(128), nullptr);
}

/// `copy`, while the payload changes.
void expect_icrc_of_what_was_copied(CopyWithIcrc copy) {
  Random random(17);
  Bytes source = sample_payload(4096, random);
  std::atomic<bool> done{false};
  std::thread changes([&] {
    for (uint8_t value = 0; !done; ++value)
      for (std::byte& byte : source) std::atomic_ref(byte).store(std::byte{value}, std::memory_order_relaxed);
  });
  Bytes packet = sample_payload(40, random);
  packet[0] = std::byte{0x45};
  for (int i = 0; i < 20'000; ++i) {
    const size_t bytes = kWideIcrcBytesMin + random.below(600);
    packet.resize(40);
    uint32_t icrc = icrc_of(packet);
    packet.resize(40 + bytes);
    copy(packet.data() + 40, source.data(), bytes, &icrc);
    if (icrc != icrc_of(packet)) {
      ADD_FAILURE() << "round " << i << ", " << bytes << " bytes";
      break;
    }
  }
  done = true;
  changes.join();
}

TEST(Icrc, OfAPayloadThatChangesWhileItIsCopied_ExpectThatOfWhatWasCopied) {
  if (kThreadSanitizer) GTEST_SKIP() << "the program's race, on purpose";
  if (!has_wide_icrc_256()) GTEST_SKIP() << "this CPU has no ICRC that copies at the same time";
  expect_icrc_of_what_was_copied(widest_copy_with_icrc());
  expect_icrc_of_what_was_copied(widest_stream_with_icrc());
}

TEST(Icrc, IgnoresExactlyTheFieldsThatChangeOnTheWay) {
  Random random(11);
  for (const NamedPath& named : sample_paths()) {
    SCOPED_TRACE(named.name);
    const Bytes frame =
        make_sample(named.path, Opcode::make(Service::kRc, Operation::kWriteOnly), 64, random);
    const Bytes packet(frame.begin() + static_cast<ptrdiff_t>(ip_offset(named.path)), frame.end() - 4);
    const uint32_t icrc = icrc_of(packet);
    const bool ipv4 = named.path.source.is_ipv4();
    for (size_t bit = 0; bit < packet.size() * 8; ++bit) {
      const size_t at = bit / 8;
      // The version's bits choose the recipe, so they are not part of this question.
      if (at == 0 && bit % 8 >= 4) continue;
      const size_t udp = ipv4 ? 20 : 40;
      const bool ip_variant = ipv4 ? at == 1 || at == 8 || at == 10 || at == 11 : at <= 3 || at == 7;
      const bool variant = ip_variant || at == udp + 6 || at == udp + 7 || at == udp + 12;
      Bytes changed = packet;
      changed[at] ^= std::byte{1} << (bit % 8);
      EXPECT_EQ(icrc_of(changed) == icrc, variant) << "byte " << at << " bit " << bit % 8;
    }
  }
}

}  // namespace
}  // namespace uroce::wire
