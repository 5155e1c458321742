// Muon (worker/optim/muon_options.h) for subgroups that are matrices, another optimizer for the
// rest. Its matrix products are torch's, on any device. A matrix's update depends on the matrix
// alone: whoever owns it gets the same bits, given the same number of torch's threads.
#pragma once

#include <memory>
#include <vector>

#include "ATen/core/Tensor.h"
#include "worker/optim/muon_options.h"
#include "worker/optim/optimizer.h"

namespace longhaul {

// Of one matrix. `momentum`: rows x columns; `shadow` may be empty. All on `device`, on whose current
// stream it works. Throws as torch does.
void UpdateMatrix(const MuonOptions& options, const SubgroupShape& shape,
                  const UpdateOptions& update, const SubgroupUpdate& of, at::Tensor momentum,
                  at::Device device);

// Throws as torch does.
class TorchMuon : public Optimizer {
 public:
  // `rest`: made for those of the subgroups that are no matrices, in their order.
  TorchMuon(const MuonOptions& options, absl::Span<const SubgroupShape> subgroups,
            at::Device device, std::unique_ptr<Optimizer> rest);

  void Begin(const UpdateOptions& options) override;
  void Submit(const SubgroupUpdate& update) override;
  bool Settled(int subgroup) const override;
  absl::Status Finish() override { return rest_->Finish(); }
  bool Keeps(OptimizerState state, int subgroup) const override;
  void ReadState(OptimizerState state, int subgroup, int64_t first,
                 absl::Span<float> values) const override;
  void WriteState(OptimizerState state, int subgroup, int64_t first,
                  absl::Span<const float> values) override;
  int64_t updates() const override { return rest_->updates(); }
  void SetUpdates(int64_t updates) override { rest_->SetUpdates(updates); }
  int64_t state_bytes() const override;

 private:
  struct Part {
    SubgroupShape shape;
    at::Tensor momentum;  // Of matrices: rows x columns.
    int rest = -1;        // Of others: their index in rest_.
  };

  const MuonOptions options_;
  const at::Device device_;
  const std::unique_ptr<Optimizer> rest_;
  std::vector<Part> parts_;
  UpdateOptions update_;
};

}  // namespace longhaul
