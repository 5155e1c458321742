// Muon (worker/optim/muon_options.h) for the subgroups that are matrices, and another optimizer for
// the rest. Torch computes the matrix products, on any device. The update of a matrix depends only
// on that matrix. So every owner gets the same bits, if torch has the same number of threads.
// Called from one thread.
#pragma once

#include <memory>
#include <vector>

#include "ATen/core/Tensor.h"
#include "worker/optim/muon_options.h"
#include "worker/optim/optimizer.h"

namespace longhaul {

// Updates one matrix on the current stream of `device`, where all memory lies. `momentum`: [rows,
// columns]. The shadow of the update may be empty. Throws as torch does.
void UpdateMatrix(const MuonOptions& options, const SubgroupShape& shape,
                  const UpdateOptions& update, const SubgroupUpdate& of, at::Tensor momentum,
                  at::Device device);

// Throws as torch does.
class TorchMuon : public Optimizer {
 public:
  // `rest` was made for the subgroups that are no matrices, in their order.
  TorchMuon(const MuonOptions& options, absl::Span<const SubgroupShape> subgroups,
            at::Device device, std::unique_ptr<Optimizer> rest);

  void Begin(const UpdateOptions& options) override;
  void Submit(const SubgroupUpdate& update) override;
  bool Settled(int subgroup) const override;
  absl::Status Finish() override { return rest_->Finish(); }
  bool Keeps(OptimizerState state, int subgroup) const override;
  absl::Status ReadState(OptimizerState state, int subgroup, int64_t first,
                         absl::Span<float> values) const override;
  absl::Status WriteState(OptimizerState state, int subgroup, int64_t first,
                          absl::Span<const float> values) override;
  int64_t updates() const override { return rest_->updates(); }
  void SetUpdates(int64_t updates) override { rest_->SetUpdates(updates); }
  int64_t state_bytes() const override;

 private:
  struct Part {
    SubgroupShape shape;
    // Matrices: [rows, columns].
    at::Tensor momentum;
    // Other subgroups: their index in rest_.
    int rest = -1;
  };

  const MuonOptions options_;
  const at::Device device_;
  const std::unique_ptr<Optimizer> rest_;
  std::vector<Part> parts_;
  UpdateOptions update_;
};

}  // namespace longhaul
