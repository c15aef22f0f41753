#include "wire/destination.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "sample_frames.h"

namespace uroce::wire {
namespace {

/// As destination_in() finds it in memory that ends with the frame.
QpNumber found_in(std::span<const std::byte> frame) {
  const auto copy = std::make_unique<std::byte[]>(frame.size());
  std::ranges::copy(frame, copy.get());
  return destination_in({copy.get(), frame.size()});
}

TEST(Destination, FramesOfEachPathAndOpcode_ExpectThatOfTheBth) {
  Random random(1);
  for (const auto& [name, path] : sample_paths()) {
    for (const Opcode opcode : valid_opcodes()) {
      const Headers headers = sample_headers(opcode, random);
      const Bytes frame =
          make_frame(path, headers, sample_payload(sample_payload_sizes(opcode).front(), random));
      EXPECT_EQ(destination_of(frame.data()), headers.bth.destination) << name;
      EXPECT_EQ(found_in(frame), headers.bth.destination) << name;
    }
  }
}

TEST(Destination, FramesThatEndBeforeTheBthDoes_ExpectNone) {
  Random random(1);
  for (const auto& [name, path] : sample_paths()) {
    const Bytes frame = make_sample(path, valid_opcodes().front(), 64, random);
    for (size_t bytes = 0; bytes < bth_offset(path) + kBthBytes; ++bytes)
      EXPECT_EQ(found_in(std::span(frame).first(bytes)).value, 0u) << name << ", " << bytes << " bytes";
  }
}

TEST(Destination, AnyBytes_ExpectNoReadBehindThem) {
  Random random(1);
  for (int i = 0; i < 10000; ++i) {
    const Bytes frame = sample_payload(random.below(96), random);
    EXPECT_LE(found_in(frame).value, QpNumber::kMask);
  }
}

}  // namespace
}  // namespace uroce::wire
