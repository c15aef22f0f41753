// How fast connections come and go: a server, and a client that opens and ends connections of rdma_cm. It
// knows nothing of what is behind rdma_cma.h.
#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <system_error>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCompletions = 1 << 16;
constexpr int kResolveMs = 5000;

struct Options {
  std::string address;
  uint16_t port = 7471;
  bool server = false;
  double seconds = 1;
  size_t open = 0;     // connections that stay while others come and go
  size_t window = 32;  // connections under way while the rate is measured
};

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

void check(int result, const char* what) {
  if (result != 0) fail(what);
}

template <typename T>
T* check(T* pointer, const char* what) {
  if (pointer == nullptr) fail(what);
  return pointer;
}

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// What all connections of a device share.
class Resources {
 public:
  /// Makes it on the device of the first id that has one.
  void make(rdma_cm_id& id) {
    if (completions_ != nullptr) return;
    completions_ = check(ibv_create_cq(id.verbs, kCompletions, nullptr, nullptr, 0), "ibv_create_cq");
    region_ =
        check(ibv_reg_mr(id.pd, buffer_.data(), buffer_.size(), int{IBV_ACCESS_LOCAL_WRITE}), "ibv_reg_mr");
  }

  void create_queue_pair(rdma_cm_id& id) {
    make(id);
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = completions_;
    wanted.cap = {
        .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    wanted.qp_type = IBV_QPT_RC;
    wanted.sq_sig_all = 1;
    check(rdma_create_qp(&id, nullptr, &wanted), "rdma_create_qp");
  }

  void post_receive(rdma_cm_id& id) {
    ibv_sge segment = whole();
    ibv_recv_wr request{.wr_id = 0, .next = nullptr, .sg_list = &segment, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    if (const int error = ibv_post_recv(id.qp, &request, &bad); error != 0) {
      errno = error;
      fail("ibv_post_recv");
    }
  }

  /// Sends a message, and waits until it is acknowledged.
  void send(rdma_cm_id& id) {
    ibv_sge segment = whole();
    ibv_send_wr request{};
    request.sg_list = &segment;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    ibv_send_wr* bad = nullptr;
    if (const int error = ibv_post_send(id.qp, &request, &bad); error != 0) {
      errno = error;
      fail("ibv_post_send");
    }
    ibv_wc completion{};
    while (ibv_poll_cq(completions_, 1, &completion) == 0) {
    }
    if (completion.status == IBV_WC_SUCCESS) return;
    errno = EIO;
    fail(ibv_wc_status_str(completion.status));
  }

  /// Takes completions, which are of no interest.
  void drop_completions() {
    std::array<ibv_wc, 16> some{};
    while (completions_ != nullptr && ibv_poll_cq(completions_, some.size(), some.data()) > 0) {
    }
  }

 private:
  ibv_sge whole() const {
    return {.addr = reinterpret_cast<uintptr_t>(buffer_.data()),
            .length = sizeof(buffer_),
            .lkey = region_->lkey};
  }

  std::array<char, 8> buffer_{};
  ibv_cq* completions_ = nullptr;
  ibv_mr* region_ = nullptr;
};

rdma_addrinfo* look_up(const Options& options) {
  rdma_addrinfo hints{};
  hints.ai_flags = options.server ? RAI_PASSIVE : 0;
  hints.ai_port_space = RDMA_PS_TCP;
  rdma_addrinfo* info = nullptr;
  const int error =
      rdma_getaddrinfo(options.address.c_str(), std::to_string(options.port).c_str(), &hints, &info);
  if (error == 0) return info;
  throw std::runtime_error(options.address + ": " + gai_strerror(error));
}

class Channel {
 public:
  Channel() : channel_(check(rdma_create_event_channel(), "rdma_create_event_channel")) {}

  rdma_cm_id& new_id(void* context) {
    rdma_cm_id* id = nullptr;
    check(rdma_create_id(channel_, &id, context, RDMA_PS_TCP), "rdma_create_id");
    return *id;
  }

  /// The next event, acknowledged: its kind and its id. `said` gets the first byte of a request's private
  /// data.
  std::pair<rdma_cm_event_type, rdma_cm_id*> next(char* said = nullptr) {
    rdma_cm_event* event = nullptr;
    do {
      if (rdma_get_cm_event(channel_, &event) != 0 && errno != EINTR) fail("rdma_get_cm_event");
    } while (event == nullptr);
    const auto seen = std::pair(event->event, event->id);
    const int status = event->status;
    if (said != nullptr && seen.first == RDMA_CM_EVENT_CONNECT_REQUEST)
      *said = *static_cast<const char*>(event->param.conn.private_data);
    check(rdma_ack_cm_event(event), "rdma_ack_cm_event");
    if (status == 0 || seen.first == RDMA_CM_EVENT_REJECTED) return seen;
    throw std::runtime_error(fmt::format("{}: status {}", rdma_event_str(seen.first), status));
  }

 private:
  rdma_event_channel* channel_;
};

/// The private data of the last request.
constexpr char kTheEnd = 'e';

/// Until a client says the end.
void serve(const Options& options) {
  Channel channel;
  Resources resources;
  rdma_cm_id& listener = channel.new_id(nullptr);
  check(rdma_bind_addr(&listener, look_up(options)->ai_src_addr), "rdma_bind_addr");
  check(rdma_listen(&listener, 0), "rdma_listen");
  std::puts("listening");
  std::fflush(stdout);
  for (;;) {
    char said = 0;
    const auto [event, id] = channel.next(&said);
    if (event == RDMA_CM_EVENT_CONNECT_REQUEST && said == kTheEnd) {
      check(rdma_reject(id, nullptr, 0), "rdma_reject");
      check(rdma_destroy_id(id), "rdma_destroy_id");
      return;
    }
    if (event == RDMA_CM_EVENT_CONNECT_REQUEST) {
      resources.create_queue_pair(*id);
      resources.post_receive(*id);
      check(rdma_accept(id, nullptr), "rdma_accept");
    } else if (event == RDMA_CM_EVENT_DISCONNECTED) {
      rdma_disconnect(id);
      rdma_destroy_qp(id);
      check(rdma_destroy_id(id), "rdma_destroy_id");
    }
    resources.drop_completions();
  }
}

class Client {
 public:
  explicit Client(const Options& options) : options_(options), to_(*look_up(options)) {}

  /// Connections that are there when it returns, and stay.
  void open(size_t count) {
    size_t established = 0;
    for (size_t begun = 0; established < count;) {
      for (; begun < count && begun - established < options_.window; ++begun) begin();
      established += go_on() == RDMA_CM_EVENT_ESTABLISHED ? 1 : 0;
    }
  }

  /// One after the other: seconds from rdma_create_id to the connection, and to the first byte's
  /// acknowledgement.
  void measure_set_up(std::vector<double>& set_up, std::vector<double>& first_byte) {
    for (const auto begin_of_all = Clock::now(); since(begin_of_all) < options_.seconds;) {
      const auto start = Clock::now();
      rdma_cm_id& id = begin();
      while (go_on() != RDMA_CM_EVENT_ESTABLISHED) {
      }
      set_up.push_back(since(start));
      resources_.send(id);
      first_byte.push_back(since(start));
      end(id);
      while (go_on() != RDMA_CM_EVENT_DISCONNECTED) {
      }
    }
  }

  /// Connections per second that come and go, `window` at a time.
  double measure_rate() {
    size_t under_way = 0;
    size_t done = 0;
    const auto start = Clock::now();
    double time = 0;
    for (;;) {
      time = since(start);
      for (; time < options_.seconds && under_way < options_.window; ++under_way) begin();
      if (under_way == 0) break;
      rdma_cm_id* id = nullptr;
      const rdma_cm_event_type event = go_on(&id);
      if (event == RDMA_CM_EVENT_ESTABLISHED) end(*id);
      if (event != RDMA_CM_EVENT_DISCONNECTED) continue;
      --under_way;
      ++done;
    }
    return static_cast<double>(done) / time;
  }

  /// The server ends.
  void say_the_end() {
    request_data_ = &kTheEnd;
    begin();
    while (go_on() != RDMA_CM_EVENT_REJECTED) {
    }
  }

 private:
  rdma_cm_id& begin() {
    rdma_cm_id& id = channel_.new_id(nullptr);
    check(rdma_resolve_addr(&id, nullptr, to_.ai_dst_addr, kResolveMs), "rdma_resolve_addr");
    return id;
  }

  void end(rdma_cm_id& id) { check(rdma_disconnect(&id), "rdma_disconnect"); }

  /// Takes whichever connection has an event a step further.
  rdma_cm_event_type go_on(rdma_cm_id** whose = nullptr) {
    const auto [event, id] = channel_.next();
    if (whose != nullptr) *whose = id;
    if (event == RDMA_CM_EVENT_ADDR_RESOLVED) {
      check(rdma_resolve_route(id, kResolveMs), "rdma_resolve_route");
    } else if (event == RDMA_CM_EVENT_ROUTE_RESOLVED) {
      resources_.create_queue_pair(*id);
      rdma_conn_param param{.private_data = request_data_,
                            .private_data_len = request_data_ != nullptr ? uint8_t{1} : uint8_t{0},
                            .responder_resources = 1,
                            .initiator_depth = 1,
                            .flow_control = 1,
                            .retry_count = 7,
                            .rnr_retry_count = 7,
                            .srq = 0,
                            .qp_num = 0};
      check(rdma_connect(id, &param), "rdma_connect");
    } else if (event == RDMA_CM_EVENT_DISCONNECTED) {
      rdma_destroy_qp(id);
      check(rdma_destroy_id(id), "rdma_destroy_id");
    }
    return event;
  }

  const Options options_;
  const rdma_addrinfo& to_;
  Channel channel_;
  Resources resources_;
  const char* request_data_ = nullptr;
};

double quantile(std::vector<double> of, double q) {
  std::ranges::sort(of);
  return of.at(static_cast<size_t>(q * static_cast<double>(of.size() - 1)));
}

void run_client(const Options& options) {
  Client client(options);
  client.open(options.open);
  std::vector<double> set_up;
  std::vector<double> first_byte;
  client.measure_set_up(set_up, first_byte);
  const double rate = client.measure_rate();
  client.say_the_end();
  fmt::print(
      "{{\"connects_per_second\": {:.1f}, \"set_up_p50_ms\": {:.4f}, \"set_up_p99_ms\": {:.4f}, "
      "\"first_byte_p50_ms\": {:.4f}, \"first_byte_p99_ms\": {:.4f}}}\n",
      rate, quantile(set_up, 0.5) * 1e3, quantile(set_up, 0.99) * 1e3, quantile(first_byte, 0.5) * 1e3,
      quantile(first_byte, 0.99) * 1e3);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Opens and ends connections of rdma_cm, and says how fast as JSON");
  Options options;
  app.add_option("address", options.address, "the server's address")->required();
  app.add_option("--port", options.port);
  app.add_flag("--server", options.server, "serve until a client is done");
  app.add_option("--seconds", options.seconds, "for each measurement");
  app.add_option("--open", options.open, "connections that stay meanwhile");
  app.add_option("--window", options.window, "connections under way while the rate is measured");
  CLI11_PARSE(app, argc, argv);
  try {
    if (options.server)
      serve(options);
    else
      run_client(options);
    // Open connections end with the process.
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "connects: {}\n", error.what());
    return 1;
  }
}
