#include "base/values/nearest_name.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

std::string meant(std::string_view written) {
  constexpr std::array<std::string_view, 7> kNames{"mtu",   "mode", "takeover_us", "follow_packets", "perf",
                                                   "serve", "x"};
  return did_you_mean(written, kNames);
}

TEST(NearestName, FindsWhatIsNear) {
  EXPECT_EQ(meant("mut"), " (did you mean mtu?)");
  EXPECT_EQ(meant("mdoe"), " (did you mean mode?)");
  EXPECT_EQ(meant("modes"), " (did you mean mode?)");
  EXPECT_EQ(meant("takeover-us"), " (did you mean takeover_us?)");
  EXPECT_EQ(meant("folow_packet"), " (did you mean follow_packets?)");
  EXPECT_EQ(meant("prf"), " (did you mean perf?)");
}

TEST(NearestName, SaysNothingWhenNothingIsNear) {
  for (const std::string& written : {std::string(), std::string("y"), std::string("speed"),
                                     std::string("takeover"), std::string(1000, 'm')})
    EXPECT_EQ(meant(written), "") << written;
}

}  // namespace
}  // namespace uroce
