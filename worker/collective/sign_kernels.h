// The arithmetic of 1-bit compression: an element is a sign, all elements of a run share a scale,
// and the error is kept for the next time. Free functions on contiguous fp32 arrays, without memory
// of their own. The scalar versions define the meaning; the others give the same bits on every
// instruction set.
//
// Signs are packed as in sign1 (common/codec/sign1_format.h): bit i % 8 of byte i / 8 is set if the
// element is negative. A zero of either sign counts as positive. A run may begin inside a byte:
// `first_bit` is the place of its first element in signs[0]. Values are finite.
#pragma once

#include <cstdint>

namespace longhaul {

// Sums of |x| and of x^2 over a run, in double. Sixteen lanes each sum every sixteenth element, and
// are then halved four times.
struct MagnitudeSums {
  double absolute = 0, squared = 0;
};

// feedback += values. Returns the sums of the result.
MagnitudeSums AddFeedback(int64_t n, const float* values, float* feedback);
// Sets the bits of negative elements (they must be zero before), and leaves the error: feedback -=
// sign * scale.
void TakeSigns(int64_t n, float scale, float* feedback, uint8_t* signs, int first_bit);
// out += sign * scale.
void AddSigns(int64_t n, float scale, const uint8_t* signs, int first_bit, float* out);
// out = sign * scale.
void DecodeSigns(int64_t n, float scale, const uint8_t* signs, int first_bit, float* out);

namespace sign_scalar {

MagnitudeSums AddFeedback(int64_t n, const float* values, float* feedback);
void TakeSigns(int64_t n, float scale, float* feedback, uint8_t* signs, int first_bit);
void AddSigns(int64_t n, float scale, const uint8_t* signs, int first_bit, float* out);
void DecodeSigns(int64_t n, float scale, const uint8_t* signs, int first_bit, float* out);

}  // namespace sign_scalar

}  // namespace longhaul
