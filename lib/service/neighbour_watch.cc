#include "service/neighbour_watch.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace uroce::service {
namespace {

/// How many neighbours are looked up in one turn of a device.
constexpr size_t kNeighboursOfTurnMax = 32;

/// The device's name of a user: 0 is the device itself.
net::ResolutionClient client_of(uid_t user) { return net::ResolutionClient{user} + 1; }

}  // namespace

NeighbourWatch::Look NeighbourWatch::look_of(ServedDevice* device, const host::Neighbour& neighbour,
                                             uid_t user) {
  return {device, {.destination = neighbour.address, .vlan = neighbour.vlan, .client = client_of(user)}};
}

/// At whole milliseconds, so that questions which are due about then share a turn.
Instant NeighbourWatch::next_look(Instant asked, Instant now) {
  const Instant next = now + (now - asked < kLookLater ? kLookFirst : kLookLater);
  return next + nanoseconds(kLookFirst.ns - 1 - (next.ns + kLookFirst.ns - 1) % kLookFirst.ns);
}

void NeighbourWatch::look_at(std::vector<Look>& looks) const {
  std::vector<engine::Device::NeighbourQuestion> some;
  for (size_t first = 0; first < looks.size(); first += some.size()) {
    some.clear();
    ServedDevice* const device = looks[first].device;
    for (size_t i = first;
         i < looks.size() && looks[i].device == device && some.size() < kNeighboursOfTurnMax; ++i)
      some.push_back(looks[i].question);
    find_(*device, some);
    for (size_t i = 0; i < some.size(); ++i) looks[first + i].question = some[i];
  }
}

void NeighbourWatch::ask(const Client& client, ServedDevice& device, const host::Neighbour& neighbour,
                         Instant now) {
  const Question question{client, &device, neighbour, now, now};
  next_look_ = now;
  if (questions_.size() >= kQuestionsMax) {
    const net::ResolutionClients::Share largest = clients_.largest();
    if (largest.count <= clients_.of(client_of(client.user))) return refuse(question);
    const auto oldest = std::ranges::find_if(
        questions_, [&](const Question& open) { return client_of(open.client.user) == largest.client; });
    refuse(*oldest);
    questions_.erase(oldest);
    clients_.remove(largest.client);
  }
  questions_.push_back(question);
  clients_.add(client_of(client.user));
}

void NeighbourWatch::refuse(const Question& question) {
  refused_.push_back({question.client.program, question.neighbour, ENOBUFS, {}});
}

void NeighbourWatch::forget(uint32_t program) {
  std::erase_if(questions_, [&](const Question& question) {
    if (question.client.program != program) return false;
    clients_.remove(client_of(question.client.user));
    return true;
  });
  std::erase_if(refused_, [&](const Answer& answer) { return answer.program == program; });
}

void NeighbourWatch::forget(const ServedDevice& device) {
  std::erase_if(watched_, [&](const auto& entry) { return entry.first.first == &device; });
  std::erase_if(displaced_, [&](const Moved& moved) { return moved.device == &device; });
}

/// False: it stays open.
bool NeighbourWatch::settle(const Question& question, const engine::Device::NeighbourQuestion& found,
                            Instant now, std::vector<Answer>& answers) {
  if (found.error == EINPROGRESS && now - question.asked < kPatience) return false;
  const int error = found.error == EINPROGRESS ? ETIMEDOUT : found.error;
  answers.push_back({question.client.program, question.neighbour, error, found.mac});
  if (error == 0) watch({question.device, question.neighbour}, {found.mac, question.client.user});
  clients_.remove(client_of(question.client.user));
  return true;
}

std::vector<NeighbourWatch::Answer> NeighbourWatch::answers(Instant now) {
  std::vector<Answer> answers = std::exchange(refused_, {});
  std::vector<Look> looks;
  for (const Question& question : questions_)
    if (question.due <= now)
      looks.push_back(look_of(question.device, question.neighbour, question.client.user));
  look_at(looks);
  next_look_ = kNever;
  auto look = looks.begin();
  auto kept = questions_.begin();
  for (Question& question : questions_) {
    if (question.due <= now) {
      if (settle(question, (look++)->question, now, answers)) continue;
      question.due = next_look(question.asked, now);
    }
    next_look_ = std::min(next_look_, question.due);
    *kept++ = question;
  }
  questions_.erase(kept, questions_.end());
  return answers;
}

void NeighbourWatch::watch(const Place& place, const Watched& watched) {
  if (watched_.size() == kWatchedMax && !watched_.contains(place)) {
    const auto displaced = watched_.begin();
    displaced_.push_back({displaced->first.first, displaced->first.second, MacAddress{}});
    watched_.erase(displaced);
  }
  watched_[place] = watched;
}

std::vector<NeighbourWatch::Moved> NeighbourWatch::moved() {
  std::vector<Moved> moved = std::exchange(displaced_, {});
  std::vector<Look> looks;
  for (const auto& [place, watched] : watched_)
    looks.push_back(look_of(place.first, place.second, watched.user));
  look_at(looks);
  auto look = looks.begin();
  for (auto at = watched_.begin(); at != watched_.end();) {
    const auto& [device, neighbour] = at->first;
    const auto& [destination, vlan, client, error, mac] = (look++)->question;
    // Without room to ask again nothing is known to be wrong.
    const bool unknown = error == EINPROGRESS || error == ENOBUFS;
    const bool same = unknown || (error == 0 && mac == at->second.mac);
    if (!same) moved.push_back({device, neighbour, error == 0 ? mac : MacAddress{}});
    if (!same) at->second.mac = mac;
    at = same || error == 0 ? std::next(at) : watched_.erase(at);
  }
  return moved;
}

}  // namespace uroce::service
