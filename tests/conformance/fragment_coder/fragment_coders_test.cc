// The host's coder, and the device's coder on an emulated CUDA device. Also what only the latter
// does: it never delays training, and continues when memory is short.
#include "tests/conformance/fragment_coder_suite.h"
#include "tests/testing/emulated_cuda_runtime.h"

namespace longhaul::session {
namespace {

using testing_support::EmulatedCudaRuntime;

INSTANTIATE_TEST_SUITE_P(
    Coders, FragmentCoderSuite,
    testing::Values(CoderBackend{"Host", nullptr},
                    CoderBackend{
                        "EmulatedCuda",
                        std::make_shared<DeviceCodec>(std::make_shared<EmulatedCudaRuntime>())}),
    [](const auto& info) { return info.param.name; });

class DeviceFragmentCoderTest : public testing::Test {
 protected:
  void Round(uint64_t number) {
    pair_.SetLive(number);
    pair_.TakeSnapshot();
    pair_.Code(RoundKind::kOuter, 10 + number);
  }

  const std::shared_ptr<EmulatedCudaRuntime> runtime_ = std::make_shared<EmulatedCudaRuntime>();
  CoderPair pair_{std::make_shared<DeviceCodec>(runtime_), {.kind = CodecKind::kE3m0}, true};
};

TEST_F(DeviceFragmentCoderTest, ASnapshotDoesNotWaitForTheDevice) {
  pair_.SetLive(1);
  const int waits = runtime_->waits();
  pair_.TakeSnapshot();
  EXPECT_EQ(runtime_->waits(), waits);
  pair_.Code(RoundKind::kOuter, 2);
  EXPECT_EQ(runtime_->launches(), 1);
}

TEST_F(DeviceFragmentCoderTest, LaterRoundsAllocateNothing) {
  for (uint64_t round = 1; round <= 2; ++round) {
    Round(round);
    pair_.Commit(true);
  }
  const int64_t held = runtime_->device_bytes();
  for (uint64_t round = 3; round <= 6; ++round) {
    Round(round);
    pair_.Commit(round % 2 == 0);
  }
  EXPECT_EQ(runtime_->device_bytes(), held);
  EXPECT_EQ(pair_.warnings().size(), 0u);
}

// The snapshot, the outer parameters of a piece beside it, and the codes; and the feedback. No part
// of the outer state stays on the device.
TEST_F(DeviceFragmentCoderTest, TakesTwoFragmentsOfDeviceMemoryAndTheFeedback) {
  constexpr int64_t kFragmentBytes = 1485 * 4;
  int64_t taken[2];
  for (const bool feedback : {false, true}) {
    const auto runtime = std::make_shared<EmulatedCudaRuntime>();
    CoderPair pair(std::make_shared<DeviceCodec>(runtime), {.kind = CodecKind::kE3m0}, feedback);
    pair.SetLive(1);
    const int64_t live = runtime->device_bytes();
    for (uint64_t round = 1; round <= 4; ++round) {
      pair.SetLive(round);
      pair.TakeSnapshot();
      pair.Code(RoundKind::kOuter, 10 + round);
      pair.Commit(true);
    }
    taken[feedback] = runtime->device_bytes() - live;
  }
  EXPECT_GE(taken[false], kFragmentBytes);
  EXPECT_LE(taken[false], 2 * kFragmentBytes + kFragmentBytes / 4);
  EXPECT_EQ(taken[true] - taken[false], kFragmentBytes);
}

// With so much memory left in each attempt there is no room for a snapshot, for the feedback, or
// for anything. The bytes must be the same wherever a round is coded and wherever the feedback was
// left.
TEST_F(DeviceFragmentCoderTest, TheHostCodesTheSameBytesIfTheDeviceIsShortOfMemory) {
  const int64_t snapshot = 1485 * 4;
  uint64_t round = 0;
  for (const int64_t bytes : {int64_t{0}, snapshot, int64_t{1} << 30, 2 * snapshot, int64_t{0},
                              snapshot, 3 * snapshot, int64_t{1} << 30, int64_t{0}}) {
    SCOPED_TRACE(testing::Message() << "round " << round << ", " << bytes << " bytes");
    runtime_->set_free_device_bytes(bytes);
    Round(++round);
    pair_.Commit(round % 4 != 0);
  }
  EXPECT_EQ(pair_.warnings().size(), 1u);
  EXPECT_GT(runtime_->launches(), 0);
}

TEST_F(DeviceFragmentCoderTest, OffloadedParametersAreCodedOnTheHostWhichIsNoShortage) {
  CoderPair pair(std::make_shared<DeviceCodec>(runtime_), {.kind = CodecKind::kE3m0}, true,
                 /*rank=*/0, /*ranks=*/1, /*offloaded=*/true);
  for (uint64_t round = 1; round <= 3; ++round) {
    pair.SetLive(round);
    pair.TakeSnapshot();
    pair.Code(RoundKind::kOuter, 10 + round);
    pair.Commit(true);
  }
  EXPECT_EQ(pair.warnings().size(), 0u);
  EXPECT_EQ(runtime_->launches(), 0);
}

TEST_F(DeviceFragmentCoderTest, TheBytesMayOutliveTheCoder) {
  std::shared_ptr<CodedContribution> coded;
  std::vector<uint8_t> copy;
  {
    CoderPair pair(std::make_shared<DeviceCodec>(std::make_shared<EmulatedCudaRuntime>()),
                   {.kind = CodecKind::kInt8}, false);
    pair.SetLive(1);
    pair.TakeSnapshot();
    coded = pair.coder().Code(RoundKind::kOuter, 1, pair.Outer(2)).value();
    copy.assign(coded->blocks.payload.span().begin(), coded->blocks.payload.span().end());
  }
  EXPECT_EQ(coded->blocks.payload.span(), absl::MakeConstSpan(copy));
}

}  // namespace
}  // namespace longhaul::session
