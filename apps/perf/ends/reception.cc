// The server hears strangers side by side, 16 at a time for five seconds each, until one comes with a plan: a
// port scanner, a browser or a client that sends nothing is a line on standard error (16 at most), not the
// end of the server.
#include "apps/perf/ends/reception.h"

#include <fmt/format.h>
#include <poll.h>

#include <cerrno>
#include <chrono>
#include <list>
#include <optional>
#include <vector>

#include "apps/perf/ends/messages.h"
#include "client/failure.h"

namespace uroce::perf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kStrangersMax = 16;  // at a time; the oldest goes when more come
constexpr auto kPatience = std::chrono::seconds(5);
constexpr int kLookAroundMs = 100;
constexpr int kRefusalsShown = 16;  // a flood of strangers is none of lines

class Reception {
 public:
  explicit Reception(client::Listener& listener) : listener_(listener) {}

  Client wait() {
    for (;;) {
      client::throw_if_interrupted();
      wait_for_news();
      take_newcomers();
      for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
        if (auto plan = listen_to(*stranger)) return {std::move(stranger->channel), *std::move(plan)};
        stranger = stranger->refused ? strangers_.erase(stranger) : std::next(stranger);
      }
    }
  }

 private:
  struct Stranger {
    client::Channel channel;
    Clock::time_point until;
    bool refused = false;
  };

  void wait_for_news() const {
    std::vector<pollfd> sources = {{.fd = listener_.socket(), .events = POLLIN, .revents = 0}};
    for (const Stranger& stranger : strangers_)
      sources.push_back({.fd = stranger.channel.socket(), .events = POLLIN, .revents = 0});
    if (poll(sources.data(), sources.size(), kLookAroundMs) < 0 && errno != EINTR)
      throw client::failed("poll", errno);
  }

  void take_newcomers() {
    auto channel = listener_.accept();
    if (!channel) return;
    if (strangers_.size() == kStrangersMax) {
      refuse(strangers_.front(), strangers_.front().channel.peer() + " is one of too many");
      strangers_.pop_front();
    }
    strangers_.push_back({*std::move(channel), Clock::now() + kPatience});
  }

  std::optional<Plan> listen_to(Stranger& stranger) {
    try {
      if (auto message = stranger.channel.receive_if_any())
        return plan_from(message->value("plan", nlohmann::json()));
      if (Clock::now() > stranger.until) refuse(stranger, stranger.channel.peer() + " says nothing");
    } catch (const client::Failure& failure) {
      refuse(stranger, failure.what());
    }
    return std::nullopt;
  }

  void refuse(Stranger& stranger, const std::string& reason) {
    stranger.refused = true;
    if (++refusals_ <= kRefusalsShown) fmt::print(stderr, "uroce perf: {}\n", reason);
    if (refusals_ == kRefusalsShown) fmt::print(stderr, "uroce perf: further strangers are not shown\n");
    try {
      stranger.channel.send({{"error", reason}});
    } catch (const client::Failure&) {
      // It has gone.
    }
  }

  client::Listener& listener_;
  std::list<Stranger> strangers_;  // in the order of their coming
  int refusals_ = 0;
};

}  // namespace

Client await_client(client::Listener& listener) { return Reception(listener).wait(); }

}  // namespace uroce::perf
