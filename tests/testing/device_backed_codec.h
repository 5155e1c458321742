// A Codec that encodes and decodes on a device, for the suite that every codec must pass. Sizes and
// validation need no kernel and are the host's. Not thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "common/codec/codec.h"
#include "common/codec/cuda/device_codec.h"

namespace longhaul::testing_support {

class DeviceBackedCodec : public Codec {
 public:
  DeviceBackedCodec(const CodecOptions& options, std::shared_ptr<DeviceCodec> device);

  int64_t PayloadBytes(int64_t elements) const override { return host_->PayloadBytes(elements); }
  int64_t FragmentBytesMax(int64_t elements) const override {
    return host_->FragmentBytesMax(elements);
  }
  float MagnitudeBound(const SegmentView& segment) const override {
    return host_->MagnitudeBound(segment);
  }

 private:
  // Runs are collected. The last one codes the segment.
  void EncodeRun(const EncodeInput& in, absl::Span<float> lost, int64_t first_block,
                 SegmentScratch& scratch) const override;
  EncodeResult FinishSegment(SegmentScratch& scratch) const override;
  absl::Status DoValidate(const SegmentView& segment) const override;
  void DoDecode(const SegmentView& segment, int64_t first_block,
                absl::Span<float> out) const override;
  void DoDecodeAccumulate(const SegmentView& segment, int64_t first_block, float weight,
                          absl::Span<float> acc) const override;

  void Code(SegmentScratch& scratch) const;
  void Use(const SegmentView& segment, int64_t first_block, float weight, bool accumulate,
           absl::Span<float> out) const;

  const std::unique_ptr<Codec> host_;
  const std::shared_ptr<DeviceCodec> device_;
  // The current segment's.
  mutable std::vector<float> values_, minus_, error_;
  mutable bool lost_is_minus_ = false, lost_is_error_ = false;
  mutable cuda::EncodeReport report_;
};

}  // namespace longhaul::testing_support
