#include <cerrno>
#include <vector>

#include "ends.h"

// What takes more memory than CI has to spare.

namespace uroce::verbs_test {

/// Sixteen million objects.
TEST(Soak, AllRegionsThatTheDeviceSays) {
  const End end(device_at(0), {});
  ibv_device_attr limits{};
  ASSERT_EQ(ibv_query_device(end.context, &limits), 0);
  static char bytes[4096];
  std::vector<ibv_mr*> all{end.mr};
  while (ibv_mr* const mr = ibv_reg_mr(end.pd, bytes, sizeof(bytes), int{IBV_ACCESS_LOCAL_WRITE}))
    all.push_back(mr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(all.size(), static_cast<size_t>(limits.max_mr));
  for (; all.back() != end.mr; all.pop_back()) ASSERT_EQ(ibv_dereg_mr(all.back()), 0);
}

}  // namespace uroce::verbs_test
