#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "parse_property.h"
#include "reader.h"
#include "sample_frames.h"
#include "wire/mad.h"

// What the fuzzer asks of any input, asked of inputs that are the same in every run.
namespace uroce::wire {
namespace {

/// A copy that ends where its allocation ends, as the fuzzer's inputs do.
template <auto kCheck = fuzz::check_frame>
void check_exactly(std::span<const std::byte> input) {
  const auto copy = std::make_unique<std::byte[]>(input.size());
  std::ranges::copy(input, copy.get());
  kCheck({copy.get(), input.size()});
}

/// Some of what libFuzzer does to an input: overwrite, flip, cut, grow, repeat a part.
void mutate(Bytes& frame, Random& random) {
  if (frame.empty()) return;
  const size_t at = random.below(frame.size());
  switch (random.below(5)) {
    case 0:
      frame[at] = static_cast<std::byte>(random.next());
      return;
    case 1:
      frame[at] ^= std::byte{1} << random.below(8);
      return;
    case 2:
      frame.resize(at);
      return;
    case 3:
      frame.resize(frame.size() + random.below(64), std::byte{0xFF});
      return;
    default: {
      const Bytes part(frame.begin() + static_cast<ptrdiff_t>(at), frame.end());
      const size_t to = random.below(frame.size());
      std::copy_n(part.begin(), std::min(part.size(), frame.size() - to),
                  frame.begin() + static_cast<ptrdiff_t>(to));
    }
  }
}

TEST(FuzzReplay, CapturesAndTheirMutations) {
  const uint64_t seed = 0xF022;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (const auto& file : captures::files()) {
    for (const captures::Frame& frame : captures::frames(file)) {
      check_exactly(frame);
      for (int round = 0; round < 8; ++round) {
        Bytes mutated = frame;
        for (uint64_t left = 1 + random.below(4); left > 0; --left) mutate(mutated, random);
        check_exactly(mutated);
      }
    }
  }
}

TEST(FuzzReplay, EveryOpcodeWithHeadersThatHoldAnything) {
  const uint64_t seed = 0xF023;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (const NamedPath& named : sample_paths()) {
    for (const Opcode opcode : valid_opcodes()) {
      Bytes frame = make_sample(named.path, opcode, sample_payload_sizes(opcode).back(), random);
      // Everything behind the first BTH byte at random; lengths still agree, so most of it parses.
      for (size_t at = bth_offset(named.path) + 2; at < frame.size(); ++at) {
        frame[at] = static_cast<std::byte>(random.next());
      }
      check_exactly(frame);
    }
  }
}

TEST(FuzzReplay, MessagesOfTheCommunicationManager) {
  const uint64_t seed = 77;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (int i = 0; i < 20'000; ++i) {
    Bytes mad(kMadBytes);
    for (std::byte& byte : mad) byte = static_cast<std::byte>(random.next());
    write_mad_header(mad.data(), {.management_class = 7,
                                  .class_version = 2,
                                  .method = 3,
                                  .status = static_cast<uint16_t>(random.next()),
                                  .class_specific = static_cast<uint16_t>(random.next()),
                                  .transaction_id = random.next(),
                                  .attribute = static_cast<uint16_t>(0x0F + i % 13),
                                  .modifier = static_cast<uint32_t>(random.next())});
    // What rdma_cm put into a REQ or SIDR_REQ, behind its version 0, which is of IPv4 or IPv6.
    for (const size_t data : {size_t{140}, size_t{16}}) {
      mad[kMadHeaderBytes + data] = std::byte{0};
      mad[kMadHeaderBytes + data + 1] = static_cast<std::byte>(0x40 + i % 2 * 0x20);
    }
    check_exactly<fuzz::check_mad>(mad);
    if (i % 8 == 0) mutate(mad, random);
    check_exactly<fuzz::check_mad>(mad);
  }
}

TEST(FuzzReplay, InputsOnceFound) {
  check_exactly<fuzz::check_mad>({});
  check_exactly({});
  // A header that announces more words than there are bytes.
  check_exactly(from_hex("0200000009020200000009010800 4f00002000000000401100000a0900010a090002"));
  // An IPv6 header that ends where its extension header should begin.
  check_exactly(
      from_hex("02000000090202000000090186dd 6000000000080040fd000009000000000000000000000001fd00000900000000"
               "0000000000000002"));
}

}  // namespace
}  // namespace uroce::wire
