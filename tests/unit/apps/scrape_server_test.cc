#include "apps/stat/scrape_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace uroce::statistics {
namespace {

using Clock = std::chrono::steady_clock;

class ScrapeServerTest : public testing::Test {
 protected:
  ScrapeServerTest() {
    auto server = ScrapeServer::listen("127.0.0.1:0", [this] {
      ++made_;
      std::this_thread::sleep_for(takes_);
      return text_;
    });
    port_ = server->port();
    thread_ = std::thread([this, server = std::move(*server)]() mutable { server.serve(stop_.get()); });
  }
  ~ScrapeServerTest() override {
    eventfd_write(stop_.get(), 1);
    thread_.join();
  }

  [[nodiscard]] Descriptor connected(std::string_view request = {}) const {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    say(socket, request);
    return socket;
  }
  static void say(const Descriptor& socket, std::string_view text) {
    (void)send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }
  /// All that comes until the end of the connection.
  static std::string heard(const Descriptor& socket) {
    std::string all;
    char bytes[65536];
    for (ssize_t count = 0; (count = recv(socket.get(), bytes, sizeof bytes, 0)) > 0;)
      all.append(bytes, static_cast<size_t>(count));
    return all;
  }
  [[nodiscard]] std::string asked(std::string_view request = kRequest) const {
    return heard(connected(request));
  }

  static constexpr std::string_view kRequest = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
  std::string text_ = "uroce_x 1\n";
  std::atomic<int> made_{0};
  std::chrono::milliseconds takes_{0};

 private:
  Descriptor stop_{eventfd(0, EFD_CLOEXEC)};
  uint16_t port_ = 0;
  std::thread thread_;
};

TEST_F(ScrapeServerTest, Requests_ExpectTheTextOrAnError) {
  EXPECT_EQ(
      asked(),
      "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: 10\r\n"
      "Connection: close\r\n\r\nuroce_x 1\n");
  EXPECT_TRUE(asked("GET /metrics?a=b HTTP/1.0\r\n\r\n").ends_with("uroce_x 1\n"));
  EXPECT_TRUE(asked("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(asked("GET /metricsx HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(asked("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
  EXPECT_TRUE(asked("\r\n\r\n").starts_with("HTTP/1.1 405 "));
  EXPECT_EQ(asked(std::string(20'000, 'x')), "");
}

TEST_F(ScrapeServerTest, InParts_ExpectTheText) {
  const Descriptor socket = connected("GET /met");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  say(socket, "rics HTTP/1.1\r\n\r");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  say(socket, "\n");
  EXPECT_TRUE(heard(socket).ends_with("uroce_x 1\n"));
}

TEST_F(ScrapeServerTest, LongText_ExpectAllOfIt) {
  text_ = std::string(8'000'000, 'y');
  EXPECT_TRUE(asked().ends_with("\r\n\r\n" + text_));
}

TEST_F(ScrapeServerTest, ManyThatAreSlow_ExpectTheAnswerForOthers) {
  text_ = std::string(8'000'000, 'y');
  std::vector<Descriptor> slow;
  for (size_t i = 0; i < 2 * ScrapeServer::kConnectionsMax; ++i) {
    slow.push_back(connected(i % 3 == 0 ? "" : i % 3 == 1 ? "GET /metrics HTTP/1.1\r\n" : kRequest));
    if (i % 20 == 0) {
      EXPECT_TRUE(asked().ends_with(text_)) << i;
    }
  }
}

TEST_F(ScrapeServerTest, OneThatSaysNothing_ExpectItsEnd) {
  const Descriptor silent = connected();
  const auto began = Clock::now();
  EXPECT_EQ(heard(silent), "");
  EXPECT_GE(Clock::now() - began, ScrapeServer::kRequestMax - std::chrono::milliseconds(100));
  EXPECT_LT(Clock::now() - began, 4 * ScrapeServer::kRequestMax);
}

TEST_F(ScrapeServerTest, MoreRequestsThanTheTextCanBeMadeFor_ExpectItShared) {
  takes_ = std::chrono::milliseconds(200);
  std::vector<Descriptor> all;
  for (int i = 0; i < 20; ++i) all.push_back(connected(kRequest));
  for (const Descriptor& one : all) EXPECT_TRUE(heard(one).ends_with("uroce_x 1\n"));
  EXPECT_LT(made_, 10);
}

TEST(ScrapeServer, PlacesThatThereAreNot_ExpectAnError) {
  for (const char* where : {"nonsense", "192.0.2.77:1", "127.0.0.1:99999999", "", ":"})
    EXPECT_FALSE(ScrapeServer::listen(where, [] { return std::string(); })) << where;
  EXPECT_TRUE(ScrapeServer::listen("0", [] { return std::string(); }));
  EXPECT_TRUE(ScrapeServer::listen("[::]:0", [] { return std::string(); }));
}

}  // namespace
}  // namespace uroce::statistics
