#include "apps/perf/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "apps/perf/plan.h"

namespace uroce::perf {
namespace {

// Colour-blind safe (Okabe and Ito).
constexpr std::array<const char*, 3> kPalette{"#0072B2", "#D55E00", "#009E73"};

struct Frame {
  double left, top, width, height;
};
constexpr double kChartWidth = 620;
constexpr double kHeight = 480;
constexpr Frame kPlot{70, 80, 520, 330};

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

std::string label(double x, double y, const char* anchor, const std::string& text, const char* extra = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, extra,
                     escaped(text));
}

std::string line(double x1, double y1, double x2, double y2, const char* stroke) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1,
                     y1, x2, y2, stroke);
}

/// A logarithmic axis over [low, high], mapped to [from, to].
class Axis {
 public:
  Axis(double low, double high, double from, double to)
      : low_(std::log10(low)), high_(std::log10(high)), from_(from), to_(to) {}
  [[nodiscard]] double at(double value) const {
    return from_ + (to_ - from_) * (std::log10(value) - low_) / (high_ - low_);
  }

 private:
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

/// The ticks of y: 1, 2 and 5 of each power of ten, or the powers alone when there are many.
std::vector<double> ticks_of(const Range& range) {
  const bool fine = range.high / range.low < 1e4;
  std::vector<double> ticks;
  for (double power = range.low; power <= range.high * 1.001; power *= 10) {
    for (const double step : {1.0, 2.0, 5.0}) {
      if ((step == 1 || fine) && power * step <= range.high * 1.001) ticks.push_back(power * step);
    }
  }
  return ticks;
}

std::string path_of(const Series& series, const Axis& x, const Axis& y) {
  const char* colour = kPalette[series.colour % kPalette.size()];
  std::string points;
  std::string dots;
  for (const Series::Point& point : series.points) {
    points += fmt::format("{:.1f},{:.1f} ", x.at(point.x), y.at(point.y));
    dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"/>\n", x.at(point.x),
                        y.at(point.y), colour);
  }
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", points,
                     colour, series.dashed ? " stroke-dasharray=\"6 4\"" : "") +
         dots;
}

std::string legend_of(const Chart& chart, double left, double top) {
  std::string out;
  double y = top;
  for (const Series& series : chart.series) {
    out += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\" stroke=\"{3}\" "
        "stroke-width=\"2\"{4}/>\n",
        left, y - 4, left + 26, kPalette[series.colour % kPalette.size()],
        series.dashed ? " stroke-dasharray=\"6 4\"" : "");
    out += label(left + 32, y, "start", series.name);
    y += 17;
  }
  return out;
}

std::string grid_of(const Range& sizes, const Range& values, const Axis& x, const Axis& y) {
  std::string out;
  for (const double tick : ticks_of(values)) {
    out += line(kPlot.left, y.at(tick), kPlot.left + kPlot.width, y.at(tick), "#ddd");
    out += label(kPlot.left - 8, y.at(tick) + 4, "end", fmt::format("{:g}", tick));
  }
  const bool crowded = sizes.high / sizes.low > 1 << 12;
  for (double size = sizes.low; size <= sizes.high * 1.001; size *= crowded ? 8 : 2) {
    out += line(x.at(size), kPlot.top, x.at(size), kPlot.top + kPlot.height, "#eee");
    out += label(x.at(size), kPlot.top + kPlot.height + 18, "middle", size_text(static_cast<uint64_t>(size)));
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
  sizes = rounded(sizes, 2);
  values = rounded(values, 10);
  const Axis x(sizes.low, sizes.high, kPlot.left, kPlot.left + kPlot.width);
  const Axis y(values.low, values.high, kPlot.top + kPlot.height, kPlot.top);

  std::string out = label(kPlot.left, kPlot.top - 14, "start", chart.title, " font-weight=\"bold\"");
  out += grid_of(sizes, values, x, y);
  out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#888\"/>\n",
                     kPlot.left, kPlot.top, kPlot.width, kPlot.height);
  for (const Series& series : chart.series) out += path_of(series, x, y);
  out += legend_of(chart, kPlot.left + 14, kPlot.top + 20);
  out += label(kPlot.left + kPlot.width / 2, kPlot.top + kPlot.height + 42, "middle", "message size");
  const double middle = kPlot.top + kPlot.height / 2;
  out += label(18, middle, "middle", chart.y_label,
               fmt::format(" transform=\"rotate(-90 18 {:.1f})\"", middle).c_str());
  return out;
}

}  // namespace

std::string svg_of(const std::string& headline, const std::vector<Chart>& charts) {
  const double width = kChartWidth * static_cast<double>(charts.size());
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      width, kHeight);
  out += label(kPlot.left, 30, "start", headline, " font-size=\"15\"");
  for (size_t i = 0; i < charts.size(); ++i) {
    out += fmt::format("<g transform=\"translate({} 0)\">\n{}</g>\n", kChartWidth * static_cast<double>(i),
                       chart_of(charts[i]));
  }
  return out + "</svg>\n";
}

}  // namespace uroce::perf
