#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/process/uninherited_descriptor.h"
#include "base/values/result.h"
#include "drivers/port/host/control_socket.h"
#include "drivers/port/host/peer_exchange.h"
#include "host/connection_rows.h"
#include "host/shared_device.h"
#include "host/shared_memory.h"

namespace uroce::drivers {

/// A program's place at a device of the host's service: its queue pair numbers and its memory, which stay
/// when the service ends and comes back, and the conversation with the service. A thread of its own reads
/// what the service tells.
class Attachment final : public host::SharedDevice {
 public:
  struct Options {
    std::string socket;
    std::string device;
    uint32_t numbers = 0;  // of queue pairs, wanted
  };

  /// Attaches. Errors name the socket: ENOENT, ECONNREFUSED (no service), EACCES, EPROTO (another version),
  /// or what the service says.
  static Result<std::unique_ptr<Attachment>> open(const Options& options);
  ~Attachment() override;
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  /// Path of the service's socket.
  [[nodiscard]] const std::string& socket() const { return options_.socket; }
  [[nodiscard]] PeerExchange& exchange() { return exchange_; }
  /// Zeroed; the port's queue formats it.
  [[nodiscard]] std::byte* memory() const { return memory_.data(); }
  [[nodiscard]] MacAddress mac() const { return mac_; }
  [[nodiscard]] bool link_up() const { return connected_ && link_up_; }
  /// The service has another device by that name: this one does not come back.
  [[nodiscard]] bool gone() const { return gone_; }
  /// The queue has formatted the memory: from now on others may reach this program.
  Status begin(host::OwnMemory& own);
  /// The thread has ended when it returns.
  void end();

  [[nodiscard]] NumberBlock numbers() const override { return numbers_; }
  [[nodiscard]] std::vector<host::SharedAddress> addresses() const override;
  [[nodiscard]] std::vector<uint16_t> partition_keys() const override { return partition_keys_; }
  bool is_anothers(QpNumber number) override;
  [[nodiscard]] uint32_t link_mtu() const override { return mtu_; }
  [[nodiscard]] uint32_t interface() const override { return interface_; }
  [[nodiscard]] bool within_host() const override { return within_host_; }
  [[nodiscard]] uint32_t programs() const override { return programs_; }
  Result<uint16_t> bind(uint64_t id, const host::PortRequest& request) override;
  Status listen(uint64_t id) override;
  void release(uint64_t id) override;
  Status join(const Gid& group) override;
  void leave(const Gid& group) override;
  std::optional<Gid> source_to(const Gid& destination) override;
  void resolve(const host::Neighbour& neighbour) override;
  void show_queue_pairs(uint32_t count) override;
  host::ConnectionRows connection_rows() override;
  std::span<FaultCounts> fault_counts() override;
  void start(host::SharedDeviceListener& listener) override;
  void stop() override;

 private:
  using Clock = std::chrono::steady_clock;

  /// What is asked of the service, until it has answered.
  struct Request {
    std::optional<host::Message> answer;
  };
  /// What the service is to be told again when it comes back.
  struct Bound {
    host::Message bind;
    bool listens = false;
  };
  /// A program that is being asked for.
  struct Introduction {
    QpNumber asked;
    uint32_t channel = 0;  // that is to lead to it
  };

  /// What the service tells of before it takes requests.
  struct FirstNews {
    std::vector<host::SharedAddress> addresses;
    uint32_t programs = 1;
  };
  static constexpr size_t kFirstMessagesMax = 2 * host::kAddressesMax;

  explicit Attachment(const Options& options) : options_(options) {}

  // attachment.cc
  Status attach();
  static Result<FirstNews> take_first_news(ControlSocket control, Deadline deadline);
  static bool note_added(std::vector<host::SharedAddress>& addresses, const host::Message& message);
  Status take_attached(host::Datagram& answer);
  Result<host::Message> ask(host::Message message);
  void tell(const host::Message& message, std::span<const int> descriptors = {});
  void deliver_answer(const host::Message& answer);

  // reader.cc
  void read_for_ever();
  [[nodiscard]] int patience() const;
  [[nodiscard]] bool wait_for_something() const;
  [[nodiscard]] bool may_read() const;
  [[nodiscard]] bool may_return() const;
  void take_messages();
  void handle(host::Datagram& received);
  void notify(const host::Message& message);
  bool note(const host::Message& message);
  void take_questions();
  void take_retired();
  void on_introduction(host::Datagram& received);
  void on_introduced(host::Datagram& received);
  void on_refused_introduction(const host::Message& answer);
  void on_gone(NumberBlock block);
  void on_fault(const host::Message& message);
  int take_fault(const host::SharedFault& fault);
  void forget_faults();
  void note_reached(std::unique_ptr<Peer> peer, QpNumber asked);
  void give_up_awaited();
  [[nodiscard]] bool is_reached(QpNumber number) const;
  std::unique_ptr<Peer> make_peer(const host::Message& message, uint32_t number, int descriptor);
  std::optional<uint32_t> take_channel();
  void tell_poller(PeerChange change);
  void give_service_to_poller();
  void lose_service();
  void return_to_service();
  void tell_service_again();

  const Options options_;
  host::Mapping memory_;
  UninheritedDescriptor shown_memory_;  // of the same
  PeerExchange exchange_;
  UninheritedDescriptor socket_;
  NumberBlock numbers_{0, 0};
  UninheritedDescriptor
      granted_;  // the service's memory, by which these are ours when another service begins
  MacAddress mac_;
  std::vector<uint16_t> partition_keys_;
  std::atomic<uint32_t> mtu_{0};
  std::atomic<uint32_t> interface_{0};
  std::atomic<bool> within_host_{false};
  std::atomic<bool> link_up_{false};
  std::atomic<bool> connected_{false};
  std::atomic<bool> gone_{false};
  std::atomic<uint32_t> programs_{1};
  std::atomic<bool> stopping_{false};

  // The reader's, after begin().
  host::OwnMemory* own_ = nullptr;
  std::unique_ptr<Peer> first_service_;             // as it was attached
  bool poller_has_service_ = false;                 // its channel is in use
  std::vector<bool> channels_;                      // which are in use
  std::map<uint32_t, Introduction> introductions_;  // by request
  std::vector<NumberBlock> reached_;       // programs that the poller has a channel to, or is told of
  std::vector<QpNumber> awaited_;          // asked for while the same program was being introduced already
  Clock::time_point return_at_{};          // not before: a service that is away, or refuses
  std::chrono::milliseconds return_in_{};  // the time before that
  std::vector<std::unique_ptr<PeerChange>> unsaid_;  // for which the poller had no room

  mutable std::mutex mutex_;
  std::condition_variable answered_;
  uint32_t next_request_ = 1;
  std::unordered_map<uint32_t, Request*> requests_;  // under the mutex, like what follows
  std::vector<host::SharedAddress> addresses_;
  std::unordered_map<uint64_t, Bound> bound_;
  std::vector<Gid> groups_;
  std::mutex listening_;                   // while the listener is told something
  std::vector<host::SharedFault> faults_;  // of the service, under it
  host::SharedDeviceListener* listener_ = nullptr;
  std::thread thread_;
};

/// A device as kDevice describes it, with its addresses but for the link-local one of its MAC, in the order
/// of their GIDs.
struct ListedDevice {
  host::Message device;
  std::vector<Gid> addresses;
};
/// Devices of the service at `socket`.
Result<std::vector<ListedDevice>> list_devices(const std::string& socket);

/// Index of the kernel's interface that kDevice or kAttached names; 0: none, or one that is not in the
/// network namespace of this process.
uint32_t interface_here(const host::Message& message);

/// Which user's program has the queue pair number, at the device of the service at `socket` that has the
/// address. ENOENT: none has.
Result<uint64_t> find_user(const std::string& socket, const Gid& address, QpNumber number);

}  // namespace uroce::drivers
