// The peer: plain verbs on any device. It does what the owner tells it, line by line, and says what came of
// it.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <optional>

#include "client/channel.h"
#include "client/failure.h"
#include "tests/keys/end.h"

namespace uroce::keys {
namespace {

using nlohmann::json;
using Window = std::unique_ptr<ibv_mw, client::Destroyer<ibv_dealloc_mw>>;

constexpr std::byte kUntouched{0xA5};

// IBV_WC_WITH_INV as the kernel's rxe tells it to programs: the kernel's own IB_WC_WITH_INVALIDATE, which to
// them is IBV_WC_IP_CSUM_OK.
constexpr unsigned kWithInvalidateOfRxe = 1 << 2;

class Peer {
 public:
  explicit Peer(const Options& options)
      : end_(options, 0),
        owner_(client::Channel::connect(fmt::format("{}:{}", options.owner, options.tcp_port))) {
    owner_.send(end_.address());
    end_.set_peer(owner_.receive());
  }

  void obey() {
    for (json order = owner_.receive(); order.at("do") != "end"; order = owner_.receive()) {
      owner_.send(answer(order));
    }
    window_.reset();
    end_.close();
  }

 private:
  json answer(const json& order) {
    const std::string what = order.at("do");
    if (what == "connect") return end_.connect(order.at("psn")), json::object();
    if (what == "write") return attempt(order, IBV_WR_RDMA_WRITE);
    if (what == "read") return attempt(order, IBV_WR_RDMA_READ);
    if (what == "send with invalidate") return attempt(order, IBV_WR_SEND_WITH_INV);
    if (what == "bind a window") return bind(order);
    if (what == "post a receive") return end_.post_receive(order.at("bytes")), json::object();
    if (what == "receive") return receive();
    if (what == "fill") return fill(end_.buffer(), order.at("seed"), 0), json::object();
    if (what == "look") return look(order);
    throw client::Failure("the owner speaks of '" + what + "'");
  }

  json attempt(const json& order, ibv_wr_opcode operation) {
    const uint32_t bytes = order.at("bytes");
    const std::span<std::byte> data = end_.buffer().first(bytes);
    std::ranges::fill(end_.buffer(), kUntouched);
    if (operation != IBV_WR_RDMA_READ) fill(data, order.at("seed"), order.at("offset"));
    const ibv_wc completion = end_.execute(operation, order.at("address"), order.at("key"), bytes);
    json told{{"status", completion.status}, {"right", true}};
    if (operation == IBV_WR_RDMA_READ) {
      const bool came = completion.status == IBV_WC_SUCCESS;
      told["right"] = (came ? is_filled(data, order.at("seed"), order.at("offset")) : untouched(data)) &&
                      untouched(end_.buffer().subspan(bytes));
    }
    return told;
  }

  static bool untouched(std::span<const std::byte> bytes) {
    return std::ranges::all_of(bytes, [](std::byte b) { return b == kUntouched; });
  }

  /// A type 2 window at the beginning of the buffer.
  json bind(const json& order) {
    if (!window_) window_.reset(ibv_alloc_mw(end_.domain(), IBV_MW_TYPE_2));
    if (!window_) throw client::failed("ibv_alloc_mw", errno);
    ibv_send_wr request{};
    request.opcode = IBV_WR_BIND_MW;
    request.bind_mw.mw = window_.get();
    request.bind_mw.rkey = ibv_inc_rkey(window_->rkey);
    request.bind_mw.bind_info = {.mr = const_cast<ibv_mr*>(end_.buffer_region()),
                                 .addr = reinterpret_cast<uint64_t>(end_.buffer().data()),
                                 .length = order.at("bytes"),
                                 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    end_.post(request);
    const ibv_wc completion = end_.completion();
    if (completion.status != IBV_WC_SUCCESS) {
      throw client::Failure(fmt::format("binding a window: {}", ibv_wc_status_str(completion.status)));
    }
    window_->rkey = request.bind_mw.rkey;
    return {{"key", window_->rkey}, {"address", request.bind_mw.bind_info.addr}};
  }

  /// Whether the buffer begins with `bytes` of one seed and goes on with another.
  json look(const json& order) {
    const size_t bytes = order.at("bytes");
    return {{"right", is_filled(end_.buffer().first(bytes), order.at("seed"), 0) &&
                          is_filled(end_.buffer().subspan(bytes), order.at("then"), bytes)}};
  }

  json receive() {
    const ibv_wc completion = end_.completion();
    const bool invalidated = (completion.wc_flags & (IBV_WC_WITH_INV | kWithInvalidateOfRxe)) != 0;
    return {{"status", completion.status},
            {"flags", completion.wc_flags},
            {"invalidated", invalidated ? completion.invalidated_rkey : 0}};
  }

  End end_;
  client::Channel owner_;
  Window window_;
};

}  // namespace
}  // namespace uroce::keys

int main(int argc, char** argv) {
  try {
    uroce::keys::Peer(uroce::keys::parse(argc, argv)).obey();
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "keys_peer: %s\n", failure.what());
    return 1;
  }
  return 0;
}
