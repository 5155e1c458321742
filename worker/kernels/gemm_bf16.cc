#include "worker/kernels/gemm_bf16.h"

#include <algorithm>

#include "worker/kernels/gemm_bf16_avx512.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/kernels/gemm_bf16.cc"
// clang-format off: before all other includes that use Highway.
#include "hwy/foreach_target.h"
// clang-format on

#include "worker/kernels/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {

// The bits of bf16 values, in the lower halves of words.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> Bf16Bits(D d, const float* from) {
  const hn::RebindToUnsigned<D> words;
  const auto value = hn::LoadU(d, from);
  const auto bits = hn::BitCast(words, value);
  const auto even = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(words, 0x7fffu)), even));
  const auto nan = hn::BitCast(words, hn::VecFromMask(d, hn::IsNaN(value)));
  return hn::Or(hn::AndNot(nan, rounded), hn::And(nan, hn::Set(words, 0x7fc0u)));
}
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> Bf16Bits(D d, const uint16_t* from) {
  const hn::RebindToUnsigned<D> words;
  return hn::PromoteTo(words, hn::LoadU(hn::Rebind<uint16_t, D>(), from));
}

// Pairs the elements of two rows. `upper` may be null: zeros.
template <class D, typename T>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> PairBits(D d, const T* lower, const T* upper) {
  const auto low = Bf16Bits(d, lower);
  return upper == nullptr ? low : hn::Or(low, hn::ShiftLeft<16>(Bf16Bits(d, upper)));
}

void PairTwoRows(const float* lower, const float* upper, int64_t columns, uint32_t* pairs) {
  ForLanes(columns, [&](auto d, int64_t i) HWY_ATTR {
    const hn::RebindToUnsigned<decltype(d)> words;
    hn::StoreU(PairBits(d, lower + i, upper == nullptr ? nullptr : upper + i), words, pairs + i);
  });
}

void RowToPairs(const float* x, int64_t depth, uint32_t* pairs) {
  auto* const halves = reinterpret_cast<uint16_t*>(pairs);
  if (depth % 2 != 0) pairs[depth / 2] = 0;
  ForLanes(depth, [&](auto d, int64_t i) HWY_ATTR {
    const hn::Rebind<uint16_t, decltype(d)> half;
    const hn::RebindToSigned<decltype(d)> ints;
    hn::StoreU(hn::DemoteTo(half, hn::BitCast(ints, Bf16Bits(d, x + i))), half, halves + i);
  });
}

template <typename T>
uint32_t BitsAt(const T* from) {
  const hn::CappedTag<float, 1> one;
  return hn::GetLane(Bf16Bits(one, from));
}

template <typename T>
HWY_INLINE void PackPairs(const MatrixRef<T>& b, int64_t depth, int64_t columns, uint32_t* panel) {
  const int64_t width = WidthOf(columns), pairs = (depth + 1) / 2;
  if constexpr (sizeof(T) == 2) {
    // Neighbours along the depth are neighbours in memory, so pairs are copied as words.
    if (b.row_stride == 1 && depth % 2 == 0 && b.column_stride % 2 == 0) {
      return PackPanel</*kWide=*/true>(
          {reinterpret_cast<const float*>(b.data), 1, b.column_stride / 2}, pairs, columns, width,
          reinterpret_cast<float*>(panel));
    }
  }
  for (int64_t pair = 0; pair < pairs; ++pair, panel += width) {
    const T* const lower = b.data + 2 * pair * b.row_stride;
    const T* const upper = 2 * pair + 1 < depth ? lower + b.row_stride : nullptr;
    int64_t j = 0;
    if (b.column_stride == 1) {
      const hn::RebindToUnsigned<FloatTag> words;
      for (; j + kLanes <= columns; j += kLanes) {
        hn::StoreU(PairBits(kFloat, lower + j, upper == nullptr ? nullptr : upper + j), words,
                   panel + j);
      }
    }
    for (; j < columns; ++j) {
      const int64_t at = j * b.column_stride;
      panel[j] = BitsAt(lower + at) | (upper == nullptr ? 0 : BitsAt(upper + at) << 16);
    }
    std::fill(panel + columns, panel + width, 0u);
  }
}

void PackFloatPairs(const MatrixRef<float>& b, int64_t depth, int64_t columns, uint32_t* panel) {
  PackPairs(b, depth, columns, panel);
}
void PackHalfPairs(const MatrixRef<uint16_t>& b, int64_t depth, int64_t columns, uint32_t* panel) {
  PackPairs(b, depth, columns, panel);
}

// Computes C one vector of columns at a time.
void MultiplyPairs(const MatrixRef<uint32_t>& a, const uint32_t* panels, const Product& p,
                   float* c) {
  const hn::RebindToUnsigned<FloatTag> words;
  const int64_t pairs = (p.depth + 1) / 2;
  for (int64_t column = 0; column < p.columns; column += kLanes) {
    const int64_t begin = column / kPanelColumns * kPanelColumns;
    const int64_t width = WidthOf(p.columns - begin);
    const int64_t present = std::min<int64_t>(kLanes, p.columns - column);
    for (int64_t row = 0; row < p.rows; ++row) {
      // Without any depth there may be neither data nor panels.
      const uint32_t* left = pairs > 0 ? a.data + row * a.row_stride : a.data;
      const uint32_t* right = pairs > 0 ? panels + begin * pairs + column - begin : panels;
      auto sum = hn::Zero(kFloat);
      for (int64_t k = 0; k < pairs; ++k, left += a.column_stride, right += width) {
        const auto x = hn::Set(words, *left), y = hn::LoadU(words, right);
        const auto high = hn::Set(words, 0xffff0000u);
        const auto lower = [&](auto v)
                               HWY_ATTR { return hn::BitCast(kFloat, hn::ShiftLeft<16>(v)); };
        const auto upper = [&](auto v) HWY_ATTR { return hn::BitCast(kFloat, hn::And(v, high)); };
        sum = hn::MulAdd(lower(x), lower(y), hn::MulAdd(upper(x), upper(y), sum));
      }
      HWY_ALIGN float values[kLanes];
      hn::Store(sum, kFloat, values);
      float* const to = c + row * p.c_stride + column;
      for (int64_t i = 0; i < present; ++i) to[i] = p.add ? to[i] + values[i] : values[i];
    }
  }
}

}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

HWY_EXPORT(PairTwoRows);
HWY_EXPORT(RowToPairs);
HWY_EXPORT(PackFloatPairs);
HWY_EXPORT(PackHalfPairs);
HWY_EXPORT(MultiplyPairs);

namespace {

template <typename T, typename Pack>
void PackEach(const MatrixRef<T>& b, int64_t depth, int64_t columns, int64_t first, int64_t end,
              uint32_t* panels, Pack&& pack) {
  for (int64_t panel = first; panel < end; ++panel) {
    const int64_t column = panel * kPanelColumns;
    pack({b.data + column * b.column_stride, b.row_stride, b.column_stride}, depth,
         std::min(kPanelColumns, columns - column), panels + column * ((depth + 1) / 2));
  }
}

}  // namespace

// Not where Highway was told to do without AVX-512.
bool HasFastBf16() { return HasAvx512Bf16() && (hwy::SupportedTargets() & HWY_AVX3) != 0; }

void PackPanelsBf16(const MatrixRef<float>& b, int64_t depth, int64_t columns, int64_t first,
                    int64_t end, uint32_t* panels) {
  PackEach(b, depth, columns, first, end, panels, HWY_DYNAMIC_DISPATCH(PackFloatPairs));
}

void PackPanelsBf16(const MatrixRef<uint16_t>& b, int64_t depth, int64_t columns, int64_t first,
                    int64_t end, uint32_t* panels) {
  PackEach(b, depth, columns, first, end, panels, HWY_DYNAMIC_DISPATCH(PackHalfPairs));
}

void RowsToPairs(const float* x, int64_t rows, int64_t depth, uint32_t* pairs) {
  for (int64_t row = 0; row < rows; ++row)
    HWY_DYNAMIC_DISPATCH(RowToPairs)(x + row * depth, depth, pairs + row * ((depth + 1) / 2));
}

void PairRows(const float* x, int64_t depth, int64_t columns, uint32_t* pairs) {
  for (int64_t k = 0; k < depth; k += 2) {
    const float* const lower = x + k * columns;
    HWY_DYNAMIC_DISPATCH(PairTwoRows)
    (lower, k + 1 < depth ? lower + columns : nullptr, columns, pairs + k / 2 * columns);
  }
}

void MultiplyBf16Portable(const MatrixRef<uint32_t>& a, const uint32_t* panels,
                          const Product& product, float* c) {
  HWY_DYNAMIC_DISPATCH(MultiplyPairs)(a, panels, product, c);
}

void MultiplyBf16(const MatrixRef<uint32_t>& a, const uint32_t* panels, const Product& product,
                  float* c) {
  (HasFastBf16() ? MultiplyBf16Avx512 : MultiplyBf16Portable)(a, panels, product, c);
}

}  // namespace longhaul::kernels
#endif  // HWY_ONCE
