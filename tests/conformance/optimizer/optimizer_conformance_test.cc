#include "absl/algorithm/container.h"
#include "tests/conformance/optimizer/optimizer_suite.h"
#include "worker/engine/torch_adamw.h"
#include "worker/optim/adamw.h"

namespace longhaul {
namespace {

template <typename T>
std::unique_ptr<Optimizer> Make(const AdamWOptions& options,
                                absl::Span<const SubgroupShape> subgroups) {
  return std::make_unique<T>(options, subgroups);
}

std::unique_ptr<Optimizer> MakeTorch(const AdamWOptions& options,
                                     absl::Span<const SubgroupShape> subgroups) {
  return std::make_unique<TorchAdamW>(options, subgroups, at::kCPU);
}

// The reference also does what every AdamW promises. Its moments are doubles.
class ReferenceOptimizer : public Optimizer {
 public:
  ReferenceOptimizer(const AdamWOptions& options, absl::Span<const SubgroupShape> subgroups)
      : reference_(options, subgroups) {}
  void Begin(const UpdateOptions& options) override { reference_.Begin(options); }
  void Submit(const SubgroupUpdate& update) override {
    std::vector<float> gradients(update.gradients.begin(), update.gradients.end());
    for (const uint16_t bits : update.narrow_gradients) gradients.push_back(FromBfloat16(bits));
    reference_.Update(update.subgroup, update.parameters, gradients);
    if (!update.shadow.empty())
      absl::c_transform(update.parameters, update.shadow.begin(), ToBfloat16);
  }
  bool Settled(int) const override { return true; }
  absl::Status Finish() override { return absl::OkStatus(); }
  bool Keeps(OptimizerState, int) const override { return false; }
  absl::Status ReadState(OptimizerState, int, int64_t, absl::Span<float>) const override {
    return absl::OkStatus();
  }
  absl::Status WriteState(OptimizerState, int, int64_t, absl::Span<const float>) override {
    return absl::OkStatus();
  }
  int64_t updates() const override { return 0; }
  void SetUpdates(int64_t) override {}
  int64_t state_bytes() const override { return 0; }

 private:
  ReferenceAdamW reference_;
};

INSTANTIATE_TEST_SUITE_P(Reference, OptimizerSuite, testing::Values(Make<ReferenceOptimizer>));
INSTANTIATE_TEST_SUITE_P(Fused, OptimizerSuite, testing::Values(Make<AdamW>));
INSTANTIATE_TEST_SUITE_P(Torch, OptimizerSuite, testing::Values(MakeTorch));

}  // namespace
}  // namespace longhaul
