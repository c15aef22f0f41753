#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/values/result.h"
#include "base/values/time.h"
#include "service/client_process.h"
#include "service/configuration.h"
#include "service/descriptor_closer.h"
#include "service/descriptor_room.h"
#include "service/device_plan.h"
#include "service/introductions.h"
#include "service/listening_socket.h"
#include "service/neighbour_watch.h"
#include "service/ordered_faults.h"
#include "service/request_budget.h"
#include "service/served_device.h"
#include "service/status_snapshot.h"
#include "service/user_accounts.h"
#include "service/user_shares.h"

namespace uroce::service {

/// The control thread of the service: takes programs in, gives them their numbers, names and introductions,
/// and tells them what changes. What a program sends is checked here; one that breaks the protocol is ended,
/// one that is slow or asks too much is read later. Frames do not come this way.
class Service {
 public:
  /// What a file with [service] and devices says.
  struct Configured {
    ServiceConfiguration service;
    engine::Configuration devices;
    std::function<void()> taken = nullptr;  // called when all of it has taken effect
  };
  using Reload = std::function<Result<Configured>()>;
  /// Looks after what lives beside the service, in its control thread: once a second at least, and after
  /// wake(). When the service is to stop, that waits until it returns true.
  using Beside = std::function<bool(bool stopping)>;
  struct Options {
    ServiceConfiguration configuration;
    Reload reload = nullptr;  // reads the configuration again; null: there is nothing to read
    Beside beside = nullptr;
    std::vector<faults::Rule> faults = {};  // that are ordered from the beginning
  };

  /// Takes devices by add(), then runs.
  static Result<std::unique_ptr<Service>> create(ListeningSocket socket, Options options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Serves the device at `index` of the stack's configuration.
  Status add(std::shared_ptr<engine::Stack> stack, size_t index);

  /// Serves until it is told to stop, or was idle for as long as configured.
  void run();

  // Any thread, and signal handlers.
  void request_stop();
  void request_reload();
  void wake();

 private:
  using Message = host::Message;
  static constexpr Duration kUnattachedFor =
      seconds(5);  // a connection, whatever it says, after that it ends
  static constexpr uint64_t kUnattachedOfUserMax = 64;
  static constexpr uint64_t kUnattachedMax = 512;
  static constexpr size_t kAcceptedAtOnce = 32;  // connections, before the messages of others
  // Without a descriptor left, or with too many that wait to be closed.
  static constexpr Duration kAcceptPause = milliseconds(10);
  static constexpr size_t kReadAtOnce = 16;  // messages of one program, before those of others
  static constexpr size_t kUnreadMax = 16;   // messages for a program: then nothing more is read of it
  static constexpr size_t kRelayedUnreadMax =
      64;                                    // then no introduction and no memory of a capture goes to it
  static constexpr size_t kAwaitedMax = 64;  // introductions of a program; likewise neighbours
  // The last free ports of those that are given out are for users with few.
  static constexpr size_t kPortsReserved = 2048;
  static constexpr size_t kFewPorts = 256;
  static constexpr Duration kTick = seconds(1);
  // The status is looked at so often, for all users together: so many times at once, then at this interval.
  static constexpr int64_t kStatusLooks = 10;
  static constexpr Duration kStatusInterval = milliseconds(100);

  Service(ListeningSocket socket, Options options, Descriptor poll, Descriptor changes);

  // The loop (service.cc).
  [[nodiscard]] bool is_to_stop() const;
  void round();
  [[nodiscard]] Instant next_deadline() const;
  /// `what`: the number of a program, or what service.cc has.
  bool watch(int descriptor, uint64_t what) const;
  void watch_process(ClientProcess& program);
  void read_from(ClientProcess& program);
  void take_changes();
  void tick();
  void look_at_deadlines();
  void disconnect();
  void update_interest(ClientProcess& program);
  /// Whether a request of the program can be answered. A text that waits is memory that no quota counts, so
  /// there is one at most.
  [[nodiscard]] static bool has_room(const ClientProcess& program) {
    return program.outbox.waiting() < kUnreadMax && !program.outbox.has_text();
  }
  void sweep();

  // Connections until they attach (connections.cc).
  using UnattachedOfProcess = std::map<std::pair<uid_t, pid_t>, size_t>;
  void accept_all();
  void accept_one(Descriptor connection, UnattachedOfProcess& unattached);
  [[nodiscard]] bool is_unattached(const ClientProcess& program) const;
  void end_oldest_unattached(std::optional<uid_t> user, UnattachedOfProcess& unattached);
  void end_late_unattached();

  // Descriptors that programs send (descriptors.cc).
  [[nodiscard]] Status may_bring_descriptors(const ClientProcess& program, const Message& message) const;
  host::Datagram take_datagram(ClientProcess& program);
  void close_rest(const ClientProcess& program, host::Datagram& datagram);
  std::shared_ptr<const Descriptor> handed_on(const ClientProcess& program, Descriptor memory);
  void close_connection(ClientProcess& program);
  void watch_closing();

  // The end of a program.
  void violate(ClientProcess& program, std::string_view what);
  void end(ClientProcess& program, int error, std::string_view text);
  void forward_last_frames(ClientProcess& program);
  /// Whether the program may have its numbers again when it comes back.
  enum class Numbers : bool { kGivenUp, kKept };
  void detach(ClientProcess& program, Numbers numbers);

  // Requests (requests.cc, attach.cc). What is returned is answered by kDone.
  void handle(ClientProcess& program, host::Datagram& datagram);
  void handle_request(ClientProcess& program, const Message& message);
  Status serves(const Message& message) const;
  void list(ClientProcess& program, const Message& message);
  void attach(ClientProcess& program, host::Datagram& datagram);
  Status try_attach(ClientProcess& program, host::Datagram& datagram);
  Status admit(const ClientProcess& program, const Message& message) const;
  Status take_shares(ClientProcess& program);
  static void give_back_shares(ClientProcess& program);
  [[nodiscard]] ServedDevice* find_device(std::string_view name) const;
  Result<NumberBlock> block_for(ClientProcess& program, ServedDevice& device, const Message& message,
                                int former);
  void bind(ClientProcess& program, const Message& message);
  Status listen(ClientProcess& program, const Message& message);
  void release(ClientProcess& program, const Message& message);
  Status join(ClientProcess& program, const Message& message);
  Status leave(ClientProcess& program, const Message& message);
  void source_to(ClientProcess& program, const Message& message);
  void resolve(ClientProcess& program, const Message& message);
  void answer(ClientProcess& program, const Message& request, const Status& status);
  void post(ClientProcess& program, const Message& message) { program.outbox.post({.message = message}); }

  // The configuration is read again (reload.cc).
  using Devices = std::vector<std::unique_ptr<ServedDevice>>;
  Status reload(const ClientProcess& program);
  Status read_configuration();
  Status change_devices(const engine::Configuration& configuration);
  Result<Devices> open_devices(const std::vector<ServedDevice::Options>& all) const;
  std::vector<ServedDevice::Options> remove_devices(const std::vector<std::string>& names);
  void end_programs_of(const ServedDevice& device);
  Error restore(const std::vector<ServedDevice::Options>& closed, Error why);
  [[nodiscard]] std::vector<std::string> names() const;
  void arrange(const std::vector<std::string>& names);

  // Introductions (introducing.cc).
  Status introduce(ClientProcess& program, const Message& message);
  void found(ClientProcess& program, const Message& message);
  void confirm(ClientProcess& program, const Message& message);
  void fail(const Introduction& introduction, int error, std::string_view text);
  void end_introductions(ClientProcess& program);

  // What programs are told unasked (informing.cc).
  void inform_all();
  void inform(ClientProcess& program);
  void inform_of_addresses(ClientProcess& program);
  void tell_resolved(const NeighbourWatch::Answer& answer);
  void tell_moved(const ServedDevice& device, const Gid& address, MacAddress mac);

  // Faults (faulting.cc).
  Status may_order_faults(const ClientProcess& program, const Message& message) const;
  void add_fault(ClientProcess& program, const Message& message);
  void break_object(ClientProcess& program, const Message& message);
  void add_capture(ClientProcess& program, const Message& message);
  void capture_taken(ClientProcess& program, host::Datagram& datagram, OrderedFault& fault);
  void end_captures_of(const ClientProcess& program);
  [[nodiscard]] bool owns_capture(const ClientProcess& program) const;
  [[nodiscard]] Status may_apply(const OrderedFault& fault) const;
  void fault_taken(ClientProcess& program, host::Datagram& datagram);
  void order_fault(ClientProcess& program, const Message& order);
  Status remove_fault(const ClientProcess& program, const Message& message);
  void inform_of_faults(ClientProcess& program);
  void end_faults_of(ClientProcess& program);
  void list_faults(ClientProcess& program, const Message& message);

  // Users of the machine and what they may have (users.cc).
  void apply_quotas();
  [[nodiscard]] bool is_privileged(uid_t user) const;
  Status may_use(const ClientProcess& program) const;
  Error refuse(const ClientProcess& program, Error why);

  // Status (status.cc).
  void post_text(ClientProcess& program, const Message& request, std::shared_ptr<const std::string> text);
  void report(ClientProcess& program, const Message& message);
  void tell_owner(ClientProcess& program, const Message& message);
  [[nodiscard]] std::shared_ptr<const std::string> status_for(ClientProcess& program);
  [[nodiscard]] StatusSnapshot look_at_status();

  [[nodiscard]] ClientProcess* find(uint32_t id) const;

  const ListeningSocket socket_;
  const Reload reload_;
  const Beside beside_;
  ServiceConfiguration configuration_;
  const Descriptor poll_;
  const Descriptor changes_;
  const DescriptorRoom descriptor_room_;
  DescriptorCloser closer_;
  Instant closing_told_at_{};
  Devices devices_;
  UserAccounts accounts_;
  UserShares connections_;  // that are not attached
  UserShares places_;       // of programs
  UserShares memory_;       // bytes of ours for programs
  UserShares descriptors_;
  UserShares memberships_;  // in groups
  StatusSnapshot status_;
  TokenBucket status_looks_{kStatusLooks, kStatusInterval};
  std::map<uint32_t, std::unique_ptr<ClientProcess>> programs_;
  uint32_t attached_ = 0;  // of these
  uint64_t round_ = 0;
  uint32_t next_id_ = 1;
  Introductions introductions_;
  NeighbourWatch neighbours_;
  std::vector<OrderedFault> faults_;
  uint32_t next_fault_ = 1;
  Instant now_{};
  Instant started_{};
  Instant idle_since_{};
  Instant next_tick_{};
  Instant disconnect_at_ = kNever;
  Instant accept_at_ = kNever;  // then connections are accepted again
  std::atomic<bool> stop_{false};
  std::atomic<bool> reload_wanted_{false};
};

}  // namespace uroce::service
