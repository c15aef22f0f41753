#pragma once

#include <gtest/gtest.h>
#include <infiniband/urocedv.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "ends.h"

namespace uroce::verbs_test {

/// What the calls are about; where nothing is wrong with an argument, it is taken from here.
struct Objects {
  End end{device_at(0), {.with_channel = true, .operations = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_BIND_MW}};
  ibv_device* device = end.context->device;
  ibv_context* context = end.context;
  ibv_gid gid{};
  ibv_grh grh{};
  ibv_wc completion{};
  ibv_ah_attr way{};
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ibv_srq_init_attr srq_initial{};
  ibv_srq_attr srq_attributes{};
  ibv_async_event event{};
  urocedv_sg sg{};
  uint64_t page = 0;
  ibv_srq* srq = nullptr;
  ibv_ah* ah = nullptr;
  ibv_device_attr_ex* no_attributes =
      nullptr;  // not seen by the compiler, which knows what verbs.h may do to it

  Objects() {
    srq_initial.attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0};
    srq = ibv_create_srq(end.pd, &srq_initial);
    initial.send_cq = initial.recv_cq = end.cq;
    initial.qp_type = IBV_QPT_RC;
  }
  ~Objects() { EXPECT_EQ(ibv_destroy_srq(srq), 0); }
};

// How each convention tells of a failure: the errno, or 0 for success.
inline int told(const void* made) { return made == nullptr ? errno : 0; }
inline int told_minus(long value) { return value < 0 ? errno : 0; }
inline int told_nothing() { return errno; }

// That it is no value of the type is the point.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
template <typename Enumeration>
constexpr Enumeration none_of() {
  return static_cast<Enumeration>(-1);
}
#pragma GCC diagnostic pop
template <typename Enumeration>
void spoil(Enumeration& value) {
  std::memset(&value, 0xFF, sizeof(value));
}

struct Row {
  const char* call;  // and what is wrong, from the second word on
  int expected;
  int (*tried)(Objects& o);
};

/// Of libibverbs and of urocedv, with an argument that is wrong; and what fails for another reason.
std::span<const Row> verbs_arguments();
std::span<const Row> extensions_arguments();
std::span<const Row> failures();

}  // namespace uroce::verbs_test
