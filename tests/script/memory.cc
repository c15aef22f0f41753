#include "memory.h"

#include <algorithm>
#include <cstdint>

namespace uroce::script {

namespace {

constexpr uint64_t kFirstIova = 0x7000'0000'0000;
constexpr uint64_t kIovaStep = 1ull << 32;

mem::Access rights_of(const Line& line, const std::string& text) {
  constexpr Named<mem::Access> kRights[] = {{"none", mem::Access()},        {"local", mem::kLocalWrite},
                                            {"write", mem::kRemoteWrite},   {"read", mem::kRemoteRead},
                                            {"atomic", mem::kRemoteAtomic}, {"flush", mem::kFlushGlobal},
                                            {"bind", mem::kWindowBind}};
  mem::Access rights;
  for (const std::string& word : split(text)) rights = rights | value_of(line, kRights, word, "right");
  return rights;
}

bool is_number(const std::string& text) { return !text.empty() && text[0] >= '0' && text[0] <= '9'; }

}  // namespace

Bytes pattern(uint64_t salt, uint64_t offset, size_t count) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t at = offset + i;
    bytes[i] = static_cast<std::byte>(at * 7 + at / 251 + salt * 31 + 1);
  }
  return bytes;
}

Memory::~Memory() {
  for (const auto& [name, region] : regions_) static_cast<void>(table_.deregister(region->keys.lkey));
}

void Memory::add(Line& line) {
  auto region = std::make_unique<Region>();
  region->name = line.next("name of the region");
  const uint64_t bytes = line.to_number(line.next("bytes of the region"));
  const uint64_t offset = line.number("offset", 0);
  region->storage.resize(bytes + offset + 64);
  region->memory =
      region->storage.data() + (64 - reinterpret_cast<uintptr_t>(region->storage.data()) % 64) + offset;
  region->iova = line.number("iova", kFirstIova + regions_.size() * kIovaStep);
  region->model = data(line, line.option("data").value_or("zeros"), 0, bytes);
  std::copy(region->model.begin(), region->model.end(), region->memory);
  const std::string domain = line.option("domain").value_or("own");
  if (domain != "own" && domain != "other") line.fail("domain=own or other");
  auto keys = table_.register_user({.domain = domain == "own" ? domain_ : other_domain_,
                                    .address = region->memory,
                                    .length = bytes,
                                    .iova = region->iova,
                                    .access = rights_of(line, line.option("rights").value_or("local"))});
  if (!keys) line.fail(keys.error().message);
  region->keys = *keys;
  if (!regions_.emplace(region->name, std::move(region)).second) line.fail("there is a region of this name");
}

void Memory::remove(Line& line) {
  const Region& region = at(line, line.next("name of the region"));
  if (const Status status = table_.deregister(region.keys.lkey); !status) line.fail(status.error().message);
}

Region& Memory::at(const Line& line, const std::string& name) {
  const auto found = regions_.find(name);
  if (found == regions_.end()) line.fail("no such region: " + name);
  return *found->second;
}

Address Memory::address(const Line& line, const std::string& text) {
  const size_t plus = text.find('+');
  return {&at(line, text.substr(0, plus)),
          plus == std::string::npos ? 0 : line.to_number(text.substr(plus + 1))};
}

uint64_t Memory::address_value(const Line& line, const std::string& text) {
  return is_number(text) ? line.to_number(text) : address(line, text).value();
}

MemoryKey Memory::rkey(const Line& line, const std::string& text) {
  return is_number(text) ? MemoryKey{static_cast<uint32_t>(line.to_number(text))} : at(line, text).keys.rkey;
}

Bytes Memory::data(const Line& line, const std::string& text, uint64_t skip, size_t count) {
  if (text == "zeros") return Bytes(count);
  if (text.starts_with("hex:")) {
    Bytes bytes;
    for (size_t i = 4 + 2 * skip; i + 1 < text.size(); i += 2)
      bytes.push_back(static_cast<std::byte>(line.to_number("0x" + text.substr(i, 2))));
    if (bytes.size() < count) line.fail("too few bytes: " + text);
    bytes.resize(count);
    return bytes;
  }
  if (is_number(text)) {
    const std::vector<std::string> parts = split(text, '+');
    return pattern(line.to_number(parts[0]), (parts.size() > 1 ? line.to_number(parts[1]) : 0) + skip, count);
  }
  const Address from = address(line, text);
  if (from.offset + skip + count > from.region->model.size())
    line.fail("beyond the end of " + from.region->name);
  const auto begin = from.region->model.begin() + static_cast<ptrdiff_t>(from.offset + skip);
  return {begin, begin + static_cast<ptrdiff_t>(count)};
}

void Memory::expect(const Address& at, const Bytes& bytes) {
  std::copy(bytes.begin(), bytes.end(), at.region->model.begin() + static_cast<ptrdiff_t>(at.offset));
}

std::string Memory::compare(const Address& at, size_t count) {
  for (uint64_t i = at.offset; i < at.offset + count; ++i) {
    const std::byte found = at.region->memory[i];
    const std::byte expected = at.region->model[i];
    if (found == expected) continue;
    return "byte " + at.region->name + '+' + std::to_string(i) + " is " +
           std::to_string(static_cast<int>(found)) + ", expected " +
           std::to_string(static_cast<int>(expected));
  }
  return {};
}

std::string Memory::compare() const {
  for (const auto& [name, region] : regions_) {
    if (std::string wrong = compare({region.get(), 0}, region->model.size()); !wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace uroce::script
