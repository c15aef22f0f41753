#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <memory_resource>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/tables/pooled.h"

namespace uroce {
namespace {

constexpr size_t kAlignment = PooledMemory::kAlignment;

TEST(PooledMemory, PiecesAreAlignedAndApart) {
  PooledMemory pool;
  std::vector<std::pair<std::byte*, size_t>> pieces;
  // Around every bound between sizes, two of each.
  for (size_t bytes = 64; bytes <= PooledMemory::kPieceBytesMax;
       bytes += std::max<size_t>(64, bytes / 8 / 64 * 64)) {
    for (const size_t wanted : {bytes - 1, bytes, bytes, bytes + 1}) {
      pieces.emplace_back(static_cast<std::byte*>(pool.allocate(wanted, kAlignment)), wanted);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(pieces.back().first) % kAlignment, 0u) << wanted;
    }
  }
  for (size_t i = 0; i < pieces.size(); ++i)
    std::memset(pieces[i].first, static_cast<int>(i & 0xFF), pieces[i].second);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto [first, bytes] = pieces[i];
    const auto same = [&](std::byte b) { return b == static_cast<std::byte>(i & 0xFF); };
    ASSERT_TRUE(std::all_of(first, first + bytes, same)) << bytes;
  }
  for (const auto& [first, bytes] : pieces) pool.deallocate(first, bytes, kAlignment);
}

TEST(PooledMemory, LastGivenBackIsFirstGivenOut) {
  PooledMemory pool;
  void* const first = pool.allocate(300, kAlignment);
  void* const second = pool.allocate(300, kAlignment);
  EXPECT_NE(first, second);
  pool.deallocate(first, 300, kAlignment);
  EXPECT_EQ(pool.allocate(310, kAlignment), first);
  pool.deallocate(first, 310, kAlignment);
  pool.deallocate(second, 300, kAlignment);
}

TEST(PooledMemory, GoesBackToTheSystemButForOneSlabOfEachSize) {
  PooledMemory pool;
  for (const size_t bytes : {size_t{64}, size_t{2000}, PooledMemory::kPieceBytesMax}) {
    const size_t before = pool.slabs();
    std::vector<void*> pieces;
    while (pool.slabs() < before + 4) pieces.push_back(pool.allocate(bytes, kAlignment));
    std::shuffle(pieces.begin(), pieces.end(), std::minstd_rand(1));
    for (void* const piece : pieces) pool.deallocate(piece, bytes, kAlignment);
    EXPECT_EQ(pool.slabs(), before + 1) << bytes;
    // One that comes and goes costs no slab.
    void* const again = pool.allocate(bytes, kAlignment);
    EXPECT_EQ(pool.slabs(), before + 1) << bytes;
    pool.deallocate(again, bytes, kAlignment);
    EXPECT_EQ(pool.slabs(), before + 1) << bytes;
  }
}

TEST(PooledMemory, LargePiecesAreTheHeaps) {
  PooledMemory pool;
  constexpr size_t kBytes = PooledMemory::kPieceBytesMax + 1;
  void* const piece = pool.allocate(kBytes, kAlignment);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % kAlignment, 0u);
  EXPECT_EQ(pool.slabs(), 0u);
  std::memset(piece, 1, kBytes);
  pool.deallocate(piece, kBytes, kAlignment);
}

TEST(PooledMemory, PagesOfTheNextPiecesAreThere) {
#ifndef MADV_POPULATE_WRITE
  constexpr int kPopulate = 23;
#else
  constexpr int kPopulate = MADV_POPULATE_WRITE;
#endif
  constexpr size_t kPage = 4096;
  alignas(kPage) static std::byte own[kPage];
  if (madvise(own, kPage, kPopulate) != 0) GTEST_SKIP() << "this kernel does not fill pages ahead";
  PooledMemory pool;
  auto* const piece = static_cast<std::byte*>(pool.allocate(64, kAlignment));
  auto* const page = piece - reinterpret_cast<uintptr_t>(piece) % kPage;
  std::array<unsigned char, 16> there{};
  ASSERT_EQ(mincore(page, there.size() * kPage, there.data()), 0);
  EXPECT_TRUE(std::ranges::all_of(there, [](unsigned char one) { return (one & 1) != 0; }));
  pool.deallocate(piece, 64, kAlignment);
}

TEST(PooledMemory, OfALongPieceNoPageIsThereBeforeItIsUsed) {
  constexpr size_t kPage = 4096;
  constexpr size_t kPages = 16;
  PooledMemory pool;
  auto* const piece = static_cast<std::byte*>(pool.allocate(kPages * kPage, kAlignment));
  // The first page is the slab's own, too.
  auto* const page = piece + kPage - reinterpret_cast<uintptr_t>(piece) % kPage;
  const auto there = [&] {
    std::array<unsigned char, kPages - 1> pages{};
    EXPECT_EQ(mincore(page, pages.size() * kPage, pages.data()), 0);
    return std::ranges::count_if(pages, [](unsigned char one) { return (one & 1) != 0; });
  };
  EXPECT_EQ(there(), 0);
  page[5 * kPage] = std::byte{1};
  EXPECT_EQ(there(), 1);
  pool.deallocate(piece, kPages * kPage, kAlignment);
}

/// The kernel's flags of the mapping that the address lies in.
std::string flags_of(const void* address) {
  std::ifstream smaps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      inside = reinterpret_cast<uintptr_t>(address) >= begin && reinterpret_cast<uintptr_t>(address) < end;
    if (inside && line.starts_with("VmFlags:")) return line + ' ';
  }
  return {};
}

TEST(PooledMemory, ManyOfASizeLieInHugePages) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) GTEST_SKIP() << "this kernel has none";
  constexpr size_t kBytes = 1500;
  PooledMemory pool;
  std::vector<std::byte*> pieces;
  const auto make = [&] {
    pieces.push_back(static_cast<std::byte*>(pool.allocate(kBytes, kAlignment)));
    std::memset(pieces.back(), static_cast<int>(pieces.size() & 0xFF), kBytes);
  };
  make();
  EXPECT_EQ(flags_of(pieces.front()).find(" hg "), std::string::npos) << "a few";
  while (pieces.size() * kBytes < (size_t{5} << 20)) make();
  EXPECT_NE(flags_of(pieces.back()).find(" hg "), std::string::npos) << "many";
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto mine = static_cast<std::byte>((i + 1) & 0xFF);
    ASSERT_TRUE(std::all_of(pieces[i], pieces[i] + kBytes, [&](std::byte b) { return b == mine; })) << i;
  }
  std::shuffle(pieces.begin(), pieces.end(), std::minstd_rand(1));
  for (std::byte* const piece : pieces) pool.deallocate(piece, kBytes, kAlignment);
  EXPECT_EQ(pool.slabs(), 1u);
}

/// Random calls; a piece keeps what was written into it until it is given back.
TEST(PooledMemory, RandomProgram) {
  struct Piece {
    uint32_t* first;
    size_t bytes;
    uint32_t mark;
  };
  PooledMemory pool;
  std::vector<Piece> pieces;
  std::minstd_rand random(7);
  for (uint32_t i = 0; i < 20'000; ++i) {
    if (pieces.empty() || random() % 5 < 3) {
      const size_t bytes = 64 + random() % (random() % 8 == 0 ? 40'000 : 2'000);
      auto* const first = static_cast<uint32_t*>(pool.allocate(bytes, kAlignment));
      std::fill_n(first, bytes / sizeof(uint32_t), i);
      pieces.push_back({first, bytes, i});
    } else {
      std::swap(pieces[random() % pieces.size()], pieces.back());
      const Piece piece = pieces.back();
      pieces.pop_back();
      const auto same = [&](uint32_t word) { return word == piece.mark; };
      ASSERT_TRUE(std::all_of(piece.first, piece.first + piece.bytes / sizeof(uint32_t), same));
      pool.deallocate(piece.first, piece.bytes, kAlignment);
    }
  }
  for (const Piece& piece : pieces) pool.deallocate(piece.first, piece.bytes, kAlignment);
}

TEST(PooledMemory, ThreadsShareIt) {
  PooledMemory pool;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 3; ++t) {
    threads.emplace_back([&pool, t] {
      std::vector<uint32_t*> pieces;
      for (uint32_t i = 0; i < 5'000; ++i) {
        auto* const piece = static_cast<uint32_t*>(pool.allocate(8'000, kAlignment));
        *piece = t;
        pieces.push_back(piece);
        if (i % 16 != 15) continue;
        for (uint32_t* const one : pieces) {
          EXPECT_EQ(*one, t);
          pool.deallocate(one, 8'000, kAlignment);
        }
        pieces.clear();
      }
      for (uint32_t* const one : pieces) pool.deallocate(one, 8'000, kAlignment);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.slabs(), 1u);
}

/// A child that hangs is ended by its alarm.
TEST(PooledMemory, ForkWhileAnotherThreadIsAtIt_ExpectTheChildToHaveIt) {
  if (pooled_memory() == std::pmr::new_delete_resource()) GTEST_SKIP() << "the sanitizer's heap is used";
  constexpr size_t kSizes[] = {64, 300, 5'000, 40'000};
  const auto come_and_go = [&] {
    for (const size_t bytes : kSizes) {
      void* const piece = pooled_memory()->allocate(bytes, kAlignment);
      pooled_memory()->deallocate(piece, bytes, kAlignment);
    }
  };
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) come_and_go();
  });
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      come_and_go();
      _exit(0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << i;
  }
  done = true;
  other.join();
}

struct alignas(kAlignment) Line : Pooled {
  explicit Line(bool throws) {
    if (throws) throw std::runtime_error("the constructor");
  }
  virtual ~Line() = default;
  std::array<std::byte, 200> bytes{};
};
struct Longer : Line {
  using Line::Line;
  std::array<std::byte, 2000> more{};
};

TEST(Pooled, ObjectsAreAlignedAndGoBackByTheirWholeLength) {
  for (int i = 0; i < 3; ++i) {
    const std::unique_ptr<Line> line = std::make_unique<Longer>(false);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(line.get()) % kAlignment, 0u);
  }
}

TEST(Pooled, ConstructorThatThrows_ExpectTheMemoryBack) {
  if (pooled_memory() == std::pmr::new_delete_resource()) {
    EXPECT_THROW(Longer(true), std::runtime_error);  // the sanitizer looks for leaks
    EXPECT_THROW(std::make_unique<Longer>(true), std::runtime_error);
    return;
  }
  void* const before = pooled_memory()->allocate(sizeof(Longer), kAlignment);
  pooled_memory()->deallocate(before, sizeof(Longer), kAlignment);
  EXPECT_THROW(std::make_unique<Longer>(true), std::runtime_error);
  void* const after = pooled_memory()->allocate(sizeof(Longer), kAlignment);
  EXPECT_EQ(after, before);  // the last one that went back comes first
  pooled_memory()->deallocate(after, sizeof(Longer), kAlignment);
}

}  // namespace
}  // namespace uroce
