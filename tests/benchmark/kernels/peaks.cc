#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/benchmark/kernels/peaks.cc"
// clang-format off: before all other includes.
#include "hwy/foreach_target.h"
// clang-format on

#include <cstring>

#include "common/base/read_ahead.h"
#include "hwy/highway.h"
#include "tests/benchmark/kernels/peaks.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::benchmark::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// More sums than multiply-adds that are under way at a time, and fewer than registers.
constexpr int kSums = 12;

double FloatPeak(int64_t rounds, float* out) {
  const hn::ScalableTag<float> d;
  hn::Vec<decltype(d)> sums[kSums];
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) sums[i] = hn::Set(d, static_cast<float>(i));
  const auto x = hn::Set(d, out[0]), y = hn::Set(d, out[1]);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) sums[i] = hn::MulAdd(sums[i], x, y);
  }
  for (int i = 1; i < kSums; ++i) sums[0] = hn::Add(sums[0], sums[i]);
  out[2] = hn::GetLane(sums[0]);
  return 2.0 * kSums * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

}  // namespace
}  // namespace longhaul::benchmark::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace longhaul::benchmark {
namespace {

constexpr int kBf16Sums = 12;
volatile float g_result = 0;  // Keeps the loops.
volatile uint64_t g_read = 0;

}  // namespace

HWY_EXPORT(FloatPeak);

double RunFloatPeak(int64_t rounds) {
  float values[] = {0.5f, 1.0f, 0};
  const double operations = HWY_DYNAMIC_DISPATCH(FloatPeak)(rounds, values);
  g_result = values[2];
  return operations;
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512bf16"))) double RunBf16Peak(int64_t rounds) {
  __m512 sums[kBf16Sums];
#pragma GCC unroll 16
  for (int i = 0; i < kBf16Sums; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  const auto x = (__m512bh)_mm512_set1_epi32(0x3f803f80);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, x, x);
    // The compiler must not compute the sums in advance.
    asm volatile("" : "+v"(sums[0]));
  }
  for (int i = 1; i < kBf16Sums; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  g_result = _mm512_cvtss_f32(sums[0]);
  return 2.0 * kBf16Sums * 32 * static_cast<double>(rounds);
}
#else
double RunBf16Peak(int64_t) { return 0; }
#endif

void ReadAll(absl::Span<const uint8_t> bytes) {
  uint64_t sums[8] = {};
  for (size_t at = 0; at + kReadAheadBytes <= bytes.size(); at += kReadAheadBytes) {
    ReadAhead(&bytes[at], static_cast<int64_t>(at) / kReadAheadBytes);
    for (size_t line = at; line < at + kReadAheadBytes; line += sizeof(sums)) {
      uint64_t words[8];
      std::memcpy(words, &bytes[line], sizeof(words));
      for (int i = 0; i < 8; ++i) sums[i] += words[i];
    }
  }
  for (const uint64_t sum : sums) g_read = g_read + sum;
}

}  // namespace longhaul::benchmark
#endif  // HWY_ONCE
