// What `uroce fault` and configurations say of a fault.
#include "faults/rule.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "faults/breakage.h"

namespace uroce::faults {
namespace {

std::string complaint(std::string_view text) {
  const auto rule = parse_rule(text);
  return rule ? "none" : rule.error().message;
}

TEST(Rule, HasEveryKey) {
  const auto rule = parse_rule(
      "device=uroce1,qp=17,client=4711,loss=1%,delay=100us,jitter=20us,reorder=5%,duplicate=1%,corrupt=0.01%,"
      "ecn=2%,nak=rnr:10%,rate=10Gbit,seed=7,after=2s,for=10s");
  ASSERT_TRUE(rule) << rule.error().message;
  const Rule expected{.scope = {.device = "uroce1", .queue_pair = QpNumber{17}, .client = 4711},
                      .loss = 10'000,
                      .duplicate = 10'000,
                      .reorder = 50'000,
                      .corrupt = 100,
                      .ecn = 20'000,
                      .nak = 100'000,
                      .refusal = Refusal::kRnr,
                      .delay = microseconds(100),
                      .jitter = microseconds(20),
                      .rate = 10'000'000'000,
                      .seed = 7,
                      .after = seconds(2),
                      .lasts = seconds(10)};
  EXPECT_EQ(*rule, expected);
}

TEST(Rule, IsTheSameFromItsText) {
  for (const char* text : {"loss=100%", "delay=1500us", "nak=access:0.5%,seed=0", "corrupt=0.0001%,for=1ms",
                           "device=a,reorder=33.3333%", "rate=1500kbit,after=1ns", "qp=1,ecn=1%",
                           "nak=invalid:1%", "client=1,nak=operational:50%,duplicate=2%"}) {
    const auto rule = parse_rule(text);
    ASSERT_TRUE(rule) << text << ": " << rule.error().message;
    const auto again = parse_rule(to_text(*rule));
    ASSERT_TRUE(again) << to_text(*rule);
    EXPECT_EQ(*again, *rule) << to_text(*rule);
  }
}

TEST(Rule, IsRefusedWithOneLine) {
  const std::vector<std::pair<const char*, const char*>> wrong = {
      {"", "nothing to do"},
      {"seed=3", "nothing to do"},
      {"device=uroce0", "nothing to do"},
      {"loss", "must be KEY=VALUE"},
      {"lose=1%", "no fault has that key"},
      {"loss=1%,loss=2%", "given twice"},
      {"loss=0%", "loss: must be above 0%"},
      {"loss=101%", "loss: must be above 0%"},
      {"loss=-1%", "loss: must be above 0%"},
      {"loss=nan%", "loss: must be above 0%"},
      {"loss=5", "loss: must be above 0%"},
      {"loss=0.00001%", "loss: must be 0.0001% at least"},
      {"delay=100", "delay: must be a time"},
      {"delay=0us", "delay: must be a time"},
      {"delay=11s", "delay: must be a time up to 10 s"},
      {"delay=1us,jitter=2us", "jitter: must not be more than delay"},
      {"jitter=2us,loss=1%", "jitter: must not be more than delay"},
      {"nak=10%", "nak: must be rnr"},
      {"nak=rnr", "nak: must be rnr"},
      {"nak=rnr:0%", "nak: must be above 0%"},
      {"rate=10", "rate: must be from 1kbit"},
      {"rate=2000Gbit", "rate: must be from 1kbit"},
      {"rate=1e30Gbit", "rate: must be from 1kbit"},
      {"qp=0,loss=1%", "qp: must be the number"},
      {"qp=16777216,loss=1%", "qp: must be the number"},
      {"client=x,loss=1%", "client: must be the number"},
      {"qp=0x,loss=1%", "qp: must be the number"},
      {"seed=-1,loss=1%", "seed: must be a number"},
      {"for=2 s,loss=1%", "for: must be a time"},
  };
  for (const auto& [text, expected] : wrong)
    EXPECT_NE(complaint(text).find(expected), std::string::npos) << text << ": " << complaint(text);
  EXPECT_NE(complaint(std::string(500, 'x')).find("longer"), std::string::npos);
}

TEST(Breakage, NamesOneThing) {
  using What = Breakage::What;
  const std::vector<std::pair<const char*, Breakage>> orders = {
      {"break,qp=17", {What::kQueuePair, {.queue_pair = QpNumber{17}}}},
      {"break,qp=17,overflow=true", {What::kCompletions, {.queue_pair = QpNumber{17}}}},
      {"break,device=uroce0,client=5", {What::kDevice, {.device = "uroce0", .client = 5}}},
      {"break,key=0xAB12,client=5", {What::kKey, {.client = 5}, 0xAB12}},
      {"break,client=5,key=4294967295", {What::kKey, {.client = 5}, UINT32_MAX}}};
  for (const auto& [text, expected] : orders) {
    const auto order = parse_breakage(text);
    ASSERT_TRUE(order) << text;
    EXPECT_EQ(*order, expected) << text;
  }
  for (const char* wrong :
       {"qp=17", "break,", "break,qp=17,client=5", "break,qp=17,loss=1%", "break,qp=17,delay=1us",
        "break,device=uroce0,seed=3", "break,qp=x", "break,for=1s", "", "break,key=7",
        "break,key=0x,client=5", "break,key=4294967296,client=5", "break,key=7,client=5,qp=3",
        "break,overflow=true", "break,client=5,overflow=true", "break,qp=17,overflow=false",
        "break,qp=17,qp=17"})
    EXPECT_FALSE(parse_breakage(wrong)) << wrong;
}

}  // namespace
}  // namespace uroce::faults
