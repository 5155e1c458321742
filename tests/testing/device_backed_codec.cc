#include "tests/testing/device_backed_codec.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/checked_math.h"
#include "common/codec/e3m0_format.h"
#include "common/codec/segment_encoder.h"

namespace longhaul::testing_support {
namespace {

void MustBeOk(const absl::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "device: %s\n", status.ToString().c_str());
  LH_CHECK(status.ok(), "the device failed");
}

template <typename T>
T Value(absl::StatusOr<T> value) {
  MustBeOk(value.status());
  return *std::move(value);
}

// Device memory with these values; null if there are none.
DeviceFloats OnDevice(DeviceCodec& device, absl::Span<const float> values) {
  if (values.empty()) return nullptr;
  DeviceFloats result = Value(device.AllocateFloats(values.size()));
  MustBeOk(device.Upload(values, result.get()));
  return result;
}

}  // namespace

DeviceBackedCodec::DeviceBackedCodec(const CodecOptions& options,
                                     std::shared_ptr<DeviceCodec> device)
    : Codec(options, MakeCodec(options).value()->planes(),
            options.kind == CodecKind::kE3m0
                ? ExponentRange{e3m0::kBaseExponentMin, e3m0::kBaseExponentMax}
                : ExponentRange{}),
      host_(MakeCodec(options).value()),
      device_(std::move(device)) {}

void DeviceBackedCodec::EncodeRun(const EncodeInput& in, absl::Span<float> lost,
                                  int64_t first_block, SegmentScratch& scratch) const {
  if (first_block == 0) {
    values_.clear();
    minus_.clear();
    error_.clear();
  }
  lost_is_minus_ = !lost.empty() && lost.data() == in.minus.data();
  lost_is_error_ = !lost.empty() && lost.data() == in.error.data();
  values_.insert(values_.end(), in.values.begin(), in.values.end());
  minus_.insert(minus_.end(), in.minus.begin(), in.minus.end());
  error_.insert(error_.end(), in.error.begin(), in.error.end());
  for (int64_t b = 0; b < CeilDiv(in.values.size(), kBlockElements); ++b)
    scratch.blocks[first_block + b] = {};
  if (static_cast<int64_t>(values_.size()) == scratch.elements) Code(scratch);
}

void DeviceBackedCodec::Code(SegmentScratch& scratch) const {
  // Values are in host memory, like a fragment's outer parameters. The rest is on the device.
  const DeviceFloats minus = OnDevice(*device_, minus_), error = OnDevice(*device_, error_);
  DeviceFloats lost = lost_is_minus_ ? minus : lost_is_error_ ? error : nullptr;
  if (lost == nullptr && !scratch.lost.empty())
    lost = Value(device_->AllocateFloats(scratch.elements));
  const auto pinned = Value(device_->AllocatePinned(scratch.out.size()));
  const DeviceCodec::Segment segment = {.elements = static_cast<int32_t>(scratch.elements),
                                        .noise = scratch.noise};
  report_ = Value(device_->Encode(*host_,
                                  {.host_values = values_,
                                   .minus = minus.get(),
                                   .error = error.get(),
                                   .lost = lost.get(),
                                   .segments = {&segment, 1}},
                                  pinned.get()))
                .front();
  std::copy_n(pinned.get(), scratch.out.size(), scratch.out.begin());
  if (lost != nullptr) MustBeOk(device_->Download(lost.get(), scratch.lost));
  if (report_.first_bad >= 0) {
    scratch.blocks[report_.first_bad / kBlockElements] = {
        kernels::kFiniteMax + 1, static_cast<uint32_t>(report_.first_bad % kBlockElements)};
  }
}

EncodeResult DeviceBackedCodec::FinishSegment(SegmentScratch& scratch) const {
  return {report_.base_exponent, report_.error_energy, report_.signal_energy};
}

absl::Status DeviceBackedCodec::DoValidate(const SegmentView& segment) const {
  return host_->Validate(segment);
}

void DeviceBackedCodec::Use(const SegmentView& segment, int64_t first_block, float weight,
                            bool accumulate, absl::Span<float> out) const {
  // The payload keeps its alignment.
  const size_t shift = reinterpret_cast<uintptr_t>(segment.payload.data()) % 4;
  const DeviceFloats payload = Value(device_->AllocateFloats(segment.payload.size() / 4 + 2));
  uint8_t* const bytes = reinterpret_cast<uint8_t*>(payload.get()) + shift;
  MustBeOk(device_->runtime().Copy(DeviceRuntime::Queue::kCodec, bytes, segment.payload.data(),
                                   segment.payload.size()));
  const DeviceFloats values = OnDevice(*device_, out);
  MustBeOk(device_->Decode(kind(),
                           {.payload = bytes,
                            .out = values.get(),
                            .elements = static_cast<int32_t>(segment.elements),
                            .base_exponent = segment.base_exponent,
                            .first_block = static_cast<int32_t>(first_block),
                            .count = static_cast<int32_t>(out.size())},
                           weight, accumulate));
  MustBeOk(device_->Download(values.get(), out));
}

void DeviceBackedCodec::DoDecode(const SegmentView& segment, int64_t first_block,
                                 absl::Span<float> out) const {
  Use(segment, first_block, 1, false, out);
}

void DeviceBackedCodec::DoDecodeAccumulate(const SegmentView& segment, int64_t first_block,
                                           float weight, absl::Span<float> acc) const {
  Use(segment, first_block, weight, true, acc);
}

}  // namespace longhaul::testing_support
