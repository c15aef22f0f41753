#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "nvmf/queue/namespace_view.h"
#include "nvmf/queue/request_list.h"
#include "nvmf/subsystem/controller.h"
#include "nvmf/subsystem/io_counters.h"

namespace uroce::nvmf {

struct QueueState;

/// Carries out the commands of one I/O queue by block requests. The thread of the queue.
class IoExecution {
 public:
  IoExecution(QueueState& queue, Controller& controller);
  ~IoExecution();

  /// Puts the namespace into the request, and counts it there until release(). What is wrong with the NSID,
  /// or with access to the namespace.
  CommandStatus find_way(Request& request);
  void release(Request& request);

  /// Goes on with a request, or lets it wait.
  void run(Request& request);
  /// The request has ended: it gives back what it had for itself, and is counted.
  void settle(Request& request, bool successful);
  /// The first half of a fused pair was successful: the second one goes on in its place.
  void hand_over(Request& first, Request& second);

  /// Ends what has ended, and goes on with what waits.
  void poll();
  /// Ends those that have nothing under way.
  void abort_waiting();

  // For commands.
  /// False: the device takes no more now.
  bool submit(Request& request, NamespaceWay& way, block::Request blocks);
  [[nodiscard]] Controller& controller() { return controller_; }
  [[nodiscard]] NamespaceView& view() { return view_; }
  /// Memory for one request at a time that compares or verifies; empty: another one has it. Given back when
  /// the
  /// request ends.
  std::span<std::byte> borrow_scratch(Request& request);
  void wait(Request& request);

 private:
  void count(const Request& request, NamespaceWay& way, bool successful);
  struct AlignedDelete {
    void operator()(std::byte* memory) const;
  };

  bool may_run(Request& request);
  bool take_exclusion(Request& request);
  void poll(NamespaceWay& way);
  void block_request_ended(NamespaceWay& way, Request& request, block::Outcome outcome);

  QueueState& queue_;
  Controller& controller_;
  const std::shared_ptr<IoCounters> counters_;
  NamespaceView view_;
  RequestList waiting_;
  size_t waiting_count_ = 0;
  std::unique_ptr<std::byte, AlignedDelete> scratch_;
  Request* scratch_user_ = nullptr;
};

}  // namespace uroce::nvmf
