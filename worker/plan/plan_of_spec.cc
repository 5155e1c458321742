#include "worker/plan/plan_of_spec.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/config/job_spec.h"

namespace longhaul {
namespace {

AdamWOptions AdamWOf(const v1::AdamWSpec& spec) {
  return {.beta1 = spec.beta1(),
          .beta2 = spec.beta2(),
          .eps = spec.eps(),
          .weight_decay = spec.weight_decay(),
          .moments = spec.moments() == v1::BFLOAT16 ? MomentPrecision::kBfloat16
                                                    : MomentPrecision::kFloat32};
}

OneBitAdamOptions OneBitAdamOf(const v1::InnerOptimizerSpec& spec) {
  const v1::OneBitAdamSpec& onebit = spec.onebit_adam();
  return {.adamw = {.beta1 = onebit.beta1(),
                    .beta2 = onebit.beta2(),
                    .eps = onebit.eps(),
                    .weight_decay = onebit.weight_decay()},
          .freeze_step = onebit.freeze_step(),
          .freeze_ratio = onebit.freeze_ratio(),
          .freeze_not_before = spec.schedule().warmup_steps(),
          .var_update_scaler = onebit.var_update_scaler(),
          .var_freeze_step = onebit.var_freeze_step(),
          .local_step_scaler = onebit.local_step_scaler(),
          .local_step_clipper = onebit.local_step_clipper(),
          .scale = onebit.mean_scale() ? SignScale::kMeanMagnitude : SignScale::kRootMeanSquare,
          .scale_block = onebit.scale_block()};
}

// The inner optimizer's options, and its peak learning rate.
std::pair<OptimizerOptions, double> OptimizerOf(const v1::InnerOptimizerSpec& spec) {
  if (spec.has_onebit_adam()) return {OneBitAdamOf(spec), spec.onebit_adam().lr()};
  if (!spec.has_muon()) return {AdamWOf(spec.adamw()), spec.adamw().lr()};
  const v1::MuonSpec& muon = spec.muon();
  const MuonOptions options{.momentum = muon.momentum(),
                            .weight_decay = muon.weight_decay(),
                            .scaling = muon.scaling() == v1::MATCH_ADAMW ? MuonScaling::kMatchAdamW
                                                                         : MuonScaling::kSpectral,
                            .iterations = muon.iterations() == v1::FLOAT32
                                              ? MuonPrecision::kFloat32
                                              : MuonPrecision::kBfloat16,
                            .adamw = AdamWOf(muon.adamw()),
                            .adamw_rate = muon.adamw().lr() / muon.lr()};
  return {options, muon.lr()};
}

ComputePrecision PrecisionOf(const v1::TrainSpec& train) {
  const bool bfloat16 =
      train.precision() == v1::BFLOAT16 ||
      (train.precision() == v1::PRECISION_UNSPECIFIED && train.device() == v1::CUDA);
  return bfloat16 ? ComputePrecision::kBfloat16 : ComputePrecision::kFloat32;
}

Blocks BlocksOf(const v1::TrainSpec& train) {
  if (train.blocks() == v1::FUSED) return Blocks::kFused;
  return train.blocks() == v1::AUTOGRAD ? Blocks::kAutograd : Blocks::kAuto;
}

OffloadPlan OffloadOf(const v1::OffloadSpec& offload) {
  return {.optimizer = offload.optimizer(),
          .parameters = offload.parameters(),
          .schedule = {.stride = offload.has_stride() ? offload.stride() : -1,
                       .device_share = offload.device_share()},
          .subgroup_elements = offload.subgroup_elements()};
}

}  // namespace

// One evaluation of the outer parameters, and one of the pool's own.
int EvaluationsBeside(const v1::EvaluationSpec& spec) {
  if (!spec.beside_training()) return 0;
  return spec.pools_every_cycles() > 0 ? 2 : 1;
}

absl::StatusOr<TrainingPlan> PlanOf(const v1::JobSpec& spec) {
  const v1::TrainSpec& train = spec.train();
  const v1::InnerOptimizerSpec& inner = spec.inner();
  const auto [optimizer, peak] = OptimizerOf(inner);
  TrainingPlan plan{.batch = train.batch(),
                    .accumulation = train.accumulation(),
                    .seed = train.seed(),
                    .learning_rate = {.peak = peak,
                                      .steps = train.steps(),
                                      .warmup_steps = inner.schedule().warmup_steps(),
                                      .final_fraction = inner.schedule().final_fraction()},
                    .optimizer = optimizer,
                    .clip_norm = inner.clip_norm(),
                    .offload = OffloadOf(spec.offload()),
                    .device = train.device() == v1::CUDA ? DeviceKind::kCuda : DeviceKind::kCpu,
                    .precision = PrecisionOf(train),
                    .recompute = train.activations() == v1::RECOMPUTE,
                    .blocks = BlocksOf(train),
                    .cuda_graphs = train.cuda_graphs(),
                    .eval_batches = spec.evaluation().batches(),
                    .evaluation_beside = {.evaluations = EvaluationsBeside(spec.evaluation())}};
  LH_ASSIGN_OR_RETURN(plan.partition, PartitionOf(spec.partition()));
  if (spec.partition().has_gathers_ahead()) plan.gathers_ahead = spec.partition().gathers_ahead();
  return plan;
}

}  // namespace longhaul
