// What it takes until a program has a device. A process opens a device once, so it measures one opening.
#include <fmt/format.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <stdexcept>

namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

double since(Clock::time_point start) { return Microseconds(Clock::now() - start).count(); }

template <typename T>
T* check(T* pointer, const char* what) {
  if (pointer == nullptr) throw std::runtime_error(what);
  return pointer;
}

/// The first device of the configuration, and then the first queue pairs of the process.
void open_device() {
  const auto start = Clock::now();
  int count = 0;
  ibv_device** const list = check(ibv_get_device_list(&count), "ibv_get_device_list");
  if (count == 0) throw std::runtime_error("there is no device");
  ibv_context* const context = check(ibv_open_device(list[0]), "ibv_open_device");
  const double open_us = since(start);
  ibv_free_device_list(list);

  ibv_pd* const pd = check(ibv_alloc_pd(context), "ibv_alloc_pd");
  ibv_cq* const cq = check(ibv_create_cq(context, 256, nullptr, nullptr, 0), "ibv_create_cq");
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {
      .max_send_wr = 128, .max_recv_wr = 128, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  std::array<double, 64> took{};
  for (double& one : took) {
    const auto begin = Clock::now();
    check(ibv_create_qp(pd, &wanted), "ibv_create_qp");
    one = since(begin);
  }
  const double first_us = took.front();
  std::ranges::sort(took);
  // Everything ends with the process.
  fmt::print(
      "{{\"open_us\": {:.1f}, \"first_qp_us\": {:.2f}, \"qp_p50_us\": {:.2f}, \"qp_max_us\": {:.2f}}}\n",
      open_us, first_us, took[took.size() / 2], took.back());
}

}  // namespace

int main() {
  try {
    open_device();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "opening: {}\n", error.what());
    return 1;
  }
}
