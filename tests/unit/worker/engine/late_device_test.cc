// The engine on a device whose computation, collectives and copies run as late as events allow:
// what forgets a wait computes with other bytes.
#include "tests/unit/worker/engine/late_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ATen/Parallel.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "c10/core/StreamGuard.h"
#include "c10/core/impl/VirtualGuardImpl.h"
#include "common/base/random.h"
#include "common/base/status_marks.h"
#include "tests/testing/emulated_cuda_runtime.h"
#include "tests/testing/stream_communicator.h"
#include "tests/testing/token_steps.h"
#include "tests/unit/worker/engine/late_graphs.h"
#include "tests/unit/worker/engine/run_ranks.h"
#include "worker/engine/engine.h"
#include "worker/model/transformer_lm.h"

namespace longhaul {
namespace {

constexpr int64_t kLateWindow = 8, kLateTokens = 11;

// The kernels of 4, 6 and 8 bits, queued.
class LateSegmentKernels : public SegmentKernels {
 public:
  absl::Status Encode(const CodecOptions& options, const cuda::EncodeJob* jobs,
                      cuda::EncodeReport* reports, int count, void* stream) const override {
    return Queue(stream, [=, this] { return now_.Encode(options, jobs, reports, count, nullptr); });
  }
  absl::Status Decode(CodecKind kind, const cuda::DecodeJob* jobs, int count,
                      void* stream) const override {
    return Queue(stream, [=, this] { return now_.Decode(kind, jobs, count, nullptr); });
  }
  absl::Status Reduce(CodecKind kind, const cuda::ReduceJob* jobs, cuda::EncodeReport* reports,
                      int count, void* stream) const override {
    return Queue(stream, [=, this] { return now_.Reduce(kind, jobs, reports, count, nullptr); });
  }

 private:
  static absl::Status Queue(void* stream, std::function<absl::Status()> work) {
    LateStreams().Submit(stream, [work = std::move(work)] { EXPECT_TRUE(work().ok()); });
    return absl::OkStatus();
  }
  const testing_support::EmulatedSegmentKernels now_{};
  const LateWorksEnd end_{};
};

enum class Forgotten { kNothing, kAtSubmit, kAtWait };

// The product's queue, whose events stand for a stream that nobody uses.
class ForgetfulQueue : public StreamQueue {
 public:
  explicit ForgetfulQueue(Forgotten forgotten) : forgotten_(forgotten) {}

  Ticket Submit(std::string name, std::function<absl::Status()> work) override {
    const c10::OptionalStreamGuard other(Elsewhere(Forgotten::kAtSubmit));
    return queue_->Submit(std::move(name), std::move(work));
  }
  absl::Status Wait(Ticket ticket) override {
    const c10::OptionalStreamGuard other(Elsewhere(Forgotten::kAtWait));
    return queue_->Wait(ticket);
  }

 private:
  std::optional<c10::Stream> Elsewhere(Forgotten where) const {
    return where == forgotten_ ? std::optional(elsewhere_) : std::nullopt;
  }

  const Forgotten forgotten_;
  const c10::Stream elsewhere_ =
      c10::impl::VirtualGuardImpl(kLateDevice.type()).getNewStream(kLateDevice);
  const std::unique_ptr<StreamQueue> queue_ = MakeStreamQueue(kLateDevice);
};

std::unique_ptr<Model> LateModel(int64_t layers, bool tied) {
  return TransformerLm::Create({.layers = layers,
                                .dim = 16,
                                .heads = 2,
                                .kv_heads = 2,
                                .ff_dim = 24,
                                .context = kLateWindow,
                                .vocab = kLateTokens,
                                .tie_embeddings = tied},
                               kLateDevice)
      .value();
}

struct LateRun {
  std::string preset;
  std::vector<int> nodes = {2, 2};
  uint64_t seed = 1;
  int ahead = 1;
  bool staged = false;  // Ranks meet in host memory instead.
  Forgotten forgotten = Forgotten::kNothing;
  int steps = 3;
  std::unique_ptr<GraphRecorder> (*recorder)() = nullptr;
  // Of each rank, in two micro-batches.
  int64_t sequences = 2;
  bool recompute = false, documents = false, tied = true, masked = false;
};

// Losses and norms of rank 0.
std::vector<double> TrainLate(const LateRun& run) {
  RegisterLateKernels();
  LateStreams().Reseed(run.seed);
  const LateSegmentKernels kernels;
  int ranks = 0;
  for (const int of_node : run.nodes) ranks += of_node;
  auto group =
      run.staged ? MakeThreadCommunicators(ranks)
                 : MakeStreamCommunicators(
                       ranks, std::shared_ptr<DeviceStreams>(&LateStreams(), [](DeviceStreams*) {}))
                       .value();
  std::vector<double> results;
  RunRanks(std::move(group), [&](int rank, Communicator& communicator) {
    at::set_num_threads(1);
    TakeLateStream();
    std::unique_ptr<StreamQueue> forgetful;
    if (run.forgotten != Forgotten::kNothing)
      forgetful = std::make_unique<ForgetfulQueue>(run.forgotten);
    Engine::Options options{.plan = {.accumulation = 2,
                                     .optimizer = AdamWOptions{},
                                     .clip_norm = 0,
                                     .partition = PartitionPreset(run.preset).value(),
                                     .gathers_ahead = run.ahead,
                                     .recompute = run.recompute},
                            .site = {.link = {.communicator = &communicator,
                                              .ranks_of_node = run.nodes,
                                              .on_device = !run.staged}},
                            .model = LateModel(2, run.tied),
                            .device = kLateDevice,
                            .queue = forgetful.get(),
                            .kernels = &kernels};
    if (run.recorder != nullptr) options.graphs = run.recorder();
    const auto engine = Engine::Create(std::move(options));
    ASSERT_TRUE(engine.ok()) << engine.status();
    for (int step = 1; step <= run.steps; ++step) {
      Random random(10 * step + rank);
      std::vector<int64_t> tokens, starts, mask;
      for (int64_t i = 0; i < run.sequences * (kLateWindow + 1); ++i)
        tokens.push_back(static_cast<int64_t>(random.Below(kLateTokens)));
      // The second document begins at another place in each sequence.
      for (int64_t s = 0; run.documents && s < run.sequences; ++s) {
        const auto second = 1 + static_cast<int64_t>(random.Below(kLateWindow - 1));
        for (int64_t t = 0; t < kLateWindow; ++t) starts.push_back(t < second ? 0 : second);
      }
      // The last sequence has none that counts; a step without a mask may follow.
      for (int64_t i = 0; run.masked && step != 2 && i < run.sequences * kLateWindow; ++i)
        mask.push_back(i < (run.sequences - 1) * kLateWindow && random.Below(2) == 0 ? 1 : 0);
      const auto result = Step(**engine, {run.sequences, kLateWindow, tokens, starts, mask},
                               run.sequences * ranks * kLateWindow, 0.05);
      if (forgetful != nullptr && !result.ok()) return;
      ASSERT_TRUE(result.ok()) << result.status();
      if (rank == 0) results.insert(results.end(), {result->loss_sum, result->gradient_norm});
    }
  });
  return results;
}

// `patience`: with the device.
absl::StatusOr<std::unique_ptr<Engine>> SmallEngine(
    std::unique_ptr<GraphRecorder> graphs, absl::Duration patience = absl::Milliseconds(50),
    Communicator* communicator = nullptr) {
  return Engine::Create({.plan = {.optimizer = AdamWOptions{},
                                  .clip_norm = 0,
                                  .partition = PartitionPreset("ddp").value()},
                         .site = {.link = {.communicator = communicator}, .patience = patience},
                         .model = LateModel(1, /*tied=*/false),
                         .device = kLateDevice,
                         .graphs = std::move(graphs)});
}

TEST(LateDeviceTest, RanksThatShareTheDeviceTrainToTheBitsOfThoseThatMeetInHostMemory) {
  for (const char* preset : {"ddp", "zero3", "zeropp", "frontier3"}) {
    const std::vector<double> expected = TrainLate({.preset = preset, .staged = true});
    ASSERT_EQ(expected.size(), 6u) << preset;
    EXPECT_GT(expected[1], 0);
    for (const uint64_t seed : {2, 3})
      EXPECT_EQ(TrainLate({.preset = preset, .seed = seed}), expected)
          << preset << ", seed " << seed;
  }
}

// For loss, norm and what quantizing lost, at once; whatever a step does besides is enqueued.
TEST(LateDeviceTest, AStepWaitsForTheDeviceOnce) {
  for (const char* preset : {"ddp", "zero3", "zeropp", "frontier3"}) {
    const auto waits = [&](int steps) {
      const int64_t before = LateWaits();
      TrainLate({.preset = preset, .steps = steps});
      return LateWaits() - before;
    };
    const int64_t two = waits(2);
    EXPECT_EQ(waits(4), two + 2 * 4) << preset << ", of four ranks";
  }
}

// Also with micro-batches of two sizes, and with a last one that has no sequence.
TEST(LateDeviceTest, GraphsTrainToTheBitsOfAutograd) {
  for (const char* preset : {"ddp", "zero1"}) {
    for (const int64_t sequences : {1, 2, 3}) {
      for (const bool other : {false, true}) {
        LateRun run{.preset = preset,
                    .nodes = {2},
                    .seed = 11,
                    .sequences = sequences,
                    .recompute = other,
                    .documents = other,
                    .tied = !other,
                    .masked = sequences != 2};
        const std::vector<double> expected = TrainLate(run);
        ASSERT_EQ(expected.size(), 6u);
        run.recorder = &MakeLateGraphRecorder;
        EXPECT_EQ(TrainLate(run), expected) << preset << ", " << sequences << " sequences";
      }
    }
  }
}

TEST(LateDeviceTest, GraphsWaitForTheDeviceOnlyWhenTheyAreRecorded) {
  const auto waits = [](int steps) {
    const int64_t before = LateWaits();
    TrainLate({.preset = "ddp", .nodes = {1}, .steps = steps, .recorder = &MakeLateGraphRecorder});
    return LateWaits() - before;
  };
  EXPECT_EQ(waits(5), waits(3) + 2);
}

// Its second graph is the first one again.
class ForgetfulRecorder : public GraphRecorder {
 public:
  void WarmUp(const std::function<void()>& work) override { recorder_->WarmUp(work); }
  std::unique_ptr<DeviceGraph> Record(const std::function<void()>& work) override {
    auto graph = recorder_->Record(work);
    return ++graphs_ == 2 ? recorder_->Record([] {}) : std::move(graph);
  }

 private:
  const std::unique_ptr<GraphRecorder> recorder_ = MakeLateGraphRecorder();
  int graphs_ = 0;
};

TEST(LateDeviceTest, AGraphThatComputesSomethingElseIsFound) {
  RegisterLateKernels();
  TakeLateStream();
  const auto engine = SmallEngine(std::make_unique<ForgetfulRecorder>()).value();
  const std::vector<int64_t> tokens(kLateWindow + 1, 1);
  const absl::Status status = Step(*engine, {1, kLateWindow, tokens}, kLateWindow, 0.05).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(status.message(), testing::HasSubstr("where the recorded pass gave"));
}

absl::Status TooLate(absl::string_view what) {
  return absl::DeadlineExceededError(absl::StrCat(what, ": the device has not done it after 50ms"));
}

TEST(LateDeviceTest, NothingWaitsForeverForADeviceThatHangs) {
  RegisterLateKernels();
  TakeLateStream();
  const auto engine = SmallEngine(nullptr).value();
  const std::vector<int64_t> tokens(kLateWindow + 1, 1);
  ASSERT_TRUE(Step(*engine, {1, kLateWindow, tokens}, kLateWindow, 0.05).ok());
  const HungLateStream hung;
  std::vector<float> read(1);
  EXPECT_EQ(engine->Read(0, 0, absl::MakeSpan(read)), TooLate("reading parameters"));
  EXPECT_EQ(LossSum(*engine, {1, kLateWindow, tokens}).status(), TooLate("evaluating"));
  const absl::Status status = Step(*engine, {1, kLateWindow, tokens}, kLateWindow, 0.05).status();
  EXPECT_EQ(status, TooLate("a step"));
  EXPECT_FALSE(IsPeerFault(status));
}

TEST(LateDeviceTest, NothingWaitsForeverToRecordGraphs) {
  RegisterLateKernels();
  TakeLateStream();
  const auto engine = SmallEngine(MakeLateGraphRecorder()).value();
  const std::vector<int64_t> tokens(kLateWindow + 1, 1);
  const HungLateStream hung;
  EXPECT_EQ(Step(*engine, {1, kLateWindow, tokens}, kLateWindow, 0.05).status(),
            TooLate("recording a pass"));
}

// The rank knows it before a collective gives up, which would name its peers.
TEST(LateDeviceTest, ARankWhoseDeviceHangsInACollectiveSaysSo) {
  RegisterLateKernels();
  // The ranks share autograd's thread, which also runs other streams when it submits work. It must
  // be idle when the stream begins to hang, or it hangs with it, and rank 0 never gets to a wait.
  absl::Notification has_stepped, hangs;
  RunRanks(2, [&](int rank, Communicator& communicator) {
    at::set_num_threads(1);
    TakeLateStream();
    const auto engine = SmallEngine(nullptr, absl::Seconds(2), &communicator).value();
    const std::vector<int64_t> tokens(kLateWindow + 1, 1);
    const auto step = [&] {
      return Step(*engine, {1, kLateWindow, tokens}, 2 * kLateWindow, 0.05).status();
    };
    ASSERT_TRUE(step().ok());
    std::optional<HungLateStream> hung;
    if (rank == 0) {
      has_stepped.WaitForNotification();
      hung.emplace();
      hangs.Notify();
    } else {
      has_stepped.Notify();
      hangs.WaitForNotification();
    }
    const absl::Status status = step();
    if (rank == 0) {
      EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
      EXPECT_TRUE(absl::EndsWith(status.message(), ": the device has not done it after 2s"))
          << status;
      EXPECT_FALSE(IsPeerFault(status));
      communicator.Abort("the test ends");
    }
  });
}

TEST(LateDeviceTest, EightRanksShareIt) {
  EXPECT_EQ(TrainLate({.preset = "zeropp", .nodes = {4, 4}, .seed = 5}),
            TrainLate({.preset = "zeropp", .nodes = {4, 4}, .staged = true}));
}

TEST(LateDeviceTest, HowFarAheadIsGatheredChangesNoBit) {
  const std::vector<double> expected = TrainLate({.preset = "zeropp", .staged = true});
  for (const int ahead : {0, 3})
    EXPECT_EQ(TrainLate({.preset = "zeropp", .seed = 7, .ahead = ahead}), expected) << ahead;
}

TEST(LateDeviceTest, AQueueThatForgetsItsEventsIsFound) {
  KeepLateMemory();
  for (const char* preset : {"zero3", "zeropp"}) {
    const std::vector<double> expected = TrainLate({.preset = preset, .staged = true});
    for (const Forgotten forgotten : {Forgotten::kAtSubmit, Forgotten::kAtWait}) {
      int found = 0;
      for (uint64_t seed = 2; seed <= 4; ++seed)
        found += TrainLate({.preset = preset, .seed = seed, .forgotten = forgotten}) != expected;
      EXPECT_GT(found, 0) << preset << ", " << static_cast<int>(forgotten);
    }
  }
}

}  // namespace
}  // namespace longhaul
