#include "performance.h"

#include "base/counters/counter_texts.h"
#include "packets.h"
#include "wire/address_text.h"

namespace uroce::script {

namespace {

constexpr Named<qp::Event> kEvents[] = {
    {"established", qp::Event::kEstablished},    {"drained", qp::Event::kSendQueueDrained},
    {"last_receive", qp::Event::kLastReceive},   {"fatal", qp::Event::kFatal},
    {"request_error", qp::Event::kRequestError}, {"access_error", qp::Event::kAccessError}};

/// They count what goes well, or the wire.
bool is_ordinary(Counter counter) {
  switch (counter) {
    case Counter::kRxFrames:
    case Counter::kRxBytes:
    case Counter::kTxFrames:
    case Counter::kTxBytes:
    case Counter::kRequestsExecuted:
    case Counter::kAtomicsExecuted:
    case Counter::kUnattendedMs:
      return true;
    default:
      return false;
  }
}

}  // namespace

Performance::Performance() {
  for (size_t i = 0; i < kCounterCount; ++i) counters_[i] = stage_.counter(static_cast<Counter>(i));
}

Performance::Statement Performance::statement(const Line& line) {
  constexpr Named<Statement> kStatements[] = {{"region", &Performance::region},
                                              {"deregister", &Performance::deregister},
                                              {"srq", &Performance::shared_receives},
                                              {"qp", &Performance::queue_pair},
                                              {"on", &Performance::on},
                                              {"modify", &Performance::modify},
                                              {"destroy", &Performance::destroy},
                                              {"post", &Performance::post},
                                              {"recv", &Performance::receive},
                                              {"<", &Performance::packet},
                                              {"burst", &Performance::burst},
                                              {"end", &Performance::end_burst},
                                              {"attach", &Performance::attach},
                                              {">", &Performance::expect_packets},
                                              {"nothing", &Performance::nothing},
                                              {"wait", &Performance::wait},
                                              {"completion", &Performance::completion},
                                              {"counter", &Performance::counter},
                                              {"state", &Performance::state},
                                              {"event", &Performance::event},
                                              {"memory", &Performance::memory}};
  return value_of(line, kStatements, line.verb(), "statement");
}

void Performance::perform(const Case& script) {
  for (const Line& written : script.lines) {
    Line line = written;
    (this->*statement(line))(line);
    line.end();
  }
  finish(script.lines.empty() ? Line(script.place, "case") : script.lines.back());
}

/// Nothing is left that no line expects, anywhere.
void Performance::finish(const Line& line) {
  if (bursting_) line.fail("a burst has no end");
  if (expectations_ == 0) line.fail("the case expects nothing");
  stage_.settle();
  expect_silence(line);
  check_counters(line);
  if (const std::string wrong = stage_.memory().compare(); !wrong.empty()) line.fail("in the end " + wrong);
}

Actor& Performance::actor(const Line& line) const {
  if (actor_ == nullptr) line.fail("there is no queue pair");
  return *actor_;
}

/// Lets the stack react to what was done.
void Performance::act() {
  if (!bursting_) stage_.settle();
}

void Performance::burst(Line& line) {
  expect_silence(line);
  bursting_ = true;
}

void Performance::end_burst(Line& line) {
  if (!bursting_) line.fail("there is no burst");
  bursting_ = false;
  act();
}

/// What came and was not asked for yet.
std::string Performance::unexpected() const {
  if (!stage_.sent.empty()) return "packet " + text_of(stage_.sent.front().frame);
  auto& stage = const_cast<Stage&>(stage_);
  for (const auto& [name, actor] : stage.actors()) {
    for (const auto* queue : {&actor->send_completions, &actor->receive_completions}) {
      if (queue->empty()) continue;
      return "completion of " + std::to_string(queue->front().wr_id) + " of " + name + " with status " +
             std::to_string(static_cast<int>(queue->front().status));
    }
    if (!actor->events.empty()) return "event " + name_of(kEvents, actor->events.front()) + " of " + name;
  }
  for (const auto& [name, shared] : stage_.all_shared()) {
    if (shared->limits_reached > 0) return "limit event of " + name;
    if (!shared->completed.empty())
      return "completion of " + std::to_string(shared->completed.front().wr_id) + " of " + name;
  }
  return {};
}

void Performance::expect_silence(const Line& line) const {
  if (const std::string what = unexpected(); !what.empty()) line.fail("came unexpected before this: " + what);
}

void Performance::check_counters(const Line& line) const {
  if (const std::string grown = grown_counters(); !grown.empty())
    line.fail("in the end counters have grown that no line names" + grown);
}

void Performance::packet(Line& line) {
  expect_silence(line);
  for (Bytes& frame : frames_to(line, stage_, actor(line))) stage_.feed(std::move(frame));
  act();
}

void Performance::expect_packets(Line& line) {
  ++expectations_;
  const ExpectedPackets expected(line, stage_, actor(line));
  for (size_t i = 0; i < expected.count(); ++i) {
    if (stage_.sent.empty()) line.fail("no packet came" + (came() ? ", but " + unexpected() : std::string()));
    const Bytes frame = std::move(stage_.sent.front().frame);
    stage_.sent.pop_front();
    if (const std::string wrong = expected.compare(frame, i); !wrong.empty())
      line.fail(wrong + "; came: " + text_of(frame));
  }
}

/// For so long, and at its end.
void Performance::nothing(Line& line) {
  ++expectations_;
  expect_silence(line);
  const Duration length = line.to_duration(line.next("time"));
  for (const Instant end = Stage::now() + length; Stage::now() < end;) {
    const Instant before = Stage::now();
    stage_.pass(end - before);
    if (came())
      line.fail("after " + std::to_string((Stage::now() - end + length).ns) + " ns came " + unexpected());
  }
}

/// Until something comes: not before the first time, not after the second.
void Performance::wait(Line& line) {
  ++expectations_;
  expect_silence(line);
  const auto [from, to] = Line::to_range(line.next("time"));
  const Instant begin = Stage::now();
  const Duration least = line.to_duration(from);
  const Duration most = line.to_duration(to);
  while (!came() && Stage::now() - begin < most) stage_.pass(begin + most - Stage::now());
  const Duration passed = Stage::now() - begin;
  if (!came()) line.fail("nothing came");
  if (passed < least) line.fail("after " + std::to_string(passed.ns) + " ns came already " + unexpected());
}

/// Those of something extraordinary that no line has named.
std::string Performance::grown_counters() const {
  std::string text;
  for (size_t i = 0; i < kCounterCount; ++i) {
    const auto counter = static_cast<Counter>(i);
    const uint64_t grown = stage_.counter(counter) - counters_[i];
    if (!is_ordinary(counter) && grown > 0)
      text += ", " + std::string(texts_of(counter).label) + " by " + std::to_string(grown);
  }
  return text;
}

void Performance::counter(Line& line) {
  ++expectations_;
  const std::string name = line.next("name of the counter");
  const std::string growth = line.next("+n");
  if (!growth.starts_with('+')) line.fail("+n is missing");
  for (size_t i = 0; i < kCounterCount; ++i) {
    const auto counter = static_cast<Counter>(i);
    if (texts_of(counter).label != name) continue;
    const uint64_t value = stage_.counter(counter);
    const uint64_t grown = value - counters_[i];
    counters_[i] = value;
    if (grown != line.to_number(growth.substr(1)))
      line.fail("counter " + name + " has grown by " + std::to_string(grown) + grown_counters());
    return;
  }
  line.fail("no such counter: " + name);
}

void Performance::event(Line& line) {
  ++expectations_;
  const std::string name = line.next("name of the event");
  if (name == "limit") {
    size_t& reached = stage_.shared_receives(line, line.next("shared receive queue")).limits_reached;
    if (reached == 0) line.fail("no event came");
    --reached;
    return;
  }
  const qp::Event expected = value_of(line, kEvents, name, "event");
  auto& events = actor(line).events;
  if (events.empty()) line.fail("no event came");
  if (events.front() != expected) line.fail("came: " + name_of(kEvents, events.front()));
  events.pop_front();
}

void Performance::memory(Line& line) {
  ++expectations_;
  Memory& memory = stage_.memory();
  const Address at = memory.address(line, line.next("address"));
  Bytes bytes;
  if (const auto word = line.number("word")) {
    bytes.resize(sizeof(*word));
    std::memcpy(bytes.data(), &*word, sizeof(*word));
  } else {
    const auto count = line.number("bytes");
    if (!count) line.fail("bytes= is missing");
    const auto data = line.option("data");
    if (at.offset + *count > at.region->model.size()) line.fail("beyond the end");
    if (data) {
      bytes = memory.data(line, *data, 0, *count);
    } else if (line.flag("any")) {
      bytes.assign(at.region->memory + at.offset, at.region->memory + at.offset + *count);
    } else {
      line.fail("data= is missing");
    }
  }
  memory.expect(at, bytes);
  if (const std::string wrong = Memory::compare(at, bytes.size()); !wrong.empty()) line.fail(wrong);
}

}  // namespace uroce::script
