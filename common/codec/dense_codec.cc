#include "common/codec/dense_codec.h"

#include <algorithm>
#include <cstring>

#include "common/base/checked_math.h"
#include "common/codec/e3m0_format.h"
#include "common/codec/tail_order.h"

namespace longhaul {
namespace {

// A copy of a short last block, padded with zeros.
class TailBlock {
 public:
  explicit TailBlock(absl::Span<const float> tail) {
    std::copy(tail.begin(), tail.end(), values_.begin());
  }
  float* data() { return values_.data(); }

 private:
  alignas(64) std::array<float, kBlockElements> values_ = {};
};

}  // namespace

DenseCodec::DenseCodec(const CodecOptions& options, const DenseFormat& format)
    : Codec(options,
            {.code_bytes_per_group = format.code_bytes_per_block(),
             .scale_bytes_per_group = format.scale_bytes},
            {format.base_exponent_min, format.base_exponent_max}),
      format_(format),
      kernels_(options.kernels == KernelKind::kScalar ? format.scalar(options)
                                                      : format.simd(options)) {}

int64_t DenseCodec::PayloadBytes(int64_t elements) const {
  return CeilDiv(elements * format_.code_bits, 8) +
         CeilDiv(elements, kBlockElements) * format_.scale_bytes;
}

template <typename T>
DensePlanes<T> DenseCodec::PlanesOf(absl::Span<T> payload, int64_t elements) const {
  const int64_t code_bytes = CeilDiv(elements * format_.code_bits, 8);
  const int64_t whole_bytes = elements / kBlockElements * format_.code_bytes_per_block();
  return {.whole_codes = payload.first(whole_bytes),
          .tail_codes = payload.subspan(whole_bytes, code_bytes - whole_bytes),
          .scales = payload.subspan(code_bytes)};
}

void DenseCodec::EncodeRun(const EncodeInput& in, absl::Span<float> lost, int64_t first_block,
                           SegmentScratch& scratch) const {
  const int64_t whole = in.values.size() / kBlockElements;
  const auto or_null = [](auto span) { return span.empty() ? nullptr : span.data(); };
  if (whole > 0) {
    kernels_.encode({.values = in.values.data(),
                     .minus = or_null(in.minus),
                     .error = or_null(in.error),
                     .decay = options().feedback_decay,
                     .lost = or_null(lost),
                     .codes = scratch.out.data() + first_block * format_.code_bytes_per_block(),
                     .blocks = whole,
                     .first_block = first_block,
                     .noise = scratch.noise,
                     .results = scratch.blocks.data(),
                     .energies = scratch.energies.data()});
  }
  const auto tail = [&](auto span) {
    return span.empty() ? span : span.subspan(whole * kBlockElements);
  };
  if (in.values.size() % kBlockElements != 0) {
    EncodeTail({tail(in.values), tail(in.minus), tail(in.error)}, tail(lost), first_block + whole,
               scratch);
  }
}

void DenseCodec::EncodeTail(const EncodeInput& in, absl::Span<float> lost, int64_t block,
                            SegmentScratch& scratch) const {
  const size_t elements = in.values.size();
  TailBlock values(in.values), minus(in.minus), error(in.error), left({});
  BlockCodes codes;
  kernels_.encode({.values = values.data(),
                   .minus = in.minus.empty() ? nullptr : minus.data(),
                   .error = in.error.empty() ? nullptr : error.data(),
                   .decay = options().feedback_decay,
                   .lost = left.data(),
                   .codes = codes.data(),
                   .blocks = 1,
                   .first_block = block,
                   .last_elements = static_cast<int>(elements),
                   .noise = scratch.noise,
                   .results = scratch.blocks.data(),
                   .energies = scratch.energies.data()});
  if (!lost.empty()) std::copy_n(left.data(), elements, lost.data());
  const auto out = PlanesOf(scratch.out, scratch.elements).tail_codes;
  PackTail(codes, elements, out);
}

void DenseCodec::PackTail(const BlockCodes& codes, int64_t elements,
                          absl::Span<uint8_t> out) const {
  switch (format_.order) {
    case BlockOrder::kHalfBytes:
      return PackHalfByteTail(codes.data(), elements, out.data());
    case BlockOrder::kSixBits:
      return PackSixBitTail(codes.data(), elements, out.data());
    case BlockOrder::kBytes:
      return PackByteTail(codes.data(), elements, out.data());
    case BlockOrder::kNatural:
      std::memcpy(out.data(), codes.data(), out.size());
  }
}

void DenseCodec::UnpackTail(absl::Span<const uint8_t> in, int64_t elements,
                            BlockCodes& codes) const {
  switch (format_.order) {
    case BlockOrder::kHalfBytes:
      return UnpackHalfByteTail(in.data(), elements, codes.data());
    case BlockOrder::kSixBits:
      return UnpackSixBitTail(in.data(), elements, codes.data());
    case BlockOrder::kBytes:
      return UnpackByteTail(in.data(), elements, codes.data());
    case BlockOrder::kNatural:
      std::memcpy(codes.data(), in.data(), in.size());
  }
}

EncodeResult DenseCodec::FinishSegment(SegmentScratch& scratch) const {
  const int64_t blocks = CeilDiv(scratch.elements, kBlockElements);
  const auto scales = PlanesOf(scratch.out, scratch.elements).scales;
  EncodeResult result;
  if (format_.relative_scales) {
    result.base_exponent = WriteRelativeScales(scratch, scales);
  } else if (format_.scale_bytes == sizeof(uint16_t)) {
    for (int64_t b = 0; b < blocks; ++b) {
      const uint16_t word = static_cast<uint16_t>(scratch.blocks[b].scale);
      std::memcpy(&scales[b * sizeof(word)], &word, sizeof(word));
    }
  }
  return SumEnergies(scratch, result.base_exponent);
}

int32_t DenseCodec::WriteRelativeScales(SegmentScratch& scratch, absl::Span<uint8_t> scales) const {
  uint32_t largest = 0;
  for (size_t b = 0; b < scales.size(); ++b) largest = std::max(largest, scratch.blocks[b].scale);
  const int32_t base_exponent = e3m0::BaseExponentOf(largest);
  const int32_t origin = e3m0::ScaleOrigin(base_exponent);
  for (size_t b = 0; b < scales.size(); ++b) {
    const int32_t index = scratch.blocks[b].scale;
    if (e3m0::IsOutOfRange(index, origin)) ZeroBlock(b, scratch);
    scales[b] = e3m0::ScaleByte(index, origin);
  }
  return base_exponent;
}

void DenseCodec::ZeroBlock(int64_t block, SegmentScratch& scratch) const {
  const auto planes = PlanesOf(scratch.out, scratch.elements);
  const int64_t at = block * kBlockElements;
  const int64_t elements = std::min(kBlockElements, scratch.elements - at);
  if (!scratch.lost.empty()) {
    // The whole block is lost: both the residual and the value that its codes stand for.
    BlockCodes codes;
    const int32_t index = scratch.blocks[block].scale;
    const int32_t exponent = e3m0::ScaleExponent(index);
    const uint8_t scale = index - e3m0::ScaleOrigin(exponent);
    if (elements < kBlockElements) {
      UnpackTail(planes.tail_codes, elements, codes);
    } else {
      std::memcpy(codes.data(), &planes.whole_codes[block * kHalfBytesPerBlock],
                  kHalfBytesPerBlock);
    }
    const auto lost = scratch.lost.subspan(at, elements);
    TailBlock left(lost);
    kernels_.accumulate({codes.data(), &scale, 1, exponent}, 1.0f, left.data());
    std::copy_n(left.data(), elements, lost.data());
  }
  const auto codes =
      elements < kBlockElements
          ? planes.tail_codes
          : planes.whole_codes.subspan(block * kHalfBytesPerBlock, kHalfBytesPerBlock);
  std::fill(codes.begin(), codes.end(), 0);
  auto& energy = scratch.energies[block / kernels::kSampleBlocks];
  if (kernels::IsMeasured(block)) energy.error = energy.signal;
}

absl::Status DenseCodec::DoValidate(const SegmentView& segment) const {
  return format_.validate(PlanesOf(segment.payload, segment.elements), segment.elements);
}

float DenseCodec::MagnitudeBound(const SegmentView& segment) const {
  return format_.bound(PlanesOf(segment.payload, segment.elements), segment.base_exponent);
}

template <typename Use>
void DenseCodec::ForEachRun(const SegmentView& segment, int64_t first_block, int64_t elements,
                            Use use) const {
  const auto planes = PlanesOf(segment.payload, segment.elements);
  const int64_t whole = elements / kBlockElements;
  kernels::CodedRun run = {
      .codes = planes.whole_codes.data() + first_block * format_.code_bytes_per_block(),
      .scales = planes.scales.data() + first_block * format_.scale_bytes,
      .blocks = whole,
      .base_exponent = segment.base_exponent};
  if (whole > 0) use(run, whole * kBlockElements);
  const int64_t tail = elements % kBlockElements;
  if (tail == 0) return;
  BlockCodes codes = {};
  UnpackTail(planes.tail_codes, tail, codes);
  run = {.codes = codes.data(),
         .scales = run.scales + whole * format_.scale_bytes,
         .blocks = 1,
         .base_exponent = segment.base_exponent};
  use(run, tail);
}

void DenseCodec::DoDecode(const SegmentView& segment, int64_t first_block,
                          absl::Span<float> out) const {
  ForEachRun(segment, first_block, out.size(), [&](const kernels::CodedRun& run, int64_t elements) {
    if (elements % kBlockElements == 0) return kernels_.decode(run, out.data());
    TailBlock tail({});
    kernels_.decode(run, tail.data());
    std::copy_n(tail.data(), elements, out.end() - elements);
  });
}

void DenseCodec::DoDecodeAccumulate(const SegmentView& segment, int64_t first_block, float weight,
                                    absl::Span<float> acc) const {
  ForEachRun(segment, first_block, acc.size(), [&](const kernels::CodedRun& run, int64_t elements) {
    if (elements % kBlockElements == 0) return kernels_.accumulate(run, weight, acc.data());
    TailBlock tail(acc.last(elements));
    kernels_.accumulate(run, weight, tail.data());
    std::copy_n(tail.data(), elements, acc.end() - elements);
  });
}

}  // namespace longhaul
