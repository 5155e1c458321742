// Which units are gathered in a micro-batch, and how far ahead of their use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/plan/partition_costs.h"
#include "tests/unit/worker/engine/engine_training.h"

namespace longhaul {
namespace {

// Counts the gathers that are submitted before the first of them is waited for.
class GatherCounter : public StreamQueue {
 public:
  Ticket Submit(std::string name, std::function<absl::Status()> work) override {
    if (name.ends_with(" for evaluation")) before_wait_ += waited_ ? 0 : 1;
    return queue_->Submit(std::move(name), std::move(work));
  }
  absl::Status Wait(Ticket ticket) override {
    waited_ = true;
    return queue_->Wait(ticket);
  }
  void Begin() { waited_ = false, before_wait_ = 0; }
  int before_wait() const { return before_wait_; }

 private:
  const std::unique_ptr<StreamQueue> queue_ = MakeStreamQueue(at::kCPU);
  bool waited_ = false;
  int before_wait_ = 0;
};

TEST(GathersTest, GathersAsFarAheadAsItIsTold) {
  for (const int ahead : {0, 1, 2}) {
    RunRanks(2, [&](int rank, Communicator& communicator) {
      at::set_num_threads(1);
      GatherCounter queue;
      Engine::Options options = MakeOptions(Decoder(), "zero3", &communicator);
      options.plan.gathers_ahead = ahead;
      options.queue = &queue;
      const auto engine = Engine::Create(std::move(options)).value();
      queue.Begin();
      const std::vector<int64_t> tokens = Tokens(1, {.first = rank, .count = 1});
      EXPECT_TRUE(LossSum(*engine, {1, kContext, tokens}).ok());
      EXPECT_EQ(queue.before_wait(), 1 + ahead);
    });
  }
}

// Notes which units are gathered for which pass.
class GatherNames : public StreamQueue {
 public:
  Ticket Submit(std::string name, std::function<absl::Status()> work) override {
    if (name.starts_with("gathering ")) names_.push_back(name.substr(strlen("gathering ")));
    return queue_->Submit(std::move(name), std::move(work));
  }
  absl::Status Wait(Ticket ticket) override { return queue_->Wait(ticket); }
  std::vector<std::string> Take() { return std::exchange(names_, {}); }

 private:
  const std::unique_ptr<StreamQueue> queue_ = MakeStreamQueue(at::kCPU);
  std::vector<std::string> names_;
};

// The head's backward uses what its forward gathered, the embedding's reads no weights. A tied head
// borrows the embedding.
TEST(GathersTest, AMicroBatchGathersOnlyWhatItReads) {
  for (const bool tied : {false, true}) {
    for (const char* preset : {"zero3", "zeropp", "frontier3"}) {
      for (const bool other : {false, true}) {
        SCOPED_TRACE(absl::StrCat(preset, tied ? ", tied" : "", other ? ", recomputing" : ""));
        RunRanks(4, [&](int rank, Communicator& communicator) {
          at::set_num_threads(1);
          GatherNames queue;
          Engine::Options options = MakeOptions(Decoder(tied), preset, &communicator);
          options.site.link.ranks_of_node = {2, 2};
          options.plan.gathers_ahead = other ? 0 : 1;
          options.plan.recompute = other;
          options.plan.blocks = other ? Blocks::kAutograd : Blocks::kAuto;
          options.queue = &queue;
          const auto engine = Engine::Create(std::move(options)).value();
          queue.Take();
          const std::vector<int64_t> tokens = Tokens(1, {.first = rank, .count = 1});
          ASSERT_TRUE(Step(*engine, {1, kContext, tokens}, 4 * kContext, 0.01).ok());
          std::vector<std::string> expected = {"embedding for forward", "layer 0 for forward",
                                               "layer 1 for forward"};
          if (tied) expected.emplace_back("embedding for forward");
          for (const char* name :
               {"head for forward", "layer 1 for backward", "layer 0 for backward"})
            expected.emplace_back(name);
          EXPECT_EQ(queue.Take(), expected);
        });
      }
    }
  }
}

// Notes the order of gathers and reductions.
class WorkNames : public StreamQueue {
 public:
  Ticket Submit(std::string name, std::function<absl::Status()> work) override {
    names_.push_back(name);
    return queue_->Submit(std::move(name), std::move(work));
  }
  absl::Status Wait(Ticket ticket) override { return queue_->Wait(ticket); }
  const std::vector<std::string>& names() const { return names_; }

 private:
  const std::unique_ptr<StreamQueue> queue_ = MakeStreamQueue(at::kCPU);
  std::vector<std::string> names_;
};

TEST(GathersTest, BackwardHidesTheFirstGatherOfTheNextMicroBatch) {
  RunRanks(2, [&](int rank, Communicator& communicator) {
    at::set_num_threads(1);
    WorkNames queue;
    Engine::Options options = MakeOptions(Decoder(), "zero3", &communicator);
    options.plan.accumulation = 2;
    options.queue = &queue;
    const auto engine = Engine::Create(std::move(options)).value();
    const std::vector<int64_t> tokens = Tokens(1, {.first = 2 * rank, .count = 2});
    ASSERT_TRUE(Step(*engine, {2, kContext, tokens}, 4 * kContext, 0.01).ok());
    const auto find = [&](const std::string& name, int nth) {
      auto found = queue.names().begin() - 1;
      for (int i = 0; i <= nth; ++i) found = std::find(found + 1, queue.names().end(), name);
      return found - queue.names().begin();
    };
    EXPECT_LT(find("gathering embedding for forward", 1),
              find("reducing the gradient of layer 0", 0));
    EXPECT_LT(find("reducing the gradient of layer 0", 1), std::ssize(queue.names()));
  });
}

// A copy of the weights needs no embedding for a tied head.
TEST(GathersTest, ACopyGathersEachUnitOnce) {
  RunRanks(2, [&](int, Communicator& communicator) {
    at::set_num_threads(1);
    GatherNames queue;
    Engine::Options options = MakeOptions(Decoder(/*tied=*/true), "zero3", &communicator);
    options.queue = &queue;
    const auto engine = Engine::Create(std::move(options)).value();
    queue.Take();
    ASSERT_TRUE(engine->CopyWeights().ok());
    const std::vector<std::string> expected = {"embedding for evaluation", "layer 0 for evaluation",
                                               "layer 1 for evaluation", "head for evaluation"};
    EXPECT_EQ(queue.Take(), expected);
  });
}

// Bytes that came in two steps of two micro-batches, by use and level: of all ranks.
using Traffic = std::array<std::array<double, 3>, kUses>;

Traffic MeasuredTraffic(const plan::PartitionSetting& setting, bool tied) {
  Traffic all = {};
  std::mutex mutex;
  RunRanks(4, [&](int rank, Communicator& communicator) {
    at::set_num_threads(1);
    Engine::Options options = MakeOptions(Decoder(tied), setting.map, &communicator);
    options.site.link.ranks_of_node = {2, 2};
    options.plan.accumulation = setting.accumulation;
    options.plan.precision =
        setting.bf16 ? ComputePrecision::kBfloat16 : ComputePrecision::kFloat32;
    const auto engine = Engine::Create(std::move(options)).value();
    const ReceivedBytes before = engine->exchange().received();
    const std::vector<int64_t> tokens = Tokens(1, {.first = 2 * rank, .count = 2});
    for (int step = 0; step < 2; ++step)
      ASSERT_TRUE(Step(*engine, {2, kContext, tokens}, 8 * kContext, 0.01).ok());
    const ReceivedBytes received = engine->exchange().received() - before;
    const std::lock_guard lock(mutex);
    for (int use = 0; use < kUses; ++use) {
      for (const Level level : {Level::kPair, Level::kNode, Level::kPool}) {
        all[use][static_cast<size_t>(level) - 1] +=
            static_cast<double>(received.Total(static_cast<Use>(use), level));
      }
    }
  });
  return all;
}

// tests/benchmark/partition compares the same for a model of equal layers.
TEST(GathersTest, ADecodersTrafficIsThePlannedOne) {
  for (const bool tied : {false, true}) {
    for (const char* preset : {"zero1", "zero2", "zero3", "zeropp", "frontier3"}) {
      for (const bool bf16 : {false, true}) {
        const plan::PartitionSetting setting{.layout = Decoder(tied)->layout(),
                                             .topology = Topology::Make({2, 2}).value(),
                                             .map = PartitionPreset(preset).value(),
                                             .bf16 = bf16,
                                             .accumulation = 2};
        const plan::PartitionTraffic planned = TrafficOf(setting);
        Traffic expected;
        size_t use = 0;
        for (const plan::UseBytes& of :
             {planned.forward, planned.backward, planned.gradient, planned.refresh}) {
          const plan::LevelBytes bytes = of.total();
          expected[use++] = {8 * bytes.pair, 8 * bytes.node, 8 * bytes.pool};
        }
        EXPECT_EQ(MeasuredTraffic(setting, tied), expected)
            << preset << (tied ? ", tied" : "") << (bf16 ? ", bf16" : "");
      }
    }
  }
}

}  // namespace
}  // namespace longhaul
