#include <cmath>

#include "worker/collective/sign_kernels.h"

namespace longhaul::sign_scalar {
namespace {

constexpr int kSumLanes = 16;

double Halve(double* lanes) {
  for (int width = kSumLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

float Signed(float scale, const uint8_t* signs, int64_t bit) {
  return (signs[bit / 8] >> (bit % 8) & 1) != 0 ? -scale : scale;
}

}  // namespace

MagnitudeSums AddFeedback(int64_t n, const float* values, float* feedback) {
  double absolute[kSumLanes] = {}, squared[kSumLanes] = {};
  for (int64_t i = 0; i < n; ++i) {
    feedback[i] += values[i];
    const double x = feedback[i];
    absolute[i % kSumLanes] += std::abs(x);
    squared[i % kSumLanes] += x * x;
  }
  return {Halve(absolute), Halve(squared)};
}

void TakeSigns(int64_t n, float scale, float* feedback, uint8_t* signs, int first_bit) {
  for (int64_t i = 0; i < n; ++i) {
    const bool negative = feedback[i] < 0;
    const int64_t bit = first_bit + i;
    signs[bit / 8] |= static_cast<uint8_t>(negative << (bit % 8));
    feedback[i] -= negative ? -scale : scale;
  }
}

void AddSigns(int64_t n, float scale, const uint8_t* signs, int first_bit, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] += Signed(scale, signs, first_bit + i);
}

void DecodeSigns(int64_t n, float scale, const uint8_t* signs, int first_bit, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = Signed(scale, signs, first_bit + i);
}

}  // namespace longhaul::sign_scalar
