#include "worker/engine/optimizer_factory.h"

#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/overloaded.h"
#include "worker/engine/torch_adamw.h"
#include "worker/engine/torch_muon.h"
#include "worker/optim/adamw.h"
#include "worker/optim/onebit_adam.h"

namespace longhaul {
namespace {

std::unique_ptr<Optimizer> MakeAdamW(const AdamWOptions& options,
                                     absl::Span<const SubgroupShape> subgroups, at::Device device,
                                     ThreadTeam& team) {
  if (device.is_cpu()) return std::make_unique<AdamW>(options, subgroups, &team);
  return std::make_unique<TorchAdamW>(options, subgroups, device);
}

// Whether the CPU has instructions for bf16 matrix products. Without them torch computes slowly.
bool HasBfloat16Instructions() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16");
#else
  // There is no test for them here. Arm CPUs have them since 2021.
  return true;
#endif
}

}  // namespace

CutRule CutRuleOf(const OptimizerOptions& options) {
  return std::holds_alternative<MuonOptions>(options) ? CutRule::kMatrices : CutRule::kBlocks;
}

std::string DescribeOptimizer(const OptimizerOptions& options, const ModelLayout& model,
                              bool on_cpu) {
  const MatrixCount count = CountMatrices(model);
  const auto* muon = std::get_if<MuonOptions>(&options);
  if (const auto* onebit = std::get_if<OneBitAdamOptions>(&options)) {
    return absl::StrFormat(
        "optimizer: onebit_adam updates %d parameters; ranks exchange gradients until %s%s%s",
        count.elements + count.rest,
        onebit->freeze_step > 0 ? absl::StrFormat("update %d", onebit->freeze_step)
                                : "the variance is frozen",
        onebit->var_update_scaler > 0
            ? absl::StrFormat(", then in updates that change the variance (scaler %d)",
                              onebit->var_update_scaler)
            : "",
        onebit->local_step_scaler > 0
            ? absl::StrFormat("; then they take at most %d local steps between synchronisations",
                              onebit->local_step_clipper)
            : "");
  }
  if (muon == nullptr) {
    return absl::StrFormat("optimizer: adamw updates %d parameters", count.elements + count.rest);
  }
  const bool slow =
      on_cpu && muon->iterations == MuonPrecision::kBfloat16 && !HasBfloat16Instructions();
  return absl::StrFormat(
      "optimizer: muon updates %d parameters in %d matrices, adamw the other %d%s", count.elements,
      count.matrices, count.rest,
      slow ? "; this CPU has no bf16 instructions: inner.muon.iterations: float32 would be faster"
           : "");
}

std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerOptions& options,
                                         absl::Span<const SubgroupShape> subgroups,
                                         at::Device device, ThreadTeam& team) {
  const auto make_muon = [&](const MuonOptions& muon) -> std::unique_ptr<Optimizer> {
    std::vector<SubgroupShape> rest;
    for (const SubgroupShape& shape : subgroups) {
      if (!shape.matrix()) rest.push_back(shape);
    }
    return std::make_unique<TorchMuon>(muon, subgroups, device,
                                       MakeAdamW(muon.adamw, rest, device, team));
  };
  return std::visit(Overloaded{[&](const AdamWOptions& adamw) {
                                 return MakeAdamW(adamw, subgroups, device, team);
                               },
                               [&](const OneBitAdamOptions& onebit) -> std::unique_ptr<Optimizer> {
                                 LH_CHECK(device.is_cpu(), "1-bit Adam works in host memory");
                                 return std::make_unique<OneBitAdam>(onebit, subgroups, &team);
                               },
                               make_muon},
                    options);
}

}  // namespace longhaul
