#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "nvmf/format/status.h"
#include "nvmf_host/commands.h"
#include "nvmf_host/rdma_host.h"

namespace uroce::nvmf_host {

/// A host with an enabled controller of one subsystem, over RDMA. Throws what fails.
class RdmaSession {
 public:
  struct Options {
    std::string subsystem_nqn;
    std::string host_nqn = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";
    uint32_t keep_alive_ms = 0;
    bool flow_control = true;
    RdmaHostQueue::Options queue = {};  // of each; qid is the session's
    uint32_t io_entries = 0;            // of I/O queues; 0: as many as the admin queue has
  };

  explicit RdmaSession(Options options);

  [[nodiscard]] RdmaHostQueue& admin() { return admin_; }
  /// A connected I/O queue; qid from 1.
  RdmaHostQueue& connect_io(uint16_t qid);
  /// Connect on a queue that is there.
  std::optional<nvmf::Completion> run_connect(RdmaHostQueue& queue, uint16_t qid, uint16_t controller);
  [[nodiscard]] uint16_t controller() const { return controller_; }

 private:
  RdmaHostQueue::Options with_qid(uint16_t qid) const;
  void set_configuration(uint32_t value);

  const Options options_;
  RdmaHostQueue admin_;
  std::deque<RdmaHostQueue> io_;
  uint16_t controller_ = 0;
};

/// Throws unless there is one, and it says success. `what` failed.
void expect_success(const char* what, const std::optional<nvmf::Completion>& completion);
/// The code of a completion.
nvmf::StatusCode code_of(const nvmf::Completion& completion);

}  // namespace uroce::nvmf_host
