// The loops that all dense codecs share, in Highway. With a codec's policy they do the same as
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

#include "common/base/read_ahead.h"
#include "common/codec/kernels/dense_kernels.h"
#include "common/codec/segment_encoder.h"
#include "common/layout/fragment_layout.h"
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

// Full unrolling keeps a block in registers, if there are enough of them.
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

// One bit for each lane.
template <class Mask>
HWY_INLINE uint32_t MaskBits(Mask mask) {
  uint16_t bits = 0;
  hn::StoreMaskBits(kInt, mask, reinterpret_cast<uint8_t*>(&bits));
  return bits;
}

HWY_INLINE Ints Magnitude(Floats x) {
  return hn::And(hn::BitCast(kInt, x), hn::Set(kInt, static_cast<int32_t>(kMagnitudeMask)));
}

// Only the sign bits.
HWY_INLINE Ints SignOf(Floats x) {
  return hn::AndNot(hn::Set(kInt, static_cast<int32_t>(kMagnitudeMask)), hn::BitCast(kInt, x));
}

// SumLanes() of block.h for kColumns vectors.
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

// The keys of the rounds (rounding_noise.h), made once for many blocks.
struct RoundKeys {
  static constexpr int kRounds = 7;
  uint32_t first[kRounds], second[kRounds];
  explicit RoundKeys(uint64_t key) {
    for (uint32_t r = 0; r < kRounds; ++r) {
      first[r] = static_cast<uint32_t>(key) + r * 0x9E3779B9u;
      second[r] = static_cast<uint32_t>(key >> 32) + r * 0xBB67AE85u;
    }
  }
};

// The words of 16 lanes (rounding_noise.h), and the noise of each vector of a block.
class BlockNoise {
 public:
  BlockNoise() = default;
  HWY_INLINE BlockNoise(const RoundKeys& keys, uint64_t block) {
    // Even and odd lanes are kept apart, as the low halves of 64-bit lanes, since the
    // multiplication needs them so.
    const hn::Repartition<uint64_t, WordTag> wide;
    const auto lanes = hn::Iota(kWord, 0u);
    LONGHAUL_EACH_VECTOR
    for (int c = 0; c < kColumns; ++c) {
      // Lanes never carry into the high half.
      const uint64_t first = block * 16 + c * kVectorLanes;
      const uint32_t high = static_cast<uint32_t>(first >> 32);
      const Words low = hn::Add(hn::Set(kWord, static_cast<uint32_t>(first)), lanes);
      Words even[4], odd[4];
      Rounds(keys, low, high, even);
      Rounds(keys, hn::BitCast(kWord, hn::ShiftRight<32>(hn::BitCast(wide, low))), high, odd);
      HWY_UNROLL(4)
      for (int w = 0; w < 4; ++w) words_[w][c] = hn::OddEven(hn::DupEven(odd[w]), even[w]);
    }
  }
  HWY_INLINE Floats PlusOne(int row, int column) const {
    const Words word = words_[row / 2][column];
    const Words placed = row % 2 == 0 ? hn::ShiftLeft<7>(word) : hn::ShiftRight<9>(word);
    return hn::BitCast(kFloat,
                       hn::OrAnd(hn::Set(kWord, 0x3f800040u), placed, hn::Set(kWord, 0x007fff80u)));
  }

 private:
  static constexpr uint32_t kFactor0 = 0xD2511F53, kFactor1 = 0xCD9E8D57;

  // Philox-4x32-7 in the even lanes; the odd lanes hold arbitrary bits. Words 2 and 3 of the
  // counter are 0, so most of the first two rounds is the same in all lanes.
  static HWY_INLINE void Rounds(const RoundKeys& keys, Words low, uint32_t high, Words* c) {
    const auto first = hn::MulEven(low, hn::Set(kWord, kFactor0));
    const uint64_t same = uint64_t{high ^ keys.first[0]} * kFactor0;
    const Words word2 = hn::Xor(High(first), hn::Set(kWord, keys.second[0]));
    const auto second = hn::MulEven(word2, hn::Set(kWord, kFactor1));
    c[0] = hn::Xor(High(second), hn::Set(kWord, keys.first[1]));
    c[1] = hn::BitCast(kWord, second);
    c[2] = hn::Xor(hn::BitCast(kWord, first),
                   hn::Set(kWord, static_cast<uint32_t>(same >> 32) ^ keys.second[1]));
    c[3] = hn::Set(kWord, static_cast<uint32_t>(same));
    HWY_UNROLL(5)
    for (int round = 2; round < RoundKeys::kRounds; ++round) {
      const auto p0 = hn::MulEven(c[0], hn::Set(kWord, kFactor0));
      const auto p1 = hn::MulEven(c[2], hn::Set(kWord, kFactor1));
      c[0] = hn::Xor3(High(p1), c[1], hn::Set(kWord, keys.first[round]));
      c[1] = hn::BitCast(kWord, p1);
      // A shuffle is used, since shifts run on the port of multiplications.
      c[2] = hn::Xor3(hn::DupOdd(hn::BitCast(kWord, p0)), c[3], hn::Set(kWord, keys.second[round]));
      c[3] = hn::BitCast(kWord, p0);
    }
  }
  template <class Product>
  static HWY_INLINE Words High(Product p) {
    return hn::BitCast(kWord, hn::ShiftRight<32>(p));
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

HWY_NOINLINE uint32_t FirstBad(const float* values) {
  uint32_t i = 0;
  while ((std::bit_cast<uint32_t>(values[i]) & kMagnitudeMask) <= kFiniteMax) ++i;
  return i;
}

static_assert(kBlockElements * sizeof(float) == kReadAheadBytes);

// Runs that are no longer than SegmentEncoder's are worked on piece by piece. Their data was just
// made and is in the cache. Reading ahead would only bring memory after it.
HWY_INLINE bool IsMadeInCache(int64_t blocks) { return blocks <= kRunBlocks; }

HWY_INLINE void LoadBlock(const float* block, Floats* u) {
  LONGHAUL_EACH_VECTOR
  for (int v = 0; v < kVectors; ++v) u[v] = hn::LoadU(kFloat, block + v * kVectorLanes);
}

// u = (values - minus) + decay * error of a block.
HWY_INLINE void LoadInput(const float* values, const float* minus, const float* error, Floats decay,
                          Floats* u) {
  LONGHAUL_EACH_VECTOR
  for (int v = 0; v < kVectors; ++v) {
    const Floats difference = hn::Sub(hn::LoadU(kFloat, values + v * kVectorLanes),
                                      hn::LoadU(kFloat, minus + v * kVectorLanes));
    u[v] = hn::Add(difference, hn::Mul(decay, hn::LoadU(kFloat, error + v * kVectorLanes)));
  }
}

// Replaces an input that a run does not have: a block that changes nothing, used for every block.
// So the loops need no cases.
struct NoInput {
  alignas(64) float minus[kBlockElements] = {}, error[kBlockElements] = {};
  constexpr NoInput() {
    // x + -0 is x, also for x = -0.
    for (float& x : error) x = -0.0f;
  }
};
constexpr NoInput kNoInput;

// The blocks of an input or output of a run, or of its replacement.
template <typename T>
class Blocks {
 public:
  HWY_INLINE Blocks(T* run, T* stand_in)
      : first_(run == nullptr ? stand_in : run), step_(run == nullptr ? 0 : kBlockElements) {}
  HWY_INLINE T* operator[](int64_t b) const { return first_ + b * step_; }

 private:
  T* first_;
  int64_t step_;
};

// Blocks are encoded in groups: first the scales of all, then the codes of all. The maximum and
// scale of a block are a long chain of dependent operations, longer than a processor looks ahead;
// the chains of a group overlap. One block of each aligned group is measured.
constexpr int64_t kGroupBlocks = kSampleBlocks;

template <class Policy>
HWY_INLINE typename Policy::Scale ChooseScale(const Floats* u, int elements, BlockResult& result) {
  const uint32_t max = MagnitudeMax(u);
  uint32_t word = 0;
  const typename Policy::Scale scale = Policy::Choose(u, max, elements, &word);
  if (HWY_UNLIKELY(max > kFiniteMax)) {
    // A copy, since vectors do not stay in registers if their address is taken.
    alignas(64) float values[kBlockElements];
    for (int v = 0; v < kVectors; ++v) hn::Store(u[v], kFloat, values + v * kVectorLanes);
    word = FirstBad(values);
  }
  result = {max, word};
  return scale;
}

template <class Policy>
HWY_INLINE BlockEnergy Measure(const float* block, int elements,
                               const typename Policy::Scale& scale, const BlockNoise& noise,
                               uint32_t max) {
  Floats u[kVectors];
  LoadBlock(block, u);
  const float factor = EnergyFactor(max);
  return {Energy(ErrorEnergy<Policy>(u, scale, factor, elements, noise), max),
          Energy(SignalEnergy(u, factor), max)};
}

template <class Policy, bool kLost>
HWY_INLINE void EncodeBlock(const float* block, const typename Policy::Scale& scale,
                            const BlockNoise& noise, float* lost, uint8_t* codes) {
  typename Policy::Packer packer;
  LONGHAUL_EACH_VECTOR
  for (int v = kVectors - 1; v >= 0; --v) {
    const Floats plus_one =
        Policy::kStochastic ? noise.PlusOne(v / kColumns, v % kColumns) : hn::Zero(kFloat);
    const Floats u = hn::LoadU(kFloat, block + v * kVectorLanes);
    const Quantized q = Policy::Quantize(u, scale, plus_one);
    packer.Put(q.code, v / kColumns, v % kColumns, codes);
    if (kLost) hn::StoreU(hn::Sub(u, q.value), kFloat, lost + v * kVectorLanes);
  }
  packer.Finish(codes);
}

// kFused: u has several inputs, or `lost` is wanted. Otherwise u is `values`.
template <class Policy, bool kFused>
HWY_INLINE void EncodeAll(const EncodeBlocks& run) {
  const RoundKeys keys(run.noise.key);
  alignas(64) float made[kGroupBlocks * kBlockElements], unwanted[kBlockElements];
  const Blocks<const float> minus(run.minus, kNoInput.minus), error(run.error, kNoInput.error);
  const Blocks<float> lost(run.lost, unwanted);
  const Floats decay = hn::Set(kFloat, run.decay);
  typename Policy::Scale scales[kGroupBlocks];
  const auto elements_of = [&](int64_t b) {
    return b + 1 == run.blocks ? run.last_elements : static_cast<int>(kBlockElements);
  };
  for (int64_t b = 0; b < run.blocks;) {
    const int64_t first = run.first_block + b;
    const int64_t count = HWY_MIN(kGroupBlocks - first % kGroupBlocks, run.blocks - b);
    const float* const values = run.values + b * kBlockElements;
    const float* const u = kFused ? made : values;
    for (int64_t i = 0; i < count; ++i) {
      Floats block[kVectors];
      if (kFused) {
        LoadInput(values + i * kBlockElements, minus[b + i], error[b + i], decay, block);
        LONGHAUL_EACH_VECTOR
        for (int v = 0; v < kVectors; ++v)
          hn::Store(block[v], kFloat, made + i * kBlockElements + v * kVectorLanes);
      } else {
        LoadBlock(values + i * kBlockElements, block);
      }
      scales[i] = ChooseScale<Policy>(block, elements_of(b + i), run.results[first + i]);
    }
    const int64_t group = first / kGroupBlocks, measured = MeasuredBlock(group) - first;
    if (measured >= 0 && measured < count) {
      BlockNoise noise;
      if (Policy::kStochastic) noise = BlockNoise(keys, run.noise.first_block + first + measured);
      run.energies[group] =
          Measure<Policy>(u + measured * kBlockElements, elements_of(b + measured),
                          scales[measured], noise, run.results[first + measured].magnitude_max);
    }
    for (int64_t i = 0; i < count; ++i) {
      ReadAhead(values + i * kBlockElements, first + i);
      if (kFused && !IsMadeInCache(run.blocks)) {
        ReadAhead(minus[b + i], first + i);
        ReadAhead(error[b + i], first + i);
      }
      BlockNoise noise;
      if (Policy::kStochastic) noise = BlockNoise(keys, run.noise.first_block + first + i);
      EncodeBlock<Policy, kFused>(u + i * kBlockElements, scales[i], noise, lost[b + i],
                                  run.codes + (b + i) * Policy::kCodeBytes);
    }
    b += count;
  }
}

template <class Policy>
void Encode(const EncodeBlocks& run) {
  if (run.minus == nullptr && run.error == nullptr && run.lost == nullptr) {
    EncodeAll<Policy, false>(run);
  } else {
    EncodeAll<Policy, true>(run);
  }
}

// Codes that are large are read from memory at a rate that matters.
template <class Policy>
HWY_INLINE void ReadCodesAhead(const uint8_t* codes, int64_t block) {
  if constexpr (Policy::kCodeBytes == kReadAheadBytes) ReadAhead(codes, block);
}

template <class Policy>
void Decode(const CodedRun& run, float* out) {
  for (int64_t b = 0; b < run.blocks; ++b) {
    const auto scale = Policy::FromPlane(run, b);
    const typename Policy::Unpacker codes(run.codes + b * Policy::kCodeBytes);
    ReadCodesAhead<Policy>(run.codes + b * Policy::kCodeBytes, b);
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
    ReadCodesAhead<Policy>(run.codes + b * Policy::kCodeBytes, b);
    float* block = acc + b * kBlockElements;
    if (!IsMadeInCache(run.blocks)) ReadAhead(block, b);
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

// As scalar::HalfBytes.
struct HalfBytes {
  static constexpr int64_t kCodeBytes = 64;
  // Takes codes with arbitrary bits above bit 3.
  struct Packer {
    Ints words[kColumns];
    HWY_INLINE void Put(Ints code, int row, int column, uint8_t*) {
      words[column] = row == kRows - 1
                          ? code
                          : hn::OrAnd(hn::ShiftLeft<4>(words[column]), code, hn::Set(kInt, 15));
    }
    HWY_INLINE void Finish(uint8_t* codes) const {
      LONGHAUL_EACH_VECTOR
      for (int c = 0; c < kColumns; ++c) StoreBytes(words[c], kInt, codes + c * kVectorLanes * 4);
    }
  };
  // Get returns the code in bits 0..3, with arbitrary bits above.
  struct Unpacker {
    Ints words[kColumns];
    HWY_INLINE explicit Unpacker(const uint8_t* codes) {
      LONGHAUL_EACH_VECTOR
      for (int c = 0; c < kColumns; ++c) words[c] = LoadBytes(kInt, codes + c * kVectorLanes * 4);
    }
    HWY_INLINE Ints Get(int row, int column) const {
      // Shifts by constants are the fast ones.
      switch (row) {
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
