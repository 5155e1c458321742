// Graph jobs on a device whose works run as late as events allow, as a rank trains: batches are
// made and brought there ahead, on a thread and a stream of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ATen/ops/equal.h"
#include "tests/testing/emulated_gather_kernels.h"
#include "tests/testing/graph_run.h"
#include "tests/testing/graphs.h"
#include "tests/testing/temp_dir.h"
#include "tests/unit/worker/engine/late_device.h"
#include "worker/model/graph_batch.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::Status Queue(void* stream, std::function<absl::Status()> work) {
  LateStreams().Submit(stream, [work = std::move(work)] { EXPECT_TRUE(work().ok()); });
  return absl::OkStatus();
}

class LateGatherKernels : public GatherKernels {
 public:
  explicit LateGatherKernels(int64_t registered_max = -1) : now_(registered_max) {}
  absl::Status Gather(const GatherJob& job, void* stream) const override {
    return Queue(stream, [=, this] { return now_.Gather(job, nullptr); });
  }
  absl::StatusOr<const void*> Register(const void* memory, int64_t bytes) const override {
    return now_.Register(memory, bytes);
  }
  absl::Status Unregister(const void* memory) const override { return now_.Unregister(memory); }
  absl::StatusOr<int64_t> FreeBytes() const override { return now_.FreeBytes(); }
  int registered() const { return now_.registered(); }

 private:
  const testing_support::EmulatedGatherKernels now_;
  const LateWorksEnd end_{};
};

class LateSageKernels : public SageKernels {
 public:
  absl::Status Aggregate(const AggregateJob& job, void* stream) const override {
    return Queue(stream, [=, this] { return now_.Aggregate(job, nullptr); });
  }
  absl::Status AggregateBack(const AggregateBackJob& job, void* stream) const override {
    return Queue(stream, [=, this] { return now_.AggregateBack(job, nullptr); });
  }
  absl::Status Dropout(const DropoutJob& job, void* stream) const override {
    return Queue(stream, [=, this] { return now_.Dropout(job, nullptr); });
  }

 private:
  const testing_support::EmulatedSageKernels now_{};
  const LateWorksEnd end_{};
};

class LateDeviceGraphTest : public testing::Test {
 protected:
  LateDeviceGraphTest() {
    testing_support::WritePlantedGraph({.nodes = 300, .columns = 9}, path());
  }
  std::string path() const { return folder_.path() + "/graph"; }

  struct LateRun {
    bool late = true;
    // Of the order in which the device does its works.
    uint64_t seed = 1;
    int64_t registered_max = -1;
    GraphRun graph = {};
  };
  GraphResult Train(const LateRun& run) {
    RegisterLateKernels();
    LateStreams().Reseed(run.seed);
    TakeLateStream();
    const LateGatherKernels gather(run.registered_max);
    const LateSageKernels sage;
    GraphRun graph = run.graph;
    if (run.late) {
      graph.device = kLateDevice;
      graph.kernels = {.gather = &gather, .sage = &sage};
    }
    return TrainGraph(path(), graph);
  }

  TempDir folder_;
};

constexpr FeatureAccess kAll[] = {FeatureAccess::kDevice, FeatureAccess::kHost,
                                  FeatureAccess::kZeroCopy, FeatureAccess::kMapped};

TEST_F(LateDeviceGraphTest, EveryAccessTrainsToTheSameBits) {
  for (const GraphAggregator aggregator :
       {GraphAggregator::kMean, GraphAggregator::kSum, GraphAggregator::kMax}) {
    const GraphRun by_host{.features = {.access = FeatureAccess::kHost}, .aggregator = aggregator};
    const std::vector<double> expected = Train({.graph = by_host}).numbers;
    ASSERT_GT(expected.size(), 14u);
    EXPECT_GT(expected[1], 0);
    ExpectNearlyEqual(expected, Train({.late = false, .graph = by_host}).numbers);
    uint64_t seed = 1;
    for (const FeatureAccess access : kAll) {
      for (const int64_t cache : {0, 4000}) {
        const GraphResult result =
            Train({.seed = ++seed,
                   .graph = {.features = {.access = access, .cache_bytes = cache},
                             .aggregator = aggregator}});
        EXPECT_EQ(result.numbers, expected) << NameOf(access) << ", cache " << cache;
        EXPECT_THAT(result.description, StartsWith(NameOf(access)));
        EXPECT_EQ(result.warning, "");
      }
    }
  }
}

// Another thread reads them on another stream, and nobody waits for the one on which they come.
TEST_F(LateDeviceGraphTest, RowsThatAreCachedArriveBeforeABatchReadsThem) {
  RegisterLateKernels();
  std::string warning;
  const auto features_of = [&](const Family& family) {
    const ExampleBatch batch = family.maker->Make(1).value();
    return family.stager->Stage(batch, 0, 2).value().tensors[kFeatures].cpu().clone();
  };
  const at::Tensor expected = features_of(OpenGraphRun(path(), {}, &warning).value());
  ASSERT_GT(expected.numel(), 100);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const LateGatherKernels gather;
    const LateSageKernels sage;
    LateStreams().Reseed(seed);
    TakeLateStream();
    const absl::StatusOr<Family> family =
        OpenGraphRun(path(),
                     {.device = kLateDevice,
                      .kernels = {.gather = &gather, .sage = &sage},
                      .features = {.access = FeatureAccess::kMapped, .cache_bytes = 4000}},
                     &warning);
    ASSERT_TRUE(family.ok()) << family.status();
    std::thread([&] {
      TakeLateStream();
      EXPECT_TRUE(at::equal(features_of(*family), expected)) << "seed " << seed;
    }).join();
  }
}

TEST_F(LateDeviceGraphTest, OneLayerAndThreeTrainAsOnTheProcessor) {
  for (const std::vector<int64_t>& fanout :
       {std::vector<int64_t>{-1}, std::vector<int64_t>{2, -1, 2}}) {
    const GraphRun graph{.fanout = fanout, .accumulation = 1};
    const std::vector<double> trained = Train({.seed = 3, .graph = graph}).numbers;
    ExpectNearlyEqual(trained, Train({.late = false, .graph = graph}).numbers);
    EXPECT_EQ(Train({.seed = 4, .graph = graph}).numbers, trained);
  }
}

TEST_F(LateDeviceGraphTest, TheFastestAccessIsTakenAndAllRatesAreTold) {
  const GraphResult result = Train({});
  EXPECT_EQ(result.numbers,
            Train({.graph = {.features = {.access = FeatureAccess::kHost}}}).numbers);
  for (const FeatureAccess access : kAll)
    EXPECT_THAT(result.description, HasSubstr(NameOf(access)));
  EXPECT_THAT(result.description, HasSubstr(" GB/s; measured besides: "));
}

TEST_F(LateDeviceGraphTest, ATableThatCannotBeRegisteredIsReadByTheProcessor) {
  const std::vector<double> expected =
      Train({.graph = {.features = {.access = FeatureAccess::kMapped}}}).numbers;
  const GraphResult forced =
      Train({.registered_max = 1000, .graph = {.features = {.access = FeatureAccess::kZeroCopy}}});
  EXPECT_EQ(forced.numbers, expected);
  EXPECT_THAT(forced.description, StartsWith("host, "));
  EXPECT_EQ(forced.warning,
            "data.graph: features cannot be read by zero_copy here, host is used instead: too much "
            "registered memory");
  const GraphResult any = Train({.registered_max = 1000});
  EXPECT_EQ(any.numbers, expected);
  EXPECT_THAT(any.description, HasSubstr("; not zero_copy: too much registered memory"));
  EXPECT_EQ(any.warning, "");
}

TEST_F(LateDeviceGraphTest, RanksOfAMachineShareRows) {
  GraphRun graph{.features = {.access = FeatureAccess::kHost}};
  const std::vector<double> expected = Train({.graph = graph}).numbers;
  const std::vector<double> on_processor = Train({.late = false, .graph = graph}).numbers;
  graph.ranks_of_node = 4;
  EXPECT_EQ(Train({.graph = graph}).numbers, expected);
  EXPECT_EQ(Train({.late = false, .graph = graph}).numbers, on_processor);
  graph.features.access = FeatureAccess::kZeroCopy;
  EXPECT_EQ(Train({.graph = graph}).numbers, expected);
}

}  // namespace
}  // namespace longhaul
