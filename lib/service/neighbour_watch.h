#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/identifiers.h"
#include "base/time.h"
#include "service/served_device.h"

namespace uroce::service {

/// The stations that programs have asked for: questions that are open, and answers that may become wrong.
class NeighbourWatch {
 public:
  static constexpr Duration kPatience = seconds(3);
  /// Beyond that programs are told to ask again for one that was watched before.
  static constexpr size_t kWatchedMax = 1024;

  struct Answer {
    uint32_t program = 0;
    host::Station station;
    int error = 0;  // 0, EHOSTUNREACH, ETIMEDOUT or ENOBUFS
    MacAddress mac;
  };
  struct Moved {
    ServedDevice* device;
    host::Station station;
    MacAddress mac;  // zero: the station is not there any more
  };

  void ask(uint32_t program, ServedDevice& device, const host::Station& station, Instant now);
  void forget(uint32_t program);
  /// The device is closed next; its programs are forgotten already.
  void forget(const ServedDevice& device);

  /// The answers that have come.
  std::vector<Answer> answers(Instant now);
  /// When answers() is due.
  [[nodiscard]] Instant deadline() const { return questions_.empty() ? kNever : next_look_; }

  /// Looks at the answers that were given: those that are others now.
  std::vector<Moved> moved();

 private:
  static constexpr Duration kLookFirst = milliseconds(1);
  static constexpr Duration kLookLater = milliseconds(20);

  struct Question {
    uint32_t program;
    ServedDevice* device;
    host::Station station;
    Instant asked;
  };
  using Place = std::pair<ServedDevice*, host::Station>;

  void watch(const Place& place, MacAddress mac);

  std::vector<Question> questions_;
  Instant next_look_{};
  std::map<Place, MacAddress> watched_;
  std::vector<Moved> displaced_;
};

}  // namespace uroce::service
