// The Highway version of topk2_scalar.cc, compiled once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/kernels/topk2_simd.cc"
// clang-format off: this must stand before all other includes.
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>

#include "common/codec/kernels/dense_simd-inl.h"
#include "common/codec/kernels/topk2_kernels.h"
#include "common/codec/topk2_format.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

// Reads ahead of the `block`-th block of the next chunk. Each of the two passes over a chunk, Load
// and Reaching, does so for half of the blocks, so that memory is always busy.
HWY_INLINE void ReadAheadOf(const float* next, int64_t block) {
  ReadAhead(next + block * kBlockElements, block);
}

uint32_t Load(const float* values, const float* minus, const float* error, float decay,
              int64_t blocks, float* u, PartMaxima& maxima) {
  const Blocks<const float> minus_blocks(minus, kNoInput.minus),
      error_blocks(error, kNoInput.error);
  const Floats factor = hn::Set(kFloat, decay);
  const bool alone = minus == nullptr && error == nullptr;
  Ints largest[kVectors];
  LONGHAUL_EACH_VECTOR
  for (int v = 0; v < kVectors; ++v) largest[v] = hn::Zero(kInt);
  for (int64_t b = 0; b < blocks; ++b) {
    const float* const block = values + b * kBlockElements;
    if (b % 2 == 0) ReadAheadOf(values + topk2::kChunkElements, b / 2);
    Floats x[kVectors];
    if (alone) {
      LoadBlock(block, x);
    } else {
      ReadAhead(minus_blocks[b], b);
      ReadAhead(error_blocks[b], b);
      LoadInput(block, minus_blocks[b], error_blocks[b], factor, x);
    }
    LONGHAUL_EACH_VECTOR
    for (int v = 0; v < kVectors; ++v) {
      largest[v] = hn::Max(largest[v], Magnitude(x[v]));
      hn::StoreU(x[v], kFloat, u + b * kBlockElements + v * kVectorLanes);
    }
  }
  Ints max = hn::Zero(kInt);
  LONGHAUL_EACH_VECTOR
  for (int v = 0; v < kVectors; ++v) {
    max = hn::Max(max, largest[v]);
    int32_t* const part = maxima.bits + v * kVectorLanes;
    hn::Store(hn::Max(largest[v], hn::Load(kInt, part)), kInt, part);
  }
  return hn::GetLane(hn::MaxOfLanes(kInt, max));
}

// How many of the maxima reach `bound`. At least so many elements reach it.
HWY_INLINE int64_t PartsReaching(const Ints* maxima, int32_t bound) {
  const Ints below = hn::Set(kInt, bound - 1);
  size_t count = 0;
  LONGHAUL_EACH_VECTOR
  for (int v = 0; v < kVectors; ++v) count += hn::CountTrue(kInt, hn::Gt(maxima[v], below));
  return static_cast<int64_t>(count);
}

// A magnitude that at least `keep` of the maxima reach. Found by bisection, near the largest such
// one.
HWY_INLINE int32_t LowerBound(const PartMaxima& parts, int64_t keep) {
  Ints maxima[kVectors], top = hn::Zero(kInt);
  LONGHAUL_EACH_VECTOR
  for (int v = 0; v < kVectors; ++v) {
    maxima[v] = hn::Load(kInt, parts.bits + v * kVectorLanes);
    top = hn::Max(top, maxima[v]);
  }
  const int32_t largest = hn::GetLane(hn::MaxOfLanes(kInt, top));
  // The search covers the top octaves, to a 64th of an octave. Mostly the first few suffice.
  struct Range {
    int octaves, steps;
  };
  for (const Range& range : {Range{4, 8}, Range{64, 12}}) {
    int32_t low = HWY_MAX(0, largest - (range.octaves << 23)), high = largest;
    if (PartsReaching(maxima, low) < keep) continue;
    for (int step = 0; step < range.steps; ++step) {
      const int32_t middle = low + (high - low + 1) / 2;
      const bool enough = PartsReaching(maxima, middle) >= keep;
      low = enough ? middle : low;
      high = enough ? high : HWY_MAX(low, middle - 1);
    }
    return low;
  }
  return 0;
}

// 16-bit positions: as many lanes as elements of 32 bits.
using PositionTag = hn::Rebind<uint16_t, IntTag>;
constexpr PositionTag kPosition;

constexpr int kSpare = 4;

// Writes the positions of the magnitudes that reach `bound`, ascending. Returns how many there are;
// writes up to kSpare positions more.
HWY_INLINE int64_t Reaching(const float* u, int64_t blocks, int32_t bound, const float* next,
                            uint16_t* positions) {
  const Ints below = hn::Set(kInt, bound - 1);
  int64_t count = 0;
  for (int64_t at = 0; at < blocks * kBlockElements; at += topk2::kGroupElements) {
    uint64_t bits = 0;
    LONGHAUL_EACH_VECTOR
    for (int v = 0; v < topk2::kGroupElements / kVectorLanes; ++v) {
      const auto mask = hn::Gt(Magnitude(hn::LoadU(kFloat, u + at + v * kVectorLanes)), below);
      bits |= uint64_t{MaskBits(mask)} << (v * kVectorLanes);
    }
    if (at % (2 * kBlockElements) == 0)
      ReadAheadOf(next, topk2::kChunkBlocks / 2 + at / (2 * kBlockElements));
    // Mostly there are few positions, and writing four that may not count is cheaper than a branch
    // on their number. They are written as one word, since the compiler would join four stores in a
    // slow way.
    const int here = std::popcount(bits);
    uint64_t four = static_cast<uint64_t>(at) * 0x0001000100010001u;
    HWY_UNROLL(4)
    for (int i = 0; i < kSpare; ++i, bits &= bits - 1)
      four += static_cast<uint64_t>(std::countr_zero(bits)) << (16 * i);
    std::memcpy(positions + count, &four, sizeof(four));
    for (int i = kSpare; bits != 0; ++i, bits &= bits - 1)
      positions[count + i] = static_cast<uint16_t>(at + std::countr_zero(bits));
    count += here;
  }
  return count;
}

// Which of some magnitudes are kept: all above a bound, and the first of those that equal it.
struct Cut {
  int32_t above;
  int64_t equals;
};

// The cut that keeps `keep` magnitudes. Found by bisection from `low`, which at least so many
// reach. `magnitudes` is padded with -1 to whole vectors.
HWY_INLINE Cut ExactCut(const int32_t* magnitudes, int64_t count, int64_t keep, int32_t low) {
  if (count == keep) return {low - 1, 0};
  Ints top = hn::Zero(kInt);
  for (int64_t i = 0; i < count; i += kVectorLanes)
    top = hn::Max(top, hn::LoadU(kInt, magnitudes + i));
  int32_t high = hn::GetLane(hn::MaxOfLanes(kInt, top));
  // How many reach high + 1.
  int64_t exceeding = 0;
  while (low < high) {
    const int32_t middle = low + (high - low) / 2 + 1;
    const Ints below = hn::Set(kInt, middle - 1);
    int64_t reach = 0;
    for (int64_t i = 0; i < count; i += kVectorLanes)
      reach += hn::CountTrue(kInt, hn::Gt(hn::LoadU(kInt, magnitudes + i), below));
    if (reach == keep) return {middle - 1, 0};
    const bool enough = reach > keep;
    low = enough ? middle : low;
    high = enough ? high : middle - 1;
    exceeding = enough ? exceeding : reach;
  }
  return {low, keep - exceeding};
}

void Select(const float* u, int64_t blocks, int64_t keep, const PartMaxima& maxima,
            const float* next, uint16_t* positions) {
  const int32_t bound = LowerBound(maxima, keep);
  uint16_t candidates[topk2::kChunkElements + kLanes];
  const int64_t count = Reaching(u, blocks, bound, next, candidates);
  // Any valid position.
  hn::StoreU(hn::Zero(kPosition), kPosition, candidates + count);
  int32_t magnitudes[topk2::kChunkElements + kLanes];
  const auto* const bits = reinterpret_cast<const int32_t*>(u);
  for (int64_t c = 0; c < count; c += kVectorLanes) {
    const Ints at = hn::PromoteTo(kInt, hn::LoadU(kPosition, candidates + c));
    const Ints magnitude = hn::And(hn::GatherIndex(kInt, bits, at),
                                   hn::Set(kInt, static_cast<int32_t>(kMagnitudeMask)));
    hn::StoreU(magnitude, kInt, magnitudes + c);
  }
  hn::StoreU(hn::Set(kInt, -1), kInt, magnitudes + count);
  Cut cut = ExactCut(magnitudes, count, keep, bound);
  // The last ones are written but not used.
  uint16_t chosen[topk2::kKeptMax + kLanes];
  int64_t kept = 0;
  if (cut.equals == 0) {
    for (int64_t c = 0; c < count; c += kVectorLanes) {
      const auto above = hn::Gt(hn::LoadU(kInt, magnitudes + c), hn::Set(kInt, cut.above));
      const Ints at = hn::PromoteTo(kInt, hn::LoadU(kPosition, candidates + c));
      hn::StoreU(hn::DemoteTo(kPosition, hn::Compress(at, above)), kPosition, chosen + kept);
      kept += hn::CountTrue(kInt, above);
    }
  } else {
    for (int64_t c = 0; c < count; ++c) {
      const bool equal = magnitudes[c] == cut.above && cut.equals > 0;
      chosen[kept] = candidates[c];
      kept += magnitudes[c] > cut.above || equal;
      cut.equals -= equal;
    }
  }
  std::copy_n(chosen, keep, positions);
}

// The Highway version of topk2::ChooseLevels (lane j % 16 adds the j-th element), EntryOf and
// ValueOf.
void Code(const float* kept, const uint16_t* positions, int count, uint32_t magnitude_max,
          CodedChunk& coded) {
  constexpr int kMost = topk2::kKeptMax / kVectorLanes;
  const Floats factor = hn::Set(kFloat, EnergyFactor(magnitude_max));
  Floats magnitudes[kMost], sums[kColumns], upper[kColumns], lower[kColumns];
  LONGHAUL_EACH_VECTOR
  for (int c = 0; c < kColumns; ++c) sums[c] = upper[c] = lower[c] = hn::Zero(kFloat);
  LONGHAUL_EACH_VECTOR
  for (int v = 0; v < kMost; ++v) {
    const int here = HWY_MIN(HWY_MAX(count - v * kVectorLanes, 0), kVectorLanes);
    const Floats x = hn::Mul(hn::Abs(hn::LoadU(kFloat, kept + v * kVectorLanes)), factor);
    magnitudes[v] = hn::IfThenElseZero(hn::FirstN(kFloat, here), x);
    sums[v % kColumns] = hn::Add(sums[v % kColumns], magnitudes[v]);
  }
  const Floats mean = hn::Set(kFloat, SumColumns(sums) / static_cast<float>(count));
  uint64_t high = 0;
  LONGHAUL_EACH_VECTOR
  for (int v = 0; v < kMost; ++v) {
    const auto is_high = hn::Ge(magnitudes[v], mean);
    high |= uint64_t{MaskBits(hn::RebindMask(kInt, is_high))} << (v * kVectorLanes);
    upper[v % kColumns] = hn::Add(upper[v % kColumns], hn::IfThenElseZero(is_high, magnitudes[v]));
    lower[v % kColumns] = hn::Add(lower[v % kColumns], hn::IfThenZeroElse(is_high, magnitudes[v]));
  }
  const int highs = std::popcount(count < 64 ? high & ((uint64_t{1} << count) - 1) : high);
  coded.levels = topk2::LevelsOfSums(SumColumns(lower), count - highs, SumColumns(upper), highs,
                                     magnitude_max);

  const hn::Rebind<uint8_t, IntTag> byte;
  const Ints low_value = hn::Set(kInt, coded.levels.low << scale_word::kShift);
  const Ints high_value = hn::Set(kInt, coded.levels.high << scale_word::kShift);
  LONGHAUL_EACH_VECTOR
  for (int v = 0; v < kMost; ++v) {
    const Floats x = hn::LoadU(kFloat, kept + v * kVectorLanes);
    const auto is_high = hn::RebindMask(kInt, hn::Ge(magnitudes[v], mean));
    const Ints at = hn::PromoteTo(kInt, hn::LoadU(kPosition, positions + v * kVectorLanes));
    const Ints in_group = hn::And(at, hn::Set(kInt, topk2::kGroupElements - 1));
    const Ints sign = SignOf(x);
    const Ints negative = hn::BitCast(kInt, hn::ShiftRight<24>(hn::BitCast(kWord, sign)));
    const Ints level = hn::IfThenElseZero(is_high, hn::Set(kInt, topk2::Entry::kHigh));
    hn::StoreU(hn::DemoteTo(byte, hn::Or(hn::Or(in_group, level), negative)), byte,
               coded.entries + v * kVectorLanes);
    const Ints value = hn::Or(hn::IfThenElse(is_high, high_value, low_value), sign);
    hn::StoreU(hn::Sub(x, hn::BitCast(kFloat, value)), kFloat, coded.lost + v * kVectorLanes);
  }
}

double EnergyOf(const float* block) {
  Floats x[kVectors];
  LONGHAUL_EACH_VECTOR
  for (int v = 0; v < kVectors; ++v) x[v] = hn::LoadU(kFloat, block + v * kVectorLanes);
  const uint32_t max = MagnitudeMax(x);
  return Energy(SignalEnergy(x, EnergyFactor(max)), max);
}

}  // namespace

Topk2Kernels Sparse() { return {Load, Select, Code, EnergyOf}; }

}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

HWY_EXPORT(Sparse);

Topk2Kernels Topk2Simd() { return HWY_DYNAMIC_DISPATCH(Sparse)(); }

}  // namespace longhaul::kernels
#endif  // HWY_ONCE
