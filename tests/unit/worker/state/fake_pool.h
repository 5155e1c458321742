// A pool without a model, whose ranks are threads of the test: what each remembers of an element
// follows from the element and the step after which it was taken, or is what was put back.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "worker/replica/replica.h"

namespace longhaul {

inline constexpr int64_t kFakeElements = 1000;

// Gathers by a table that all ranks fill. UNAVAILABLE: a rank has ended, and will not fill it.
class FakePool {
 public:
  explicit FakePool(int ranks) : ranks_(ranks) {}
  int ranks() const { return ranks_; }

  absl::StatusOr<std::vector<std::vector<int64_t>>> Gather(int rank,
                                                           absl::Span<const int64_t> values) {
    absl::MutexLock lock(&mutex_);
    if (filled_ == 0) table_.assign(ranks_, {});
    table_[rank].assign(values.begin(), values.end());
    const int64_t round = rounds_;
    if (++filled_ == ranks_) {
      done_ = table_;
      filled_ = 0;
      ++rounds_;
    }
    const auto decided = [&] { return rounds_ > round || ended_; };
    mutex_.Await(absl::Condition(&decided));
    if (rounds_ == round) return absl::UnavailableError("a rank has ended");
    return done_;
  }
  void End() {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
  }

 private:
  const int ranks_;
  absl::Mutex mutex_;
  int filled_ = 0;
  bool ended_ = false;
  int64_t rounds_ = 0;
  std::vector<std::vector<int64_t>> table_, done_;
};

class FakeRank : public Replica {
 public:
  FakeRank(FakePool* pool, int rank)
      : pool_(pool), rank_(rank), layout_(*LayOutSynthetic(2, kFakeElements)) {}

  const ModelLayout& layout() const override { return layout_; }
  int rank() const override { return rank_; }
  int ranks() const override { return pool_->ranks(); }
  absl::StatusOr<StepStats> Step(int64_t step) override {
    updates_ = step;
    return StepStats();
  }
  bool settled() const override { return settled_; }
  void set_settled(bool settled) { settled_ = settled; }
  void set_data(double tokens, double sample) {
    data_tokens_ = tokens;
    data_sample_ = sample;
  }
  absl::StatusOr<InPoolTraffic> Settle() override {
    settled_ = true;
    return InPoolTraffic();
  }
  absl::Status Read(int, int64_t, absl::Span<float>) override { return absl::OkStatus(); }
  absl::Status Write(int, int64_t, absl::Span<const float>) override { return absl::OkStatus(); }
  absl::Status Publish(absl::Span<const int>) override { return absl::OkStatus(); }
  absl::StatusOr<EvalStats> Evaluate() override { return EvalStats(); }
  absl::StatusOr<std::vector<std::vector<int64_t>>> AllGather(
      absl::Span<const int64_t> values) override {
    return pool_->Gather(rank_, values);
  }

  std::vector<NamedValue> InnerStatePhase() const override {
    return {{"updates", static_cast<double>(updates_)},
            {"data_tokens/0", data_tokens_},
            {"data_sample/0", data_sample_}};
  }
  // One kind that is needed; and one of each rank, of all elements.
  std::vector<InnerStateSlot> InnerStateSlots(absl::Span<const NamedValue>) const override {
    std::vector<InnerStateSlot> slots;
    for (int unit = 0; unit < 2; ++unit) {
      const BlockRange blocks = OwnedBlocks(unit);
      const int64_t first = blocks.first * kBlockElements;
      const int64_t end = std::min(blocks.end() * kBlockElements, kFakeElements);
      if (first < end) slots.push_back({InnerStateKind::kMoment, unit, first, end - first});
    }
    slots.push_back({InnerStateKind::kWorkerError, 0, 0, kFakeElements});
    return slots;
  }
  static float ValueOf(const InnerStateSlot& slot, int64_t element, int64_t step) {
    return static_cast<float>(step * 10'000 + slot.unit * 2000 + element);
  }
  absl::Status TakeInnerState(InnerState& state, bool) override {
    state.phase = InnerStatePhase();
    const auto slots = InnerStateSlots(state.phase);
    for (size_t i = 0; i < slots.size(); ++i) {
      std::vector<float>& values = PartFor(slots[i], i, state).values;
      for (int64_t e = 0; e < slots[i].count; ++e)
        values[e] = ValueOf(slots[i], slots[i].first + e, updates_);
    }
    state.parts.resize(slots.size());
    return absl::OkStatus();
  }
  absl::Status PutInnerState(const InnerState& state) override {
    updates_ = static_cast<int64_t>(PhaseValue(state.phase, "updates"));
    put_ = state;
    return absl::OkStatus();
  }

  // What was put back is what was taken after `step`, of every element that this rank needs.
  // `of_rank`: with what is of the rank alone.
  void ExpectPut(int64_t step, bool of_rank = true) const {
    EXPECT_EQ(PhaseValue(put_.phase, "updates"), static_cast<double>(step));
    std::vector<InnerStateSlot> expected = InnerStateSlots({});
    if (!of_rank) expected.pop_back();
    ASSERT_EQ(put_.parts.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const InnerStatePart& part = put_.parts[i];
      ASSERT_EQ(part.slot, expected[i]);
      for (int64_t e = 0; e < part.slot.count; ++e)
        ASSERT_EQ(part.values[e], ValueOf(part.slot, part.slot.first + e, step)) << i << " " << e;
    }
  }
  bool began_at_zero() const { return put_.parts.empty() && put_.phase.empty(); }

 private:
  FakePool* const pool_;
  const int rank_;
  const ModelLayout layout_;
  int64_t updates_ = 0;
  bool settled_ = true;
  double data_tokens_ = 1000, data_sample_ = 77;
  InnerState put_;
};

inline void RunFakePool(int ranks, const std::function<void(FakeRank&)>& body) {
  FakePool pool(ranks);
  std::vector<std::unique_ptr<FakeRank>> replicas;
  for (int rank = 0; rank < ranks; ++rank)
    replicas.push_back(std::make_unique<FakeRank>(&pool, rank));
  std::vector<std::thread> threads;
  for (auto& replica : replicas) {
    threads.emplace_back([&] {
      body(*replica);
      pool.End();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace longhaul
