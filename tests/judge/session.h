#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "client/channel.h"
#include "tests/judge/end.h"
#include "tests/judge/lists.h"
#include "tests/judge/requester.h"
#include "tests/judge/responder.h"
#include "tests/judge/windows.h"

namespace uroce::judge {

/// Two ends that meet by TCP and exchange lists, round after round. What a round has depends on the seed and
/// its number alone, so that one can be repeated without those before it.
class Session {
 public:
  Session(const Options& options, client::Channel peer);

  /// How many requests both ends have performed. Throws Wrong, Stall, and client::Failure when the peer has
  /// gone.
  uint64_t run();
  /// For the peer, which has to know why this end leaves.
  void say(const std::string& error);
  [[nodiscard]] uint64_t stalls() const { return stalls_; }

 private:
  /// How many requests, or none where the round came to a halt.
  std::optional<uint64_t> try_round(uint64_t round);
  void connect(uint64_t round);
  void part();
  void note_stall(uint64_t round, const std::string& why);
  /// Its number of requests.
  uint64_t run_round(uint64_t round);
  List make(uint64_t round, bool of_server) const;
  void perform_local(std::vector<ibv_send_wr> requests);
  void exchange(uint64_t round);
  /// One look at everything; whether anything came.
  void look();
  void wait_for_peer(const char* what);
  void idle();
  void hear();
  [[nodiscard]] std::string progress() const;

  End end_;
  client::Channel channel_;
  Windows windows_;
  nlohmann::json peer_;
  bool is_server_;
  Conditions conditions_;
  List own_;
  List incoming_;
  std::optional<Requester> requester_;   // of own_
  std::optional<Responder> responder_;   // of incoming_
  nlohmann::json message_;               // the peer's last
  std::optional<nlohmann::json> early_;  // and one that has come before it was waited for
  bool connected_ = false;
  bool peer_knows_ = false;  // of a stall
  uint64_t stalls_ = 0;
  uint64_t looks_ = 0;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace uroce::judge
