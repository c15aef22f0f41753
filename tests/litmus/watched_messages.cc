#include "watched_messages.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "base/values/random.h"

// Every message is filled with one byte value, its tag, which differs from what stood at its last byte. Both
// threads draw the same lengths and offsets from the same seed, so nothing but the messages themselves tells
// the watcher that something has arrived. The sender goes on when the watcher has seen all of a message.

namespace uroce::litmus {
namespace {

constexpr size_t kLengthMax = 64 << 10;
constexpr size_t kLine = 64;

struct Shape {
  size_t offset;
  size_t length;
  size_t packet;
  bool by_flag;
};

class Shapes {
 public:
  explicit Shapes(uint64_t seed) : random_(seed) {}

  /// Powers of two from 64 B to 64 KiB, half of them with some bytes more; the lesser of two draws, because
  /// what takes the time is the watcher's looking at long ones.
  Shape next() {
    const size_t power = size_t{64} << std::min(random_.below(11), random_.below(11));
    const size_t more = power < kLengthMax && random_.chance(1, 2) ? random_.below(power) : 0;
    const size_t offset = random_.chance(1, 2) ? 0 : random_.below(kLine);
    return {offset, power + more, random_.chance(1, 2) ? size_t{1024} : size_t{4096}, random_.chance(1, 2)};
  }

 private:
  Random random_;
};

/// What the two threads share.
struct Stage {
  std::vector<std::byte> memory = std::vector<std::byte>(kLengthMax + 2 * kLine);
  alignas(kLine) std::byte flag[kFlagBytes]{};
  alignas(kLine) std::atomic<uint64_t> ready{
      0};  // messages that the watcher has seen, and the one that it waits for
  std::atomic<bool> stop{false};

  std::byte* base() {
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    return memory.data() + (kLine - address % kLine) % kLine;
  }
};

uint8_t look(const std::byte* at) {
  return __atomic_load_n(reinterpret_cast<const uint8_t*>(at),
                         __ATOMIC_ACQUIRE);  // pairs with what is being tested
}

uint64_t look_at_flag(const std::byte* at) {
  return __atomic_load_n(reinterpret_cast<const uint64_t*>(at),
                         __ATOMIC_ACQUIRE);  // pairs with what is being tested
}

void pin_to(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

/// Spinning is what is being tested; but on a machine that others use as well, a thread that waits long gives
/// way.
class Patience {
 public:
  void spin() {
    if (++spins_ % 20000 == 0) sched_yield();
  }

 private:
  uint64_t spins_ = 0;
};

bool line_has(uint8_t tag, const std::byte* begin, const std::byte* end) {
  bool whole = true;
  for (const std::byte* at = begin; at < end; ++at) whole &= *at == static_cast<std::byte>(tag);
  return whole;
}

/// The first line first and then from the end backwards: where a copy is most likely to be late.
bool whole(uint8_t tag, const std::byte* message, size_t length) {
  const std::byte* end = message + length;
  const std::byte* first_end = length < kLine ? end : message + kLine;
  if (!line_has(tag, message, first_end)) return false;
  while (end > first_end) {
    const std::byte* begin = static_cast<size_t>(end - first_end) > kLine ? end - kLine : first_end;
    if (!line_has(tag, begin, end)) return false;
    end = begin;
  }
  return true;
}

void await_all(uint8_t tag, const std::byte* message, size_t length) {
  for (uint64_t looks = 0; !whole(tag, message, length); ++looks) {
    asm volatile("" : : : "memory");
    if (looks == 10000) {
      std::fprintf(stderr, "a message never arrived whole\n");
      std::abort();
    }
    sched_yield();
  }
}

void watcher(Stage& stage, const Run& run, Sightings& sightings) {
  Shapes shapes(run.seed);
  for (uint64_t number = 0; number < run.messages_max; ++number) {
    const Shape shape = shapes.next();
    const std::byte* message = stage.base() + shape.offset;
    const std::byte* last = message + shape.length - 1;
    const uint8_t before = look(last);
    stage.ready.store(number + 1, std::memory_order_release);  // pairs with the sender's acquire: its turn
    Patience patience;
    size_t at = 0;
    while (shape.by_flag ? look_at_flag(stage.flag) != number + 1 : look(last) == before) {
      // Having looked at other lines makes their new bytes arrive later, as in a program that polls a ring.
      (void)look(message);
      (void)look(message + at);
      at = (at + 5 * kLine) % shape.length;
      patience.spin();
    }
    const uint8_t tag = look(last);
    const bool late = tag == before || !whole(tag, message, shape.length);
    if (late) {
      ++(shape.by_flag ? sightings.early_flag : sightings.early_last_byte);
      while (look(last) == before) patience.spin();
      await_all(look(last), message, shape.length);
    }
    while (look_at_flag(stage.flag) != number + 1) patience.spin();
    ++sightings.messages;
    if (sightings.violations() >= run.violations_max) break;
  }
  stage.stop.store(true);
  stage.ready.store(UINT64_MAX, std::memory_order_release);  // pairs with the sender's acquire
}

void sender(Stage& stage, const Run& run, const Send& send) {
  Shapes shapes(run.seed);
  // As in a packet buffer: the payload starts where the headers end.
  std::vector<std::byte> buffer(kLengthMax + 2 * kLine);
  std::byte* from = buffer.data() + 54;
  uint8_t tag = 0;
  for (uint64_t number = 0; number < run.messages_max; ++number) {
    const Shape shape = shapes.next();
    Patience patience;
    // Pairs with the watcher's release: it has looked at all that is overwritten now.
    while (stage.ready.load(std::memory_order_acquire) <= number) patience.spin();
    if (stage.stop.load()) return;
    std::byte* to = stage.base() + shape.offset;
    ++tag;
    if (tag == look(to + shape.length - 1)) ++tag;
    std::memset(from, tag, shape.length);
    const uint64_t flag = number + 1;
    std::byte flag_bytes[kFlagBytes];
    std::memcpy(flag_bytes, &flag, sizeof(flag));
    send({to, from, shape.length, shape.packet, stage.flag, flag_bytes});
  }
}

}  // namespace

bool two_processors(int& sender, int& watcher) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0 || CPU_COUNT(&set) < 2) return false;
  sender = -1;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &set)) continue;
    // The lowest and the highest: two hyperthreads of one core are mostly neighbours, or far apart in pairs.
    if (sender < 0) sender = processor;
    watcher = processor;
  }
  return true;
}

Sightings watch(const Send& send, const Run& run) {
  int sender_processor = 0;
  int watcher_processor = 0;
  if (!two_processors(sender_processor, watcher_processor)) return {};
  Stage stage;
  Sightings sightings;
  const auto start = std::chrono::steady_clock::now();
  std::thread watching([&] {
    pin_to(watcher_processor);
    watcher(stage, run, sightings);
  });
  std::thread sending([&] {
    pin_to(sender_processor);
    sender(stage, run, send);
  });
  sending.join();
  watching.join();
  sightings.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return sightings;
}

}  // namespace uroce::litmus
