#include "nvmf_host/rdma_session.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

namespace uroce::nvmf_host {
namespace {

/// CC: I/O queue entry sizes of 64 and 16 bytes, enabled.
constexpr uint32_t kEnable = 1 | 6u << 16 | 4u << 20;

void put_name(const std::string& name, char (&field)[nvmf::kNqnField]) {
  std::copy_n(name.data(), std::min(name.size(), sizeof(field) - 1), field);
}

}  // namespace

nvmf::StatusCode code_of(const nvmf::Completion& completion) {
  return static_cast<nvmf::StatusCode>((completion.status >> 9 & 7) << 8 | (completion.status >> 1 & 0xFF));
}

void expect_success(const char* what, const std::optional<nvmf::Completion>& completion) {
  if (!completion) throw std::runtime_error(std::string(what) + " failed: the connection ended");
  if (code_of(*completion) == nvmf::StatusCode::kSuccess) return;
  char code[8];
  std::snprintf(code, sizeof(code), "0x%03x", static_cast<unsigned>(code_of(*completion)));
  throw std::runtime_error(std::string(what) + " failed: " + code);
}

RdmaSession::RdmaSession(Options options) : options_(std::move(options)), admin_(with_qid(0)) {
  const auto connected = run_connect(admin_, 0, nvmf::kDynamicController);
  expect_success("Connect of the admin queue", connected);
  controller_ = static_cast<uint16_t>(connected->result);
  set_configuration(kEnable);
}

RdmaHostQueue::Options RdmaSession::with_qid(uint16_t qid) const {
  RdmaHostQueue::Options queue = options_.queue;
  queue.qid = qid;
  if (qid != 0 && options_.io_entries != 0) queue.entries = options_.io_entries;
  return queue;
}

std::optional<nvmf::Completion> RdmaSession::run_connect(RdmaHostQueue& queue, uint16_t qid,
                                                         uint16_t controller) {
  nvmf::ConnectData data{};
  data.host_id[0] = 1;
  data.controller_id = controller;
  put_name(options_.subsystem_nqn, data.subsystem_nqn);
  put_name(options_.host_nqn, data.host_nqn);
  std::memcpy(queue.memory(0).data(), &data, sizeof(data));
  constexpr uint8_t kNoFlowControl = nvmf::ConnectFields::kDisableFlowControl;
  nvmf::Command command =
      command::connect(qid, static_cast<uint16_t>(queue.slots() - 1), qid == 0 ? options_.keep_alive_ms : 0,
                       options_.flow_control || qid == 0 ? uint8_t{0} : kNoFlowControl);
  command.sgl = queue.host_memory(0, sizeof(data));
  return queue.run(command);
}

RdmaHostQueue& RdmaSession::connect_io(uint16_t qid) {
  RdmaHostQueue& queue = io_.emplace_back(with_qid(qid));
  expect_success("Connect of an I/O queue", run_connect(queue, qid, controller_));
  return queue;
}

void RdmaSession::set_configuration(uint32_t value) {
  expect_success("Property Set", admin_.run(command::set_property(nvmf::Property::kConfiguration, value)));
}

}  // namespace uroce::nvmf_host
