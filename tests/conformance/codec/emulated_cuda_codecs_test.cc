// The CUDA kernels, run on the CPU. Since the emulation is slow, the suite leaves out segments of
// more than 1,000 elements (Topk2Decay: 256). AChunkMoreOrLess and WholeTiles test large ones.
#include "tests/conformance/codec_cases.h"
#include "tests/testing/device_backed_codec.h"
#include "tests/testing/emulated_cuda_runtime.h"

namespace longhaul::codec_test {
namespace {

std::unique_ptr<Codec> MakeEmulated(const CodecOptions& options) {
  auto device =
      std::make_shared<DeviceCodec>(std::make_shared<testing_support::EmulatedCudaRuntime>());
  return std::make_unique<testing_support::DeviceBackedCodec>(options, std::move(device));
}

std::vector<CodecCase> EmulatedCodecs() {
  std::vector<CodecCase> cases = AllCodecs();
  for (CodecCase& of_kind : cases) {
    of_kind.make = MakeEmulated;
    of_kind.elements_max = of_kind.name == "Topk2Decay" ? 256 : 1000;
    of_kind.trials_divisor = 40;
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(EmulatedCuda, CodecSuite, testing::ValuesIn(EmulatedCodecs()),
                         [](const auto& info) { return info.param.name; });

void ExpectSameAsHost(const CodecOptions& options, const std::vector<float>& in) {
  const auto emulated = MakeEmulated(options);
  const auto host = MakeCodec(options).value();
  const int64_t n = in.size();
  const std::vector<float> minus = Gaussian(n, 1e-6f, 2), error = Gaussian(n, 1e-7f, 3);
  std::vector<float> lost(n), expected_lost(n);
  std::vector<uint8_t> payload(host->PayloadBytes(n)), expected = payload;
  const auto result =
      emulated->Encode({in, minus, error}, absl::MakeSpan(lost), absl::MakeSpan(payload), kNoise);
  const auto host_result = host->Encode({in, minus, error}, absl::MakeSpan(expected_lost),
                                        absl::MakeSpan(expected), kNoise);
  ASSERT_TRUE(result.ok() && host_result.ok());
  EXPECT_EQ(payload, expected);
  EXPECT_TRUE(SameBits(lost, expected_lost));
  EXPECT_EQ(result->base_exponent, host_result->base_exponent);
  EXPECT_EQ(result->error_energy, host_result->error_energy);
  EXPECT_EQ(result->signal_energy, host_result->signal_energy);
  const SegmentView segment = {n, result->base_exponent, payload};
  std::vector<float> decoded(n), expected_decoded(n);
  ASSERT_TRUE(emulated->Decode(segment, absl::MakeSpan(decoded)).ok());
  ASSERT_TRUE(host->Decode(segment, absl::MakeSpan(expected_decoded)).ok());
  EXPECT_TRUE(SameBits(decoded, expected_decoded));
}

TEST(EmulatedCudaCodecs, AChunkMoreOrLess) {
  for (const CodecCase& of_kind : AllCodecs()) {
    for (int64_t n : {4095, 4097}) {
      for (const auto& [name, in] : Inputs(n)) {
        SCOPED_TRACE(testing::Message() << of_kind.name << " " << n << " " << name);
        ExpectSameAsHost(of_kind.options, in);
      }
    }
  }
}

// Blocks that are too small for the scale bytes; one of them is short.
TEST(EmulatedCudaCodecs, WholeTiles) {
  for (const CodecCase& of_kind : AllCodecs()) {
    for (int64_t n : {kTileElements, kTileElements - 1}) {
      SCOPED_TRACE(testing::Message() << of_kind.name << " " << n);
      std::vector<float> in = Gaussian(n);
      for (int64_t i = 0; i < n; ++i)
        in[i] *= std::exp2(static_cast<float>(-(i / kBlockElements) % 64));
      ExpectSameAsHost(of_kind.options, in);
    }
  }
}

}  // namespace
}  // namespace longhaul::codec_test
