#include "client/channel.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <thread>

#include "apps/perf/ends/messages.h"
#include "apps/perf/ends/reception.h"
#include "client/failure.h"

namespace uroce::perf {
namespace {

class Connected : public ::testing::Test {
 protected:
  Connected()
      : ours_(client::Channel::connect("127.0.0.1:" + std::to_string(listener_.port()))), theirs_(accept()) {}

  std::optional<client::Channel> accept() {
    pollfd one{.fd = listener_.socket(), .events = POLLIN, .revents = 0};
    poll(&one, 1, -1);
    return listener_.accept();
  }

  void say(const std::string& bytes) const {
    ASSERT_EQ(send(ours_.socket(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  std::string failure() {
    try {
      (void)theirs_->receive();
      return "none";
    } catch (const client::Failure& failure) {
      return failure.what();
    }
  }

  client::Listener listener_{0};
  client::Channel ours_;
  std::optional<client::Channel> theirs_;
};

using ChannelTest = Connected;

TEST_F(ChannelTest, CarriesWhatIsSaid) {
  ours_.send({{"plan", {{"sizes", {1, 2}}}}});
  EXPECT_EQ(theirs_->receive()["plan"]["sizes"][1], 2);
}

TEST_F(ChannelTest, RefusesBracketsWithinBracketsWithinBrackets) {
  say("{\"plan\":" + std::string(30000, '[') + std::string(30000, ']') + "}\n");
  EXPECT_EQ(failure(), "127.0.0.1 does not speak the protocol of this program");
}

TEST_F(ChannelTest, ShowsWhatAPeerSaysWithoutItsControlCharacters) {
  say("{\"error\": \"\\u001b[31mred\\u009b \\\\ \\u0007\"}\n");
  EXPECT_EQ(failure(), "127.0.0.1: \\x1b[31mred\\xc2\\x9b \\ \\x07");
}

TEST_F(ChannelTest, ShowsTheBeginningOfWhatIsLong) {
  say("{\"error\": [\"" + std::string(60000, 'a') + "\"]}\n");
  EXPECT_LT(failure().size(), 300u);
}

TEST_F(ChannelTest, IsNotWaitedForLongerThanThat) {
  EXPECT_THROW((void)theirs_->receive(std::chrono::seconds(0)), client::Failure);
}

TEST(Reception, OutlastsStrangers) {
  client::Listener listener(0);
  const std::string where = "127.0.0.1:" + std::to_string(listener.port());
  const std::string garbage = "GET / HTTP/1.0\r\n\r\n";
  const client::Channel silent = client::Channel::connect(where);
  const client::Channel browser = client::Channel::connect(where);
  ASSERT_GT(send(browser.socket(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  { const client::Channel scanner = client::Channel::connect(where); }
  client::Channel client = client::Channel::connect(where);
  client.send({{"plan",
                {{"version", kDialogueVersion},
                 {"service", "rc"},
                 {"sizes", {64}},
                 {"depth", 4},
                 {"path_mtu", 0},
                 {"ack_timeout", 14}}}});
  EXPECT_EQ(await_client(listener).plan.sizes.front(), 64u);
}

}  // namespace
}  // namespace uroce::perf
