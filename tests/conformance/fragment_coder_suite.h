// What every FragmentCoder must do. A backend is tested by one INSTANTIATE_TEST_SUITE_P of
// FragmentCoderSuite. WrittenOutCoder has the right bytes.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/codec_inputs.h"
#include "tests/conformance/written_out_coder.h"
#include "worker/replica/replica.h"
#include "worker/session/device_fragment_coder.h"
#include "worker/session/host_fragment_coder.h"

namespace longhaul::session {

struct CoderBackend {
  std::string name;
  // Null: HostFragmentCoder.
  std::shared_ptr<DeviceCodec> device;
};

// Live parameters that a test sets, in device or host memory.
class CoderReplica : public Replica {
 public:
  CoderReplica(std::vector<int64_t> units, std::shared_ptr<DeviceCodec> device)
      : device_(std::move(device)) {
    for (int64_t elements : units) {
      host_.emplace_back(elements);
      if (device_ != nullptr) on_device_.push_back(device_->AllocateFloats(elements).value());
    }
  }

  void Set(uint64_t seed) {
    for (size_t unit = 0; unit < host_.size(); ++unit) {
      EXPECT_TRUE(Write(static_cast<int>(unit), 0,
                        codec_test::Gaussian(host_[unit].size(), 1, seed * 100 + unit))
                      .ok());
    }
  }

  absl::Status Read(int unit, int64_t offset, absl::Span<float> out) override {
    std::copy_n(host_[unit].begin() + offset, out.size(), out.begin());
    return absl::OkStatus();
  }
  absl::Status Write(int unit, int64_t offset, absl::Span<const float> in) override {
    std::copy(in.begin(), in.end(), host_[unit].begin() + offset);
    return device_ == nullptr ? absl::OkStatus()
                              : device_->Upload(host_[unit], on_device_[unit].get());
  }
  const std::vector<std::vector<float>>& units() const { return host_; }
  const float* DeviceParameters(int unit, int64_t offset) const override {
    return device_ == nullptr ? nullptr : on_device_[unit].get() + offset;
  }

  // The other methods are not used.
  const ModelLayout& layout() const override { return layout_; }
  int rank() const override { return 0; }
  int ranks() const override { return 1; }
  absl::StatusOr<StepStats> Step(int64_t) override { return StepStats{}; }
  absl::Status Publish(absl::Span<const int>) override { return absl::OkStatus(); }
  absl::StatusOr<EvalStats> Evaluate() override { return EvalStats{}; }
  absl::StatusOr<std::vector<std::vector<int64_t>>> AllGather(absl::Span<const int64_t>) override {
    return std::vector<std::vector<int64_t>>();
  }

 private:
  const std::shared_ptr<DeviceCodec> device_;
  const ModelLayout layout_;
  std::vector<std::vector<float>> host_;
  std::vector<DeviceFloats> on_device_;
};

// A coder and the definition. Both get the same calls and must give the same answers.
class CoderPair {
 public:
  // `offloaded`: the parameters are in host memory although there is a device.
  CoderPair(std::shared_ptr<DeviceCodec> device, const CodecOptions& up, bool feedback,
            int rank = 0, int ranks = 1, bool offloaded = false)
      : up_(MakeCodec(up).value()),
        map_(Layout(), OwnedBlocks(Layout(), rank, ranks)),
        replica_(Units(), offloaded ? nullptr : device),
        options_{.map = &map_, .up = up_.get(), .exact = exact_.get(), .error_feedback = feedback},
        written_(map_, *up_, *exact_, feedback) {
    if (device == nullptr) {
      coder_ = std::make_unique<HostFragmentCoder>(options_);
    } else {
      coder_ = std::make_unique<DeviceFragmentCoder>(
          options_, device, [this](const std::string& warning) { warnings_.push_back(warning); });
    }
  }

  void SetLive(uint64_t seed) { replica_.Set(seed); }
  void WriteLive(int unit, int64_t offset, float value) {
    EXPECT_TRUE(replica_.Write(unit, offset, {&value, 1}).ok());
  }
  void TakeSnapshot() {
    EXPECT_TRUE(coder_->TakeSnapshot(replica_).ok());
    written_.TakeSnapshot(replica_.units());
    EXPECT_TRUE(coder_->has_snapshot());
  }
  std::vector<float> Outer(uint64_t seed) const {
    return codec_test::Gaussian(map_.elements(), 1, seed);
  }
  // Codes with both. Returns the payload, or the error's message.
  std::string Code(RoundKind kind, uint64_t outer_seed) {
    const std::vector<float> outer = Outer(outer_seed);
    const auto coded = coder_->Code(kind, 11, outer);
    const WrittenOutContribution expected = written_.Code(kind, 11, outer);
    EXPECT_FALSE(coder_->has_snapshot());
    EXPECT_EQ(coded.status().code(), expected.status.code()) << coded.status();
    if (!coded.ok() || !expected.status.ok()) {
      EXPECT_THAT(std::string(coded.status().message()),
                  testing::HasSubstr(std::string(expected.status.message())));
      return std::string(coded.status().message());
    }
    EXPECT_EQ((*coded)->blocks.segments, expected.segments);
    EXPECT_EQ((*coded)->nmse, expected.nmse);
    EXPECT_EQ((*coded)->feedback_norm, expected.feedback_norm);
    const auto payload = (*coded)->blocks.payload.span();
    EXPECT_EQ(payload, absl::MakeConstSpan(expected.payload));
    return std::string(payload.begin(), payload.end());
  }
  void Commit(bool contributed) {
    coder_->Commit(contributed);
    written_.Commit(contributed);
  }
  void Reset() {
    coder_->Reset();
    written_.Reset();
  }
  // What both owe.
  std::vector<float> ReadFeedback() {
    std::vector<float> owed(map_.elements(), 9);
    EXPECT_TRUE(coder_->ReadFeedback(absl::MakeSpan(owed)).ok());
    EXPECT_EQ(owed, written_.ReadFeedback());
    return owed;
  }
  void WriteFeedback(const std::vector<float>& owed) {
    EXPECT_TRUE(coder_->WriteFeedback(owed).ok());
    written_.WriteFeedback(owed);
  }
  FragmentCoder& coder() { return *coder_; }
  CoderReplica& replica() { return replica_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  // Two units with a gap between them, and one that ends within a block.
  static std::vector<int64_t> Units() { return {300, 1000, 77}; }
  static FragmentLayout Layout() {
    return {.name = "0", .units = {{0, 0, 300}, {1, 384, 1000}, {2, 1408, 77}}, .elements = 1485};
  }

  const std::unique_ptr<Codec> up_;
  const std::unique_ptr<Codec> exact_ = MakeCodec({.kind = CodecKind::kFp32}).value();
  const FragmentMap map_;
  CoderReplica replica_;
  const FragmentCoder::Options options_;
  WrittenOutCoder written_;
  std::vector<std::string> warnings_;
  std::unique_ptr<FragmentCoder> coder_;
};

class FragmentCoderSuite : public testing::TestWithParam<CoderBackend> {
 protected:
  CoderPair Pair(bool feedback, int rank = 0, int ranks = 1) const {
    return CoderPair(GetParam().device, {.kind = CodecKind::kE3m0}, feedback, rank, ranks);
  }
};

}  // namespace longhaul::session
