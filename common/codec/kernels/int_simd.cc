// The Highway version of int_scalar.cc, compiled once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/kernels/int_simd.cc"
// clang-format off: this must stand before all other includes.
#include "hwy/foreach_target.h"
// clang-format on

#include "common/codec/integer_format.h"
#include "common/codec/kernels/dense_simd-inl.h"
#include "common/codec/tail_order.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

// Adding this number rounds a float below 2^22 to an integer, to nearest even. The integer is then
// in the low bits.
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
  // The low bits of the code are two's complement; the bits above are arbitrary.
  static HWY_INLINE Quantized Round(Floats quotient, const Scale& step) {
    const Floats magic = hn::Set(kFloat, kMagic);
    const Floats rounded = hn::Add(quotient, magic);
    const Floats bounded = hn::Max(hn::Min(rounded, hn::Set(kFloat, kMagic + Format::kMax)),
                                   hn::Set(kFloat, kMagic + Format::kMin));
    return {hn::BitCast(kInt, bounded),
            hn::Mul(hn::Sub(bounded, magic), hn::Set(kFloat, step.value))};
  }
  // Expects the code as a whole integer.
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

// The layout in tail_order.h: the low 4 bits of a block's codes as in SignedHalfBytes, then the
// high 2.
struct SixBits {
  static constexpr int64_t kCodeBytes = kSixBitBytesPerBlock;
  using HighTag = hn::Rebind<int16_t, IntTag>;
  struct Packer : HalfBytes::Packer {
    Ints high[kColumns];
    HWY_INLINE void Put(Ints code, int row, int column, uint8_t* codes) {
      HalfBytes::Packer::Put(code, row, column, codes);
      const Ints two = hn::And(hn::ShiftRight<4>(code), hn::Set(kInt, 3));
      high[column] = row == kRows - 1 ? two : hn::Or(hn::ShiftLeft<2>(high[column]), two);
    }
    HWY_INLINE void Finish(uint8_t* codes) const {
      HalfBytes::Packer::Finish(codes);
      LONGHAUL_EACH_VECTOR
      for (int c = 0; c < kColumns; ++c) {
        StoreBytes(hn::TruncateTo(hn::RebindToUnsigned<HighTag>(), hn::BitCast(kWord, high[c])),
                   hn::RebindToUnsigned<HighTag>(),
                   codes + kHalfBytesPerBlock + c * kVectorLanes * 2);
      }
    }
  };
  struct Unpacker : HalfBytes::Unpacker {
    Words high[kColumns];
    HWY_INLINE explicit Unpacker(const uint8_t* codes) : HalfBytes::Unpacker(codes) {
      LONGHAUL_EACH_VECTOR
      for (int c = 0; c < kColumns; ++c) {
        high[c] =
            hn::PromoteTo(kWord, LoadBytes(hn::RebindToUnsigned<HighTag>(),
                                           codes + kHalfBytesPerBlock + c * kVectorLanes * 2));
      }
    }
    HWY_INLINE Ints Get(int row, int column) const {
      const Ints low = hn::And(HalfBytes::Unpacker::Get(row, column), hn::Set(kInt, 15));
      // The two bits are moved to the top, so that the shift down extends their sign.
      const Ints top = hn::BitCast(kInt, hn::ShiftLeft<30>(ShiftDown(high[column], row)));
      return hn::Or(hn::ShiftRight<26>(top), low);
    }

   private:
    static HWY_INLINE Words ShiftDown(Words words, int row) {
      // Shifts by constants are the fast ones.
      switch (row) {
        case 0:
          return words;
        case 1:
          return hn::ShiftRight<2>(words);
        case 2:
          return hn::ShiftRight<4>(words);
        case 3:
          return hn::ShiftRight<6>(words);
        case 4:
          return hn::ShiftRight<8>(words);
        case 5:
          return hn::ShiftRight<10>(words);
        case 6:
          return hn::ShiftRight<12>(words);
        default:
          return hn::ShiftRight<14>(words);
      }
    }
  };
};

template <typename Quantizer, typename Layout>
struct With : Quantizer, Layout {};

}  // namespace

DenseKernels Int8Nearest() { return KernelsOf<With<Nearest<integer::Int8>, Bytes>>(); }
DenseKernels Int8Stochastic() { return KernelsOf<With<Stochastic<integer::Int8>, Bytes>>(); }
DenseKernels Int6Nearest() { return KernelsOf<With<Nearest<integer::Int6>, SixBits>>(); }
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
HWY_EXPORT(Int6Nearest);
HWY_EXPORT(Int4Nearest);
HWY_EXPORT(Int4Searched);
HWY_EXPORT(Int4Stochastic);

DenseKernels Int8Simd(const CodecOptions& options) {
  if (options.stochastic) return HWY_DYNAMIC_DISPATCH(Int8Stochastic)();
  return HWY_DYNAMIC_DISPATCH(Int8Nearest)();
}

DenseKernels Int6Simd(const CodecOptions&) { return HWY_DYNAMIC_DISPATCH(Int6Nearest)(); }

DenseKernels Int4Simd(const CodecOptions& options) {
  if (options.search_scale) return HWY_DYNAMIC_DISPATCH(Int4Searched)();
  if (options.stochastic) return HWY_DYNAMIC_DISPATCH(Int4Stochastic)();
  return HWY_DYNAMIC_DISPATCH(Int4Nearest)();
}

}  // namespace longhaul::kernels
#endif  // HWY_ONCE
