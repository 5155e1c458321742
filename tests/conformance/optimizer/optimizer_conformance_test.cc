#include "tests/conformance/optimizer/optimizer_suite.h"
#include "worker/engine/torch_adamw.h"
#include "worker/optim/adamw.h"

namespace longhaul {
namespace {

template <typename T>
std::unique_ptr<Optimizer> Make(const AdamWOptions& options, absl::Span<const OptimizerRun> runs) {
  return std::make_unique<T>(options, runs);
}

std::unique_ptr<Optimizer> MakeTorch(const AdamWOptions& options,
                                     absl::Span<const OptimizerRun> runs) {
  return std::make_unique<TorchAdamW>(options, runs, at::kCPU);
}

// The reference, too, does what every AdamW promises; its moments are doubles.
class ReferenceOptimizer : public Optimizer {
 public:
  ReferenceOptimizer(const AdamWOptions& options, absl::Span<const OptimizerRun> runs)
      : reference_(options, runs) {}
  void Begin(const UpdateOptions& options) override { reference_.Begin(options); }
  void Update(int run, absl::Span<float> parameters, absl::Span<const float> gradients) override {
    reference_.Update(run, parameters, gradients);
  }
  absl::Span<float> Moments(Moment, int) override { return {}; }
  int64_t updates() const override { return 0; }
  void SetUpdates(int64_t) override {}

 private:
  ReferenceAdamW reference_;
};

INSTANTIATE_TEST_SUITE_P(Reference, OptimizerSuite, testing::Values(Make<ReferenceOptimizer>));
INSTANTIATE_TEST_SUITE_P(Fused, OptimizerSuite, testing::Values(Make<AdamW>));
INSTANTIATE_TEST_SUITE_P(Torch, OptimizerSuite, testing::Values(MakeTorch));

}  // namespace
}  // namespace longhaul
