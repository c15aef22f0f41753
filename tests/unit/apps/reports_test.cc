#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/perf/report/chart.h"
#include "apps/perf/report/report_json.h"
#include "apps/perf/report/report_plot.h"
#include "apps/perf/report/report_table.h"

namespace uroce::perf {
namespace {

Report report_of_two() {
  Report report{.device = "left",
                .peer = "right",
                .address = "192.0.2.1",
                .peer_address = "192.0.2.2",
                .arrangement = "both ends here",
                .path_mtu = 4096,
                .depth = 128};
  report.measurements.push_back(
      {.operation = Operation::kWrite,
       .size = 4096,
       .bandwidth =
           Bandwidth{
               .messages = 1000, .seconds = 0.5, .gigabits_per_second = 65.5, .messages_per_second = 2e6},
       .latency = Latency{.samples = 77, .p50_us = 1.25, .p99_us = 2.5, .p999_us = 40},
       .bytes_verified = 8192});
  report.measurements.push_back(
      {.operation = Operation::kRead,
       .size = 64,
       .bandwidth = std::nullopt,
       .latency = Latency{.samples = 5, .p50_us = 3, .p99_us = 4, .p999_us = 5, .interval_us = 3.5},
       .bytes_verified = 64});
  return report;
}

TEST(JsonReport, IsOneFlatObjectOfNumbersAndNames) {
  const nlohmann::json json = nlohmann::json::parse(json_of(report_of_two()));
  ASSERT_TRUE(json.is_object());
  for (const auto& [key, value] : json.items()) {
    const bool beside = key == "samples" || key == "histograms_us" || key == "machine";
    EXPECT_TRUE(beside || value.is_number() || value.is_string()) << key;
  }
  EXPECT_EQ(json["write.4096.gigabits_per_second"], 65.5);
  EXPECT_EQ(json["write.4096.messages"], 1000);
  EXPECT_EQ(json["read.64.round_trip_p50_us"], 3);
  EXPECT_EQ(json["read.64.ping_interval_p50_us"], 3.5);
  EXPECT_EQ(json["path_mtu"], 4096);
  EXPECT_FALSE(json.contains("read.64.gigabits_per_second"));
}

TEST(Table, HasARowForEachMeasurementAndDashesForGaps) {
  const std::string table = table_of(report_of_two());
  std::istringstream lines(table);
  std::string write, read;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("write")) write = line;
    if (line.starts_with("read")) read = line;
  }
  EXPECT_NE(write.find("4 KiB"), std::string::npos) << table;
  EXPECT_NE(write.find("65.5"), std::string::npos) << table;
  EXPECT_NE(write.find("8.0 KiB"), std::string::npos) << table;
  EXPECT_EQ(std::ranges::count(read, '-'), 5) << table;
}

TEST(Table, HasARowForALoadAndEachOfItsParts) {
  Report report = report_of_two();
  report.load = "4 queue pairs";
  LoadFigures all{.name = "mix",
                  .text = "all",
                  .messages = 100,
                  .offered = 50,
                  .messages_per_second = 49.99,
                  .cpu_ns = 7};
  all.latency.record(5'000, 100);
  report.loads = {all, {.name = "mix.read.64", .text = "read 64 B", .back = true, .messages = 10}};
  report.ramps = {
      {.name = "mix",
       .steps = {{.offered = 50, .achieved = 49.99, .held = true}, {.offered = 99, .achieved = 70}},
       .highest = 50}};
  const std::string table = table_of(report);
  for (const char* expected :
       {"4 queue pairs", "all", "5.00", "  read 64 B", "back", "is 50 messages a second", "not held"})
    EXPECT_NE(table.find(expected), std::string::npos) << expected << table;
  const nlohmann::json json = nlohmann::json::parse(json_of(report));
  EXPECT_EQ(json["mix.there.offered_per_second"], 50);
  EXPECT_EQ(json["mix.there.latency_p50_us"], 5.0);
  EXPECT_EQ(json["histograms_us"]["mix.there.latency"].size(), 1u);
  EXPECT_EQ(json["mix.read.64.back.messages"], 10);
  EXPECT_EQ(json["mix.highest_per_second"], 50);
  EXPECT_EQ(json["ramps"]["mix"].size(), 2u);
}

TEST(Table, TellsWhatAnUnreliableServiceLost) {
  Report report = report_of_two();
  EXPECT_EQ(table_of(report).find("lost"), std::string::npos);
  report.service = Service::kUd;
  report.measurements[0].bandwidth->received = 958;
  report.measurements[0].latency->lost = 3;
  const std::string table = table_of(report);
  EXPECT_NE(table.find("UD"), std::string::npos) << table;
  EXPECT_NE(table.find(" 45 "), std::string::npos) << table;
  const nlohmann::json json = nlohmann::json::parse(json_of(report));
  EXPECT_EQ(json["write.4096.received"], 958);
  EXPECT_EQ(json["write.4096.lost"], 42);
  EXPECT_EQ(json["write.4096.round_trips_lost"], 3);
}

size_t count_of(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(Plot, DrawsALinePerSeriesAndClosesWhatItOpens) {
  const std::string svg = plot_of(report_of_two());
  EXPECT_TRUE(svg.starts_with("<svg ")) << svg;
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  // Bandwidth of WRITE; p50 and p99 of WRITE and READ.
  EXPECT_EQ(count_of(svg, "<polyline"), 5u);
  EXPECT_EQ(count_of(svg, "<g "), count_of(svg, "</g>"));
  EXPECT_EQ(count_of(svg, "<text"), count_of(svg, "</text>"));
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(Plot, EscapesNames) {
  Report report = report_of_two();
  report.device = "<a&b>";
  const std::string svg = plot_of(report);
  EXPECT_NE(svg.find("&lt;a&amp;b&gt;"), std::string::npos);
  EXPECT_EQ(svg.find("<a&b>"), std::string::npos);
}

TEST(Plot, PutsHigherValuesHigherAndLargerSizesFurtherRight) {
  const Chart chart{.title = "t", .y_label = "y", .series = {{.name = "s", .points = {{1, 1}, {1024, 100}}}}};
  const std::string svg = svg_of("headline", {chart});
  const size_t at = svg.find("<polyline points=\"");
  ASSERT_NE(at, std::string::npos);
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  ASSERT_EQ(std::sscanf(svg.c_str() + at, "<polyline points=\"%lf,%lf %lf,%lf", &x1, &y1, &x2, &y2), 4);
  EXPECT_LT(x1, x2);
  EXPECT_GT(y1, y2);  // y of SVG grows downwards
}

TEST(Plot, OfASinglePointIsFinite) {
  const Chart chart{.title = "t", .y_label = "y", .series = {{.name = "s", .points = {{64, 10}}}}};
  const std::string svg = svg_of("headline", {chart, {.title = "empty", .y_label = "y", .series = {}}});
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

}  // namespace
}  // namespace uroce::perf
