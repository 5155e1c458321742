#include "common/codec/e3m0_codec.h"

#include <array>
#include <cstring>

#include "absl/strings/str_format.h"
#include "common/base/checked_math.h"
#include "common/codec/e3m0_tail.h"
#include "common/codec/segment_blocks.h"

namespace longhaul {
namespace {

using kernels::BlockResult;

// The planes of a payload. T: uint8_t or const uint8_t.
template <typename T>
struct Payload {
  absl::Span<T> whole_codes, tail_codes, scales;

  Payload(absl::Span<T> bytes, int64_t elements) {
    const int64_t code_bytes = CeilDiv(elements, 2);
    const int64_t whole_bytes = elements / kBlockElements * e3m0::kCodeBytesPerBlock;
    whole_codes = bytes.first(whole_bytes);
    tail_codes = bytes.subspan(whole_bytes, code_bytes - whole_bytes);
    scales = bytes.subspan(code_bytes);
  }
};

// Whether any half byte is 8. Eight bytes at once: `flipped` has a zero half byte where there was
// an 8, and the lowest borrow of the subtraction marks exactly such a place.
bool HasReservedCode(absl::Span<const uint8_t> codes) {
  constexpr uint64_t kOnes = 0x1111111111111111, kEights = 0x8888888888888888;
  uint64_t found = 0;
  size_t i = 0;
  for (; i + sizeof(uint64_t) <= codes.size(); i += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, codes.data() + i, sizeof(word));
    const uint64_t flipped = word ^ kEights;
    found |= (flipped - kOnes) & ~flipped & kEights;
  }
  for (; i < codes.size(); ++i) found |= (codes[i] & 15) == 8 || codes[i] >> 4 == 8;
  return found != 0;
}

int32_t BaseExponent(absl::Span<const BlockResult> blocks) {
  int32_t largest = 0;
  for (const BlockResult& block : blocks) largest = std::max(largest, block.scale_index);
  return largest == 0 ? 0 : e3m0::ScaleExponent(largest);
}

}  // namespace

E3m0Codec::E3m0Codec(KernelKind kernels, bool search_scale)
    : Codec(
          {.kind = CodecKind::kE3m0,
           .exact = false,
           .planes = {.code_bytes_per_block = e3m0::kCodeBytesPerBlock, .scale_bytes_per_block = 1},
           .base_exponent_min = e3m0::kBaseExponentMin,
           .base_exponent_max = e3m0::kBaseExponentMax}),
      search_scale_(search_scale),
      kernels_(kernels == KernelKind::kScalar ? kernels::E3m0ScalarKernels()
                                              : kernels::E3m0SimdKernels()),
      floats_(kernels == KernelKind::kScalar ? kernels::Fp32ScalarKernels()
                                             : kernels::Fp32SimdKernels()) {}

absl::StatusOr<EncodeResult> E3m0Codec::DoEncode(absl::Span<const float> in,
                                                 absl::Span<uint8_t> out) const {
  return EncodeSegment(in, {}, out);
}

absl::StatusOr<EncodeResult> E3m0Codec::DoEncodeWithFeedback(absl::Span<const float> in,
                                                             absl::Span<float> error,
                                                             absl::Span<uint8_t> out) const {
  if (!floats_.sum_is_finite(in, error)) return NonFiniteError(name(), in, error);
  return EncodeSegment(in, error, out);
}

absl::StatusOr<EncodeResult> E3m0Codec::EncodeSegment(absl::Span<const float> in,
                                                      absl::Span<float> error,
                                                      absl::Span<uint8_t> out) const {
  const Payload<uint8_t> payload(out, in.size());
  const int64_t whole = in.size() / kBlockElements;
  std::array<BlockResult, kTileBlocks> storage;
  const auto blocks = absl::MakeSpan(storage).first(payload.scales.size());
  EncodeBlocks(in, error, payload.whole_codes, blocks.first(whole));
  const TailBlock tail(in);
  TailBlock tail_error(error);
  uint8_t tail_codes[e3m0::kCodeBytesPerBlock];
  if (tail.elements() > 0) {
    EncodeBlocks(tail.block(), tail_error.block().first(error.empty() ? 0 : kBlockElements),
                 absl::MakeSpan(tail_codes), blocks.subspan(whole));
  }
  if (!AllFinite(blocks)) return NonFiniteError(name(), in);

  const int32_t base_exponent = BaseExponent(blocks);
  const int32_t origin = e3m0::ScaleOrigin(base_exponent);
  for (size_t b = 0; b < blocks.size(); ++b) {
    const bool is_tail = static_cast<int64_t>(b) == whole;
    if (blocks[b].scale_index != 0 && blocks[b].scale_index < origin) {
      uint8_t* codes = is_tail ? tail_codes : &payload.whole_codes[b * e3m0::kCodeBytesPerBlock];
      float* lost = error.empty() ? nullptr
                    : is_tail     ? tail_error.block().data()
                                  : &error[b * kBlockElements];
      ZeroBlock(blocks[b], codes, lost);
    }
    payload.scales[b] = blocks[b].scale_index == 0 ? 0 : blocks[b].scale_index - origin;
  }
  if (tail.elements() > 0) e3m0::PackTail(tail_codes, tail.elements(), payload.tail_codes.data());
  if (!error.empty()) tail_error.CopyTo(error);
  EncodeResult result = SumEnergies(blocks);
  result.base_exponent = base_exponent;
  return result;
}

void E3m0Codec::EncodeBlocks(absl::Span<const float> in, absl::Span<float> error,
                             absl::Span<uint8_t> codes, absl::Span<BlockResult> results) const {
  if (error.empty()) {
    kernels_.encode(in, search_scale_, codes, results);
  } else {
    kernels_.encode_with_feedback(in, error, search_scale_, codes, results);
  }
}

void E3m0Codec::ZeroBlock(BlockResult& block, uint8_t* codes, float* error) const {
  if (error != nullptr) {
    const int32_t exponent = e3m0::ScaleExponent(block.scale_index);
    const uint8_t scale = block.scale_index - e3m0::ScaleOrigin(exponent);
    // decoded + error is what was encoded, exactly, so that is what is lost now.
    kernels_.accumulate(exponent, absl::MakeSpan(codes, e3m0::kCodeBytesPerBlock),
                        absl::MakeSpan(&scale, 1), 1.0f, absl::MakeSpan(error, kBlockElements));
  }
  std::fill(codes, codes + e3m0::kCodeBytesPerBlock, 0);
  block.scale_index = 0;
  block.error_energy = block.signal_energy;
}

absl::Status E3m0Codec::DoValidate(absl::Span<const uint8_t> bytes, int64_t elements) const {
  const Payload<const uint8_t> payload(bytes, elements);
  if (HasReservedCode(payload.whole_codes) || HasReservedCode(payload.tail_codes)) {
    return absl::InvalidArgumentError("e3m0: reserved code 8");
  }
  if (elements % 2 != 0 && payload.tail_codes.back() >> 4 != 0) {
    return absl::InvalidArgumentError("e3m0: padding after the last code is not zero");
  }
  return absl::OkStatus();
}

void E3m0Codec::DoDecode(int32_t base_exponent, absl::Span<const uint8_t> bytes,
                         absl::Span<float> out) const {
  const Payload<const uint8_t> payload(bytes, out.size());
  const int64_t whole = out.size() / kBlockElements;
  kernels_.decode(base_exponent, payload.whole_codes, payload.scales.first(whole), out);
  if (payload.tail_codes.empty()) return;
  TailBlock tail(out);
  uint8_t codes[e3m0::kCodeBytesPerBlock];
  e3m0::UnpackTail(payload.tail_codes.data(), tail.elements(), codes);
  kernels_.decode(base_exponent, absl::MakeSpan(codes), payload.scales.subspan(whole),
                  tail.block());
  tail.CopyTo(out);
}

void E3m0Codec::DoDecodeAccumulate(int32_t base_exponent, absl::Span<const uint8_t> bytes,
                                   float weight, absl::Span<float> acc) const {
  const Payload<const uint8_t> payload(bytes, acc.size());
  const int64_t whole = acc.size() / kBlockElements;
  kernels_.accumulate(base_exponent, payload.whole_codes, payload.scales.first(whole), weight, acc);
  if (payload.tail_codes.empty()) return;
  TailBlock tail(acc);
  uint8_t codes[e3m0::kCodeBytesPerBlock];
  e3m0::UnpackTail(payload.tail_codes.data(), tail.elements(), codes);
  kernels_.accumulate(base_exponent, absl::MakeSpan(codes), payload.scales.subspan(whole), weight,
                      tail.block());
  tail.CopyTo(acc);
}

}  // namespace longhaul
