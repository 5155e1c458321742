// Streaming DiLoCo's semantics (Douillard et al. 2025, Algorithm 2), through the real scheduler,
// coordinator, store and wire.
#include <cmath>
#include <vector>

#include "common/codec/codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/paper/exchange_run.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;

// The golden vectors of torchft's regression fixtures (BSD-3, "streaming diloco"): one scalar a
// fragment, initially 1; each inner step adds -2; outer SGD with lr 2; two identical pools; H = 6,
// P = 2.
struct Golden {
  int64_t tau;
  double alpha;
  std::vector<float> live0, live1;    // After merges at 3, 9, 15; at 6, 12.
  std::vector<float> outer0, outer1;  // After merges at 3, 9; at 6, 12.
};

class GoldenVectorTest : public testing::TestWithParam<Golden> {};

TEST_P(GoldenVectorTest, LiveAndOuterValuesAreExact) {
  const Golden& golden = GetParam();
  ExchangeOptions options;
  options.tau = golden.tau;
  options.alpha = golden.alpha;
  const auto result = RunExchange(options);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->fragments.size(), 2u);
  const auto outer0 = result->fragments[0].outer, outer1 = result->fragments[1].outer;
  ASSERT_EQ(outer0.size(), 3u);
  ASSERT_EQ(outer1.size(), 2u);
  EXPECT_EQ(result->fragments[0].live, golden.live0);
  EXPECT_EQ(result->fragments[1].live, golden.live1);
  EXPECT_EQ(std::vector<float>(outer0.begin(), outer0.begin() + 2), golden.outer0);
  EXPECT_EQ(outer1, golden.outer1);
}

INSTANTIATE_TEST_SUITE_P(
    Torchft, GoldenVectorTest,
    testing::Values(Golden{0, 0, {-11, -35, -59}, {-23, -47}, {-11, -35}, {-23, -47}},
                    Golden{0, 0.5, {-8, -24.5, -40.25}, {-17, -32}, {-11, -29}, {-23, -35}},
                    Golden{0, 1, {-5, -17, -29}, {-11, -23}, {-11, -23}, {-23, -23}},
                    Golden{1, 0, {-7, -27, -47}, {-19, -39}, {-7, -27}, {-19, -39}}));

// An independent replay of Algorithm 2 for scalars, for the cases without published vectors.
std::vector<float> Replay(const ExchangeOptions& o, int fragment) {
  const int pools = o.pools;
  std::vector<double> live(pools, o.initial), outer_history;
  double outer = o.initial, momentum = 0, pending = 0;
  const int64_t first = (fragment + 1) * o.h / o.fragments;
  std::vector<float> result;
  for (int64_t t = 1; t <= o.steps; ++t) {
    for (int m = 0; m < pools; ++m)
      live[m] += o.inner_delta[std::min<size_t>(m, o.inner_delta.size() - 1)];
    if (t + o.tau >= first && (t + o.tau - first) % o.h == 0 && t + o.tau <= o.steps) {
      pending = 0;
      for (int m = 0; m < pools; ++m) pending += (outer - live[m]) / pools;
    }
    if (t >= first && (t - first) % o.h == 0) {
      momentum = o.outer_momentum * momentum + pending;
      outer -= o.outer_lr * (pending + o.outer_momentum * momentum);
      for (double& value : live) value = o.alpha * value + (1 - o.alpha) * outer;
      result.push_back(static_cast<float>(live[0]));
    }
  }
  return result;
}

TEST(StreamingDilocoTest, NesterovWithDifferentPoolsFollowsTheAlgorithm) {
  ExchangeOptions options;
  options.pools = 3;
  options.tau = 2;
  options.alpha = 0.5;
  options.inner_delta = {-1, -2, -6};
  options.outer_lr = 0.5;
  options.outer_momentum = 0.5;
  options.steps = 30;
  const auto result = RunExchange(options);
  ASSERT_TRUE(result.ok()) << result.status();
  for (int p = 0; p < 2; ++p) {
    const std::vector<float> expected = Replay(options, p);
    ASSERT_EQ(result->fragments[p].live.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(result->fragments[p].live[i], expected[i], 1e-5 * std::abs(expected[i]))
          << "fragment " << p << " merge " << i;
    }
  }
}

// Overlaps and shares without published vectors, as torchft's: all values are dyadic and short, so
// equality is exact.
TEST(StreamingDilocoTest, AnyOverlapAndShareFollowTheAlgorithm) {
  for (const int64_t tau : {0, 1, 2}) {
    for (const double alpha : {0.0, 0.25, 0.5, 1.0}) {
      for (const double momentum : {0.0, 0.5}) {
        SCOPED_TRACE(testing::Message()
                     << "tau " << tau << ", alpha " << alpha << ", momentum " << momentum);
        ExchangeOptions options;
        options.tau = tau;
        options.alpha = alpha;
        options.inner_delta = {-2, -4};
        options.outer_momentum = momentum;
        const auto result = RunExchange(options);
        ASSERT_TRUE(result.ok()) << result.status();
        for (int p = 0; p < 2; ++p) EXPECT_EQ(result->fragments[p].live, Replay(options, p)) << p;
      }
    }
  }
}

// One fragment, no overlap: DiLoCo (Douillard et al. 2023, Algorithm 1). All values are dyadic, so
// equality is exact.
TEST(StreamingDilocoTest, OneFragmentWithoutOverlapIsDiloco) {
  ExchangeOptions options;
  options.fragments = 1;
  options.h = 4;
  options.steps = 24;
  options.inner_delta = {-1, -3};
  options.outer_lr = 0.5;
  options.outer_momentum = 0.5;
  const auto result = RunExchange(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->fragments[0].live, Replay(options, 0));
  EXPECT_EQ(result->fragments[0].live, result->fragments[0].outer);
}

// A rank that owns nothing contributes to no round, so no round waits for it. Its pool does: the
// final round of a fragment must not be committed before that rank has merged the one of the last
// step.
TEST(StreamingDilocoTest, ARankThatOwnsNothingMergesAllVersions) {
  ExchangeOptions options;
  options.fragments = 1;
  options.h = 4;
  options.steps = 8;
  options.idle_rank = options.final_round = true;
  const auto result = RunExchange(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->job.eval_loss().last_step(), 8);
  EXPECT_EQ(result->fragments[0].live.size(), 3u);
}

// A round after every step with a plain outer step: large-batch data parallelism with SGD.
TEST(StreamingDilocoTest, ARoundAfterEveryStepIsDataParallelism) {
  ExchangeOptions options;
  options.fragments = 1;
  options.h = 1;
  options.steps = 10;
  options.inner_delta = {-1, -3};
  options.outer_lr = 1;
  const auto result = RunExchange(options);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->fragments[0].live.size(), 10u);
  for (int t = 1; t <= 10; ++t) EXPECT_EQ(result->fragments[0].live[t - 1], 1 - 2 * t);
}

TEST(StreamingDilocoTest, LearningRateOneWithoutMomentumIsParameterAveraging) {
  ExchangeOptions options;
  options.fragments = 1;
  options.h = 4;
  options.steps = 8;
  options.inner_delta = {-1, -3};
  options.outer_lr = 1;
  const auto result = RunExchange(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->fragments[0].live, ElementsAre(-7, -15));  // 1 + 4 * mean(-1, -3) each time.
}

TEST(StreamingDilocoTest, OnePoolWithLearningRateOneIsPlainTraining) {
  ExchangeOptions options;
  options.pools = 1;
  options.outer_lr = 1;
  options.steps = 12;
  const auto result = RunExchange(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->final_live[0], ElementsAre(1 - 2 * 12, 1 - 2 * 12));
}

TEST(StreamingDilocoTest, IdenticalPoolsAreOnePool) {
  ExchangeOptions one, three;
  one.pools = 1;
  three.pools = 3;
  one.outer_momentum = three.outer_momentum = 0.5;
  const auto a = RunExchange(one), b = RunExchange(three);
  ASSERT_TRUE(a.ok()) << a.status();
  ASSERT_TRUE(b.ok()) << b.status();
  for (int p = 0; p < 2; ++p) EXPECT_EQ(a->fragments[p].live, b->fragments[p].live);
}

TEST(StreamingDilocoTest, AlphaOneIsIndependentTraining) {
  ExchangeOptions options;
  options.alpha = 1;
  options.inner_delta = {-1, -3};
  options.steps = 12;
  const auto result = RunExchange(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->final_live[0], ElementsAre(1 - 12, 1 - 12));
  EXPECT_THAT(result->final_live[1], ElementsAre(1 - 36, 1 - 36));
}

TEST(StreamingDilocoTest, TheFinalRoundIsAPlainAverage) {
  ExchangeOptions options;
  options.inner_delta = {-1, -3};
  options.outer_lr = 1;
  options.outer_momentum = 0;
  options.steps = 14;
  options.final_round = true;
  const auto result = RunExchange(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->final_live[0],
              ElementsAre(FloatNear(1 - 2 * 14, 1e-5), FloatNear(1 - 2 * 14, 1e-5)));
  EXPECT_EQ(result->final_live[0], result->final_live[1]);
  EXPECT_TRUE(result->said_merged);
}

// ceil(n/2) + ceil(n/128) bytes a round, direction and pool.
TEST(WireSizeTest, E3m0PayloadIsExact) {
  for (const int64_t elements : {1, 2, 127, 128, 129, 1000, 65536, 100001}) {
    ExchangeOptions options;
    options.codec = v1::E3M0;
    options.elements = elements;
    options.outer_lr = 1;
    const auto result = RunExchange(options);
    ASSERT_TRUE(result.ok()) << result.status();
    const int64_t payload = (elements + 1) / 2 + (elements + 127) / 128;
    const int64_t rounds = 5;  // Fragment 0 at 3, 9, 15; fragment 1 at 6, 12.
    const int64_t seeds =
        2 * 4 * elements;  // One pool uploads both fragments exactly; each pool downloads both.
    EXPECT_EQ(result->job.wire_bytes().up_payload(), seeds + options.pools * rounds * payload)
        << elements;
    EXPECT_EQ(result->job.wire_bytes().down_payload(), options.pools * (seeds + rounds * payload))
        << elements;
    EXPECT_EQ(result->job.fragments(0).payload_bytes_up(), payload);
  }
}

// Every codec, with error feedback: the payload's exact size both ways, equal digests in the pools
// (a pool refuses any other), and an average that follows the pools.
TEST(CodecTest, EveryCodecCarriesAJob) {
  struct Case {
    v1::Codec codec;
    bool stochastic;
    CodecKind down;
  };
  for (const auto& [codec, stochastic, down] :
       std::vector<Case>{{v1::BF16, false, CodecKind::kBf16},
                         {v1::E3M0, true, CodecKind::kE3m0},
                         {v1::INT8, false, CodecKind::kInt8},
                         {v1::INT8, true, CodecKind::kInt8},
                         {v1::INT6, false, CodecKind::kInt6},
                         {v1::INT4, false, CodecKind::kInt4},
                         {v1::INT4, true, CodecKind::kInt4},
                         {v1::SIGN1, false, CodecKind::kSign1},
                         {v1::TOPK2, false, CodecKind::kE3m0}}) {
    SCOPED_TRACE(v1::Codec_Name(codec));
    ExchangeOptions options;
    options.codec = codec;
    options.stochastic_rounding = stochastic;
    options.error_feedback = true;
    options.elements = 70001;  // Two tiles, the second with a short block.
    options.inner_delta = {-0.3, -0.7};
    options.outer_lr = 1;
    options.tau = 1;
    const auto result = RunExchange(options);
    ASSERT_TRUE(result.ok()) << result.status();
    const int64_t rounds = 5, seeds = 2 * 4 * options.elements;
    const auto up = MakeCodec({.kind = static_cast<CodecKind>(codec)}).value();
    const auto down_codec = MakeCodec({.kind = down}).value();
    const v1::WireBytes& wire = result->job.wire_bytes();
    EXPECT_EQ(wire.up_payload(), seeds + 2 * rounds * up->FragmentBytes(options.elements));
    EXPECT_EQ(wire.down_payload(),
              2 * (seeds + rounds * down_codec->FragmentBytes(options.elements)));
    EXPECT_LT(result->fragments[0].outer.back(), 1) << "it moved with the pools";
  }
}

TEST(WireSizeTest, FramingIsAtMostTwoPercentOfAMebibyte) {
  ExchangeOptions options;
  options.codec = v1::E3M0;
  options.elements = 2 << 20;
  options.fragments = 1;
  options.steps = 6;
  options.outer_lr = 1;
  const auto result = RunExchange(options);
  ASSERT_TRUE(result.ok()) << result.status();
  const v1::WireBytes& wire = result->job.wire_bytes();
  EXPECT_LE(wire.up_total(), 1.02 * wire.up_payload());
  EXPECT_LE(wire.down_total(), 1.02 * wire.down_payload());
}

TEST(DeterminismTest, SameJobSameBytes) {
  ExchangeOptions options;
  options.codec = v1::E3M0;
  options.elements = 1000;
  options.inner_delta = {-0.3, -0.7};
  options.outer_momentum = 0.5;
  options.outer_lr = 0.7;
  options.tau = 1;
  const auto a = RunExchange(options), b = RunExchange(options);
  ASSERT_TRUE(a.ok()) << a.status();
  ASSERT_TRUE(b.ok()) << b.status();
  for (int p = 0; p < 2; ++p) {
    EXPECT_EQ(a->fragments[p].live, b->fragments[p].live);
    EXPECT_EQ(a->job.fragments(p).digest(), b->job.fragments(p).digest());
  }
}

// A pool whose ranks train on a device sends the bytes that it would send from the host.
TEST(DeterminismTest, ADeviceSendsTheBytesOfTheHost) {
  for (const v1::Codec codec : {v1::E3M0, v1::INT8, v1::SIGN1, v1::TOPK2}) {
    SCOPED_TRACE(v1::Codec_Name(codec));
    ExchangeOptions host;
    host.codec = codec;
    host.error_feedback = true;
    host.elements = 5000;
    host.inner_delta = {-0.3, -0.7};
    host.alpha = 0.5;
    host.outer_momentum = 0.5;
    host.outer_lr = 0.7;
    host.tau = 1;
    ExchangeOptions device = host;
    device.on_device = true;
    const auto a = RunExchange(host), b = RunExchange(device);
    ASSERT_TRUE(a.ok()) << a.status();
    ASSERT_TRUE(b.ok()) << b.status();
    for (int p = 0; p < 2; ++p) {
      EXPECT_EQ(a->fragments[p].live, b->fragments[p].live);
      EXPECT_EQ(a->job.fragments(p).digest(), b->job.fragments(p).digest());
    }
  }
}

}  // namespace
}  // namespace longhaul
