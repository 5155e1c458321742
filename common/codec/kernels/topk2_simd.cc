// The twin of topk2_scalar.cc in Highway, compiled once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/codec/kernels/topk2_simd.cc"
// clang-format off: before all other includes.
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>

#include "common/codec/kernels/dense_simd-inl.h"
#include "common/codec/kernels/topk2_kernels.h"
#include "common/codec/topk2_format.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

uint32_t Load(const float* values, const float* minus, const float* error, float decay,
              int64_t blocks, float* u) {
  Ints max = hn::Zero(kInt);
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t at = b * kBlockElements;
    Floats x[kVectors];
    LoadInput(values, minus, error, decay, at, x);
    LONGHAUL_EACH_VECTOR
    for (int v = 0; v < kVectors; ++v) {
      max = hn::Max(max, Magnitude(x[v]));
      hn::StoreU(x[v], kFloat, u + at + v * kVectorLanes);
    }
  }
  return hn::GetLane(hn::MaxOfLanes(kInt, max));
}

// The maxima of 128 interleaved parts of a chunk: if `keep` of them reach some magnitude, so do at
// least `keep` elements.
HWY_INLINE void PartMaxima(const float* u, int64_t blocks, Ints* maxima) {
  LONGHAUL_EACH_VECTOR
  for (int v = 0; v < kVectors; ++v) maxima[v] = hn::Zero(kInt);
  for (int64_t b = 0; b < blocks; ++b) {
    LONGHAUL_EACH_VECTOR
    for (int v = 0; v < kVectors; ++v) {
      const Floats x = hn::LoadU(kFloat, u + b * kBlockElements + v * kVectorLanes);
      maxima[v] = hn::Max(maxima[v], Magnitude(x));
    }
  }
}

// A magnitude that at least `keep` of the maxima reach, by bisection: near the largest such one.
HWY_INLINE int32_t LowerBound(const Ints* maxima, int64_t keep) {
  constexpr int kSteps = 12;  // To a 64th of an octave within the top 64 octaves.
  Ints top = maxima[0];
  for (int v = 1; v < kVectors; ++v) top = hn::Max(top, maxima[v]);
  int32_t high = hn::GetLane(hn::MaxOfLanes(kInt, top));  // Too few reach high + 1.
  int32_t low = std::max(0, high - (64 << 23));
  bool low_holds = low == 0;
  for (int step = 0; step < kSteps; ++step) {
    const int32_t middle = step == 0 ? low : low + (high - low) / 2 + 1;
    size_t count = 0;
    LONGHAUL_EACH_VECTOR
    for (int v = 0; v < kVectors; ++v)
      count += hn::CountTrue(kInt, hn::Gt(maxima[v], hn::Set(kInt, middle - 1)));
    if (static_cast<int64_t>(count) >= keep) {
      low = middle;
      low_holds = true;
    } else {
      high = middle - 1;
      if (step == 0) return 0;
    }
    if (low >= high) break;
  }
  return low_holds ? low : 0;
}

constexpr int kSpare = 4;

// Positions of the magnitudes that reach `bound`, ascending. Returns how many; writes up to kSpare
// behind them.
HWY_INLINE int64_t Reaching(const float* u, int64_t blocks, int32_t bound, uint16_t* positions) {
  const Ints below = hn::Set(kInt, bound - 1);
  int64_t count = 0;
  for (int64_t at = 0; at < blocks * kBlockElements; at += topk2::kGroupElements) {
    uint64_t bits = 0;
    LONGHAUL_EACH_VECTOR
    for (int v = 0; v < topk2::kGroupElements / kVectorLanes; ++v) {
      const auto mask = hn::Gt(Magnitude(hn::LoadU(kFloat, u + at + v * kVectorLanes)), below);
      bits |= uint64_t{MaskBits(mask)} << (v * kVectorLanes);
    }
    // Mostly there are few; writing some in vain is cheaper than guessing how many.
    const int here = std::popcount(bits);
    HWY_UNROLL(4)
    for (int i = 0; i < kSpare; ++i, bits &= bits - 1)
      positions[count + i] = static_cast<uint16_t>(at + std::countr_zero(bits));
    for (int i = kSpare; bits != 0; ++i, bits &= bits - 1)
      positions[count + i] = static_cast<uint16_t>(at + std::countr_zero(bits));
    count += here;
  }
  return count;
}

// The largest magnitude that at least `keep` of them reach, by bisection from `low`, which they
// reach. `magnitudes` is padded with -1 to whole vectors. Sets how many exceed it.
HWY_INLINE int32_t ExactBound(const int32_t* magnitudes, int64_t count, int64_t keep, int32_t low,
                              int64_t* exceeding) {
  const auto reaching = [magnitudes, count](int32_t bound) HWY_ATTR {
    const Ints below = hn::Set(kInt, bound - 1);
    size_t result = 0;
    for (int64_t i = 0; i < count; i += kVectorLanes)
      result += hn::CountTrue(kInt, hn::Gt(hn::LoadU(kInt, magnitudes + i), below));
    return static_cast<int64_t>(result);
  };
  Ints top = hn::Zero(kInt);
  for (int64_t i = 0; i < count; i += kVectorLanes)
    top = hn::Max(top, hn::LoadU(kInt, magnitudes + i));
  int32_t high = hn::GetLane(hn::MaxOfLanes(kInt, top));
  *exceeding = 0;  // How many reach high + 1.
  while (low < high) {
    const int32_t middle = low + (high - low) / 2 + 1;
    const int64_t reach = reaching(middle);
    const bool enough = reach >= keep;
    low = enough ? middle : low;
    high = enough ? high : middle - 1;
    *exceeding = enough ? *exceeding : reach;
  }
  return low;
}

void Select(const float* u, int64_t blocks, int64_t keep, uint16_t* positions) {
  Ints maxima[kVectors];
  PartMaxima(u, blocks, maxima);
  const int32_t bound = LowerBound(maxima, keep);
  uint16_t candidates[topk2::kChunkElements + kSpare];
  const int64_t count = Reaching(u, blocks, bound, candidates);
  int32_t magnitudes[topk2::kChunkElements + kLanes];
  for (int64_t c = 0; c < count; ++c)
    magnitudes[c] =
        static_cast<int32_t>(std::bit_cast<uint32_t>(u[candidates[c]]) & kMagnitudeMask);
  hn::StoreU(hn::Set(kInt, -1), kInt, magnitudes + count);
  int64_t exceeding = 0;
  const int32_t least = ExactBound(magnitudes, count, keep, bound, &exceeding);
  // Of those that only just reach it the first ones.
  int64_t kept = 0, equals = keep - exceeding;
  uint16_t chosen[topk2::kKeptMax + 1];
  for (int64_t c = 0; c < count; ++c) {
    const bool equal = magnitudes[c] == least && equals > 0;
    chosen[kept] = candidates[c];
    kept += magnitudes[c] > least || equal;
    equals -= equal;
  }
  std::copy_n(chosen, keep, positions);
}

double EnergyOf(const float* block) {
  Floats x[kVectors];
  LONGHAUL_EACH_VECTOR
  for (int v = 0; v < kVectors; ++v) x[v] = hn::LoadU(kFloat, block + v * kVectorLanes);
  const uint32_t max = MagnitudeMax(x);
  return Energy(SignalEnergy(x, EnergyFactor(max)), max);
}

}  // namespace

Topk2Kernels Sparse() { return {Load, Select, EnergyOf}; }

}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

HWY_EXPORT(Sparse);

Topk2Kernels Topk2Simd() { return HWY_DYNAMIC_DISPATCH(Sparse)(); }

}  // namespace longhaul::kernels
#endif  // HWY_ONCE
