// The loops that all dense codecs share, in Highway; with a codec's policy they are the twins of
// dense_scalar.h. Included once for each instruction set. A block is an array of vectors: vector
// row * kColumns + column holds elements 16 * row + column * lanes, so that lane sums and packed
// words are those of the definition for every vector length up to 16. A policy has
//   kCodeBytes, kStochastic, Scale, FromPlane(run, block) as in plain code
//   Choose(u, max, n, &word) -> Scale
//   Quantize(x, scale, noise_plus_one) -> Quantized
//   Packer: Put(code, row, column, codes), called with descending rows; Finish(codes)
//   Unpacker(codes): Get(row, column) -> what Value(code, scale) takes
#if defined(LONGHAUL_COMMON_CODEC_KERNELS_DENSE_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGHAUL_COMMON_CODEC_KERNELS_DENSE_SIMD_INL_H_
#undef LONGHAUL_COMMON_CODEC_KERNELS_DENSE_SIMD_INL_H_
#else
#define LONGHAUL_COMMON_CODEC_KERNELS_DENSE_SIMD_INL_H_
#endif

#include <bit>
#include <cstdint>
#include <cstring>

#include "common/codec/kernels/dense_kernels.h"
#include "common/layout/fragment_layout.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, kLanes>;
using IntTag = hn::RebindToSigned<FloatTag>;
using WordTag = hn::RebindToUnsigned<FloatTag>;
using Floats = hn::Vec<FloatTag>;
using Ints = hn::Vec<IntTag>;
using Words = hn::Vec<WordTag>;
constexpr FloatTag kFloat;
constexpr IntTag kInt;
constexpr WordTag kWord;

constexpr int kVectorLanes = hn::MaxLanes(kFloat);
constexpr int kColumns = kLanes / kVectorLanes;
constexpr int kRows = kBlockElements / kLanes;
constexpr int kVectors = kRows * kColumns;

// Full unrolling keeps a block in registers where there are enough.
#define LONGHAUL_EACH_VECTOR HWY_UNROLL(32)

struct Quantized {
  Ints code;
  Floats value;
};

template <class D>
HWY_INLINE hn::Vec<D> LoadBytes(D d, const uint8_t* bytes) {
  const hn::Repartition<uint8_t, D> byte;
  return hn::BitCast(d, hn::LoadU(byte, bytes));
}

template <class D>
HWY_INLINE void StoreBytes(hn::Vec<D> v, D d, uint8_t* bytes) {
  const hn::Repartition<uint8_t, D> byte;
  hn::StoreU(hn::BitCast(byte, v), byte, bytes);
}

// One bit a lane.
template <class Mask>
HWY_INLINE uint32_t MaskBits(Mask mask) {
  uint16_t bits = 0;
  hn::StoreMaskBits(kInt, mask, reinterpret_cast<uint8_t*>(&bits));
  return bits;
}

HWY_INLINE Ints Magnitude(Floats x) {
  return hn::And(hn::BitCast(kInt, x), hn::Set(kInt, static_cast<int32_t>(kMagnitudeMask)));
}

// Sign bits alone.
HWY_INLINE Ints SignOf(Floats x) {
  return hn::AndNot(hn::Set(kInt, static_cast<int32_t>(kMagnitudeMask)), hn::BitCast(kInt, x));
}

// SumLanes() of block.h, of kColumns vectors.
HWY_INLINE float SumColumns(const Floats* columns) {
  alignas(64) float lanes[kLanes];
  LONGHAUL_EACH_VECTOR
  for (int c = 0; c < kColumns; ++c) hn::Store(columns[c], kFloat, lanes + c * kVectorLanes);
  const hn::CappedTag<float, 4> d;
  const auto low = hn::Add(hn::Load(d, lanes), hn::Load(d, lanes + 8));
  const auto high = hn::Add(hn::Load(d, lanes + 4), hn::Load(d, lanes + 12));
  const auto four = hn::Add(low, high);
  const auto two = hn::Add(four, hn::Shuffle1032(four));
  return hn::GetLane(hn::Add(two, hn::Shuffle2301(two)));
}

HWY_INLINE uint32_t MagnitudeMax(const Floats* u) {
  Ints result[2] = {hn::Zero(kInt), hn::Zero(kInt)};
  LONGHAUL_EACH_VECTOR
  for (int v = 0; v < kVectors; ++v) result[v % 2] = hn::Max(result[v % 2], Magnitude(u[v]));
  return hn::GetLane(hn::MaxOfLanes(kInt, hn::Max(result[0], result[1])));
}

HWY_INLINE float SignalEnergy(const Floats* u, float factor) {
  Floats sums[kColumns];
  LONGHAUL_EACH_VECTOR
  for (int v = 0; v < kVectors; ++v) {
    const Floats x = hn::Mul(u[v], hn::Set(kFloat, factor));
    const Floats square = hn::Mul(x, x);
    sums[v % kColumns] = v < kColumns ? square : hn::Add(sums[v % kColumns], square);
  }
  return SumColumns(sums);
}

// rounding_noise.h: the words of 16 lanes, and the noise of each vector of a block.
class BlockNoise {
 public:
  BlockNoise() = default;
  HWY_INLINE BlockNoise(uint64_t key, uint64_t block) {
    // Even and odd lanes apart, as the low halves of 64-bit lanes: what multiplication takes.
    const hn::Repartition<uint64_t, WordTag> wide;
    const auto lanes = hn::Iota(kWord, 0u);
    LONGHAUL_EACH_VECTOR
    for (int c = 0; c < kColumns; ++c) {
      const uint64_t first =
          block * 16 + c * kVectorLanes;  // Lanes never carry into the high half.
      const auto low =
          hn::BitCast(wide, hn::Add(hn::Set(kWord, static_cast<uint32_t>(first)), lanes));
      Words even[4], odd[4];
      const auto high = hn::Set(kWord, static_cast<uint32_t>(first >> 32));
      Rounds(key, hn::BitCast(kWord, low), high, even);
      Rounds(key, hn::BitCast(kWord, hn::ShiftRight<32>(low)), high, odd);
      HWY_UNROLL(4)
      for (int w = 0; w < 4; ++w) {
        words_[w][c] =
            hn::OddEven(hn::BitCast(kWord, hn::ShiftLeft<32>(hn::BitCast(wide, odd[w]))), even[w]);
      }
    }
  }
  HWY_INLINE Floats PlusOne(int row, int column) const {
    const Words word = words_[row / 2][column];
    const auto bits = row % 2 == 0 ? hn::And(hn::ShiftLeft<7>(word), hn::Set(kWord, 0x007fff80u))
                                   : hn::And(hn::ShiftRight<9>(word), hn::Set(kWord, 0x007fff80u));
    return hn::BitCast(kFloat, hn::Or(bits, hn::Set(kWord, 0x3f800040u)));
  }

 private:
  // Philox-4x32-7 in the even lanes.
  static HWY_INLINE void Rounds(uint64_t key, Words counter, Words high, Words* c) {
    uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    c[0] = counter;
    c[1] = high;
    c[2] = c[3] = hn::Zero(kWord);
    HWY_UNROLL(7)
    for (int round = 0; round < 7; ++round) {
      const auto p0 = hn::MulEven(c[0], hn::Set(kWord, 0xD2511F53u));
      const auto p1 = hn::MulEven(c[2], hn::Set(kWord, 0xCD9E8D57u));
      const auto h0 = hn::BitCast(kWord, hn::ShiftRight<32>(p0));
      const auto h1 = hn::BitCast(kWord, hn::ShiftRight<32>(p1));
      c[0] = hn::Xor(hn::Xor(h1, c[1]), hn::Set(kWord, k0));
      c[1] = hn::BitCast(kWord, p1);
      c[2] = hn::Xor(hn::Xor(h0, c[3]), hn::Set(kWord, k1));
      c[3] = hn::BitCast(kWord, p0);
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
  }

  Words words_[4][kColumns];
};

template <class Policy>
HWY_INLINE float ErrorEnergy(const Floats* u, const typename Policy::Scale& scale, float factor,
                             int elements, const BlockNoise& noise) {
  Floats sums[kColumns];
  LONGHAUL_EACH_VECTOR
  for (int v = 0; v < kVectors; ++v) {
    const Floats plus_one =
        Policy::kStochastic ? noise.PlusOne(v / kColumns, v % kColumns) : hn::Zero(kFloat);
    Floats lost = hn::Sub(u[v], Policy::Quantize(u[v], scale, plus_one).value);
    if (HWY_UNLIKELY(elements < kBlockElements)) {
      const int here = HWY_MIN(HWY_MAX(elements - v * kVectorLanes, 0), kVectorLanes);
      lost = hn::IfThenElseZero(hn::FirstN(kFloat, here), lost);
    }
    const Floats e = hn::Mul(lost, hn::Set(kFloat, factor));
    const Floats square = hn::Mul(e, e);
    sums[v % kColumns] = v < kColumns ? square : hn::Add(sums[v % kColumns], square);
  }
  return SumColumns(sums);
}

HWY_NOINLINE uint32_t FirstBad(const Floats* u) {
  alignas(64) float values[kBlockElements];
  for (int v = 0; v < kVectors; ++v) hn::Store(u[v], kFloat, values + v * kVectorLanes);
  uint32_t i = 0;
  while ((std::bit_cast<uint32_t>(values[i]) & kMagnitudeMask) <= kFiniteMax) ++i;
  return i;
}

template <class Policy, bool kLost>
HWY_INLINE void EncodeBlock(const Floats* u, int elements, int64_t block, const EncodeBlocks& run,
                            float* lost, uint8_t* codes) {
  BlockResult& result = run.results[block];
  const uint32_t max = MagnitudeMax(u);
  uint32_t word = 0;
  const typename Policy::Scale scale = Policy::Choose(u, max, elements, &word);
  if (HWY_UNLIKELY(max > kFiniteMax)) word = FirstBad(u);
  result = {max, word};
  BlockNoise noise;
  if (Policy::kStochastic) noise = BlockNoise(run.noise.key, run.noise.first_block + block);
  if (IsMeasured(block)) {
    const float factor = EnergyFactor(max);
    run.energies[block / kSampleBlocks] = {
        Energy(ErrorEnergy<Policy>(u, scale, factor, elements, noise), max),
        Energy(SignalEnergy(u, factor), max)};
  }
  typename Policy::Packer packer;
  LONGHAUL_EACH_VECTOR
  for (int v = kVectors - 1; v >= 0; --v) {
    const Floats plus_one =
        Policy::kStochastic ? noise.PlusOne(v / kColumns, v % kColumns) : hn::Zero(kFloat);
    const Quantized q = Policy::Quantize(u[v], scale, plus_one);
    packer.Put(q.code, v / kColumns, v % kColumns, codes);
    if (kLost) hn::StoreU(hn::Sub(u[v], q.value), kFloat, lost + v * kVectorLanes);
  }
  packer.Finish(codes);
}

// Reads this far ahead: a core alone does not keep a memory channel busy.
constexpr int64_t kPrefetchElements = 512;

HWY_INLINE void PrefetchBlock(const float* block) {
  constexpr int64_t kLine = 64 / sizeof(float);
  for (int64_t i = 0; i < kBlockElements; i += kLine) hwy::Prefetch(block + kPrefetchElements + i);
}

// u = (values - minus) + decay * error of the block at `at`; `minus` and `error` may be null.
HWY_INLINE void LoadInput(const float* values, const float* minus, const float* error, float decay,
                          int64_t at, Floats* u) {
  PrefetchBlock(values + at);
  LONGHAUL_EACH_VECTOR
  for (int v = 0; v < kVectors; ++v) u[v] = hn::LoadU(kFloat, values + at + v * kVectorLanes);
  if (minus != nullptr) {
    PrefetchBlock(minus + at);
    LONGHAUL_EACH_VECTOR
    for (int v = 0; v < kVectors; ++v)
      u[v] = hn::Sub(u[v], hn::LoadU(kFloat, minus + at + v * kVectorLanes));
  }
  if (error != nullptr) {
    PrefetchBlock(error + at);
    LONGHAUL_EACH_VECTOR
    for (int v = 0; v < kVectors; ++v) {
      const Floats again = hn::LoadU(kFloat, error + at + v * kVectorLanes);
      u[v] = hn::Add(u[v], hn::Mul(hn::Set(kFloat, decay), again));
    }
  }
}

template <class Policy, bool kLost>
HWY_INLINE void EncodeAll(const EncodeBlocks& run) {
  for (int64_t b = 0; b < run.blocks; ++b) {
    const int64_t at = b * kBlockElements;
    Floats u[kVectors];
    LoadInput(run.values, run.minus, run.error, run.decay, at, u);
    const int elements = b + 1 == run.blocks ? run.last_elements : kBlockElements;
    EncodeBlock<Policy, kLost>(u, elements, run.first_block + b, run,
                               kLost ? run.lost + at : nullptr, run.codes + b * Policy::kCodeBytes);
  }
}

template <class Policy>
void Encode(const EncodeBlocks& run) {
  if (run.lost != nullptr) {
    EncodeAll<Policy, true>(run);
  } else {
    EncodeAll<Policy, false>(run);
  }
}

template <class Policy>
void Decode(const CodedRun& run, float* out) {
  for (int64_t b = 0; b < run.blocks; ++b) {
    const auto scale = Policy::FromPlane(run, b);
    const typename Policy::Unpacker codes(run.codes + b * Policy::kCodeBytes);
    float* block = out + b * kBlockElements;
    LONGHAUL_EACH_VECTOR
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(Policy::Value(codes.Get(v / kColumns, v % kColumns), scale), kFloat,
                 block + v * kVectorLanes);
    }
  }
}

template <class Policy>
void Accumulate(const CodedRun& run, float weight, float* acc) {
  for (int64_t b = 0; b < run.blocks; ++b) {
    const auto scale = Policy::FromPlane(run, b);
    const typename Policy::Unpacker codes(run.codes + b * Policy::kCodeBytes);
    float* block = acc + b * kBlockElements;
    PrefetchBlock(block);
    LONGHAUL_EACH_VECTOR
    for (int v = 0; v < kVectors; ++v) {
      float* p = block + v * kVectorLanes;
      const Floats value = Policy::Value(codes.Get(v / kColumns, v % kColumns), scale);
      hn::StoreU(hn::Add(hn::LoadU(kFloat, p), hn::Mul(hn::Set(kFloat, weight), value)), kFloat, p);
    }
  }
}

template <class Policy>
constexpr DenseKernels KernelsOf() {
  return {Encode<Policy>, Decode<Policy>, Accumulate<Policy>};
}

// scalar::HalfBytes.
struct HalfBytes {
  static constexpr int64_t kCodeBytes = 64;
  // Takes codes of 4 bits.
  struct Packer {
    Ints words[kColumns];
    HWY_INLINE void Put(Ints code, int row, int column, uint8_t*) {
      words[column] = row == kRows - 1 ? code : hn::Or(hn::ShiftLeft<4>(words[column]), code);
    }
    HWY_INLINE void Finish(uint8_t* codes) const {
      LONGHAUL_EACH_VECTOR
      for (int c = 0; c < kColumns; ++c) StoreBytes(words[c], kInt, codes + c * kVectorLanes * 4);
    }
  };
  // Get: the code in bits 0..3, anything above.
  struct Unpacker {
    Ints words[kColumns];
    HWY_INLINE explicit Unpacker(const uint8_t* codes) {
      LONGHAUL_EACH_VECTOR
      for (int c = 0; c < kColumns; ++c) words[c] = LoadBytes(kInt, codes + c * kVectorLanes * 4);
    }
    HWY_INLINE Ints Get(int row, int column) const {
      switch (row) {  // Shifts by constants are the fast ones.
        case 0:
          return words[column];
        case 1:
          return hn::ShiftRight<4>(words[column]);
        case 2:
          return hn::ShiftRight<8>(words[column]);
        case 3:
          return hn::ShiftRight<12>(words[column]);
        case 4:
          return hn::ShiftRight<16>(words[column]);
        case 5:
          return hn::ShiftRight<20>(words[column]);
        case 6:
          return hn::ShiftRight<24>(words[column]);
        default:
          return hn::ShiftRight<28>(words[column]);
      }
    }
  };
};

}  // namespace
}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
