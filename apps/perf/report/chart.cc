#include "apps/perf/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "apps/perf/plan/plan.h"

namespace uroce::perf {
namespace {

// Colour-blind safe (Okabe and Ito), and lighter ones of the same hues on dark ground.
constexpr std::array<const char*, 6> kLight{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"};
constexpr std::array<const char*, 6> kDark{"#4DA3E0", "#FF8A3D", "#2ECC9A", "#E6A3C8", "#FFC247", "#9BD4F5"};

struct Frame {
  double left, top, width, height;
};
constexpr double kChartWidth = 620;
constexpr double kHeight = 480;
constexpr Frame kPlot{70, 80, 520, 330};

std::string label(double x, double y, const char* anchor, const std::string& text, const char* extra = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, extra,
                     escaped(text));
}

std::string line(double x1, double y1, double x2, double y2, const char* kind) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1,
                     x2, y2, kind);
}

size_t colour_of(const Series& series) { return series.colour % kLight.size(); }

const char* dashes_of(const Series& series) { return series.dashed ? " stroke-dasharray=\"6 4\"" : ""; }

/// An axis over [low, high], mapped to [from, to].
class Axis {
 public:
  Axis(Scale scale, double low, double high, double from, double to)
      : scale_(scale), low_(place(low)), high_(place(high)), from_(from), to_(to) {}
  [[nodiscard]] double at(double value) const {
    return from_ + (to_ - from_) * (place(value) - low_) / (high_ - low_);
  }

 private:
  [[nodiscard]] double place(double value) const {
    return scale_ == Scale::kLinear ? value : std::log10(value);
  }

  Scale scale_;
  double low_, high_, from_, to_;
};

struct Range {
  double low = 0;
  double high = 0;
  void include(double value) {
    if (low == 0 || value < low) low = value;
    high = std::max(high, value);
  }
};

/// Whole powers of `base` around the range, at least one apart.
Range rounded(Range range, double base) {
  if (range.low <= 0) return {1, base};
  const double low = std::floor(std::log(range.low) / std::log(base) + 1e-9);
  const double high = std::max(low + 1, std::ceil(std::log(range.high) / std::log(base) - 1e-9));
  return {std::pow(base, low), std::pow(base, high)};
}

/// From 0 up to a whole number of steps of 1, 2 or 5 that are five or a few more.
double linear_step(double high) {
  const double power = std::pow(10, std::floor(std::log10(high / 5)));
  for (const double step : {1.0, 2.0, 5.0})
    if (high / (power * step) <= 8) return power * step;
  return power * 10;
}

Range rounded(Range range, Scale scale) {
  if (scale != Scale::kLinear) return rounded(range, scale == Scale::kBytes ? 2.0 : 10.0);
  if (range.high <= 0) return {0, 1};
  const double step = linear_step(range.high);
  return {0, std::ceil(range.high / step - 1e-9) * step};
}

struct Tick {
  double at = 0;
  std::string text;
};

std::string short_number(double value) {
  if (value >= 1e6) return fmt::format("{:g}M", value / 1e6);
  return value >= 1e4 ? fmt::format("{:g}k", value / 1e3) : fmt::format("{:g}", value);
}

std::vector<Tick> ticks_of(const Range& range, Scale scale) {
  std::vector<Tick> ticks;
  if (scale == Scale::kLinear) {
    const double step = linear_step(range.high);
    for (int i = 0; i * step <= range.high * 1.001; ++i) ticks.push_back({i * step, short_number(i * step)});
  } else if (scale == Scale::kBytes) {
    const bool crowded = range.high / range.low > 1 << 12;
    for (double size = range.low; size <= range.high * 1.001; size *= crowded ? 8 : 2)
      ticks.push_back({size, size_text(static_cast<uint64_t>(size))});
  } else if (scale == Scale::kNines) {
    for (double nines = range.low; nines <= range.high * 1.001; nines *= 10)
      ticks.push_back({nines, fmt::format("{:.6g}%", 100 * (1 - 1 / nines))});
  } else {
    // 1, 2 and 5 of each power of ten, or the powers alone when there are many.
    const bool fine = range.high / range.low < 1e4;
    for (double power = range.low; power <= range.high * 1.001; power *= 10)
      for (const double step : {1.0, 2.0, 5.0})
        if ((step == 1 || fine) && power * step <= range.high * 1.001)
          ticks.push_back({power * step, short_number(power * step)});
  }
  return ticks;
}

std::string path_of(const Series& series, const Axis& x, const Axis& y) {
  constexpr size_t kDotsMax = 40;  // of a line with more points they hide it
  std::string points;
  std::string dots;
  for (const Series::Point& point : series.points) {
    points += fmt::format("{:.1f},{:.1f} ", x.at(point.x), y.at(point.y));
    dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" class=\"d{}\"/>\n", x.at(point.x),
                        y.at(point.y), colour_of(series));
  }
  const std::string path = fmt::format("<polyline points=\"{}\" class=\"l{}\"{}/>\n", points,
                                       colour_of(series), dashes_of(series));
  return series.points.size() > kDotsMax ? path : path + dots;
}

std::string legend_of(const Chart& chart, double left, double top) {
  std::string out;
  double y = top;
  for (const Series& series : chart.series) {
    out +=
        fmt::format("<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\" class=\"l{3}\"{4}/>\n",
                    left, y - 4, left + 26, colour_of(series), dashes_of(series));
    out += label(left + 32, y, "start", series.name);
    y += 17;
  }
  return out;
}

std::string grid_of(const Chart& chart, const Range& across, const Range& up, const Axis& x, const Axis& y) {
  std::string out;
  for (const Tick& tick : ticks_of(up, chart.y)) {
    out += line(kPlot.left, y.at(tick.at), kPlot.left + kPlot.width, y.at(tick.at), "grid");
    out += label(kPlot.left - 8, y.at(tick.at) + 4, "end", tick.text);
  }
  for (const Tick& tick : ticks_of(across, chart.x)) {
    out += line(x.at(tick.at), kPlot.top, x.at(tick.at), kPlot.top + kPlot.height, "grid");
    out += label(x.at(tick.at), kPlot.top + kPlot.height + 18, "middle", tick.text);
  }
  return out;
}

std::string chart_of(const Chart& chart) {
  Range sizes, values;
  for (const Series& series : chart.series) {
    for (const Series::Point& point : series.points) {
      sizes.include(point.x);
      values.include(point.y);
    }
  }
  sizes = rounded(sizes, chart.x);
  values = rounded(values, chart.y);
  const Axis x(chart.x, sizes.low, sizes.high, kPlot.left, kPlot.left + kPlot.width);
  const Axis y(chart.y, values.low, values.high, kPlot.top + kPlot.height, kPlot.top);

  std::string out = label(kPlot.left, kPlot.top - 14, "start", chart.title, " font-weight=\"bold\"");
  out += grid_of(chart, sizes, values, x, y);
  out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"frame\"/>\n", kPlot.left,
                     kPlot.top, kPlot.width, kPlot.height);
  for (const Series& series : chart.series) out += path_of(series, x, y);
  out +=
      legend_of(chart, chart.legend_right ? kPlot.left + kPlot.width - 130 : kPlot.left + 14, kPlot.top + 20);
  out += label(kPlot.left + kPlot.width / 2, kPlot.top + kPlot.height + 42, "middle", chart.x_label);
  const double middle = kPlot.top + kPlot.height / 2;
  out += label(18, middle, "middle", chart.y_label,
               fmt::format(" transform=\"rotate(-90 18 {:.1f})\"", middle).c_str());
  return out;
}

std::string style_of(const std::array<const char*, 6>& palette, const char* paper, const char* ink,
                     const char* grid) {
  std::string out =
      fmt::format("svg text{{fill:{1}}}.paper{{fill:{0}}}.grid{{stroke:{2}}}.frame{{fill:none;stroke:#888}}",
                  paper, ink, grid);
  for (size_t i = 0; i < palette.size(); ++i)
    out += fmt::format(".l{0}{{fill:none;stroke:{1};stroke-width:2}}.d{0}{{fill:{1}}}", i, palette[i]);
  return out;
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string chart_style() {
  return style_of(kLight, "#ffffff", "#222222", "#dddddd") + "\n@media (prefers-color-scheme: dark){" +
         style_of(kDark, "#14171c", "#e4e4e4", "#333a44") + "}\n";
}

std::string svg_of(const Chart& chart) {
  constexpr double kHeadline = 40;  // room that a chart alone does not want
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 {2} {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"12\" role=\"img\" aria-label=\"{3}\">\n{4}</svg>\n",
      kChartWidth, kHeight - kHeadline, kHeadline, escaped(chart.title), chart_of(chart));
}

std::string svg_of(const std::string& headline, const std::vector<Chart>& charts) {
  const double width = kChartWidth * static_cast<double>(charts.size());
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<style>{2}</style>\n<rect width=\"{0}\" height=\"{1}\" "
      "class=\"paper\"/>\n",
      width, kHeight, chart_style());
  out += label(kPlot.left, 30, "start", headline, " font-size=\"15\"");
  for (size_t i = 0; i < charts.size(); ++i) {
    out += fmt::format("<g transform=\"translate({} 0)\">\n{}</g>\n", kChartWidth * static_cast<double>(i),
                       chart_of(charts[i]));
  }
  return out + "</svg>\n";
}

}  // namespace uroce::perf
