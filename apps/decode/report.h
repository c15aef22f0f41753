#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "apps/decode/decoder.h"

namespace uroce::decode {

enum class Form : uint8_t { kText, kJson };

/// Writes to standard output what is said of packets and captures: text, or JSON with an object in each line.
class Report {
 public:
  Report(Form form, Lines lines) : form_(form), lines_(lines) {}

  /// A line of the packet if such are wanted, and what it breaks. False: it cannot be written any more.
  bool frame(const Inspected& packet, const std::string& note);
  /// Writes counts of the whole file; `trouble`: why it could not be read to its end.
  bool summary(const std::string& file, const Totals& totals, const Connections& connections,
               const std::string& trouble);

 private:
  bool write(const std::string& text);
  void frame_as_text(const Inspected& packet, const std::string& note);
  void frame_as_json(const Inspected& packet, const std::string& note);
  void summary_as_text(const std::string& file, const Totals& totals, const Connections& connections);
  void summary_as_json(const std::string& file, const Totals& totals, const Connections& connections,
                       const std::string& trouble);

  const Form form_;
  const Lines lines_;
  int64_t start_ns_ = 0;
  bool started_ = false;
  std::string text_;
};

}  // namespace uroce::decode
