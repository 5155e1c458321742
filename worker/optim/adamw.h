// AdamW in host memory. One fused pass reads gradients, parameters and both moments once, and
// writes parameters, moments and shadow. An update is settled when Submit returns.
#pragma once

#include <vector>

#include "common/base/huge_pages.h"
#include "common/base/thread_team.h"
#include "worker/optim/adamw_options.h"
#include "worker/optim/optimizer.h"

namespace longhaul {

class AdamW : public Optimizer {
 public:
  // `team` computes, and outlives the object. Null: the calling thread does.
  AdamW(const AdamWOptions& options, absl::Span<const SubgroupShape> subgroups,
        ThreadTeam* team = nullptr);

  void Begin(const UpdateOptions& options) override;
  void Submit(const SubgroupUpdate& update) override;
  bool Settled(int) const override { return true; }
  absl::Status Finish() override { return absl::OkStatus(); }
  bool Keeps(OptimizerState, int) const override { return true; }
  absl::Status ReadState(OptimizerState state, int subgroup, int64_t first,
                         absl::Span<float> values) const override;
  absl::Status WriteState(OptimizerState state, int subgroup, int64_t first,
                          absl::Span<const float> values) override;
  int64_t updates() const override { return updates_; }
  void SetUpdates(int64_t updates) override { updates_ = updates; }
  int64_t state_bytes() const override;
  // The memory of the state of a subgroup. Empty if moments are not kept in float32.
  absl::Span<float> Wide(OptimizerState state, int subgroup);

 private:
  // A moment of one subgroup: in `wide` as float32, or in `narrow` as the bits of bf16 numbers.
  struct Values {
    HugePageVector<float> wide;
    HugePageVector<uint16_t> narrow;
  };
  struct State {
    SubgroupShape shape;
    // m and v of Algorithm 2.
    Values moment, variance;
  };

  const AdamWOptions options_;
  ThreadTeam* const team_;
  std::vector<State> subgroups_;
  // t of Algorithm 2.
  int64_t updates_ = 0;
  UpdateOptions update_;
};

}  // namespace longhaul
