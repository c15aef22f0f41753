#include "apps/perf/plan/plan.h"

#include <gtest/gtest.h>

#include "apps/perf/ends/messages.h"
#include "client/failure.h"

namespace uroce::perf {
namespace {

TEST(Sizes, TakesNumbersAndUnits) {
  const auto sizes = parse_sizes("64,4K,1M,4096,1,8M");
  ASSERT_TRUE(sizes) << sizes.error().message;
  EXPECT_EQ(*sizes, (std::vector<uint64_t>{1, 64, 4096, 1 << 20, 8 << 20}));
}

TEST(Sizes, AllAreThePowersOfTwo) {
  const auto sizes = parse_sizes("all");
  ASSERT_TRUE(sizes);
  ASSERT_EQ(sizes->size(), 24u);
  EXPECT_EQ(sizes->front(), 1u);
  EXPECT_EQ(sizes->back(), kSizeMax);
}

TEST(Sizes, RefusesAndNamesWhatIsWrong) {
  for (const char* text : {"", "0", "-1", "4X", "K", "9M", "8388609", "64,", ",64", "64,,65", "1e3", "0x40",
                           "99999999999999999999", "18014398509481985K"}) {
    const auto sizes = parse_sizes(text);
    ASSERT_FALSE(sizes) << text;
    EXPECT_EQ(sizes.error().message.find('\n'), std::string::npos) << sizes.error().message;
  }
  EXPECT_NE(parse_sizes("64,4X").error().message.find("'4X'"), std::string::npos);
}

TEST(Sizes, ReadsWhatItWrites) {
  for (const uint64_t size : {uint64_t{1}, uint64_t{1000}, uint64_t{1024}, uint64_t{65536}, kSizeMax}) {
    std::string text = size_text(size);
    std::erase(text, ' ');
    if (text.back() == 'B' && text.find('i') == std::string::npos) text.pop_back();
    const auto sizes = parse_sizes(text);
    ASSERT_TRUE(sizes) << text;
    EXPECT_EQ(sizes->front(), size);
  }
}

TEST(Operations, KeepsTheOrderAndRefusesDoubles) {
  const auto operations = parse_operations("send,write");
  ASSERT_TRUE(operations);
  EXPECT_EQ(*operations, (std::vector{Operation::kSend, Operation::kWrite}));
  EXPECT_FALSE(parse_operations("send,send"));
  EXPECT_FALSE(parse_operations("Write"));
  EXPECT_FALSE(parse_operations(""));
  EXPECT_FALSE(parse_measures("throughput"));
}

TEST(Services, HaveOperationsOfTheirOwn) {
  EXPECT_EQ(*parse_service("uc"), Service::kUc);
  EXPECT_FALSE(parse_service("UC"));
  const std::vector<Operation> all{Operation::kWrite, Operation::kRead, Operation::kSend,
                                   Operation::kFetchAdd, Operation::kCompareSwap};
  EXPECT_TRUE(check_operations(Service::kRc, all));
  EXPECT_TRUE(check_operations(Service::kUc, {Operation::kWrite, Operation::kSend}));
  EXPECT_TRUE(check_operations(Service::kUd, {Operation::kSend}));
  for (const Operation operation : {Operation::kRead, Operation::kFetchAdd, Operation::kCompareSwap})
    EXPECT_FALSE(check_operations(Service::kUc, {Operation::kSend, operation})) << name_of(operation);
  EXPECT_FALSE(check_operations(Service::kUd, {Operation::kWrite}));
}

Plan some_plan() {
  Plan plan;
  plan.service = Service::kUc;
  plan.operations = {Operation::kWrite};
  plan.sizes = {1, 4096};
  plan.measures = {Measure::kLatency};
  plan.depth = 17;
  plan.path_mtu = 1024;
  return plan;
}

// As the other end gets it: some types of numbers only differ before a text was parsed.
nlohmann::json sent(const nlohmann::json& message) { return nlohmann::json::parse(message.dump()); }

TEST(Messages, CarryAPlanAndAnAddress) {
  const Plan plan = plan_from(sent(to_json(some_plan())));
  EXPECT_EQ(plan.sizes, some_plan().sizes);
  EXPECT_EQ(plan.service, Service::kUc);
  EXPECT_EQ(plan.depth, 17u);
  EXPECT_EQ(plan.path_mtu, 1024u);

  Address address{
      .queue_pair = 0x123456, .psn = 7, .path_mtu = 4096, .remote_key = 0xDEADBEEF, .target = ~0ull};
  address.gid.raw[0] = 0xFE;
  address.gid.raw[15] = 0x0F;
  const Address read = address_from(sent(to_json(address)));
  EXPECT_EQ(read.queue_pair, address.queue_pair);
  EXPECT_EQ(read.remote_key, address.remote_key);
  EXPECT_EQ(read.target, address.target);
  EXPECT_EQ(read.gid.raw[0], 0xFE);
  EXPECT_EQ(read.gid.raw[15], 0x0F);
}

TEST(Messages, OfAStrangerAreRefused) {
  const auto refuses = [](const char* key, const nlohmann::json& value) {
    nlohmann::json plan = to_json(some_plan());
    plan[key] = value;
    EXPECT_THROW(plan_from(sent(plan)), client::Failure) << key << " " << value;
  };
  refuses("version", 99);
  refuses("sizes", nlohmann::json::array());
  refuses("sizes", {0});
  refuses("sizes", {kSizeMax + 1});
  refuses("sizes", {-1});
  refuses("sizes", "64");
  refuses("service", "rd");
  refuses("depth", 1 << 20);
  refuses("depth", "many");
  refuses("path_mtu", 1500);
  EXPECT_THROW(plan_from(nlohmann::json()), client::Failure);
  EXPECT_THROW(plan_from(nlohmann::json::object()), client::Failure);

  nlohmann::json address = to_json(Address{.path_mtu = 4096});
  EXPECT_NO_THROW(address_from(sent(address)));
  address["gid"] = "zz";
  EXPECT_THROW(address_from(sent(address)), client::Failure);
  address = to_json(Address{.path_mtu = 4096});
  address["queue_pair"] = 1 << 24;
  EXPECT_THROW(address_from(sent(address)), client::Failure);

  EXPECT_THROW(
      round_from(nlohmann::json{{"operation", "erase"}, {"measure", "latency"}, {"size", 1}, {"depth", 1}}),
      client::Failure);
  EXPECT_THROW(
      round_from(nlohmann::json{{"operation", "write"}, {"measure", "latency"}, {"size", 0}, {"depth", 1}}),
      client::Failure);
}

}  // namespace
}  // namespace uroce::perf
