#include "tests/benchmark/distortion/formulas.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace longhaul::distortion {
namespace {

using Block = absl::Span<const float>;

// To nearest, with so many bits after the leading one.
double Round(double scale, int mantissa_bits) {
  if (scale == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(scale, &exponent);
  return std::ldexp(std::round(std::ldexp(fraction, mantissa_bits + 1)),
                    exponent - mantissa_bits - 1);
}

double Quantize(CodecKind kind, double x, double scale) {
  if (scale == 0) return 0;
  const double magnitude = std::abs(x) / scale;
  switch (kind) {
    case CodecKind::kE3m0: {
      if (magnitude < 0x1p-7) return 0;
      // The nearest of 2^-6 .. 1: neighbours meet at 1.5 times the lower one.
      const double level = std::clamp(std::floor(std::log2(magnitude / 0.75)), -6.0, 0.0);
      return std::copysign(std::exp2(level) * scale, x);
    }
    case CodecKind::kInt8:
      return std::clamp(std::nearbyint(x / scale), -128.0, 127.0) * scale;
    case CodecKind::kInt6:
      return std::clamp(std::nearbyint(x / scale), -32.0, 31.0) * scale;
    case CodecKind::kInt4:
      return std::clamp(std::nearbyint(x / scale), -8.0, 7.0) * scale;
    default:
      return std::copysign(scale, x);
  }
}

double Error(CodecKind kind, Block block, double scale) {
  double error = 0;
  for (const float x : block) {
    const double lost = x - Quantize(kind, x, scale);
    error += lost * lost;
  }
  return error;
}

double ScaleOf(CodecKind kind, Block block) {
  double sum = 0, largest = 0;
  for (const float x : block) {
    sum += std::abs(x);
    largest = std::max<double>(largest, std::abs(x));
  }
  switch (kind) {
    case CodecKind::kInt8:
      return largest / 128;
    case CodecKind::kInt6:
      return largest / 32;
    case CodecKind::kInt4:
      return largest / 8;
    case CodecKind::kSign1:
      return sum / static_cast<double>(block.size());
    default:
      return largest;
  }
}

double SearchedError(CodecKind kind, Block block, double scale) {
  double best = Error(kind, block, scale);
  for (int i = 0; i < 16; ++i) {
    // Eighths of an octave around it for a logarithmic grid, finer shares for a linear one.
    const double candidate = kind == CodecKind::kE3m0 ? Round(scale, 3) * (1 + (i - 8) / 16.0)
                                                      : Round(scale * (22 + i) / 32, 8);
    best = std::min(best, Error(kind, block, candidate));
  }
  return best;
}

}  // namespace

absl::StatusOr<double> Nmse(CodecKind kind, Scale scale, int64_t block,
                            absl::Span<const float> values) {
  const bool scaled = kind == CodecKind::kE3m0 || kind == CodecKind::kInt8 ||
                      kind == CodecKind::kInt6 || kind == CodecKind::kInt4 ||
                      kind == CodecKind::kSign1;
  if (!scaled)
    return absl::InvalidArgumentError(absl::StrCat(std::string(CodecName(kind)), " has no scales"));
  if (scale == Scale::kSearch && kind == CodecKind::kSign1)
    return absl::InvalidArgumentError("sign1: its scale has the least error already");
  double error = 0, signal = 0;
  for (size_t first = 0; first < values.size(); first += block) {
    const Block part = values.subspan(first, block);
    const double plain = ScaleOf(kind, part);
    if (scale == Scale::kSearch) {
      error += SearchedError(kind, part, plain);
    } else {
      const int bits = scale == Scale::kByte ? 3 : scale == Scale::kWord ? 8 : 23;
      error += Error(kind, part, Round(plain, bits));
    }
    for (const float x : part) signal += static_cast<double>(x) * x;
  }
  return error / signal;
}

}  // namespace longhaul::distortion
