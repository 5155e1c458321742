#include "common/codec/cuda/device_codec.h"

#include <cstring>

#include "common/base/checked_math.h"
#include "gtest/gtest.h"
#include "tests/conformance/codec_inputs.h"
#include "tests/testing/emulated_cuda_runtime.h"

namespace longhaul {
namespace {

using testing_support::EmulatedCudaRuntime;

class DeviceCodecTest : public testing::Test {
 protected:
  DeviceFloats OnDevice(const std::vector<float>& values) {
    const DeviceFloats floats = device_.AllocateFloats(values.size()).value();
    EXPECT_TRUE(device_.Upload(values, floats.get()).ok());
    return floats;
  }
  std::vector<float> FromDevice(const DeviceFloats& floats, int64_t count) {
    std::vector<float> values(count);
    EXPECT_TRUE(device_.Download(floats.get(), absl::MakeSpan(values)).ok());
    return values;
  }

  const std::shared_ptr<EmulatedCudaRuntime> runtime_ = std::make_shared<EmulatedCudaRuntime>();
  DeviceCodec device_{runtime_};
};

// The segments of `sizes`, one after another in the local array.
std::vector<DeviceCodec::Segment> SegmentsOf(const std::vector<int32_t>& sizes) {
  std::vector<DeviceCodec::Segment> segments;
  int64_t offset = 0;
  for (int32_t elements : sizes) {
    segments.push_back({offset, elements, {.key = 77, .first_block = 3 + offset / kBlockElements}});
    offset += CeilDiv(elements, kBlockElements) * kBlockElements;
  }
  return segments;
}

TEST_F(DeviceCodecTest, ManySegmentsHaveTheBytesOfTheHost) {
  // Payloads have odd sizes, so later segments begin at odd bytes.
  const auto segments = SegmentsOf({128, 384, 1000, 129, 5});
  const int64_t n = segments.back().offset + segments.back().elements;
  const std::vector<float> outer = codec_test::Gaussian(n, 1, 1),
                           live = codec_test::Gaussian(n, 1, 2),
                           error = codec_test::Gaussian(n, 0.1f, 3);
  for (const CodecOptions& options :
       {CodecOptions{.kind = CodecKind::kFp32}, CodecOptions{.kind = CodecKind::kBf16},
        CodecOptions{.kind = CodecKind::kE3m0, .stochastic = true},
        CodecOptions{.kind = CodecKind::kInt8, .feedback_decay = 0.5f},
        CodecOptions{.kind = CodecKind::kInt6}, CodecOptions{.kind = CodecKind::kInt4},
        CodecOptions{.kind = CodecKind::kSign1}, CodecOptions{.kind = CodecKind::kTopk2}}) {
    SCOPED_TRACE(CodecName(options.kind));
    const auto codec = MakeCodec(options).value();
    int64_t bytes = 0;
    for (const auto& segment : segments) bytes += codec->PayloadBytes(segment.elements);
    const auto out = device_.AllocatePinned(bytes).value();
    const DeviceFloats snapshot = OnDevice(live), feedback = OnDevice(error);
    const auto reports = device_.Encode(*codec,
                                        {.host_values = outer,
                                         .minus = snapshot.get(),
                                         .error = feedback.get(),
                                         .lost = snapshot.get(),
                                         .segments = segments},
                                        out.get());
    ASSERT_TRUE(reports.ok()) << reports.status();
    const std::vector<float> lost = FromDevice(snapshot, n);
    int64_t offset = 0;
    for (size_t i = 0; i < segments.size(); ++i) {
      const auto& segment = segments[i];
      const auto part = [&](const std::vector<float>& values) {
        return absl::MakeConstSpan(values).subspan(segment.offset, segment.elements);
      };
      std::vector<uint8_t> expected(codec->PayloadBytes(segment.elements));
      std::vector<float> expected_lost(segment.elements);
      const auto result =
          codec->Encode({part(outer), part(live), part(error)}, absl::MakeSpan(expected_lost),
                        absl::MakeSpan(expected), segment.noise);
      ASSERT_TRUE(result.ok());
      EXPECT_EQ(std::memcmp(out.get() + offset, expected.data(), expected.size()), 0) << i;
      EXPECT_EQ(part(lost), absl::MakeConstSpan(expected_lost)) << i;
      EXPECT_EQ((*reports)[i].base_exponent, result->base_exponent);
      EXPECT_EQ((*reports)[i].error_energy, result->error_energy);
      EXPECT_EQ((*reports)[i].signal_energy, result->signal_energy);
      EXPECT_EQ((*reports)[i].first_bad, -1);
      offset += expected.size();
    }
  }
}

TEST_F(DeviceCodecTest, LargeFragmentsGoThroughBoundedMemoryInPieces) {
  const auto codec = MakeCodec({.kind = CodecKind::kE3m0}).value();
  // Small segments that lie far apart make several pieces with little work for the emulation.
  std::vector<DeviceCodec::Segment> segments;
  for (int64_t i = 0; i < 3; ++i)
    segments.push_back({i * (DeviceCodec::kPieceElements - kBlockElements), 256, {}});
  const std::vector<float> outer = codec_test::Gaussian(segments.back().offset + 256);
  const auto out = device_.AllocatePinned(3 * codec->PayloadBytes(256)).value();
  ASSERT_TRUE(device_.Encode(*codec, {.host_values = outer, .segments = segments}, out.get()).ok());
  EXPECT_EQ(runtime_->launches(), 3);
  EXPECT_LT(runtime_->device_bytes(), DeviceCodec::kPieceElements * 4 + (1 << 20));
}

TEST_F(DeviceCodecTest, SaysWhichElementIsBad) {
  const auto codec = MakeCodec({.kind = CodecKind::kInt8}).value();
  const auto segments = SegmentsOf({256, 512});
  std::vector<float> values = codec_test::Gaussian(768);
  values[256 + 300] = values[256 + 301] = std::numeric_limits<float>::infinity();
  const DeviceFloats on_device = OnDevice(values);
  const auto out = device_.AllocatePinned(4096).value();
  const auto reports =
      device_.Encode(*codec, {.values = on_device.get(), .segments = segments}, out.get());
  ASSERT_TRUE(reports.ok());
  EXPECT_EQ((*reports)[0].first_bad, -1);
  EXPECT_EQ((*reports)[1].first_bad, 300);
}

TEST_F(DeviceCodecTest, MemoryIsUsedAgainAndRunsOutCleanly) {
  { const DeviceFloats first = device_.AllocateFloats(1000).value(); }
  const int64_t held = runtime_->device_bytes();
  { const DeviceFloats again = device_.AllocateFloats(900).value(); }
  EXPECT_EQ(runtime_->device_bytes(), held);
  runtime_->set_free_device_bytes(3000);
  // There is room once the unused block is freed.
  const auto larger = device_.AllocateFloats(1500);
  EXPECT_TRUE(larger.ok()) << larger.status();
  EXPECT_TRUE(absl::IsResourceExhausted(device_.AllocateFloats(1500).status()));
}

TEST_F(DeviceCodecTest, BlocksMayOutliveTheCodec) {
  auto runtime = std::make_shared<EmulatedCudaRuntime>();
  std::shared_ptr<uint8_t> pinned = DeviceCodec(runtime).AllocatePinned(10).value();
  const std::weak_ptr<EmulatedCudaRuntime> watched = runtime;
  runtime.reset();
  EXPECT_FALSE(watched.expired());
  pinned.reset();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace longhaul
