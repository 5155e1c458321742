// The meaning of int8 and int4 (common/codec/integer_format.h).
#include <cmath>

#include "common/codec/integer_format.h"
#include "common/codec/kernels/dense_scalar.h"
#include "common/codec/tail_order.h"

namespace longhaul::kernels {
namespace {

template <typename Format>
struct Nearest {
  static constexpr bool kStochastic = false;
  using Scale = integer::Step;

  static Scale Choose(const float*, uint32_t magnitude_max, int, uint32_t* word) {
    *word = integer::NearestStep<Format>(magnitude_max);
    return integer::StepOf(*word);
  }
  static Scale FromPlane(const CodedRun& run, int64_t block) {
    return integer::StepOf(scalar::LoadAs<uint16_t>(run.scales + block * scale_word::kBytes));
  }
  // Round to nearest even, the mode of every thread.
  static int32_t Code(float x, const Scale& step, float) {
    return std::clamp(static_cast<int32_t>(std::nearbyint(Bounded(x * step.inverse))), Format::kMin,
                      Format::kMax);
  }
  // An Inf or NaN must not reach the conversion to an integer, whatever code it gets.
  static float Bounded(float x) { return std::fabs(x) < 1e6f ? x : 0.0f; }
  static float Value(int32_t code, const Scale& step) {
    return static_cast<float>(code) * step.value;
  }
};

template <typename Format>
struct Searched : Nearest<Format> {
  using Scale = integer::Step;
  static Scale Choose(const float* u, uint32_t magnitude_max, int, uint32_t* word) {
    const float factor = EnergyFactor(magnitude_max);
    float best_error = 0;
    for (int j = 0; j < integer::kCandidates; ++j) {
      const uint32_t candidate = integer::CandidateStep<Format>(magnitude_max, j);
      const float error =
          scalar::ErrorEnergy<Nearest<Format>>(u, integer::StepOf(candidate), factor);
      if (j == 0 || error < best_error) {
        *word = candidate;
        best_error = error;
      }
    }
    return integer::StepOf(*word);
  }
};

template <typename Format>
struct Stochastic : Nearest<Format> {
  static constexpr bool kStochastic = true;
  using Scale = integer::Step;
  static Scale Choose(const float*, uint32_t magnitude_max, int, uint32_t* word) {
    *word = integer::StochasticStep<Format>(magnitude_max);
    return integer::StepOf(*word);
  }
  static int32_t Code(float x, const Scale& step, float noise_plus_one) {
    const float moved = x * step.inverse + (noise_plus_one - 1.5f);
    return std::clamp(static_cast<int32_t>(std::nearbyint(Nearest<Format>::Bounded(moved))),
                      Format::kMin, Format::kMax);
  }
};

struct Bytes {
  static constexpr int64_t kCodeBytes = kBlockElements;
  static void Put(uint8_t* codes, int i, int32_t code) {
    codes[ByteInBlock(i)] = static_cast<uint8_t>(code);
  }
  static int32_t Get(const uint8_t* codes, int i) {
    return static_cast<int8_t>(codes[ByteInBlock(i)]);
  }
};

struct SignedHalfBytes {
  static constexpr int64_t kCodeBytes = scalar::HalfBytes::kCodeBytes;
  static void Put(uint8_t* codes, int i, int32_t code) {
    scalar::HalfBytes::Put(codes, i, code & 15);
  }
  static int32_t Get(const uint8_t* codes, int i) {
    return static_cast<int32_t>(scalar::HalfBytes::Get(codes, i) ^ 8) - 8;
  }
};

template <typename Quantizer, typename Layout>
struct With : Quantizer, Layout {};

}  // namespace

DenseKernels Int8Scalar(const CodecOptions& options) {
  if (options.stochastic) return scalar::KernelsOf<With<Stochastic<integer::Int8>, Bytes>>();
  return scalar::KernelsOf<With<Nearest<integer::Int8>, Bytes>>();
}

DenseKernels Int4Scalar(const CodecOptions& options) {
  if (options.search_scale)
    return scalar::KernelsOf<With<Searched<integer::Int4>, SignedHalfBytes>>();
  if (options.stochastic)
    return scalar::KernelsOf<With<Stochastic<integer::Int4>, SignedHalfBytes>>();
  return scalar::KernelsOf<With<Nearest<integer::Int4>, SignedHalfBytes>>();
}

}  // namespace longhaul::kernels
