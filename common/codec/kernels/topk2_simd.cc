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

// Positions of the magnitudes that reach `bound`, ascending. Returns how many.
HWY_INLINE int64_t Reaching(const float* u, int64_t blocks, int32_t bound, uint16_t* positions) {
  const Ints below = hn::Set(kInt, bound - 1);
  int64_t count = 0;
  for (int64_t at = 0; at < blocks * kBlockElements; at += topk2::kGroupElements) {
    uint64_t bits = 0;
    LONGHAUL_EACH_VECTOR
    for (int v = 0; v < topk2::kGroupElements / kVectorLanes; ++v) {
      const auto mask = hn::Gt(Magnitude(hn::LoadU(kFloat, u + at + v * kVectorLanes)), below);
      uint8_t bytes[8] = {};
      hn::StoreMaskBits(kInt, mask, bytes);
      const uint64_t part = bytes[0] | uint64_t{bytes[1]} << 8;
      bits |= part << (v * kVectorLanes);
    }
    for (; bits != 0; bits &= bits - 1)
      positions[count++] = static_cast<uint16_t>(at + std::countr_zero(bits));
  }
  return count;
}

void Select(const float* u, int64_t blocks, int64_t keep, uint16_t* positions) {
  Ints maxima[kVectors];
  PartMaxima(u, blocks, maxima);
  uint16_t candidates[topk2::kChunkElements];
  const int64_t count = Reaching(u, blocks, LowerBound(maxima, keep), candidates);
  // Larger keys first: by magnitude, then the earlier position.
  uint64_t keys[topk2::kChunkElements];
  for (int64_t c = 0; c < count; ++c) {
    const uint64_t magnitude = std::bit_cast<uint32_t>(u[candidates[c]]) & kMagnitudeMask;
    keys[c] = magnitude << 16 | (0xffff - candidates[c]);
  }
  uint64_t least = 0;
  if (count > keep) {
    std::nth_element(keys, keys + keep - 1, keys + count,
                     [](uint64_t a, uint64_t b) { return a > b; });
    least = keys[keep - 1];
  }
  int64_t kept = 0;
  for (int64_t c = 0; c < count; ++c) {
    const uint64_t magnitude = std::bit_cast<uint32_t>(u[candidates[c]]) & kMagnitudeMask;
    positions[kept] = candidates[c];
    kept += (magnitude << 16 | (0xffff - candidates[c])) >= least;
    if (kept == keep) break;
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

Topk2Kernels Sparse() { return {Load, Select, EnergyOf}; }

}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

HWY_EXPORT(Sparse);

Topk2Kernels Topk2Simd() { return HWY_DYNAMIC_DISPATCH(Sparse)(); }

}  // namespace longhaul::kernels
#endif  // HWY_ONCE
