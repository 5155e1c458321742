#include "common/plan/job/measured_rates.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"
#include "common/config/checks.h"
#include "common/config/violation_list.h"
#include "common/plan/level_model.h"

namespace longhaul::plan {
namespace {

constexpr double kRateMax = 1e18;
constexpr int kListMax = 16, kRatesMax = 64, kCachesMax = 3, kDimMax = 65536;
constexpr int kThreadsMax = 4096, kNodeRanksMax = 256;
constexpr size_t kVersionBytesMax = 64, kMachineBytesMax = 256, kNameBytesMax = 64;
constexpr int64_t kBytesMax = int64_t{1} << 40;
// The smallest rate that a machine may have.
constexpr double kRateMin = 1e-9;

// What training has of the speed of its matrix products alone, with the product's own kernels: the
// rest is attention, norms, the loss, and products of other shapes. In processor time of a rank it
// was 0.5 with a width of 96 and 0.7 with 256 (AMD EPYC, AVX-512).
constexpr double kOfProducts = 0.6;

// p, m, v, g of a parameter; and what its update moves between memory and caches.
constexpr double kStateBytes = 16, kUpdateBytes = 28;
constexpr double kCopiedBytes = 8;

class Faults {
 public:
  explicit Faults(const std::string& field) : field_(field) {}

  std::vector<SpecViolation> Of(const v1::HostFigures& figures) {
    Text("version", figures.version(), kVersionBytesMax);
    Text("machine", figures.machine(), kMachineBytesMax);
    Integer("threads", figures.threads(), 1, kThreadsMax);
    Integer("ranks", figures.ranks(), 1, kNodeRanksMax);
    RequireNumber(violations_, field_ + ".seconds", figures.seconds(), {0, 1e6});
    Given("memory_gb_per_second", figures.memory_gb_per_second());
    Given("exchange_gb_per_second", figures.exchange_gb_per_second());
    Integer("memory_bytes", figures.memory_bytes(), 0, int64_t{1} << 50);
    if (Count("cache_bytes", figures.cache_bytes_size(), kCachesMax)) {
      for (int i = 0; i < figures.cache_bytes_size(); ++i)
        Integer(absl::StrCat("cache_bytes[", i, "]"), figures.cache_bytes(i), 1, kBytesMax);
    }
    if (Count("gemm", figures.gemm_size(), kListMax)) {
      for (int i = 0; i < figures.gemm_size(); ++i) {
        const std::string at = absl::StrCat("gemm[", i, "].");
        Integer(at + "dim", figures.gemm(i).dim(), 1, kDimMax);
        Rate(at + "gigaflops", figures.gemm(i).gigaflops());
      }
    }
    if (Count("codecs", figures.codecs_size(), kListMax)) {
      for (int i = 0; i < figures.codecs_size(); ++i) {
        const std::string at = absl::StrCat("codecs[", i, "].");
        Rate(at + "encoded_per_second", figures.codecs(i).encoded_per_second());
        Rate(at + "decoded_per_second", figures.codecs(i).decoded_per_second());
      }
    }
    if (!Count("kernels", figures.kernels_size(), kListMax)) return violations_.all();
    for (int i = 0; i < figures.kernels_size(); ++i)
      Kernel(absl::StrCat("kernels[", i, "]"), figures.kernels(i));
    return violations_.all();
  }

 private:
  void Text(const std::string& name, const std::string& text, size_t most) {
    if (text.size() > most || Utf8Prefix(text) != text.size()) {
      violations_.Invalid(
          absl::StrCat(field_, ".", name),
          absl::StrCat("found ", text.size(), " bytes, expected at most ", most, " of UTF-8"));
    }
  }
  void Integer(const std::string& name, int64_t value, int64_t low, int64_t high) {
    RequireInteger(violations_, absl::StrCat(field_, ".", name), value, low, high);
  }
  void Rate(const std::string& name, double value) {
    RequireNumber(violations_, absl::StrCat(field_, ".", name), value, {kRateMin, kRateMax});
  }
  // 0: not measured.
  void Given(const std::string& name, double value) {
    RequireNumber(violations_, absl::StrCat(field_, ".", name), value, {0, kRateMax});
  }
  bool Count(const std::string& name, int count, int most) {
    if (count <= most) return true;
    violations_.Invalid(absl::StrCat(field_, ".", name),
                        absl::StrCat("found ", count, " of them, expected at most ", most));
    return false;
  }
  void Kernel(const std::string& at, const v1::KernelFigure& kernel) {
    const bool named = !kernel.name().empty() && kernel.name().size() <= kNameBytesMax &&
                       std::all_of(kernel.name().begin(), kernel.name().end(), [](char c) {
                         return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
                       });
    if (!named) {
      violations_.Invalid(absl::StrCat(field_, ".", at, ".name"), "expected 1 to 64 of [a-z0-9_]");
    }
    if (!Count(at + ".rates", kernel.rates_size(), kRatesMax)) return;
    for (int i = 0; i < kernel.rates_size(); ++i) {
      const std::string of = absl::StrCat(at, ".rates[", i, "].");
      Integer(of + "working_set_bytes", kernel.rates(i).working_set_bytes(), 1, kBytesMax);
      Rate(of + "elements_per_second", kernel.rates(i).elements_per_second());
    }
  }

  const std::string field_;
  ViolationList violations_;
};

// Seconds of an element with this working set. Empty: it was not measured.
std::optional<double> SecondsOf(const v1::HostFigures& figures, absl::string_view name,
                                double working_set) {
  std::vector<LevelSample> samples;
  for (const v1::KernelFigure& kernel : figures.kernels()) {
    if (kernel.name() != name) continue;
    for (const v1::KernelRate& rate : kernel.rates())
      samples.push_back(
          {static_cast<double>(rate.working_set_bytes()), 1 / rate.elements_per_second()});
  }
  const std::vector<double> caches(figures.cache_bytes().begin(), figures.cache_bytes().end());
  const absl::StatusOr<LevelModel> model = FitLevels(samples, caches);
  if (!model.ok() || model->Seconds(working_set) <= 0) return std::nullopt;
  return model->Seconds(working_set);
}

const v1::CodecFigure* FigureOf(const v1::HostFigures& figures, v1::Codec codec) {
  for (const v1::CodecFigure& figure : figures.codecs()) {
    if (figure.codec() == codec) return &figure;
  }
  return nullptr;
}

// Of a rank, bytes that it reads and writes if all ranks of the node do. 0: not known.
double MemoryOfRank(const v1::HostFigures& figures) {
  return figures.memory_gb_per_second() * 1e9 / std::max(1, figures.ranks());
}

}  // namespace

std::vector<SpecViolation> FaultsOf(const v1::HostFigures& figures, const std::string& field) {
  return Faults(field).Of(figures);
}

double FastestProducts(const v1::HostFigures& figures) {
  double fastest = 0;
  for (const v1::GemmFigure& figure : figures.gemm())
    fastest = std::max(fastest, figure.gigaflops());
  return fastest;
}

std::optional<double> MeasuredTeraflops(const v1::HostFigures& figures, double dim, bool bfloat16) {
  // The widths around it.
  const v1::GemmFigure *below = nullptr, *above = nullptr;
  for (const v1::GemmFigure& figure : figures.gemm()) {
    if (figure.bfloat16() != bfloat16) continue;
    if (figure.dim() <= dim && (below == nullptr || figure.dim() > below->dim())) below = &figure;
    if (figure.dim() >= dim && (above == nullptr || figure.dim() < above->dim())) above = &figure;
  }
  if (below == nullptr) below = above;
  if (above == nullptr) above = below;
  if (below == nullptr) return std::nullopt;
  const double width = std::log(static_cast<double>(above->dim()) / below->dim());
  const double part = width > 0 ? std::log(dim / below->dim()) / width : 0;
  const double gigaflops =
      below->gigaflops() * std::pow(above->gigaflops() / below->gigaflops(), part);
  return kOfProducts * gigaflops / 1e3;
}

std::optional<double> MeasuredEncoding(const v1::HostFigures& figures, v1::Codec codec) {
  const v1::CodecFigure* const figure = FigureOf(figures, codec);
  if (figure == nullptr) return std::nullopt;
  return figure->encoded_per_second();
}

std::optional<double> MeasuredDecoding(const v1::HostFigures& figures, v1::Codec codec) {
  const v1::CodecFigure* const figure = FigureOf(figures, codec);
  if (figure == nullptr) return std::nullopt;
  return figure->decoded_per_second();
}

std::optional<double> MeasuredCopying(const v1::HostFigures& figures) {
  if (figures.memory_gb_per_second() <= 0) return std::nullopt;
  return MemoryOfRank(figures) / kCopiedBytes;
}

std::optional<double> MeasuredUpdates(const v1::HostFigures& figures, double parameters) {
  const double bytes = std::max(1.0, kStateBytes * parameters);
  const std::optional<double> seconds = SecondsOf(figures, "adamw", bytes);
  if (!seconds.has_value()) return std::nullopt;
  const double all = bytes * std::max(1, figures.ranks());
  const bool cached = figures.cache_bytes_size() > 0 &&
                      all <= static_cast<double>(figures.cache_bytes().rbegin()[0]);
  if (cached || figures.ranks() <= 1 || figures.memory_gb_per_second() <= 0) return 1 / *seconds;
  return std::min(1 / *seconds, MemoryOfRank(figures) / kUpdateBytes);
}

}  // namespace longhaul::plan
