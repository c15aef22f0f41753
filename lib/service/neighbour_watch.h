#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/values/identifiers.h"
#include "base/values/time.h"
#include "net/resolution_clients.h"
#include "service/served_device.h"

namespace uroce::service {

/// The neighbours that programs have asked for: questions that are open, and answers that may become wrong.
/// The room for open questions has owners, the users: where there is none, the oldest question of the user
/// with most gives way to one with fewer. So does the device's own room (net::Neighbours).
class NeighbourWatch {
 public:
  static constexpr Duration kPatience = seconds(3);
  /// Open questions, of all users together.
  static constexpr size_t kQuestionsMax = 1024;
  /// Beyond that programs are told to ask again for one that was watched before.
  static constexpr size_t kWatchedMax = 1024;

  struct Client {
    uint32_t program = 0;
    uid_t user = 0;
  };
  struct Answer {
    uint32_t program = 0;
    host::Neighbour neighbour;
    int error = 0;  // 0, EHOSTUNREACH, ETIMEDOUT or ENOBUFS
    MacAddress mac;
  };
  struct Moved {
    ServedDevice* device;
    host::Neighbour neighbour;
    MacAddress mac;  // zero: the neighbour is not there any more
  };

  /// Engine's Device::find_neighbours() of the device.
  using Find = std::function<void(ServedDevice&, std::span<engine::Device::NeighbourQuestion>)>;
  explicit NeighbourWatch(Find find = &ServedDevice::find_neighbours) : find_(std::move(find)) {}

  void ask(const Client& client, ServedDevice& device, const host::Neighbour& neighbour, Instant now);
  void forget(uint32_t program);
  /// The device is closed next; its programs are forgotten already.
  void forget(const ServedDevice& device);

  /// The answers that have come, of the questions that are due: each when it is asked, and then at times of
  /// its own.
  std::vector<Answer> answers(Instant now);
  /// When answers() is due.
  [[nodiscard]] Instant deadline() const {
    return questions_.empty() && refused_.empty() ? kNever : next_look_;
  }

  /// Looks at the answers that were given: those that are others now.
  std::vector<Moved> moved();

 private:
  static constexpr Duration kLookFirst = milliseconds(1);
  static constexpr Duration kLookLater = milliseconds(20);

  struct Question {
    Client client;
    ServedDevice* device;
    host::Neighbour neighbour;
    Instant asked;
    Instant due;  // when it is looked up next
  };
  using Place = std::pair<ServedDevice*, host::Neighbour>;
  struct Watched {
    MacAddress mac;
    uid_t user = 0;  // that asked last
  };
  /// What a device says of a neighbour.
  struct Look {
    ServedDevice* device;
    engine::Device::NeighbourQuestion question;
  };

  [[nodiscard]] static Instant next_look(Instant asked, Instant now);
  /// Asks the devices, about several neighbours in each turn.
  void look_at(std::vector<Look>& looks) const;
  [[nodiscard]] static Look look_of(ServedDevice* device, const host::Neighbour& neighbour, uid_t user);
  [[nodiscard]] bool settle(const Question& question, const engine::Device::NeighbourQuestion& found,
                            Instant now, std::vector<Answer>& answers);
  void refuse(const Question& question);
  void watch(const Place& place, const Watched& watched);

  const Find find_;
  std::vector<Question> questions_;  // the oldest first
  net::ResolutionClients clients_{kQuestionsMax};
  std::vector<Answer> refused_;
  Instant next_look_ = kNever;
  std::map<Place, Watched> watched_;
  std::vector<Moved> displaced_;
};

}  // namespace uroce::service
