// Steps and evaluations of an engine from tokens in host memory.
#pragma once

#include "worker/engine/engine.h"
#include "worker/family/language/language_stager.h"

namespace longhaul {

inline ComputePrecision PrecisionOf(at::ScalarType compute) {
  return compute == at::kFloat ? ComputePrecision::kFloat32 : ComputePrecision::kBfloat16;
}

inline absl::StatusOr<StepResult> Step(Engine& engine, const TokenBatch& share, int64_t targets,
                                       double learning_rate) {
  const auto stage = [&](int micro, int of) -> absl::StatusOr<StagedBatch> {
    return StageTokens(share, engine.device(), micro, of);
  };
  return engine.Step(stage, static_cast<double>(targets), learning_rate);
}

inline absl::StatusOr<double> LossSum(Engine& engine, const TokenBatch& share) {
  const auto sums = engine.Evaluate(StageTokens(share, engine.device()));
  if (!sums.ok()) return sums.status();
  return (*sums)[0];
}

inline absl::StatusOr<double> LossSumBeside(const Engine& engine, const EvaluatedWeights& weights,
                                            const TokenBatch& share) {
  const auto sums = engine.EvaluateBeside(weights, StageTokens(share, engine.device()));
  if (!sums.ok()) return sums.status();
  return (*sums)[0];
}

}  // namespace longhaul
