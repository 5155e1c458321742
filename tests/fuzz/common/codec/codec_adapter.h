// The calls of common/codec that its fuzz target makes, so that the target says what must hold and
// this says how it is asked.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"
#include "common/codec/segment_slice.h"
#include "common/layout/fragment_layout.h"

namespace longhaul::fuzz {

// A coded segment as it came from outside.
struct CodedSegmentBytes {
  int64_t elements = 0;
  int32_t base_exponent = 0;
  std::vector<uint8_t> payload;

  SegmentView view() const { return {elements, base_exponent, payload}; }
};

// Every bit of `options` is one option of the encoder. Null: a combination that this build lacks.
inline std::unique_ptr<Codec> CodecOf(int kind, uint8_t options, KernelKind kernels) {
  auto codec = MakeCodec({.kind = static_cast<CodecKind>(kind),
                          .search_scale = (options & 1) != 0,
                          .stochastic = (options & 2) != 0,
                          .rms_scale = (options & 4) != 0,
                          .kernels = kernels});
  return codec.ok() ? *std::move(codec) : nullptr;
}

inline absl::Status Validate(const Codec& codec, const CodedSegmentBytes& segment) {
  return codec.Validate(segment.view());
}

// The blocks from `first_block` on.
inline absl::Status DecodeFrom(const Codec& codec, const CodedSegmentBytes& segment,
                               int64_t first_block, std::vector<float>* out) {
  out->resize(segment.elements - first_block * kBlockElements);
  return codec.Decode(segment.view(), absl::MakeSpan(*out), first_block);
}

inline absl::Status Decode(const Codec& codec, const CodedSegmentBytes& segment,
                           std::vector<float>* out) {
  return DecodeFrom(codec, segment, 0, out);
}

inline absl::Status DecodeAccumulate(const Codec& codec, const CodedSegmentBytes& segment,
                                     float weight, std::vector<float>* acc) {
  acc->resize(segment.elements);
  return codec.DecodeAccumulate(segment.view(), weight, absl::MakeSpan(*acc));
}

// `lost` gets what the code does not keep.
inline absl::StatusOr<CodedSegmentBytes> Encode(const Codec& codec,
                                                const std::vector<float>& values,
                                                std::vector<float>* lost) {
  CodedSegmentBytes segment{.elements = static_cast<int64_t>(values.size())};
  segment.payload.resize(codec.PayloadBytes(segment.elements));
  lost->resize(values.size());
  auto coded = codec.Encode({.values = values}, absl::MakeSpan(*lost),
                            absl::MakeSpan(segment.payload), {.key = 7, .first_block = 3});
  if (!coded.ok()) return coded.status();
  segment.base_exponent = coded->base_exponent;
  return segment;
}

// The blocks [first, first + count) as a segment of their own.
inline absl::StatusOr<CodedSegmentBytes> Slice(const Codec& codec, const CodedSegmentBytes& segment,
                                               const BlockRange& blocks) {
  CodedSegmentBytes slice{.elements = ElementsOf(blocks, segment.elements),
                          .base_exponent = segment.base_exponent};
  slice.payload.resize(codec.PayloadBytes(slice.elements));
  const absl::Status sliced =
      SliceSegment(codec, segment.view(), blocks, absl::MakeSpan(slice.payload));
  if (!sliced.ok()) return sliced;
  return slice;
}

}  // namespace longhaul::fuzz
