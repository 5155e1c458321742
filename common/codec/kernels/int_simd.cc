// The twin of int_scalar.cc in Highway, compiled once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/kernels/int_simd.cc"
// clang-format off: before all other includes.
#include "hwy/foreach_target.h"
// clang-format on

#include "common/codec/integer_format.h"
#include "common/codec/kernels/dense_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

// Adding this rounds a float below 2^22 to an integer, to nearest even, and leaves the integer in
// the low bits.
constexpr float kMagic = 0x1.8p23f;

template <typename Format>
struct Nearest {
  static constexpr bool kStochastic = false;
  using Scale = integer::Step;

  static HWY_INLINE Scale Choose(const Floats*, uint32_t magnitude_max, int, uint32_t* word) {
    *word = integer::NearestStep<Format>(magnitude_max);
    return integer::StepOf(*word);
  }
  static HWY_INLINE Scale FromPlane(const CodedRun& run, int64_t block) {
    uint16_t word;
    std::memcpy(&word, run.scales + block * scale_word::kBytes, sizeof(word));
    return {scale_word::Value(word), 0};
  }
  static HWY_INLINE Quantized Quantize(Floats x, const Scale& step, Floats) {
    return Round(hn::Mul(x, hn::Set(kFloat, step.inverse)), step);
  }
  // Two's complement in the low bits of the code, anything above.
  static HWY_INLINE Quantized Round(Floats quotient, const Scale& step) {
    const Floats magic = hn::Set(kFloat, kMagic);
    const Floats rounded = hn::Add(quotient, magic);
    const Floats bounded = hn::Max(hn::Min(rounded, hn::Set(kFloat, kMagic + Format::kMax)),
                                   hn::Set(kFloat, kMagic + Format::kMin));
    return {hn::BitCast(kInt, bounded),
            hn::Mul(hn::Sub(bounded, magic), hn::Set(kFloat, step.value))};
  }
  // The code as a whole integer.
  static HWY_INLINE Floats Value(Ints code, const Scale& step) {
    return hn::Mul(hn::ConvertTo(kFloat, code), hn::Set(kFloat, step.value));
  }
};

template <typename Format>
struct Searched : Nearest<Format> {
  using Scale = integer::Step;
  static HWY_INLINE Scale Choose(const Floats* u, uint32_t magnitude_max, int, uint32_t* word) {
    const float factor = EnergyFactor(magnitude_max);
    float best_error = 0;
    for (int j = 0; j < integer::kCandidates; ++j) {
      const uint32_t candidate = integer::CandidateStep<Format>(magnitude_max, j);
      const float error = ErrorEnergy<Nearest<Format>>(u, integer::StepOf(candidate), factor,
                                                       kBlockElements, BlockNoise());
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
  static HWY_INLINE Scale Choose(const Floats*, uint32_t magnitude_max, int, uint32_t* word) {
    *word = integer::StochasticStep<Format>(magnitude_max);
    return integer::StepOf(*word);
  }
  static HWY_INLINE Quantized Quantize(Floats x, const Scale& step, Floats plus_one) {
    const Floats quotient = hn::Mul(x, hn::Set(kFloat, step.inverse));
    const Floats noise = hn::Sub(plus_one, hn::Set(kFloat, 1.5f));
    return Nearest<Format>::Round(hn::Add(quotient, noise), step);
  }
};

struct Bytes {
  static constexpr int64_t kCodeBytes = kBlockElements;
  struct Packer {
    Ints words[kColumns];
    HWY_INLINE void Put(Ints code, int row, int column, uint8_t* codes) {
      words[column] = row % 4 == 3
                          ? code
                          : hn::OrAnd(hn::ShiftLeft<8>(words[column]), code, hn::Set(kInt, 255));
      if (row % 4 == 0)
        StoreBytes(words[column], kInt, codes + (row / 4 * kLanes + column * kVectorLanes) * 4);
    }
    HWY_INLINE void Finish(uint8_t*) const {}
  };
  struct Unpacker {
    const uint8_t* codes;
    HWY_INLINE explicit Unpacker(const uint8_t* block) : codes(block) {}
    HWY_INLINE Ints Get(int row, int column) const {
      const Ints words = LoadBytes(kInt, codes + (row / 4 * kLanes + column * kVectorLanes) * 4);
      switch (row % 4) {
        case 0:
          return hn::ShiftRight<24>(hn::ShiftLeft<24>(words));
        case 1:
          return hn::ShiftRight<24>(hn::ShiftLeft<16>(words));
        case 2:
          return hn::ShiftRight<24>(hn::ShiftLeft<8>(words));
        default:
          return hn::ShiftRight<24>(words);
      }
    }
  };
};

struct SignedHalfBytes {
  static constexpr int64_t kCodeBytes = HalfBytes::kCodeBytes;
  using Packer = HalfBytes::Packer;
  struct Unpacker : HalfBytes::Unpacker {
    HWY_INLINE explicit Unpacker(const uint8_t* codes) : HalfBytes::Unpacker(codes) {}
    HWY_INLINE Ints Get(int row, int column) const {
      return hn::ShiftRight<28>(hn::ShiftLeft<28>(HalfBytes::Unpacker::Get(row, column)));
    }
  };
};

template <typename Quantizer, typename Layout>
struct With : Quantizer, Layout {};

}  // namespace

DenseKernels Int8Nearest() { return KernelsOf<With<Nearest<integer::Int8>, Bytes>>(); }
DenseKernels Int8Stochastic() { return KernelsOf<With<Stochastic<integer::Int8>, Bytes>>(); }
DenseKernels Int4Nearest() { return KernelsOf<With<Nearest<integer::Int4>, SignedHalfBytes>>(); }
DenseKernels Int4Searched() { return KernelsOf<With<Searched<integer::Int4>, SignedHalfBytes>>(); }
DenseKernels Int4Stochastic() {
  return KernelsOf<With<Stochastic<integer::Int4>, SignedHalfBytes>>();
}

}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

HWY_EXPORT(Int8Nearest);
HWY_EXPORT(Int8Stochastic);
HWY_EXPORT(Int4Nearest);
HWY_EXPORT(Int4Searched);
HWY_EXPORT(Int4Stochastic);

DenseKernels Int8Simd(const CodecOptions& options) {
  if (options.stochastic) return HWY_DYNAMIC_DISPATCH(Int8Stochastic)();
  return HWY_DYNAMIC_DISPATCH(Int8Nearest)();
}

DenseKernels Int4Simd(const CodecOptions& options) {
  if (options.search_scale) return HWY_DYNAMIC_DISPATCH(Int4Searched)();
  if (options.stochastic) return HWY_DYNAMIC_DISPATCH(Int4Stochastic)();
  return HWY_DYNAMIC_DISPATCH(Int4Nearest)();
}

}  // namespace longhaul::kernels
#endif  // HWY_ONCE
