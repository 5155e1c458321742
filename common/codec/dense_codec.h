// The codec of every kind that codes each element. It has a plane of codes and a plane of scales.
// dense_format.h describes the kind as data, and the kind's kernels do the arithmetic.
#pragma once

#include "common/codec/codec.h"
#include "common/codec/dense_format.h"
#include "common/codec/kernels/dense_kernels.h"
#include "common/codec/segment_encoder.h"

namespace longhaul {

class DenseCodec final : public Codec {
 public:
  // `format` outlives the codec and fits options.kind.
  DenseCodec(const CodecOptions& options, const DenseFormat& format);

  int64_t PayloadBytes(int64_t elements) const override;
  int64_t FragmentBytesMax(int64_t elements) const override { return PayloadBytes(elements); }
  float MagnitudeBound(const SegmentView& segment) const override;

 private:
  void EncodeRun(const EncodeInput& in, absl::Span<float> lost, int64_t first_block,
                 SegmentScratch& scratch) const override;
  EncodeResult FinishSegment(SegmentScratch& scratch) const override;
  absl::Status DoValidate(const SegmentView& segment) const override;
  void DoDecode(const SegmentView& segment, int64_t first_block,
                absl::Span<float> out) const override;
  void DoDecodeAccumulate(const SegmentView& segment, int64_t first_block, float weight,
                          absl::Span<float> acc) const override;

  template <typename T>
  DensePlanes<T> PlanesOf(absl::Span<T> payload, int64_t elements) const;
  void EncodeTail(const EncodeInput& in, absl::Span<float> lost, int64_t block,
                  SegmentScratch& scratch) const;
  // The codes of one block, of any kind.
  using BlockCodes = std::array<uint8_t, kBlockElements * sizeof(float)>;
  void PackTail(const BlockCodes& codes, int64_t elements, absl::Span<uint8_t> out) const;
  void UnpackTail(absl::Span<const uint8_t> in, int64_t elements, BlockCodes& codes) const;
  // Calls use(run, elements) for the whole blocks of a run. A short last block comes separately, as
  // a padded copy of its codes.
  template <typename Use>
  void ForEachRun(const SegmentView& segment, int64_t first_block, int64_t elements, Use use) const;

  // Writes scales relative to the segment's largest. Blocks with a scale that is too small for that
  // become zeros.
  int32_t WriteRelativeScales(SegmentScratch& scratch, absl::Span<uint8_t> scales) const;
  void ZeroBlock(int64_t block, SegmentScratch& scratch) const;

  const DenseFormat& format_;
  const kernels::DenseKernels kernels_;
};

}  // namespace longhaul
