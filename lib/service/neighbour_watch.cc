#include "service/neighbour_watch.h"

#include <cerrno>
#include <iterator>

namespace uroce::service {

void NeighbourWatch::ask(uint32_t program, ServedDevice& device, const host::Station& station, Instant now) {
  questions_.push_back({program, &device, station, now});
  next_look_ = now;
}

void NeighbourWatch::forget(uint32_t program) {
  std::erase_if(questions_, [&](const Question& question) { return question.program == program; });
}

void NeighbourWatch::forget(const ServedDevice& device) {
  std::erase_if(watched_, [&](const auto& entry) { return entry.first.first == &device; });
  std::erase_if(displaced_, [&](const Moved& moved) { return moved.device == &device; });
}

std::vector<NeighbourWatch::Answer> NeighbourWatch::answers(Instant now) {
  std::vector<Answer> answers;
  bool recent = false;
  std::erase_if(questions_, [&](const Question& question) {
    MacAddress mac;
    int error = question.device->find_neighbour(question.station, mac);
    if (error == EINPROGRESS && now - question.asked < kPatience) {
      recent |= now - question.asked < kLookLater;
      return false;
    }
    if (error == EINPROGRESS) error = ETIMEDOUT;
    answers.push_back({question.program, question.station, error, mac});
    if (error == 0) watch({question.device, question.station}, mac);
    return true;
  });
  next_look_ = now + (recent ? kLookFirst : kLookLater);
  return answers;
}

void NeighbourWatch::watch(const Place& place, MacAddress mac) {
  if (watched_.size() == kWatchedMax && !watched_.contains(place)) {
    const auto displaced = watched_.begin();
    displaced_.push_back({displaced->first.first, displaced->first.second, MacAddress{}});
    watched_.erase(displaced);
  }
  watched_[place] = mac;
}

std::vector<NeighbourWatch::Moved> NeighbourWatch::moved() {
  std::vector<Moved> moved = std::exchange(displaced_, {});
  for (auto at = watched_.begin(); at != watched_.end();) {
    const auto& [device, station] = at->first;
    MacAddress mac;
    const int error = device->find_neighbour(station, mac);
    const bool same = error == EINPROGRESS || (error == 0 && mac == at->second);
    if (!same) moved.push_back({device, station, error == 0 ? mac : MacAddress{}});
    if (!same) at->second = mac;
    at = same || error == 0 ? std::next(at) : watched_.erase(at);
  }
  return moved;
}

}  // namespace uroce::service
