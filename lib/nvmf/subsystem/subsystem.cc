#include "nvmf/subsystem/subsystem.h"

#include <algorithm>
#include <cerrno>

namespace uroce::nvmf {

namespace {

/// The largest that a host may ask for by number (NVMe-oF 1.1, section 4.2).
constexpr uint16_t kControllerIdMax = 0xFFEF;

}  // namespace

Subsystem::Subsystem(SubsystemOptions options, Kind kind, std::string firmware)
    : options_(std::move(options)), kind_(kind), firmware_(std::move(firmware)) {
  for (auto& state : ana_states_) state = AnaState::kOptimized;
}

bool Subsystem::allows(std::string_view host_nqn) {
  const std::lock_guard guard(mutex_);
  return options_.allow_any_host || std::ranges::find(options_.hosts, host_nqn) != options_.hosts.end();
}

void Subsystem::set_hosts(std::vector<std::string> hosts, bool allow_any_host) {
  {
    const std::lock_guard guard(mutex_);
    options_.hosts = std::move(hosts);
    options_.allow_any_host = allow_any_host;
  }
  for (const auto& controller : controllers())
    if (!allows(controller->identity().host_nqn)) controller->end();
}

Status Subsystem::attach(NamespaceOptions options) {
  const uint32_t nsid = options.nsid;
  const std::atomic<AnaState>& ana_state = ana_states_[options.ana_group];
  auto added = std::make_shared<Namespace>(std::move(options), ana_state);
  {
    const std::lock_guard guard(mutex_);
    if (!namespaces_.emplace(nsid, std::move(added)).second)
      return Error{EEXIST, nqn() + " has a namespace " + std::to_string(nsid)};
    generation_.fetch_add(1, std::memory_order_release);  // pairs with generation()
  }
  for (const auto& controller : controllers()) controller->events().raise_namespace(nsid);
  return {};
}

Status Subsystem::detach(uint32_t nsid) {
  {
    const std::lock_guard guard(mutex_);
    const auto found = namespaces_.find(nsid);
    if (found == namespaces_.end()) return Error{ENOENT, nqn() + " has no namespace " + std::to_string(nsid)};
    leaving_.push_back(std::move(found->second));
    namespaces_.erase(found);
    generation_.fetch_add(1, std::memory_order_release);  // pairs with generation()
  }
  for (const auto& controller : controllers()) controller->events().raise_namespace(nsid);
  return {};
}

std::shared_ptr<Namespace> Subsystem::find(uint32_t nsid) {
  const std::lock_guard guard(mutex_);
  const auto found = namespaces_.find(nsid);
  return found == namespaces_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Namespace>> Subsystem::namespaces() {
  const std::lock_guard guard(mutex_);
  std::vector<std::shared_ptr<Namespace>> all;
  for (const auto& [nsid, one] : namespaces_) all.push_back(one);
  return all;
}

size_t Subsystem::collect() {
  std::vector<std::shared_ptr<Namespace>> unused;  // devices are closed without the lock
  const std::lock_guard guard(mutex_);
  // They cannot be found any more, so that a count of one is the last.
  const auto used = [](const auto& one) { return one.use_count() > 1; };
  const auto first_unused = std::ranges::partition(leaving_, used).begin();
  unused.assign(std::make_move_iterator(first_unused), std::make_move_iterator(leaving_.end()));
  leaving_.erase(first_unused, leaving_.end());
  return leaving_.size();
}

void Subsystem::set_ana_state(uint32_t group, AnaState state) {
  {
    const std::lock_guard guard(mutex_);
    if (ana_states_[group] == state) return;
    ana_states_[group] = state;
    ana_changes_[group] = ++ana_change_count_;
  }
  notify(Notice::kAnaChange);
}

Subsystem::AnaReport Subsystem::ana() {
  const std::lock_guard guard(mutex_);
  std::map<uint32_t, AnaGroup> groups;
  for (const auto& [nsid, one] : namespaces_) {
    const uint32_t number = one->options().ana_group;
    AnaGroup& group = groups[number];
    group.group = number;
    group.state = ana_states_[number];
    group.changes = ana_changes_[number];
    group.nsids.push_back(nsid);
  }
  AnaReport report{.changes = ana_change_count_, .groups = {}};
  for (auto& [number, group] : groups) report.groups.push_back(std::move(group));
  return report;
}

std::shared_ptr<Controller> Subsystem::associate(const std::shared_ptr<Subsystem>& self,
                                                 Controller::Identity identity) {
  const std::lock_guard guard(mutex_);
  if (closed_ || controllers_.size() >= options_.controllers_max) return nullptr;
  if (!first_host_at_) first_host_at_ = identity.now;
  // Numbers go round, so that one is not soon another host's.
  do {
    last_controller_ = last_controller_ == kControllerIdMax ? 1 : static_cast<uint16_t>(last_controller_ + 1);
  } while (controllers_.contains(last_controller_));
  identity.id = last_controller_;
  const Controller::Limits limits{.discovery = is_discovery(), .io_queues = io_queues_max()};
  const std::shared_ptr<Controller> controller(new Controller(self, std::move(identity), limits),
                                               [self](Controller* ended) {
                                                 self->forget(*ended);
                                                 delete ended;
                                               });
  controllers_[last_controller_] = controller;
  return controller;
}

std::shared_ptr<Controller> Subsystem::find_controller(uint16_t id) {
  const std::lock_guard guard(mutex_);
  const auto found = controllers_.find(id);
  return found == controllers_.end() ? nullptr : found->second.lock();
}

void Subsystem::forget(const Controller& controller) {
  const std::lock_guard guard(mutex_);
  controllers_.erase(controller.identity().id);
}

std::vector<std::shared_ptr<Controller>> Subsystem::controllers() {
  // The last reference to one may be ours, and then it is forgotten under the lock: it goes after it.
  const std::lock_guard guard(mutex_);
  std::vector<std::shared_ptr<Controller>> all;
  for (const auto& [id, weak] : controllers_)
    if (auto controller = weak.lock()) all.push_back(std::move(controller));
  return all;
}

void Subsystem::notify(Notice notice) {
  for (const auto& controller : controllers()) controller->events().raise(notice);
}

void Subsystem::close() {
  {
    const std::lock_guard guard(mutex_);
    closed_ = true;
  }
  for (const auto& controller : controllers()) controller->end();
}

std::shared_ptr<IoCounters> Subsystem::open_counters() {
  auto counters = std::make_shared<IoCounters>();
  const std::lock_guard guard(mutex_);
  add_past_counters();
  counters_.push_back(counters);
  return counters;
}

void Subsystem::add_past_counters() {
  std::erase_if(counters_, [this](const std::shared_ptr<IoCounters>& counters) {
    if (counters.use_count() > 1) return false;
    counters->add_to(past_);
    return true;
  });
}

IoTotals Subsystem::totals() {
  const std::lock_guard guard(mutex_);
  add_past_counters();
  IoTotals totals = past_;
  for (const auto& counters : counters_) counters->add_to(totals);
  return totals;
}

Duration Subsystem::age(Instant now) {
  const std::lock_guard guard(mutex_);
  return first_host_at_ ? now - *first_host_at_ : Duration{};
}

}  // namespace uroce::nvmf
