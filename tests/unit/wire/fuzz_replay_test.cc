#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "parse_property.h"
#include "reader.h"
#include "sample_frames.h"

// What the fuzzer asks of any input, asked of inputs that are the same in every run.
namespace uroce::wire {
namespace {

/// A copy that ends where its allocation ends, as the fuzzer's inputs do.
void check_exactly(std::span<const std::byte> frame) {
  const auto copy = std::make_unique<std::byte[]>(frame.size());
  std::ranges::copy(frame, copy.get());
  fuzz::check_frame({copy.get(), frame.size()});
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

TEST(FuzzReplay, InputsOnceFound) {
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
