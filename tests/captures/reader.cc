#include "reader.h"

#include <pcap/pcap.h>

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <utility>

namespace uroce::captures {

std::vector<std::filesystem::path> files() {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(UROCE_CAPTURES)) {
    if (entry.path().extension() == ".pcap") found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

std::vector<Record> records(const std::filesystem::path& file) {
  std::array<char, PCAP_ERRBUF_SIZE> error{};
  const std::unique_ptr<pcap_t, decltype(&pcap_close)> capture(pcap_open_offline(file.c_str(), error.data()),
                                                               &pcap_close);
  if (capture == nullptr) throw std::runtime_error(error.data());
  std::vector<Record> found;
  int64_t start = 0;
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  int status = 0;
  while ((status = pcap_next_ex(capture.get(), &header, &data)) == 1) {
    if (header->caplen != header->len) throw std::runtime_error(file.string() + ": a frame is cut");
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    const int64_t time = int64_t{header->ts.tv_sec} * 1'000'000'000 + int64_t{header->ts.tv_usec} * 1'000;
    if (found.empty()) start = time;
    found.push_back({.frame = {bytes, bytes + header->caplen}, .time_ns = time - start});
  }
  if (status != PCAP_ERROR_BREAK) throw std::runtime_error(pcap_geterr(capture.get()));
  return found;
}

std::vector<Frame> frames(const std::filesystem::path& file) {
  std::vector<Frame> found;
  for (Record& record : records(file)) found.push_back(std::move(record.frame));
  return found;
}

}  // namespace uroce::captures
