#include "nvmf/rdma/memory.h"

#include <gtest/gtest.h>
#include <infiniband/urocedv.h>

#include <algorithm>
#include <array>
#include <vector>

#include "nvmf/rdma/regions.h"

// How the target registers memory with a device that has bus addresses. That every byte arrives is io_test's.
namespace uroce::nvmf {
namespace {

class Memory : public ::testing::Test {
 protected:
  void SetUp() override {
    ibv_device** list = ibv_get_device_list(nullptr);
    ASSERT_NE(list, nullptr);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context, nullptr);
    domain = ibv_alloc_pd(context);
    ASSERT_NE(domain, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_dealloc_pd(domain), 0) << "nothing of the target's is left in it";
    EXPECT_EQ(ibv_close_device(context), 0);
  }
  /// How many mappings of memory that long there are.
  [[nodiscard]] uint32_t mappings(size_t bytes) const {
    urocedv_dma_attr attr{.length = bytes};
    EXPECT_EQ(urocedv_query_dma(context, &attr), 0);
    return attr.mappings;
  }

  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
};

TEST_F(Memory, BuffersAreAPhysicalRegionOverAMappingOfTheirDirection) {
  constexpr size_t kBytes = 64 << 10;
  const uint32_t before = mappings(kBytes);
  for (const auto direction : {UROCEDV_DMA_BIDIRECTIONAL, UROCEDV_DMA_TO_DEVICE, UROCEDV_DMA_FROM_DEVICE}) {
    auto memory = RdmaMemory::allocate(*domain, kBytes, direction);
    ASSERT_TRUE(memory) << memory.error().message;
    EXPECT_EQ(mappings(kBytes), before + 1);
    EXPECT_NE((*memory)->local_key(), 0u);
    EXPECT_TRUE(std::ranges::all_of((*memory)->bytes(), [](std::byte byte) { return byte == std::byte{}; }));
  }
  EXPECT_EQ(mappings(kBytes), before);
}

TEST_F(Memory, OfNamespacesIsMappedUnderOneKey) {
  constexpr size_t kBytes = 160 << 10;  // in one size class, wherever in a page it begins
  std::array<std::vector<std::byte>, 2> disks{std::vector<std::byte>(kBytes), std::vector<std::byte>(kBytes)};
  const uint32_t before = mappings(kBytes);
  RdmaRegions regions;
  ASSERT_TRUE(regions.add(disks[0]).ok());
  ASSERT_TRUE(regions.add_domain(*domain).ok());
  ASSERT_TRUE(regions.add(disks[1]).ok());
  EXPECT_EQ(mappings(kBytes), before + 2);

  RdmaRegionView view(regions, *domain);
  std::array<ibv_sge, 2> segments{};
  for (size_t i = 0; i < disks.size(); ++i) {
    const auto found = view.segment({disks[i].data() + 4096, 512});
    ASSERT_TRUE(found);
    segments[i] = *found;
    EXPECT_EQ(found->length, 512u);
    EXPECT_NE(found->addr, reinterpret_cast<uintptr_t>(disks[i].data() + 4096)) << "a bus address";
    EXPECT_FALSE(view.segment({disks[i].data() + kBytes - 512, 513})) << "beyond its end";
  }
  EXPECT_EQ(segments[0].lkey, segments[1].lkey);

  regions.remove(disks[0]);
  EXPECT_FALSE(view.segment({disks[0].data(), 512}));
  EXPECT_TRUE(view.segment({disks[1].data(), 512}));
  regions.remove_domain(*domain);
  EXPECT_EQ(mappings(kBytes), before);
  EXPECT_FALSE(view.segment({disks[1].data(), 512}));
}

}  // namespace
}  // namespace uroce::nvmf
