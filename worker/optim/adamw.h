// AdamW in host memory: one fused pass that reads gradients, parameters and both moments once and
// writes the last three, and the shadow. Updates are settled when Submit returns.
#pragma once

#include <vector>

#include "common/base/thread_team.h"
#include "worker/optim/adamw_options.h"
#include "worker/optim/huge_pages.h"
#include "worker/optim/optimizer.h"

namespace longhaul {

class AdamW : public Optimizer {
 public:
  // `team` outlives the object; null: the calling thread alone.
  AdamW(const AdamWOptions& options, absl::Span<const SubgroupShape> subgroups,
        ThreadTeam* team = nullptr);

  void Begin(const UpdateOptions& options) override;
  void Submit(const SubgroupUpdate& update) override;
  bool Settled(int) const override { return true; }
  absl::Status Finish() override { return absl::OkStatus(); }
  bool Keeps(OptimizerState, int) const override { return true; }
  void ReadState(OptimizerState state, int subgroup, int64_t first,
                 absl::Span<float> values) const override;
  void WriteState(OptimizerState state, int subgroup, int64_t first,
                  absl::Span<const float> values) override;
  int64_t updates() const override { return updates_; }
  void SetUpdates(int64_t updates) override { updates_ = updates; }
  int64_t state_bytes() const override;
  // The state itself, if it is kept in float32.
  absl::Span<float> Wide(OptimizerState state, int subgroup);

 private:
  // Of one subgroup, in one of the two.
  struct Values {
    HugePageVector<float> wide;
    HugePageVector<uint16_t> narrow;
  };
  struct State {
    SubgroupShape shape;
    Values moment, variance;  // m and v of Algorithm 2.
  };

  const AdamWOptions options_;
  ThreadTeam* const team_;
  std::vector<State> subgroups_;
  int64_t updates_ = 0;  // Begun so far: t of Algorithm 2.
  UpdateOptions update_;
};

}  // namespace longhaul
