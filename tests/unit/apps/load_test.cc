// What a load is, when its messages are due, and what two ends tell each other of it.
#include "apps/perf/plan/load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "apps/perf/load/load_messages.h"
#include "apps/perf/plan/schedule.h"
#include "client/failure.h"

namespace uroce::perf {
namespace {

TEST(Schedule, OfEvenArrivalsNeverDrifts) {
  // A third of a nanosecond is lost in each gap if gaps are added up.
  Schedule schedule({.rate = 3e6, .offset = 0.5});
  for (uint64_t i = 0; i < 3'000'000; ++i) {
    if (i % 100'003 == 0) {
      ASSERT_NEAR(static_cast<double>(schedule.next()), (static_cast<double>(i) + 0.5) * 1e9 / 3e6, 1.0);
    }
    schedule.advance();
  }
  EXPECT_NEAR(static_cast<double>(schedule.next()), 1e9, 200);
}

TEST(Schedule, OfPoissonArrivalsHasTheRateAndItsSpread) {
  constexpr int kMessages = 200'000;
  Schedule schedule({.rate = 1e6, .spacing = Spacing::kPoisson, .seed = 7});
  Schedule again({.rate = 1e6, .spacing = Spacing::kPoisson, .seed = 7});
  int64_t last = 0;
  int longer = 0;  // gaps longer than the mean: 1/e of them
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_GE(schedule.next(), last);
    ASSERT_EQ(schedule.next(), again.next());
    longer += schedule.next() - last > 1000 ? 1 : 0;
    last = schedule.next();
    schedule.advance();
    again.advance();
  }
  EXPECT_NEAR(static_cast<double>(last), kMessages * 1000.0, kMessages * 1000.0 * 0.01);
  EXPECT_NEAR(longer, kMessages * 0.368, kMessages * 0.01);
}

TEST(Mix, HasEachPartAsOftenAsItsWeightSays) {
  const std::vector<MixPart> mix = {
      {Operation::kRead, 64, 7}, {Operation::kWrite, 64, 2}, {Operation::kSend, 8, 1}};
  const auto order = shuffled(mix, 3);
  ASSERT_EQ(order.size(), 10u);
  for (size_t part = 0; part < mix.size(); ++part)
    EXPECT_EQ(std::ranges::count(order, static_cast<uint8_t>(part)), mix[part].weight);
  EXPECT_EQ(order, shuffled(mix, 3));
  EXPECT_NE(order, shuffled(mix, 4));
}

class Profile : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "load_test_" +
            testing::UnitTest::GetInstance()->current_test_info()->name() + ".toml";
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Result<Load> read(const std::string& text) {
    std::ofstream(path_) << text;
    return read_profile(path_);
  }
  std::string complaint(const std::string& text) {
    const auto load = read(text);
    return load ? "none" : load.error().message;
  }

  std::string path_;
};

TEST_F(Profile, HasEveryKey) {
  const auto load = read(
      "queue_pairs = 8\nthreads = 2\ndepth = 16\nbidirectional = true\nrate = \"1.5M\"\narrivals = "
      "\"poisson\"\n"
      "warm_up = 0.25\nduration = 2\n[[mix]]\noperation = \"read\"\nsize = \"4K\"\nweight = "
      "3\n[[mix]]\noperation = \"add\"\n");
  ASSERT_TRUE(load) << load.error().message;
  EXPECT_EQ(load->mix, (std::vector<MixPart>{{Operation::kRead, 4096, 3}, {Operation::kFetchAdd, 8, 1}}));
  EXPECT_EQ(load->queue_pairs, 8u);
  EXPECT_EQ(load->threads, 2u);
  EXPECT_EQ(load->depth, 16u);
  EXPECT_TRUE(load->bidirectional);
  EXPECT_EQ(load->rate, 1.5e6);
  EXPECT_EQ(load->spacing, Spacing::kPoisson);
  EXPECT_EQ(load->warm_up_s, 0.25);
  EXPECT_EQ(load->duration_s, 2);
}

TEST_F(Profile, IsRefusedWithFileLineAndKey) {
  const std::string mix = "[[mix]]\noperation = \"write\"\nsize = 64\n";
  const std::vector<std::pair<std::string, const char*>> wrong = {
      {"", "mix: is missing"},
      {"mix = []", "1 to 64 parts"},
      {"mix = 3", "must be a list"},
      {"queue_pairs = 0\n" + mix, ":1: queue_pairs: must be from 1"},
      {"rate = \"fast\"\n" + mix, "no rate"},
      {"rate = true\n" + mix, "no rate"},
      {"arrivals = \"late\"\n" + mix, "no kind of arrivals"},
      {"duration = \"1\"\n" + mix, "must be a number"},
      {"duration = 0\n" + mix, "must be from 0.001"},
      {"speed = 3\n" + mix, "there is no such key"},
      {mix + "wieght = 3\n", "wieght: has no such key"},
      {"[[mix]]\noperation = \"write\"\n", "size: is missing"},
      {"[[mix]]\noperation = \"erase\"\nsize = 1\n", "'erase' is no operation"},
      {"[[mix]]\noperation = \"read,write\"\nsize = 1\n", "must be one operation"},
      {"[[mix]]\noperation = \"read\"\nsize = \"9M\"\n", "size: size 9M"},
      {mix + "weight = 600\n[[mix]]\noperation = \"read\"\nsize = 1\nweight = 600\n",
       "weights must not be more"},
      {mix + mix, "write 64 B is given twice"},
      {"[[mix", ":1:"},
  };
  for (const auto& [text, expected] : wrong) {
    const std::string said = complaint(text);
    EXPECT_NE(said.find(expected), std::string::npos) << text << ": " << said;
    EXPECT_NE(said.find(path_), std::string::npos) << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
  EXPECT_NE(read_profile("/nonexistent/x.toml").error().message.find("/nonexistent/x.toml"),
            std::string::npos);
}

TEST_F(Profile, IsARegularFileOfBoundedDepth) {
  std::string deep;
  while (deep.size() < (1 << 20) - 16) deep += "a.";
  EXPECT_NE(complaint(deep + "a = 1\n").find("keys of more than 16 parts"), std::string::npos);
  for (const char* path : {"/dev/zero", "/proc/self/mem"}) {
    const auto load = read_profile(path);
    ASSERT_FALSE(load);
    EXPECT_TRUE(load.error().message.starts_with(path)) << load.error().message;
  }
}

/// As a peer gets it.
nlohmann::json heard(const nlohmann::json& said) { return nlohmann::json::parse(said.dump()); }

TEST(LoadMessages, GiveTheSameLoadRunAndAddresses) {
  const Load load{.name = {},
                  .mix = {{Operation::kWrite, 64, 3}, {Operation::kFetchAdd, 8, 1}},
                  .queue_pairs = 5,
                  .threads = 2,
                  .depth = 9};
  const Load told = load_from(heard(to_json(load)));
  EXPECT_EQ(told.mix, load.mix);
  EXPECT_EQ(told.queue_pairs, 5u);
  EXPECT_EQ(told.threads, 2u);
  EXPECT_EQ(told.depth, 9u);
  const LoadRun run{.warm_up = std::chrono::nanoseconds(5),
                    .measured = std::chrono::nanoseconds(7),
                    .rate = 2.5,
                    .spacing = Spacing::kPoisson,
                    .seed = 11,
                    .sends = false};
  const LoadRun same = run_from(heard(to_json(run)));
  EXPECT_EQ(same.warm_up, run.warm_up);
  EXPECT_EQ(same.measured, run.measured);
  EXPECT_EQ(same.rate, 2.5);
  EXPECT_EQ(same.spacing, Spacing::kPoisson);
  EXPECT_EQ(same.seed, 11u);
  EXPECT_FALSE(same.sends);
}

TEST(LoadMessages, RefuseWhatNoPeerOfOursSays) {
  const nlohmann::json good = to_json(Load{.name = {}, .mix = {{Operation::kWrite, 64, 1}}});
  const auto with = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json changed = good;
    changed[key] = value;
    return changed;
  };
  EXPECT_NO_THROW(load_from(heard(good)));
  for (const nlohmann::json& wrong :
       {nlohmann::json(), nlohmann::json("load"), with("mix", nlohmann::json::array()), with("mix", {1}),
        with("queue_pairs", 0), with("queue_pairs", 1u << 20), with("threads", 100000), with("depth", -1),
        with("depth", "9"), with("mix", {{{"operation", "write"}, {"size", 0}, {"weight", 1}}}),
        with("mix", {{{"operation", 7}, {"size", 1}, {"weight", 1}}}),
        with("mix", {{{"operation", "write"}, {"size", 1u << 30}, {"weight", 1}}})})
    EXPECT_THROW(load_from(heard(wrong)), client::Failure) << wrong.dump();
  EXPECT_THROW(run_from(nlohmann::json::object()), client::Failure);
  EXPECT_THROW(addresses_from(nlohmann::json::array()), client::Failure);
  EXPECT_THROW(claims_from({{"receives", -1}, {"atomics", 0}}), client::Failure);
}

TEST(LoadCounts, AddUp) {
  LoadCounts one;
  one.parts.resize(1);
  one.parts[0].messages = 3;
  one.parts[0].latency.record(1000, 3);
  one.seconds = 1;
  one.sent = 3;
  LoadCounts sum;
  sum.add(one);
  one.seconds = 2;
  one.parts[0].latency.record(9000);
  sum.add(one);
  EXPECT_EQ(sum.parts.at(0).messages, 6u);
  EXPECT_EQ(sum.parts[0].latency.count(), 7u);
  EXPECT_EQ(sum.parts[0].latency.max(), 9000u);
  EXPECT_EQ(sum.seconds, 2);
  EXPECT_EQ(sum.sent, 6u);
}

}  // namespace
}  // namespace uroce::perf
