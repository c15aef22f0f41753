#include "nvmf/rdma/private_data.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "nvmf/rdma/data_place.h"

// What is checked before anything is done: private data of requests, and SGLs.
namespace uroce::nvmf {
namespace {

constexpr RdmaQueueLimits kLimits{.admin_entries_max = 64, .io_entries_max = 256, .qid_max = 16};

std::variant<RdmaQueueRequest, RdmaRefusal> check(const RdmaRequestData& data,
                                                  size_t length = sizeof(RdmaRequestData)) {
  std::vector<std::byte> bytes(56);
  std::memcpy(bytes.data(), &data, sizeof(data));
  return check_request(std::span(bytes).first(length), kLimits);
}

TEST(RdmaPrivateData, EveryMistake_ExpectItsStatus) {
  struct Case {
    const char* what;
    RdmaRequestData data;  // record format, qid, host receive size, host send size
    size_t length;
    std::optional<RdmaRefusal> why;
  };
  const Case cases[] = {
      {"admin", {0, 0, 32, 31}, 32, {}},
      {"I/O, with all the room of the message", {0, 16, 256, 255}, 56, {}},
      {"completions fit exactly", {0, 1, 127, 127}, 32, {}},
      {"too short", {0, 0, 32, 31}, 31, RdmaRefusal::kPrivateDataLength},
      {"none", {0, 0, 32, 31}, 0, RdmaRefusal::kPrivateDataLength},
      {"another format", {1, 0, 32, 31}, 32, RdmaRefusal::kRecordFormat},
      {"qid too large", {0, 17, 32, 31}, 32, RdmaRefusal::kQid},
      {"one entry", {0, 1, 32, 0}, 32, RdmaRefusal::kHostSendSize},
      {"I/O queue too large", {0, 1, 512, 256}, 32, RdmaRefusal::kHostSendSize},
      {"admin queue too large", {0, 0, 512, 64}, 32, RdmaRefusal::kHostSendSize},
      {"largest number", {0, 1, 0xFFFF, 0xFFFF}, 32, RdmaRefusal::kHostSendSize},
      {"no room for completions", {0, 1, 126, 127}, 32, RdmaRefusal::kHostReceiveSize},
      {"no receives", {0, 1, 0, 127}, 32, RdmaRefusal::kHostReceiveSize},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    const auto checked = check(one.data, one.length);
    if (one.why) {
      ASSERT_TRUE(std::holds_alternative<RdmaRefusal>(checked));
      EXPECT_EQ(std::get<RdmaRefusal>(checked), *one.why);
    } else {
      ASSERT_TRUE(std::holds_alternative<RdmaQueueRequest>(checked));
      EXPECT_EQ(std::get<RdmaQueueRequest>(checked).qid, one.data.qid);
      EXPECT_EQ(std::get<RdmaQueueRequest>(checked).entries, one.data.host_send_size + 1u);
    }
  }
}

TEST(RdmaPrivateData, AnyBytes_ExpectAWishWithinTheLimitsOrARefusal) {
  std::minstd_rand random(1);
  for (int i = 0; i < 100'000; ++i) {
    std::vector<std::byte> bytes(random() % 64);
    // Small numbers are likelier to pass some of the checks.
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 4 == 0 ? random() : random() % 2);
    const auto checked = check_request(bytes, kLimits);
    if (const auto* request = std::get_if<RdmaQueueRequest>(&checked)) {
      EXPECT_LE(request->qid, kLimits.qid_max);
      EXPECT_GE(request->entries, 2u);
      EXPECT_LE(request->entries, kLimits.io_entries_max);
    }
  }
}

Request request_with(uint8_t type, uint64_t address, uint32_t length, Direction direction,
                     uint32_t data_bytes) {
  Request request;
  request.command.sgl.address = address;
  request.command.sgl.type_byte = type;
  for (size_t i = 0; i < 4; ++i) request.command.sgl.specific[i] = static_cast<uint8_t>(length >> (8 * i));
  request.direction = direction;
  request.data_bytes = data_bytes;
  return request;
}

TEST(RdmaDataPlace, EveryDescriptor_ExpectAPlaceOrItsStatus) {
  constexpr Direction kIn = Direction::kFromHost, kOut = Direction::kToHost;
  struct Case {
    const char* what;
    uint8_t type;
    uint64_t address;
    uint32_t length;
    Direction direction;
    StatusCode code;
  };
  const Case cases[] = {
      // 4096 bytes of data are moved; 8192 came with the capsule
      {"keyed", 0x40, 7, 4096, kIn, StatusCode::kSuccess},
      {"keyed, to the host, to be invalidated", 0x4F, 7, 4096, kOut, StatusCode::kSuccess},
      {"keyed, longer than the data", 0x40, 7, 4097, kIn, StatusCode::kSuccess},
      {"keyed, too short", 0x40, 7, 4095, kIn, StatusCode::kDataSglLengthInvalid},
      {"keyed, nothing", 0x40, 7, 0, kOut, StatusCode::kDataSglLengthInvalid},
      {"keyed, unknown sub type", 0x41, 7, 4096, kIn, StatusCode::kSglDescriptorTypeInvalid},
      {"in the capsule", 0x01, 0, 4096, kIn, StatusCode::kSuccess},
      {"in the capsule's second half", 0x01, 4096, 4096, kIn, StatusCode::kSuccess},
      {"in the capsule, not aligned", 0x01, 100, 4096, kIn, StatusCode::kSuccess},
      {"in the capsule, too short", 0x01, 0, 4095, kIn, StatusCode::kDataSglLengthInvalid},
      {"in the capsule, beyond its end", 0x01, 4097, 4096, kIn, StatusCode::kDataSglLengthInvalid},
      {"in the capsule, longer than it", 0x01, 0, 8193, kIn, StatusCode::kDataSglLengthInvalid},
      {"in the capsule, wrapping round", 0x01, ~uint64_t{0}, 4096, kIn, StatusCode::kSglOffsetInvalid},
      {"in the capsule, behind it", 0x01, 8193, 4096, kIn, StatusCode::kSglOffsetInvalid},
      {"in the capsule, but to the host", 0x01, 0, 4096, kOut, StatusCode::kSglDescriptorTypeInvalid},
      {"data block by address", 0x00, 7, 4096, kIn, StatusCode::kSglDescriptorTypeInvalid},
      {"bit bucket", 0x10, 0, 4096, kOut, StatusCode::kSglDescriptorTypeInvalid},
      {"segment", 0x20, 0, 16, kIn, StatusCode::kSglDescriptorTypeInvalid},
      {"last segment", 0x31, 0, 32, kIn, StatusCode::kSglDescriptorTypeInvalid},
      {"transport's own", 0x5A, 0, 4096, kIn, StatusCode::kSglDescriptorTypeInvalid},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    const auto found = find_data(request_with(one.type, one.address, one.length, one.direction, 4096), 8192);
    const auto* wrong = std::get_if<CommandStatus>(&found);
    EXPECT_EQ(wrong == nullptr ? StatusCode::kSuccess : wrong->code, one.code);
    if (wrong != nullptr) {
      EXPECT_TRUE(wrong->do_not_retry);
    }
  }
}

TEST(RdmaDataPlace, AnyDescriptor_ExpectNothingOutsideTheCapsule) {
  std::minstd_rand generator(2);
  const auto random = [&] { return static_cast<uint32_t>(generator()); };
  for (int i = 0; i < 100'000; ++i) {
    const uint32_t capsule_bytes = random() % 8193;
    const uint64_t address = random() % 3 == 0 ? ~uint64_t{0} - random() % 9000 : random() % 9000;
    const auto direction = random() % 2 == 0 ? Direction::kFromHost : Direction::kToHost;
    const Request request =
        request_with(static_cast<uint8_t>(random() % 2 == 0 ? 0x01 : random()), address,
                     static_cast<uint32_t>(random() % 9000), direction, 1 + random() % 8192);
    const auto found = find_data(request, capsule_bytes);
    const auto* place = std::get_if<RdmaDataPlace>(&found);
    if (place == nullptr || place->kind != RdmaDataPlace::Kind::kCapsule) continue;
    EXPECT_LE(place->address, capsule_bytes);
    EXPECT_LE(request.data_bytes, capsule_bytes - place->address);
  }
}

}  // namespace
}  // namespace uroce::nvmf
