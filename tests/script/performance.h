#pragma once

#include <array>
#include <set>
#include <string>

#include "scripts.h"
#include "stage.h"

namespace uroce::script {

/// Performs the lines of one case. README.md says what there is to write.
class Performance {
 public:
  Performance();

  /// Throws Failure at the first line that does not come true, and when something came that no line expects.
  void perform(const Case& script);

 private:
  using Statement = void (Performance::*)(Line& line);
  static Statement statement(const Line& line);

  // What the script does.
  void region(Line& line);
  void deregister(Line& line);
  void shared_receives(Line& line);
  void queue_pair(Line& line);
  void on(Line& line);
  void modify(Line& line);
  void destroy(Line& line);
  void post(Line& line);
  void receive(Line& line);
  void packet(Line& line);
  void burst(Line& line);
  void end_burst(Line& line);
  void attach(Line& line);

  // What it expects.
  void expect_packets(Line& line);
  void nothing(Line& line);
  void wait(Line& line);
  void completion(Line& line);
  void counter(Line& line);
  void state(Line& line);
  void event(Line& line);
  void memory(Line& line);

  void fill_request(Line& line, queue::SendRequest& request, queue::SendOperation operation);
  void address_request(Line& line, queue::SendRequest& request);
  void bring_up(const Line& line, Actor& actor, const std::string& state);
  void step(const Line& line, Actor& actor, qp::State state, qp::AttributeMask mask);
  void act();
  [[nodiscard]] Actor& actor(const Line& line) const;
  [[nodiscard]] std::string unexpected() const;
  [[nodiscard]] bool came() const { return !unexpected().empty(); }
  void expect_silence(const Line& line) const;
  [[nodiscard]] std::string grown_counters() const;
  void check_counters(const Line& line) const;
  void finish(const Line& line);

  Stage stage_;
  Actor* actor_ = nullptr;
  bool bursting_ = false;
  size_t expectations_ = 0;
  std::array<uint64_t, kCounterCount> counters_{};  // that the script knows of
};

}  // namespace uroce::script
