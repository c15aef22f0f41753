#include "machine.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "mem/regions/dma_region.h"

namespace uroce::mem {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kPages = 32;
constexpr size_t kMemoryBytes = kPage * kPages;
constexpr uint32_t kPagesMax = 4;  // of one region

constexpr Access kAccesses[] = {Access{},
                                kLocalWrite,
                                kRemoteRead,
                                kLocalWrite | kRemoteWrite,
                                kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic,
                                kLocalWrite | kWindowBind,
                                kLocalWrite | kRemoteRead | kWindowBind,
                                kWindowBind,
                                kLocalWrite | kWindowBind | kZeroBased,
                                kRemoteWrite};  // the last is refused
constexpr Access kNeeds[] = {kLocalRead, kLocalWrite, kRemoteRead, kRemoteWrite, kRemoteAtomic};

template <typename T, size_t N>
const T& pick(const T (&from)[N], uint32_t number) {
  return from[number % N];
}
Direction direction_of(uint32_t number) {
  // Mostly both, or little would ever fit.
  return number % 4 < 2 ? Direction::kBidirectional : static_cast<Direction>(number % 4 - 1);
}
bool contradictory(Access access) { return access.any(kRemoteWrite) && !access.any(kLocalWrite); }

int code(const Status& status) { return status ? 0 : status.error().code; }
template <typename T>
int code(const Result<T>& result) {
  return result ? 0 : result.error().code;
}

std::string differ(const char* what, int expected, int got) {
  if (expected == got) return {};
  return std::string(what) + ": expected errno " + std::to_string(expected) + ", got " + std::to_string(got);
}

}  // namespace

Machine::Machine(uint64_t bus_offset)
    : memory_(static_cast<std::byte*>(std::aligned_alloc(kPage, kMemoryBytes)), std::free),
      bus_({.offset = bus_offset}),
      table_({.entries_max = 1u << 12, .locked_memory = &locked_, .bus_space = &bus_}) {}

Machine::~Machine() {
  // As an application does: everything ends, then everything is unmapped.
  for (const bool windows : {true, false}) {
    for (uint32_t i = 0; i < made_.size(); ++i) {
      const ReferenceRegion& region = reference_.regions[i];
      if (region.live && is_window(region.kind) == windows) end({i, 0, 0, 0, 0, 0});
    }
  }
}

std::string Machine::step(const Command& command) {
  using Step = std::string (Machine::*)(const Numbers&);
  // Lookups are what it is all about.
  constexpr Step kSteps[] = {
      &Machine::map,         &Machine::map,           &Machine::unmap,       &Machine::make_user,
      &Machine::make_dma,    &Machine::make_physical, &Machine::make_fmr,    &Machine::map_fmr,
      &Machine::map_fmr,     &Machine::unmap_fmr,     &Machine::make_fast,   &Machine::bind_fast,
      &Machine::bind_fast,   &Machine::invalidate,    &Machine::end,         &Machine::look,
      &Machine::look,        &Machine::look,          &Machine::look,        &Machine::look,
      &Machine::make_window, &Machine::bind_window,   &Machine::bind_window, &Machine::bind_window,
      &Machine::invalidate};
  return (this->*pick(kSteps, command.what))(command.numbers);
}

std::string Machine::map(const Numbers& n) {
  const size_t first = n[0] % kPages;
  const size_t pages = std::min<size_t>(1 + n[1] % kPagesMax, kPages - first);
  const Stretch stretch{first * kPage, pages * kPage};
  const Direction direction = direction_of(n[2]);
  const Result<uint64_t> bus = bus_.map(memory_.get() + stretch.offset, stretch.length, direction);
  if (!bus) return "map failed";
  reference_.mappings.push_back({*bus, stretch, direction, true});
  return {};
}

std::string Machine::unmap(const Numbers& n) {
  if (reference_.mappings.empty()) return {};
  const size_t which = n[0] % reference_.mappings.size();
  ReferenceMapping& mapping = reference_.mappings[which];
  BusRange range{mapping.bus, mapping.memory.length};
  if (n[1] % 8 == 0) range.length -= kPage / 2;  // not all of it
  const int expected = !mapping.live                           ? EINVAL
                       : reference_.pinned(which)              ? EBUSY
                       : range.length != mapping.memory.length ? EINVAL
                                                               : 0;
  const int got = code(bus_.unmap({&range, 1}, mapping.direction));
  if (got == 0) mapping.live = false;
  return differ("unmap", expected, got);
}

void Machine::add(ReferenceRegion region, Made made) {
  region.live = true;
  reference_.regions.push_back(std::move(region));
  made_.push_back(std::move(made));
}

std::string Machine::make_user(const Numbers& n) {
  const size_t offset = n[0] % kMemoryBytes;
  const size_t length = n[1] % (kMemoryBytes - offset + 1);
  const Access access = pick(kAccesses, n[2]);
  const uint64_t iova = access.any(kZeroBased) ? 0 : uint64_t{n[4]} << 12;
  const Result<RegionKeys> keys = table_.register_user({.domain = domain_of(n[3]),
                                                        .address = memory_.get() + offset,
                                                        .length = length,
                                                        .iova = iova,
                                                        .access = access});
  if (keys) {
    add({.kind = RegionKind::kUser,
         .bound = true,
         .key = keys->lkey,
         .domain = domain_of(n[3]),
         .access = access,
         .iova = iova,
         .bytes = {{offset, length}},
         .mappings = {}});
  }
  return differ("register_user", contradictory(access) ? EINVAL : 0, code(keys));
}

std::string Machine::make_dma(const Numbers& n) {
  const Access access = pick(kAccesses, n[0]);
  const Result<MemoryKey> key = make_dma_region(table_, domain_of(n[1]), access);
  if (key) {
    add({.kind = RegionKind::kDma,
         .bound = true,
         .key = *key,
         .domain = domain_of(n[1]),
         .access = access,
         .bytes = {},
         .mappings = {}});
  }
  return differ("make_dma_region", kLocalWrite.covers(access) ? 0 : EINVAL, code(key));
}

std::string Machine::make_physical(const Numbers& n) {
  const Access access = pick(kAccesses, n[0]);
  ReferenceRegion region{.kind = RegionKind::kPhysical,
                         .bound = true,
                         .domain = domain_of(n[1]),
                         .access = access,
                         .iova = access.any(kZeroBased) ? 0 : n[2],
                         .bytes = {},
                         .mappings = {}};
  std::vector<BusRange> runs;
  bool mapped = true;
  for (uint32_t i = 0; i < 1 + n[3] % 3 && !reference_.mappings.empty(); ++i) {
    const size_t which = (n[4] + i * 7) % reference_.mappings.size();
    const ReferenceMapping& mapping = reference_.mappings[which];
    const size_t skip = (n[5] * (i + 1)) % mapping.memory.length;
    const size_t length = 1 + (n[5] >> 8) % (mapping.memory.length - skip);
    runs.push_back({mapping.bus + skip, length});
    mapped &= mapping.live && mapping.admits(access);
    region.readable &= mapping.readable();
    region.mappings.push_back(which);
    append(region.bytes, {mapping.memory.offset + skip, length});
  }
  auto made =
      PhysicalRegion::make(table_, runs, {.domain = region.domain, .access = access, .iova = region.iova});
  const int expected = contradictory(access) || runs.empty() ? EINVAL : mapped ? 0 : EFAULT;
  const int got = code(made);
  if (got == 0) {
    region.key = (*made)->key();
    add(std::move(region), {.physical = std::move(*made), .fmr = {}, .fast = {}});
  }
  return differ("PhysicalRegion::make", expected, got);
}

size_t Machine::choose(uint32_t number, RegionKind kind) const {
  std::vector<size_t> fitting;
  for (size_t i = 0; i < reference_.regions.size(); ++i) {
    if (reference_.regions[i].live && reference_.regions[i].kind == kind) fitting.push_back(i);
  }
  return fitting.empty() ? reference_.regions.size() : fitting[number % fitting.size()];
}

/// Pages of several mappings, mapped still or not.
Machine::Pages Machine::choose_pages(const Numbers& n, uint32_t count, Access access) const {
  Pages pages;
  for (uint32_t i = 0; i < count && !reference_.mappings.empty(); ++i) {
    const size_t which = (n[1] + i * (n[2] % 3)) % reference_.mappings.size();
    const ReferenceMapping& mapping = reference_.mappings[which];
    const size_t page = (n[3] + i) % (mapping.memory.length / kPage);
    pages.addresses.push_back(mapping.bus + page * kPage);
    pages.mappings.push_back(which);
    pages.mapped &= mapping.live && mapping.admits(access);
    append(pages.bytes, {mapping.memory.offset + page * kPage, kPage});
  }
  return pages;
}

void Machine::bind(ReferenceRegion& region, MemoryKey key, uint64_t iova, Pages pages) {
  region.bound = true;
  region.key = key;
  region.iova = iova;
  region.bytes = std::move(pages.bytes);
  region.readable = std::ranges::all_of(
      pages.mappings, [&](size_t mapping) { return reference_.mappings[mapping].readable(); });
  region.mappings = std::move(pages.mappings);
}

std::string Machine::make_fmr(const Numbers& n) {
  const Access access = pick(kAccesses, n[0]);
  auto made =
      Fmr::make(table_, {.domain = domain_of(n[1]), .access = access, .pages_max = kPagesMax, .maps_max = 3});
  const int got = code(made);
  if (got == 0) {
    const MemoryKey key = (*made)->key();
    add({.kind = RegionKind::kMapped,
         .key = key,
         .domain = domain_of(n[1]),
         .access = access,
         .bytes = {},
         .mappings = {}},
        {.physical = {}, .fmr = std::move(*made), .fast = {}});
  }
  const bool wrong = contradictory(access) || access.any(kWindowBind | kZeroBased);
  return differ("Fmr::make", wrong ? EINVAL : 0, got);
}

std::string Machine::map_fmr(const Numbers& n) {
  const size_t which = choose(n[0], RegionKind::kMapped);
  if (which == reference_.regions.size()) return {};
  ReferenceRegion& region = reference_.regions[which];
  Fmr& fmr = *made_[which].fmr;
  Pages pages = choose_pages(n, 1 + n[4] % (kPagesMax + 1), region.access);
  const uint64_t iova = uint64_t{n[5] % 16} * kPage;
  const bool many = pages.addresses.empty() || pages.addresses.size() > kPagesMax;
  const int expected = many ? EINVAL : fmr.maps() == 3 ? EAGAIN : pages.mapped ? 0 : EFAULT;
  const int got = code(fmr.map(pages.addresses, iova));
  if (got == 0) bind(region, fmr.key(), iova, std::move(pages));
  return differ("Fmr::map", expected, got);
}

std::string Machine::unmap_fmr(const Numbers& n) {
  const size_t which = choose(n[0], RegionKind::kMapped);
  if (which == reference_.regions.size()) return {};
  Fmr* fmr = made_[which].fmr.get();
  const int got = code(Fmr::unmap({&fmr, 1}));
  ReferenceRegion& region = reference_.regions[which];
  region.bound = false;
  region.readable = true;
  return differ("Fmr::unmap", 0, got);
}

std::string Machine::make_fast(const Numbers& n) {
  auto made = FastRegion::make(table_, domain_of(n[0]), kPagesMax);
  if (!made) return "FastRegion::make failed";
  const MemoryKey key = (*made)->first_key();
  add({.kind = RegionKind::kFast,
       .key = key,
       .domain = domain_of(n[0]),
       .access = Access(UINT32_MAX),
       .bytes = {},
       .mappings = {}},
      {.physical = {}, .fmr = {}, .fast = std::move(*made)});
  return {};
}

std::string Machine::bind_fast(const Numbers& n) {
  const size_t which = choose(n[0], RegionKind::kFast);
  if (which == reference_.regions.size()) return {};
  ReferenceRegion& region = reference_.regions[which];
  const FastRegion& fast = *made_[which].fast;
  const Access access = pick(kAccesses, n[5]);
  Pages pages = choose_pages(n, 1 + n[4] % kPagesMax, access);
  if (pages.addresses.empty()) return {};
  const uint64_t offset = n[4] % kPage;
  const uint64_t length = pages.addresses.size() * kPage - offset;
  const uint64_t iova = n[3];
  const PageExtent extent{.pages = static_cast<uint32_t>(pages.addresses.size()),
                          .page_shift = 12,
                          .offset = offset,
                          .length = length};
  if (const int error = fast.check(extent, iova, access); error != 0)
    return differ("FastRegion::check", contradictory(access) || access.any(kZeroBased) ? EINVAL : 0, error);
  PageList list(bus_, kPagesMax);
  std::ranges::copy(pages.addresses, list.addresses().begin());
  const int posted = list.post(extent, access);
  if (std::string wrong = differ("PageList::post", pages.mapped ? 0 : EINVAL, posted);
      !wrong.empty() || posted != 0)
    return wrong;
  const MemoryKey key = MemoryKey::make(fast.first_key().index(), static_cast<uint8_t>(n[2]));
  const DomainId domain = domain_of(n[1] / 8);
  const Outcome outcome = bind_fast_region(table_, {fast.first_key(), key, access, iova, &list}, domain);
  const bool right = !region.bound && domain == region.domain;
  if (outcome != Outcome::kDone) list.give_back();
  if ((outcome == Outcome::kDone) != right) return "bind_fast_region: unexpected outcome";
  if (!right) return {};
  bind(region, key, iova, std::move(pages));
  region.access = access & kKept;
  region.bytes.front().offset += offset;
  region.bytes.front().length -= offset;
  return {};
}

std::string Machine::end(const Numbers& n) {
  if (reference_.regions.empty()) return {};
  const size_t which = n[0] % reference_.regions.size();
  ReferenceRegion& region = reference_.regions[which];
  if (!region.live) return {};
  int expected = reference_.covered(which) ? EBUSY : 0;
  int got = 0;
  switch (region.kind) {
    case RegionKind::kUser:
      got = code(table_.deregister(region.key));
      break;
    case RegionKind::kDma:
      got = code(end_dma_region(table_, region.key));
      break;
    case RegionKind::kPhysical:
      got = code(made_[which].physical->end());
      break;
    case RegionKind::kMapped:
      expected = region.bound ? EBUSY : 0;
      got = code(made_[which].fmr->end());
      break;
    case RegionKind::kFast:
      got = code(made_[which].fast->end());
      break;
    default:
      made_[which].window->end();
  }
  if (got == 0) region.live = false;
  return differ("end", expected, got);
}

std::string Machine::look(const Numbers& n) {
  if (reference_.regions.empty()) return {};
  // Ended ones, too: their keys must be dead.
  const ReferenceRegion& region = reference_.regions[n[0] % reference_.regions.size()];
  MemoryKey key = region.key;
  if (n[1] % 8 == 0) key.value ^= 1u << (n[1] >> 8) % 32;
  const KeyUser user{.domain = n[2] % 8 == 0 ? domain_of(n[2] >> 8) : region.domain,
                     .queue_pair = queue_pair_of(n[2] >> 16)};
  const Access needed = pick(kNeeds, n[3]);
  uint64_t address = region.iova;
  uint64_t length = std::max<uint64_t>(region.length(), 1);
  if (region.kind == RegionKind::kDma && !reference_.mappings.empty()) {
    const ReferenceMapping& mapping = reference_.mappings[n[4] % reference_.mappings.size()];
    address = mapping.bus;
    length = mapping.memory.length;
  }
  const uint64_t skip = n[4] % (length + 2);
  address += skip;
  length = n[5] % (length - std::min(skip, length) + 2);
  if (n[1] % 16 == 1) length += n[5] >> 16;         // beyond the end
  if (n[1] % 16 == 2) address -= skip + n[5] % 64;  // before the start

  const Binding binding = table_.resolve(key, user, address, length, needed);
  const Answer expected = reference_.resolve(key, user, address, length, needed);
  if (binding.fault() != expected.fault) {
    return "resolve: expected fault " + std::to_string(static_cast<int>(expected.fault)) + ", got " +
           std::to_string(static_cast<int>(binding.fault()));
  }
  if (!binding.ok()) return {};
  std::vector<Stretch> bytes;
  for (uint64_t offset = 0; offset < binding.length();) {
    const Piece piece = binding.piece(offset);
    append(bytes, {static_cast<size_t>(piece.data - memory_.get()), piece.length});
    offset += piece.length;
  }
  const bool same = std::ranges::equal(bytes, expected.bytes, [](const Stretch& one, const Stretch& other) {
    return one.offset == other.offset && one.length == other.length;
  });
  return same ? "" : "resolve: other bytes than expected";
}

}  // namespace uroce::mem
