// Two ends on plain verbs, of any devices, exchange random lists of requests and compare every byte, every
// old value and every completion with a model (README.md).

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>

#include "client/channel.h"
#include "client/failure.h"
#include "tests/judge/outcome.h"
#include "tests/judge/session.h"

namespace uroce::judge {
namespace {

constexpr const char* kUsage =
    "usage: judge [-d DEVICE] [-g GID_INDEX] [-m PATH_MTU] [-p TCP_PORT] [-t ACK_TIMEOUT] [-l] [SERVER]\n"
    "       at the server also [-s SEED] [-n OPERATIONS] [-r FIRST_ROUND] [-o any|server|client] [-w "
    "SECONDS]\n"
    "       [-k STALLS] [-b REQUESTS_OF_A_LIST]\n"
    "       -k: how many halts are survived by a new connection\n"
    "       -o: which end has requests    -w: nothing may come for so long\n"
    "       -l: no BIND nor LOCAL_INV among other requests of this end\n"
    "       exit status: 0 right, 1 not run, 2 wrong, 3 stall, 4 the other end has given up";

uint32_t requesters_of(const std::string& word) {
  if (word == "any") return 0;
  if (word == "server") return 1;
  if (word == "client") return 2;
  throw client::Failure(fmt::format("-o {}: any, server or client\n{}", word, kUsage));
}

uint64_t number(const char* text) {
  char* end = nullptr;
  const uint64_t value = std::strtoull(text, &end, 0);
  if (end == text || *end != '\0') throw client::Failure(fmt::format("{} is no number\n{}", text, kUsage));
  return value;
}

Options parse(int argc, char** argv) {
  Options options;
  std::random_device entropy;
  options.seed = entropy();
  for (int option = 0; (option = getopt(argc, argv, "d:g:m:p:t:s:n:r:o:w:k:b:l")) != -1;) {
    if (option == '?') throw client::Failure(kUsage);
    if (option == 'l') {
      options.local_requests = false;
      continue;
    }
    if (option == 'd') {
      options.device = optarg;
      continue;
    }
    if (option == 'o') {
      options.requesters = requesters_of(optarg);
      continue;
    }
    const uint64_t value = number(optarg);
    if (option == 'g') options.gid_index = static_cast<uint32_t>(value);
    if (option == 'm') options.path_mtu = static_cast<uint32_t>(value);
    if (option == 'p') options.tcp_port = static_cast<uint16_t>(value);
    if (option == 't') options.ack_timeout = static_cast<uint8_t>(value);
    if (option == 's') options.seed = value;
    if (option == 'n') options.operations = value;
    if (option == 'r') options.round = value;
    if (option == 'k') options.stalls_max = value;
    if (option == 'b')
      options.requests_max = static_cast<uint32_t>(std::clamp<uint64_t>(value, 1, kRequestsMax));
    if (option == 'w') options.patience = std::chrono::seconds(value);
  }
  if (optind < argc) options.server = argv[optind];
  return options;
}

client::Channel meet(Options& options) {
  if (!options.server.empty()) {
    client::Channel server = client::Channel::connect(fmt::format("{}:{}", options.server, options.tcp_port));
    const nlohmann::json decided = server.receive();
    options.seed = decided.at("seed");
    options.operations = decided.at("operations");
    options.round = decided.at("round");
    options.stalls_max = decided.at("stalls_max");
    options.requests_max = decided.at("requests_max");
    options.requesters = decided.at("requesters");
    options.patience = std::chrono::seconds(decided.at("patience").get<int64_t>());
    return server;
  }
  client::Listener listener(options.tcp_port);
  for (;;) {
    std::optional<client::Channel> client = listener.accept();
    if (!client) continue;
    client->send({{"seed", options.seed},
                  {"operations", options.operations},
                  {"round", options.round},
                  {"stalls_max", options.stalls_max},
                  {"requests_max", options.requests_max},
                  {"requesters", options.requesters},
                  {"patience", options.patience.count()}});
    return std::move(*client);
  }
}

Outcome tell(Outcome outcome, const char* word, const std::exception& reason) {
  fmt::print("{}: {}\n", word, reason.what());
  return outcome;
}

Outcome run(Session& session) {
  try {
    const uint64_t requests = session.run();
    fmt::print("right: {} requests, {} halts\n", requests, session.stalls());
    return Outcome::kRight;
  } catch (const Wrong& wrong) {
    tell(Outcome::kWrong, "WRONG", wrong);
    session.say(fmt::format("WRONG, {}", wrong.what()));
    return Outcome::kWrong;
  } catch (const Stall& stall) {
    tell(Outcome::kStall, "STALL", stall);
    session.say(fmt::format("STALL, {}", stall.what()));
    return Outcome::kStall;
  } catch (const client::Failure& failure) {
    return tell(Outcome::kPeer, "THE OTHER END HAS GIVEN UP", failure);
  }
}

}  // namespace
}  // namespace uroce::judge

int main(int argc, char** argv) {
  using namespace uroce;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    judge::Options options = judge::parse(argc, argv);
    client::Channel peer = judge::meet(options);
    fmt::print("seed {}\n", options.seed);
    judge::Session session(options, std::move(peer));
    return static_cast<int>(judge::run(session));
  } catch (const std::exception& failure) {
    fmt::print("judge: {}\n", failure.what());
    return static_cast<int>(judge::Outcome::kNotRun);
  }
}
