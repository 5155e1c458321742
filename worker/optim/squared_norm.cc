#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/optim/squared_norm.cc"
// clang-format off: before all other includes.
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "common/base/read_ahead.h"
#include "hwy/highway.h"
#include "worker/optim/squared_norm.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

static_assert(kSquaredBlock * sizeof(float) == kReadAheadBytes);

// The square of a float is exact in double, so a fused multiply-add rounds as two operations do.
HWY_INLINE double BlockSum(const float* values) {
  constexpr int kLanes = 8;
  const hn::CappedTag<double, kLanes> wide;
  const hn::Rebind<float, decltype(wide)> narrow;
  constexpr int kStep = hn::MaxLanes(wide);
  hn::Vec<decltype(wide)> sums[kLanes / kStep];
  HWY_UNROLL(4)
  for (auto& sum : sums) sum = hn::Zero(wide);
  for (int64_t i = 0; i < kSquaredBlock; i += kLanes) {
    HWY_UNROLL(4)
    for (int v = 0; v < kLanes / kStep; ++v) {
      const auto x = hn::PromoteTo(wide, hn::LoadU(narrow, values + i + v * kStep));
      sums[v] = hn::MulAdd(x, x, sums[v]);
    }
  }
  double lanes[kLanes];
  HWY_UNROLL(4)
  for (int v = 0; v < kLanes / kStep; ++v) hn::StoreU(sums[v], wide, lanes + v * kStep);
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
         ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

void BlockSums(const float* values, int64_t blocks, double* sums) {
  for (int64_t b = 0; b < blocks; ++b, values += kSquaredBlock) {
    ReadAhead(values, b);
    sums[b] = BlockSum(values);
  }
}

}  // namespace
}  // namespace longhaul::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul {
namespace {

HWY_EXPORT(BlockSums);

constexpr int64_t kRunBlocks = 256;

}  // namespace

double SquaredNorm(absl::Span<const float> values, ThreadTeam* team) {
  const auto sums_of = [&](int64_t first, int64_t blocks, double* sums) {
    HWY_DYNAMIC_DISPATCH(BlockSums)(values.data() + first * kSquaredBlock, blocks, sums);
  };
  const auto size = static_cast<int64_t>(values.size()), blocks = size / kSquaredBlock;
  double sum = 0;
  if (team == nullptr || team->threads() == 1) {
    std::array<double, kRunBlocks> sums;
    for (int64_t first = 0; first < blocks; first += kRunBlocks) {
      const int64_t count = std::min(kRunBlocks, blocks - first);
      sums_of(first, count, sums.data());
      for (int64_t b = 0; b < count; ++b) sum += sums[b];
    }
  } else {
    // The threads compute the sums of the blocks. One thread then adds these in the blocks' order.
    std::vector<double> sums(blocks);
    team->ForParts(blocks * kSquaredBlock, kSquaredBlock, [&](int64_t first, int64_t end) {
      first /= kSquaredBlock;
      sums_of(first, end / kSquaredBlock - first, &sums[first]);
    });
    for (const double block : sums) sum += block;
  }
  if (size % kSquaredBlock == 0) return sum;
  // A short last block is filled up with zeros.
  float last[kSquaredBlock] = {};
  double rest = 0;
  std::memcpy(last, values.data() + blocks * kSquaredBlock,
              (size - blocks * kSquaredBlock) * sizeof(float));
  HWY_DYNAMIC_DISPATCH(BlockSums)(last, 1, &rest);
  return sum + rest;
}

}  // namespace longhaul
#endif  // HWY_ONCE
