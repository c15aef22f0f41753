#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "copy/guarded_copy.h"
#include "copy/placer.h"
#include "watched_messages.h"

// Does a CPU that watches memory see the last byte of a message after all its others, and messages in order?
//
//     visibility_test [--messages N] [--seed N]        through the placer, with every kind of copy: no
//     violation visibility_test --sensitivity [--messages N]     through copies that are known to be wrong:
//     violations, or this
//                                                      machine is not able to show them (exit status 77)

namespace uroce::litmus {
namespace {

constexpr int kSkipped = 77;

struct Arguments {
  bool sensitivity = false;
  uint64_t messages = 1'000'000;  // of all kinds of copy together; of each wrong one
  uint64_t seed = 20261121;
};

template <typename Packet>
void for_each_packet(const Message& message, Packet packet) {
  for (size_t at = 0; at < message.length; at += message.packet) {
    const size_t length = std::min(message.packet, message.length - at);
    packet(message.to + at, message.from + at, length, at + length == message.length);
  }
}

/// As a responder places a burst: the packets of the message, then the flag's, then one commit.
Send through_placer(copy::Placer& placer) {
  return [&placer](const Message& message) {
    for_each_packet(message, [&](std::byte* to, const std::byte* from, size_t length, bool last) {
      if (last) {
        placer.place_last(to, from, length, true);
      } else {
        placer.place(to, from, length, true);
      }
    });
    placer.place_last(message.flag, message.flag_from, kFlagBytes, false);
    placer.commit();
  };
}

/// What a stack without this care does.
void send_by_memcpy(const Message& message) {
  for_each_packet(message, [](std::byte* to, const std::byte* from, size_t length, bool) {
    std::memcpy(to, from, length);
  });
  copy::guarded_store_ascending(message.flag, message.flag_from, kFlagBytes);
}

/// The placer's order without its fence.
void send_unfenced(const Message& message) {
  const copy::CopyFunction stream = copy::find_kind(copy::Kind::kNonTemporal)->cold;
  for_each_packet(message, [&](std::byte* to, const std::byte* from, size_t length, bool last) {
    const size_t tail = last ? std::min(length, copy::Placer::kTailBytes) : 0;
    stream(to, from, length - tail);
    copy::guarded_store_ascending(to + length - tail, from + length - tail, tail);
  });
  copy::guarded_store_ascending(message.flag, message.flag_from, kFlagBytes);
}

void print(std::string_view name, const Sightings& seen) {
  std::printf("%-20.*s %10" PRIu64 " messages %7.1f s   early last byte %6" PRIu64 "   early flag %6" PRIu64
              "\n",
              static_cast<int>(name.size()), name.data(), seen.messages, seen.seconds, seen.early_last_byte,
              seen.early_flag);
  std::fflush(stdout);
}

int run_kinds(const Arguments& arguments) {
  uint64_t violations = 0;
  const uint64_t of_each = arguments.messages / copy::kinds().size() + 1;
  for (const copy::KindRow& row : copy::kinds()) {
    copy::Placer placer(row.kind);
    const Sightings seen = watch(through_placer(placer), {.messages_max = of_each, .seed = arguments.seed});
    print(row.name, seen);
    violations += seen.violations();
  }
  std::printf("%s: %" PRIu64 " violations (seed %" PRIu64 ")\n", violations == 0 ? "passed" : "FAILED",
              violations, arguments.seed);
  return violations == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/// True when the wrong copy was found out.
bool found_out(std::string_view name, const Send& send, const Arguments& arguments) {
  const Sightings seen =
      watch(send, {.messages_max = arguments.messages, .violations_max = 10, .seed = arguments.seed});
  print(name, seen);
  if (seen.violations() > 0) return true;
  std::printf("NOT SENSITIVE ENOUGH ON THIS MACHINE: no violation of a copy that is wrong (%.*s) in %" PRIu64
              " messages\n",
              static_cast<int>(name.size()), name.data(), seen.messages);
  return false;
}

int run_sensitivity(const Arguments& arguments) {
  const bool memcpy_found = found_out("plain memcpy", send_by_memcpy, arguments);
  const bool unfenced_found = found_out("unfenced streaming", send_unfenced, arguments);
  return memcpy_found && unfenced_found ? EXIT_SUCCESS : kSkipped;
}

bool parse(int count, char** values, Arguments& arguments) {
  for (int i = 1; i < count; ++i) {
    const std::string_view name = values[i];
    if (name == "--sensitivity") {
      arguments.sensitivity = true;
    } else if (name == "--messages" && i + 1 < count) {
      arguments.messages = std::strtoull(values[++i], nullptr, 10);
    } else if (name == "--seed" && i + 1 < count) {
      arguments.seed = std::strtoull(values[++i], nullptr, 10);
    } else {
      return false;
    }
  }
  return arguments.messages > 0;
}

}  // namespace
}  // namespace uroce::litmus

int main(int count, char** values) {
  using namespace uroce::litmus;
  Arguments arguments;
  if (!parse(count, values, arguments)) {
    std::fprintf(stderr, "usage: visibility_test [--sensitivity] [--messages N] [--seed N]\n");
    return EXIT_FAILURE;
  }
  int sender = 0;
  int watcher = 0;
  if (!two_processors(sender, watcher)) {
    std::printf("skipped: needs two processors, and this machine lends us one\n");
    return kSkipped;
  }
  return arguments.sensitivity ? run_sensitivity(arguments) : run_kinds(arguments);
}
