#include "common/codec/dense_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/codec/e3m0_format.h"
#include "common/codec/integer_format.h"
#include "common/codec/scale_word.h"
#include "common/layout/fragment_layout.h"

namespace longhaul {
namespace {

using Planes = DensePlanes<const uint8_t>;

template <typename T>
T LoadAt(absl::Span<const uint8_t> bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

// The largest word of type T, after `mask` is applied.
template <typename T>
T LargestOf(absl::Span<const uint8_t> bytes, T mask) {
  T largest = 0;
  for (size_t i = 0; i < bytes.size() / sizeof(T); ++i)
    largest = std::max<T>(largest, LoadAt<T>(bytes, i) & mask);
  return largest;
}

// Finds floats that are NaN or Inf. Their exponent is all ones, so that adding one to it carries
// into the place of the sign. Eight bytes are checked at once.
struct Fp32Words {
  static constexpr uint64_t kExponents = 0x7f8000007f800000, kOnes = 0x0080000000800000;
  static constexpr uint64_t kCarries = 0x8000000080000000;
};
struct Bf16Words {
  static constexpr uint64_t kExponents = 0x7f807f807f807f80, kOnes = 0x0080008000800080;
  static constexpr uint64_t kCarries = 0x8000800080008000;
};

template <typename Words>
bool HasNotFinite(absl::Span<const uint8_t> codes) {
  // Several variables, so that the operations do not depend on each other.
  uint64_t found[4] = {};
  const auto check = [](uint64_t word) { return (word & Words::kExponents) + Words::kOnes; };
  const size_t words = codes.size() / sizeof(uint64_t);
  size_t i = 0;
  for (; i + 4 <= words; i += 4) {
    for (int k = 0; k < 4; ++k) found[k] |= check(LoadAt<uint64_t>(codes, i + k));
  }
  for (; i < words; ++i) found[0] |= check(LoadAt<uint64_t>(codes, i));
  uint64_t rest = 0;
  const size_t whole = words * sizeof(uint64_t);
  if (whole < codes.size()) std::memcpy(&rest, codes.data() + whole, codes.size() - whole);
  return ((found[0] | found[1] | found[2] | found[3] | check(rest)) & Words::kCarries) != 0;
}

template <typename Words>
absl::Status RequireFinite(const char* codec, const Planes& planes) {
  if (!HasNotFinite<Words>(planes.whole_codes) && !HasNotFinite<Words>(planes.tail_codes))
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(codec, ": a coded element is NaN or Inf"));
}

absl::Status ValidateFp32(const Planes& planes, int64_t) {
  return RequireFinite<Fp32Words>("fp32", planes);
}

absl::Status ValidateBf16(const Planes& planes, int64_t) {
  return RequireFinite<Bf16Words>("bf16", planes);
}

absl::Status RequireFiniteScales(const char* codec, const Planes& planes, uint32_t max) {
  if (LargestOf<uint16_t>(planes.scales, 0xffff) <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(codec, ": a scale is not finite"));
}

// Whether any half byte is 8. Many bytes are checked at once: `flipped` has a zero half byte where
// there was an 8, and the lowest borrow of the subtraction marks exactly such a place.
bool HasReservedCode(absl::Span<const uint8_t> codes) {
  constexpr uint64_t kOnes = 0x1111111111111111, kEights = 0x8888888888888888;
  // The compiler turns a loop of fixed length into vector instructions.
  constexpr size_t kLanes = 8;
  std::array<uint64_t, kLanes> word, found = {};
  const auto check = [&] {
    for (size_t i = 0; i < kLanes; ++i) {
      const uint64_t flipped = word[i] ^ kEights;
      found[i] |= (flipped - kOnes) & ~flipped & kEights;
    }
  };
  size_t at = 0;
  for (; at + sizeof(word) <= codes.size(); at += sizeof(word)) {
    std::memcpy(word.data(), codes.data() + at, sizeof(word));
    check();
  }
  // Code 0 is never reserved.
  word = {};
  if (at < codes.size()) std::memcpy(word.data(), codes.data() + at, codes.size() - at);
  check();
  return std::any_of(found.begin(), found.end(), [](uint64_t lane) { return lane != 0; });
}

// Checks that the bits of the last byte after the last element are zero.
absl::Status RequireZeroPadding(const char* codec, const Planes& planes, int64_t used_bits) {
  if (planes.tail_codes.empty() || used_bits % 8 == 0) return absl::OkStatus();
  if (planes.tail_codes.back() >> used_bits % 8 == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(codec, ": padding after the last code is not zero"));
}

absl::Status ValidateE3m0(const Planes& planes, int64_t elements) {
  if (HasReservedCode(planes.whole_codes) || HasReservedCode(planes.tail_codes))
    return absl::InvalidArgumentError("e3m0: reserved code 8");
  return RequireZeroPadding("e3m0", planes, elements * 4);
}

absl::Status ValidateInt8(const Planes& planes, int64_t) {
  return RequireFiniteScales("int8", planes, integer::Int8::kWordMax);
}

absl::Status ValidateInt6(const Planes& planes, int64_t elements) {
  if (absl::Status status = RequireZeroPadding("int6", planes, elements * 6); !status.ok())
    return status;
  return RequireFiniteScales("int6", planes, integer::Int6::kWordMax);
}

absl::Status ValidateInt4(const Planes& planes, int64_t elements) {
  if (absl::Status status = RequireZeroPadding("int4", planes, elements * 4); !status.ok())
    return status;
  return RequireFiniteScales("int4", planes, integer::Int4::kWordMax);
}

absl::Status ValidateSign1(const Planes& planes, int64_t elements) {
  if (absl::Status status = RequireZeroPadding("sign1", planes, elements); !status.ok())
    return status;
  return RequireFiniteScales("sign1", planes, scale_word::kMax);
}

// The largest magnitude itself. Finite magnitudes have the same order as their bits.
float Fp32Bound(const Planes& planes, int32_t) {
  return std::bit_cast<float>(std::max(LargestOf<uint32_t>(planes.whole_codes, 0x7fffffff),
                                       LargestOf<uint32_t>(planes.tail_codes, 0x7fffffff)));
}

float Bf16Bound(const Planes& planes, int32_t) {
  const uint32_t bits = std::max(LargestOf<uint16_t>(planes.whole_codes, 0x7fff),
                                 LargestOf<uint16_t>(planes.tail_codes, 0x7fff));
  return std::bit_cast<float>(bits << 16);
}

// The bound for the largest scale that the segment can have.
float E3m0Bound(const Planes&, int32_t base_exponent) {
  return 1.875f * std::ldexp(1.0f, base_exponent);
}

// The largest scale times the largest level.
template <int kLevels>
float WordBound(const Planes& planes, int32_t) {
  return kLevels * scale_word::Value(LargestOf<uint16_t>(planes.scales, 0xffff));
}

constexpr DenseFormat kFp32 = {.code_bits = 32,
                               .validate = ValidateFp32,
                               .bound = Fp32Bound,
                               .scalar = kernels::Fp32Scalar,
                               .simd = kernels::Fp32Simd};
constexpr DenseFormat kBf16 = {.code_bits = 16,
                               .validate = ValidateBf16,
                               .bound = Bf16Bound,
                               .scalar = kernels::Bf16Scalar,
                               .simd = kernels::Bf16Simd};
constexpr DenseFormat kE3m0 = {.code_bits = 4,
                               .scale_bytes = 1,
                               .order = BlockOrder::kHalfBytes,
                               .relative_scales = true,
                               .base_exponent_min = e3m0::kBaseExponentMin,
                               .base_exponent_max = e3m0::kBaseExponentMax,
                               .validate = ValidateE3m0,
                               .bound = E3m0Bound,
                               .scalar = kernels::E3m0Scalar,
                               .simd = kernels::E3m0Simd};
constexpr DenseFormat kInt8 = {.code_bits = 8,
                               .scale_bytes = scale_word::kBytes,
                               .order = BlockOrder::kBytes,
                               .validate = ValidateInt8,
                               .bound = WordBound<128>,
                               .scalar = kernels::Int8Scalar,
                               .simd = kernels::Int8Simd};
constexpr DenseFormat kInt6 = {.code_bits = 6,
                               .scale_bytes = scale_word::kBytes,
                               .order = BlockOrder::kSixBits,
                               .validate = ValidateInt6,
                               .bound = WordBound<32>,
                               .scalar = kernels::Int6Scalar,
                               .simd = kernels::Int6Simd};
constexpr DenseFormat kInt4 = {.code_bits = 4,
                               .scale_bytes = scale_word::kBytes,
                               .order = BlockOrder::kHalfBytes,
                               .validate = ValidateInt4,
                               .bound = WordBound<8>,
                               .scalar = kernels::Int4Scalar,
                               .simd = kernels::Int4Simd};
constexpr DenseFormat kSign1 = {.code_bits = 1,
                                .scale_bytes = scale_word::kBytes,
                                .validate = ValidateSign1,
                                .bound = WordBound<1>,
                                .scalar = kernels::Sign1Scalar,
                                .simd = kernels::Sign1Simd};

}  // namespace

const DenseFormat* DenseFormatOf(CodecKind kind) {
  switch (kind) {
    case CodecKind::kFp32:
      return &kFp32;
    case CodecKind::kBf16:
      return &kBf16;
    case CodecKind::kE3m0:
      return &kE3m0;
    case CodecKind::kInt8:
      return &kInt8;
    case CodecKind::kInt6:
      return &kInt6;
    case CodecKind::kInt4:
      return &kInt4;
    case CodecKind::kSign1:
      return &kSign1;
    case CodecKind::kTopk2:
      break;
  }
  return nullptr;
}

}  // namespace longhaul
