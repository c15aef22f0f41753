#include "apps/dump/pcapng.h"

#include <gtest/gtest.h>
#include <pcap/pcap.h>

#include <array>
#include <cstring>
#include <memory>

namespace uroce::dump {
namespace {

TEST(Pcapng, WhatIsWritten_ExpectLibpcapToReadIt) {
  PcapngBlocks blocks;
  blocks.add_section("test");
  blocks.add_interface("uroce0 1", "a program", 128);
  std::array<std::byte, 61> frame{};
  frame[60] = std::byte{7};
  blocks.add_packet({.interface = 0,
                     .time_ns = 1'700'000'000'123'456'789,
                     .bytes = frame,
                     .bytes_of_frame = 100,
                     .direction = PcapngBlocks::Direction::kIn,
                     .lost_before = 3,
                     .comment = "said"});
  blocks.add_statistics(0, 1'700'000'000'000'000'000, 1, 3);
  const auto bytes = blocks.bytes();
  EXPECT_EQ(whole_blocks(bytes, bytes.size()), bytes.size());
  EXPECT_LT(whole_blocks(bytes, bytes.size() - 1), bytes.size());
  EXPECT_EQ(whole_blocks(bytes, 11), 0u);

  FILE* const file = fmemopen(const_cast<std::byte*>(bytes.data()), bytes.size(), "r");
  std::array<char, PCAP_ERRBUF_SIZE> error{};
  const std::unique_ptr<pcap_t, decltype(&pcap_close)> capture(
      pcap_fopen_offline_with_tstamp_precision(file, PCAP_TSTAMP_PRECISION_NANO, error.data()), &pcap_close);
  ASSERT_NE(capture, nullptr) << error.data();
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  ASSERT_EQ(pcap_next_ex(capture.get(), &header, &data), 1);
  EXPECT_EQ(header->caplen, 61u);
  EXPECT_EQ(header->len, 100u);
  EXPECT_EQ(header->ts.tv_sec, 1'700'000'000);
  EXPECT_EQ(header->ts.tv_usec, 123'456'789);
  EXPECT_EQ(data[60], 7);
  EXPECT_EQ(pcap_next_ex(capture.get(), &header, &data), PCAP_ERROR_BREAK);
}

}  // namespace
}  // namespace uroce::dump
