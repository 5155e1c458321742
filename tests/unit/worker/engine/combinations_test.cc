// Settings of training as a job's spec combines them, drawn by seed (LONGHAUL_SEEDS=1000 draws more
// of them). Whatever they are, a pool trains as one rank does by autograd alone, its ranks hold the
// same weights bit for bit, and what interrupts training changes no bit of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/share.h"
#include "tests/unit/worker/engine/engine_training.h"
#include "tests/unit/worker/engine/late_queue.h"

namespace longhaul {
namespace {

constexpr int64_t kDrawnBatch = 6;
constexpr int kDrawnSteps = 5, kFrozen = 2;

// How far losses may be from those of one rank in float32.
constexpr double kSameLoss = 1e-5, kHalfLoss = 3e-3, kQuantizedLoss = 0.03;

struct Drawn {
  std::vector<int> nodes = {1};
  PartitionMap partition;
  OptimizerOptions optimizer;
  OffloadPlan offload;
  at::ScalarType compute = at::kFloat;
  Blocks blocks = Blocks::kAutograd;
  int accumulation = 1, ahead = 1;
  bool recompute = false, tied = false, documents = false, masked = false;
  double clip_norm = 0.5;
};

// What comes between two steps.
struct Interruptions {
  // Before this step, two steps whose gradient is not finite. 0: none.
  int skips_before = 0;
  // Evaluations of other parameters.
  bool evaluates = false;
  // Another engine takes over the state.
  bool resumes = false;
  // Seed of a LateQueue. 0: the product's queue.
  uint64_t late = 0;
};

int RanksOf(const Drawn& drawn) {
  return std::accumulate(drawn.nodes.begin(), drawn.nodes.end(), 0);
}

template <typename T>
T OneOf(Random& random, std::initializer_list<T> choices) {
  return choices.begin()[random.Below(choices.size())];
}

PartitionMap DrawMap(Random& random, bool pairs) {
  for (;;) {
    const auto level = [&] {
      return pairs ? OneOf(random, {Level::kRank, Level::kPair, Level::kNode, Level::kPool})
                   : OneOf(random, {Level::kRank, Level::kNode, Level::kPool});
    };
    PartitionMap map{.weights = {level(), OneOf(random, {0, 0, 4, 6, 8, 16})}};
    if (random.Below(2) == 0) map.secondary = Spread{level(), OneOf(random, {0, 4, 6, 8, 16})};
    map.gradients = {level(), OneOf(random, {0, 0, 4, 6, 8, 16, 32})};
    map.optimizer = level();
    map.error_feedback = random.Below(2) == 0;
    if (map.error_feedback && random.Below(2) == 0) map.error_beta = 0.5, map.error_reset_steps = 3;
    if (FindProblems(map).empty()) return map;
  }
}

OptimizerOptions DrawOptimizer(Random& random) {
  switch (random.Below(4)) {
    case 0:
      return AdamWOptions{.weight_decay = 0.05, .moments = MomentPrecision::kBfloat16};
    case 1:
      return MuonOptions{
          .weight_decay = 0.1,
          .scaling = OneOf(random, {MuonScaling::kSpectral, MuonScaling::kMatchAdamW}),
          .iterations = MuonPrecision::kFloat32,
          .adamw = {.weight_decay = 0.05},
          .adamw_rate = 0.3};
    case 2: {
      OneBitAdamOptions onebit{.freeze_step = kFrozen, .scale_block = 64};
      if (random.Below(2) == 0) onebit.var_update_scaler = 1, onebit.var_freeze_step = 3;
      if (random.Below(2) == 0) onebit.local_step_scaler = 1, onebit.local_step_clipper = 2;
      return onebit;
    }
    default:
      return AdamWOptions{.weight_decay = 0.1};
  }
}

// Empty: no pool of that shape can be partitioned so.
std::optional<Drawn> Draw(uint64_t seed) {
  Random random(seed);
  Drawn drawn{.optimizer = DrawOptimizer(random)};
  drawn.nodes =
      OneOf<std::vector<int>>(random, {{1}, {2}, {3}, {4}, {1, 1}, {2, 2}, {3, 3}, {2, 1}, {4, 4}});
  drawn.compute = OneOf(random, {at::kFloat, at::kFloat, at::kBFloat16});
  drawn.blocks = OneOf(random, {Blocks::kAuto, Blocks::kAutograd});
  drawn.accumulation = OneOf(random, {1, 2, 3, 6});
  drawn.ahead = OneOf(random, {0, 1, 3, 64});
  for (bool* setting : {&drawn.recompute, &drawn.tied, &drawn.documents})
    *setting = random.Below(2) == 0;
  drawn.clip_norm = OneOf(random, {-1.0, 0.3, 0.5, 100.0});
  drawn.masked = seed % 3 == 1;
  if (std::holds_alternative<OneBitAdamOptions>(drawn.optimizer)) return drawn;
  const bool even = drawn.nodes.front() == drawn.nodes.back();
  drawn.partition = random.Below(3) == 0 ? DrawMap(random, even && drawn.nodes[0] % 2 == 0)
                                         : *PartitionPreset(PartitionPresets()[random.Below(6)]);
  if (random.Below(2) == 0) {
    const bool parameters = drawn.partition.weights.level != Level::kRank && random.Below(2) == 0;
    drawn.offload = Offload({.stride = static_cast<int>(random.Below(4)),
                             .device_share = OneOf(random, {0.0, 0.3, 1.0})},
                            parameters, seed + 1);
  }
  if (!CheckTopology(drawn.partition, *Topology::Make(drawn.nodes)).ok()) return std::nullopt;
  return drawn;
}

std::string Describe(uint64_t seed, const Drawn& drawn) {
  const auto spread = [](const Spread& of) {
    return absl::StrCat(LevelName(of.level), ":", of.bits);
  };
  const PartitionMap& map = drawn.partition;
  return absl::StrCat(
      "seed ", seed, ", nodes of ", absl::StrJoin(drawn.nodes, "+"), ", optimizer ",
      drawn.optimizer.index(), ", weights ", spread(map.weights), ", secondary ",
      map.secondary.has_value() ? spread(*map.secondary) : "none", ", gradients ",
      spread(map.gradients), map.error_feedback ? " fed back" : "", ", masters ",
      LevelName(map.optimizer), ", offload ", drawn.offload.optimizer, drawn.offload.parameters,
      ", bf16 ", drawn.compute != at::kFloat, ", autograd ", drawn.blocks == Blocks::kAutograd,
      ", accumulation ", drawn.accumulation, ", recompute ", drawn.recompute, ", tied ", drawn.tied,
      ", documents ", drawn.documents, ", masked ", drawn.masked, ", clip ", drawn.clip_norm);
}

// A sequence has two or three documents.
std::vector<int64_t> DocumentStarts(int step, const Share& share) {
  std::vector<int64_t> starts;
  for (int64_t s = share.first; s < share.first + share.count; ++s) {
    Random random(7000 * step + s);
    const auto second = static_cast<int64_t>(1 + random.Below(kContext - 2));
    const auto third = static_cast<int64_t>(second + 1 + random.Below(kContext - second));
    for (int64_t i = 0; i < kContext; ++i)
      starts.push_back(i >= third ? third : i >= second ? second : 0);
  }
  return starts;
}

struct DrawnResult {
  // By step, of rank 0; then of an evaluation.
  std::vector<double> losses;
  Parameters parameters;
  friend bool operator==(const DrawnResult&, const DrawnResult&) = default;
};

// One rank of a pool.
class DrawnRank {
 public:
  DrawnRank(const Drawn& drawn, const Interruptions& interruptions, Communicator& communicator)
      : drawn_(drawn),
        interruptions_(interruptions),
        communicator_(communicator),
        share_(ShareOf(kDrawnBatch, communicator.rank(), communicator.size())),
        queue_(interruptions.late + communicator.rank()) {}

  void Make() {
    Engine::Options options = MakeOptions(Decoder(drawn_.tied), drawn_.partition, &communicator_);
    options.site.link.ranks_of_node = drawn_.nodes;
    options.plan.precision = PrecisionOf(drawn_.compute);
    options.plan.optimizer = drawn_.optimizer;
    options.plan.offload = drawn_.offload;
    options.plan.accumulation = drawn_.accumulation;
    options.plan.gathers_ahead = drawn_.ahead;
    options.plan.recompute = drawn_.recompute;
    options.plan.blocks = drawn_.blocks;
    options.plan.clip_norm = drawn_.clip_norm;
    if (interruptions_.late > 0) options.queue = &queue_;
    auto made = Engine::Create(std::move(options));
    ASSERT_TRUE(made.ok()) << made.status();
    engine_ = *std::move(made);
  }

  // Of the step, or of others after the last.
  absl::StatusOr<StepResult> Step(int step) {
    const std::vector<int64_t> tokens = Tokens(step, share_), starts = StartsOf(step),
                               mask = MaskOf(step);
    return longhaul::Step(*engine_, {share_.count, kContext, tokens, starts, mask},
                          drawn_.masked ? TargetsOf(step, kDrawnBatch) : kDrawnBatch * kContext,
                          0.01);
  }

  // Evaluates in training's place and on a copy. Returns the loss.
  double Evaluate() {
    const std::vector<int64_t> tokens = Tokens(kDrawnSteps + 1, share_),
                               starts = StartsOf(kDrawnSteps + 1), mask = MaskOf(kDrawnSteps + 1);
    const TokenBatch batch{share_.count, kContext, tokens, starts, mask};
    EXPECT_TRUE(engine_->PrepareEvaluationBeside(StageTokens(batch, at::kCPU)).ok());
    const auto copied = engine_->CopyWeights();
    const auto stopped = longhaul::LossSum(*engine_, batch);
    EXPECT_TRUE(copied.ok() && stopped.ok()) << copied.status() << stopped.status();
    if (!copied.ok() || !stopped.ok()) return 0;
    auto beside = longhaul::LossSumBeside(*engine_, *copied, batch);
    EXPECT_TRUE(beside.ok() && engine_->Sum(absl::MakeSpan(&*beside, 1)).ok());
    EXPECT_TRUE(*beside == *stopped || (std::isnan(*beside) && std::isnan(*stopped)));
    return *stopped;
  }

  // Runs `work` with other parameters: one value of each unit is `value`.
  void WithValue(float value, const std::function<void()>& work) {
    Parameters live = Zeros(*engine_);
    ReadOwned(*engine_, live);
    Parameters other = live;
    for (size_t unit = 0; unit < live.size(); ++unit) {
      const ElementRange& owned = engine_->plan().owned(static_cast<int>(unit));
      if (owned.count > 0) other[unit][owned.first + owned.count / 2] = value;
    }
    WriteAll(other);
    work();
    WriteAll(live);
  }

  // The whole state goes to another engine, if `really`. The error feedback of gradients is put
  // back on other ranks than those that owed it, so it is put back in any case.
  void Resume(std::mutex& mutex, Saved& saved, bool really) {
    Save(*engine_, mutex, saved);
    const OptimizerPhase phase = engine_->phase();
    std::vector<std::vector<float>> owed;
    ForFeedback([&](absl::Span<float> of) { owed.emplace_back(of.begin(), of.end()); });
    if (!really && !drawn_.partition.error_feedback) return;
    ASSERT_TRUE(engine_->GatherNumbers({0}).ok());  // All have saved.
    if (really) {
      engine_.reset();
      Make();
      ASSERT_NE(engine_, nullptr);
    }
    Restore(saved, *engine_);
    ASSERT_TRUE(engine_->PublishState(phase).ok());
    size_t next = 0;
    ForFeedback([&](absl::Span<float> of) {
      ASSERT_EQ(of.size(), owed[next].size());
      std::copy(owed[next].begin(), owed[next].end(), of.begin());
      ++next;
    });
  }

  Engine& engine() { return *engine_; }

 private:
  std::vector<int64_t> StartsOf(int step) const {
    return drawn_.documents ? DocumentStarts(step, share_) : std::vector<int64_t>();
  }
  std::vector<int64_t> MaskOf(int step) const {
    return drawn_.masked ? LossMask(step, share_) : std::vector<int64_t>();
  }
  template <typename Use>
  void ForFeedback(Use&& use) {
    for (int unit = 0; unit < static_cast<int>(engine_->layout().units.size()); ++unit) {
      for (const Feedback end : {Feedback::kWorker, Feedback::kServer})
        use(engine_->FeedbackOf(end, unit));
    }
  }
  void WriteAll(const Parameters& values) {
    std::vector<int> units;
    for (int unit = 0; unit < static_cast<int>(values.size()); ++unit) {
      const ElementRange& owned = engine_->plan().owned(unit);
      ASSERT_TRUE(engine_
                      ->Write(unit, owned.first,
                              absl::MakeConstSpan(values[unit]).subspan(owned.first, owned.count))
                      .ok());
      units.push_back(unit);
    }
    ASSERT_TRUE(engine_->Publish(units).ok());
  }

  const Drawn& drawn_;
  const Interruptions interruptions_;
  Communicator& communicator_;
  const Share share_;
  LateQueue queue_;
  std::unique_ptr<Engine> engine_;
};

void Interrupt(DrawnRank& rank, const Interruptions& interruptions, int step) {
  if (!rank.engine().settled()) return;
  if (interruptions.skips_before == step) {
    rank.WithValue(std::numeric_limits<float>::quiet_NaN(), [&] {
      for (const int other : {20, 21}) {
        const auto skipped = rank.Step(other);
        EXPECT_TRUE(skipped.ok() && skipped->skipped) << skipped.status();
      }
      EXPECT_TRUE(std::isnan(rank.Evaluate()));
    });
  } else if (interruptions.evaluates) {
    rank.WithValue(0.01f, [&] { rank.Evaluate(); });
  }
}

std::string BytesOfWeights(const Model& model, const WeightSnapshot& weights) {
  std::string bytes;
  for (int unit = 0; unit < static_cast<int>(model.layout().units.size()); ++unit) {
    for (const at::Tensor& leaf : weights.Leaves(model, unit))
      bytes.append(static_cast<const char*>(leaf.const_data_ptr()), leaf.nbytes());
  }
  return bytes;
}

DrawnResult TrainDrawn(const Drawn& drawn, const Interruptions& interruptions = {}) {
  DrawnResult result;
  std::mutex mutex;
  Saved saved;
  std::vector<std::string> weights;
  RunRanks(RanksOf(drawn), [&](int number, Communicator& communicator) {
    at::set_num_threads(1);
    DrawnRank rank(drawn, interruptions, communicator);
    rank.Make();
    for (int step = 1; step <= kDrawnSteps; ++step) {
      if (step == 3) rank.Resume(mutex, saved, interruptions.resumes);
      Interrupt(rank, interruptions, step);
      const auto stats = rank.Step(step);
      ASSERT_TRUE(stats.ok() && !stats->skipped) << stats.status();
      if (step % 2 == 0 || step == kDrawnSteps) {
        ASSERT_TRUE(rank.engine().Settle().ok());
      }
      if (number == 0) result.losses.push_back(stats->loss_sum);
    }
    const double evaluated = rank.Evaluate();
    const auto copied = rank.engine().CopyWeights();
    ASSERT_TRUE(copied.ok()) << copied.status();
    const std::lock_guard lock(mutex);
    if (number == 0) result.losses.push_back(evaluated);
    weights.push_back(BytesOfWeights(*Decoder(drawn.tied), copied->snapshot));
    if (result.parameters.empty()) result.parameters = Zeros(rank.engine());
    ReadOwned(rank.engine(), result.parameters);
  });
  EXPECT_THAT(weights, testing::Each(testing::Eq(weights.front()))) << "the ranks differ";
  return result;
}

// The same training by one rank, in float32, unfrozen.
Drawn Plain(const Drawn& drawn) {
  Drawn plain{.optimizer = drawn.optimizer,
              .tied = drawn.tied,
              .documents = drawn.documents,
              .masked = drawn.masked,
              .clip_norm = drawn.clip_norm};
  if (auto* adamw = std::get_if<AdamWOptions>(&plain.optimizer))
    adamw->moments = MomentPrecision::kFloat32;
  if (const auto* onebit = std::get_if<OneBitAdamOptions>(&drawn.optimizer))
    plain.optimizer = onebit->adamw;
  return plain;
}

double LossBound(const Drawn& drawn) {
  if (drawn.partition.quantizes()) return kQuantizedLoss;
  const auto* adamw = std::get_if<AdamWOptions>(&drawn.optimizer);
  const bool half =
      drawn.compute != at::kFloat || drawn.partition.weights.bits == 16 ||
      drawn.partition.gradients.bits == 16 ||
      (drawn.partition.secondary.has_value() && drawn.partition.secondary->bits == 16) ||
      (adamw != nullptr && adamw->moments == MomentPrecision::kBfloat16);
  return half ? kHalfLoss : kSameLoss;
}

template <typename Check>
void ForDrawn(Check&& check) {
  const char* const more = std::getenv("LONGHAUL_SEEDS");
  const int seeds = more == nullptr ? 32 : std::atoi(more);
  for (int seed = 0; seed < seeds && !testing::Test::HasFailure(); ++seed) {
    const std::optional<Drawn> drawn = Draw(seed);
    if (!drawn.has_value()) continue;
    SCOPED_TRACE(Describe(seed, *drawn));
    check(seed, *drawn);
  }
}

TEST(CombinationsTest, APoolTrainsAsOneRankDoesByAutograd) {
  ForDrawn([](uint64_t, const Drawn& drawn) {
    const DrawnResult expected = TrainDrawn(Plain(drawn)), found = TrainDrawn(drawn);
    // What follows a freeze this early is no AdamW.
    const bool freezes = std::holds_alternative<OneBitAdamOptions>(drawn.optimizer);
    const size_t compared = freezes ? kFrozen + 1 : expected.losses.size();
    ASSERT_EQ(found.losses.size(), expected.losses.size());
    for (size_t i = 0; i < compared; ++i) {
      EXPECT_NEAR(found.losses[i], expected.losses[i], LossBound(drawn) * expected.losses[i])
          << "step " << i + 1;
    }
  });
}

TEST(CombinationsTest, WhatInterruptsTrainingChangesNoBit) {
  ForDrawn([](uint64_t seed, const Drawn& drawn) {
    Random random(seed + 1000);
    Interruptions interruptions{.evaluates = random.Below(2) == 0,
                                .resumes = random.Below(2) == 0,
                                .late = random.Below(3) == 0 ? 0 : seed + 1};
    // A skipped step forgets the error feedback.
    if (!drawn.partition.error_feedback && random.Below(2) == 0)
      interruptions.skips_before = static_cast<int>(1 + random.Below(kDrawnSteps));
    EXPECT_TRUE(TrainDrawn(drawn) == TrainDrawn(drawn, interruptions))
        << "skips before " << interruptions.skips_before << ", evaluates "
        << interruptions.evaluates << ", resumes " << interruptions.resumes << ", late "
        << interruptions.late;
  });
}

// Of other nodes, with another partition, offload, precision and so on.
TEST(CombinationsTest, AnotherPoolTakesTrainingOver) {
  ForDrawn([](uint64_t seed, const Drawn& drawn) {
    // Its error feedback belongs to ranks.
    if (std::holds_alternative<OneBitAdamOptions>(drawn.optimizer)) return;
    std::optional<Drawn> other;
    for (uint64_t next = seed + 5000; !other.has_value(); ++next) other = Draw(next);
    other->optimizer = drawn.optimizer;
    other->tied = drawn.tied;
    other->documents = drawn.documents;
    other->masked = drawn.masked;
    other->clip_norm = drawn.clip_norm;
    SCOPED_TRACE(Describe(seed, *other));
    const DrawnResult expected = TrainDrawn(Plain(drawn));
    Saved saved;
    std::mutex mutex;
    std::vector<double> losses;
    const auto train = [&](const Drawn& by, int first, int last) {
      RunRanks(RanksOf(by), [&](int number, Communicator& communicator) {
        at::set_num_threads(1);
        DrawnRank rank(by, {}, communicator);
        rank.Make();
        if (first > 1) Restore(saved, rank.engine());
        for (int step = first; step <= last; ++step) {
          const auto stats = rank.Step(step);
          ASSERT_TRUE(stats.ok()) << stats.status();
          if (number == 0) losses.push_back(stats->loss_sum);
        }
        if (first == 1) Save(rank.engine(), mutex, saved);
      });
    };
    train(drawn, 1, 2);
    train(*other, 3, kDrawnSteps);
    const double bound = std::max(LossBound(drawn), LossBound(*other));
    ASSERT_EQ(losses.size(), static_cast<size_t>(kDrawnSteps));
    for (size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i], expected.losses[i], bound * expected.losses[i]) << "step " << i + 1;
  });
}

}  // namespace
}  // namespace longhaul
