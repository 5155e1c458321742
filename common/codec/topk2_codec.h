// The sparse codec: it keeps the largest elements of each chunk (topk2_format.h). It is for the
// uplink of large models, with error feedback. Without feedback, elements that are not kept are
// lost.
#pragma once

#include <limits>

#include "common/codec/codec.h"
#include "common/codec/kernels/topk2_kernels.h"
#include "common/codec/segment_encoder.h"
#include "common/codec/topk2_format.h"

namespace longhaul {

class Topk2Codec final : public Codec {
 public:
  explicit Topk2Codec(const CodecOptions& options);

  int64_t PayloadBytes(int64_t elements) const override;
  // A short segment stores its levels for fewer elements. In the worst case each block is a
  // segment.
  int64_t FragmentBytesMax(int64_t elements) const override;
  float MagnitudeBound(const SegmentView&) const override {
    return std::numeric_limits<float>::infinity();
  }

 private:
  void EncodeRun(const EncodeInput& in, absl::Span<float> lost, int64_t first_block,
                 SegmentScratch& scratch) const override;
  EncodeResult FinishSegment(SegmentScratch& scratch) const override;
  absl::Status DoValidate(const SegmentView& segment) const override;
  void DoDecode(const SegmentView& segment, int64_t first_block,
                absl::Span<float> out) const override;
  void DoDecodeAccumulate(const SegmentView& segment, int64_t first_block, float weight,
                          absl::Span<float> acc) const override;

  // A chunk after Topk2Kernels::load.
  struct LoadedChunk {
    topk2::ChunkShape shape;
    int64_t first_block = 0;
    uint32_t magnitude_max = 0;
    const kernels::PartMaxima* maxima = nullptr;
    // Where the next chunk begins, if there is one.
    const float* next = nullptr;
  };
  // `u` has the chunk's whole blocks, padded with zeros; afterwards it has what is lost. `out` has
  // shape.bytes().
  void EncodeChunk(const LoadedChunk& loaded, float* u, uint8_t* out,
                   SegmentScratch& scratch) const;
  // Calls use(index in the run, value) for each kept element of the run.
  template <typename Use>
  void ForEachKept(const SegmentView& segment, int64_t first_block, int64_t elements,
                   Use use) const;

  const kernels::Topk2Kernels kernels_;
};

}  // namespace longhaul
