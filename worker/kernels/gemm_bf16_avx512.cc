// Highway's dot product of bf16 does not use this instruction, so the intrinsic is called here.
#include "worker/kernels/gemm_bf16_avx512.h"

#include <algorithm>

#include "common/base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace longhaul::kernels {
namespace {

#define LONGHAUL_AVX512_BF16 __attribute__((target("avx512f,avx512bf16")))

constexpr int kTileRowsBf16 = 8;
constexpr int64_t kVector = 16;
// The depth is cut into parts of so many pairs, so that the part of a panel stays in the
// second-level cache.
constexpr int64_t kPairBlock = 512;

struct PairTile {
  const uint32_t* left;
  int64_t row_stride, depth_stride;
  const uint32_t* panel;
  int64_t pairs, columns;
  float* c;
  int64_t c_stride;
  bool add;
};

template <int R, int V>
LONGHAUL_AVX512_BF16 inline void MultiplyTile(const PairTile& t) {
  __m512 sums[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) sums[r][v] = _mm512_setzero_ps();
  }
  const uint32_t* left = t.left;
  const uint32_t* panel = t.panel;
  for (int64_t k = 0; k < t.pairs; ++k, left += t.depth_stride, panel += V * kVector) {
    __m512bh right[V];
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) right[v] = (__m512bh)_mm512_loadu_si512(panel + v * kVector);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const auto x = (__m512bh)_mm512_set1_epi32(static_cast<int>(left[r * t.row_stride]));
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) sums[r][v] = _mm512_dpbf16_ps(sums[r][v], x, right[v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) {
      const int64_t present = std::clamp<int64_t>(t.columns - v * kVector, 0, kVector);
      const auto mask = static_cast<__mmask16>((1u << present) - 1);
      float* const to = t.c + r * t.c_stride + v * kVector;
      const __m512 before = t.add ? _mm512_maskz_loadu_ps(mask, to) : _mm512_setzero_ps();
      _mm512_mask_storeu_ps(to, mask, _mm512_add_ps(before, sums[r][v]));
    }
  }
}

template <int V>
LONGHAUL_AVX512_BF16 void MultiplyTiles(PairTile t, int64_t rows) {
  for (; rows >= kTileRowsBf16; rows -= kTileRowsBf16) {
    MultiplyTile<kTileRowsBf16, V>(t);
    t.left += kTileRowsBf16 * t.row_stride;
    t.c += kTileRowsBf16 * t.c_stride;
  }
  for (; rows > 0; --rows) {
    MultiplyTile<1, V>(t);
    t.left += t.row_stride;
    t.c += t.c_stride;
  }
}

}  // namespace

bool HasAvx512Bf16() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bf16");
}

void MultiplyBf16Avx512(const MatrixRef<uint32_t>& a, const uint32_t* panels, const Product& p,
                        float* c) {
  const int64_t pairs = (p.depth + 1) / 2;
  for (int64_t column = 0; column < p.columns; column += kPanelColumns) {
    const int64_t columns = std::min(kPanelColumns, p.columns - column);
    const int64_t vectors = (columns + kVector - 1) / kVector;
    int64_t k = 0;
    // Runs at least once: with depth 0 the product is zero.
    do {
      const PairTile tile{.left = a.data + k * a.column_stride,
                          // Without any depth there may be no data.
                          .row_stride = pairs > 0 ? a.row_stride : 0,
                          .depth_stride = a.column_stride,
                          .panel = panels + column * pairs + k * vectors * kVector,
                          .pairs = std::min(kPairBlock, pairs - k),
                          .columns = columns,
                          .c = c + column,
                          .c_stride = p.c_stride,
                          .add = p.add || k > 0};
      if (vectors == 3) {
        MultiplyTiles<3>(tile, p.rows);
      } else if (vectors == 2) {
        MultiplyTiles<2>(tile, p.rows);
      } else {
        MultiplyTiles<1>(tile, p.rows);
      }
      k += kPairBlock;
    } while (k < pairs);
  }
}

}  // namespace longhaul::kernels

#else

namespace longhaul::kernels {

bool HasAvx512Bf16() { return false; }
void MultiplyBf16Avx512(const MatrixRef<uint32_t>&, const uint32_t*, const Product&, float*) {
  LH_CHECK(false, "this CPU has no AVX512-BF16");
}

}  // namespace longhaul::kernels

#endif
