#pragma once

#include <map>
#include <memory>
#include <string>

#include "mem/keys/region_table.h"
#include "words.h"

namespace uroce::script {

/// Registered memory and, beside it, what its bytes ought to be.
struct Region {
  std::string name;
  std::vector<std::byte> storage;
  std::byte* memory = nullptr;  // the first registered byte, in `storage`
  Bytes model;
  uint64_t iova = 0;
  mem::RegionKeys keys;
};

/// "m+16".
struct Address {
  Region* region = nullptr;
  uint64_t offset = 0;

  [[nodiscard]] uint64_t value() const { return region->iova + offset; }
};

/// `count` bytes from `offset` of the pattern that `salt` chooses.
Bytes pattern(uint64_t salt, uint64_t offset, size_t count);

/// The regions of a script, by name.
class Memory {
 public:
  Memory(mem::RegionTable& table, DomainId domain, DomainId other_domain)
      : table_(table), domain_(domain), other_domain_(other_domain) {}
  ~Memory();

  /// region NAME BYTES [rights=write,...] [offset=BYTES] [iova=ADDRESS] [domain=other] [data=...]
  void add(Line& line);
  /// Its end: neither key means anything any more.
  void remove(Line& line);

  [[nodiscard]] Region& at(const Line& line, const std::string& name);
  [[nodiscard]] bool has(const std::string& name) const { return regions_.contains(name); }
  [[nodiscard]] Address address(const Line& line, const std::string& text);
  /// A number, or the address of a byte of a region.
  [[nodiscard]] uint64_t address_value(const Line& line, const std::string& text);
  /// A number, or the R_Key of a region.
  [[nodiscard]] MemoryKey rkey(const Line& line, const std::string& text);

  /// What `text` says, `skip` bytes further on: "zeros", a pattern ("3" or "3+256"), "hex:45A0", or bytes
  /// of a region ("m+16").
  [[nodiscard]] Bytes data(const Line& line, const std::string& text, uint64_t skip, size_t count);

  /// The model changes.
  void expect(const Address& at, const Bytes& bytes);
  /// Compares that many bytes, or all memory, with the model; what is wrong, or nothing.
  [[nodiscard]] static std::string compare(const Address& at, size_t count);
  [[nodiscard]] std::string compare() const;

 private:
  mem::RegionTable& table_;
  const DomainId domain_;
  const DomainId other_domain_;
  std::map<std::string, std::unique_ptr<Region>> regions_;
};

}  // namespace uroce::script
