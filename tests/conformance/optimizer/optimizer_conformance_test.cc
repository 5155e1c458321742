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

INSTANTIATE_TEST_SUITE_P(Reference, OptimizerSuite, testing::Values(Make<ReferenceAdamW>));
INSTANTIATE_TEST_SUITE_P(Fused, OptimizerSuite, testing::Values(Make<AdamW>));
INSTANTIATE_TEST_SUITE_P(Torch, OptimizerSuite, testing::Values(MakeTorch));

}  // namespace
}  // namespace longhaul
