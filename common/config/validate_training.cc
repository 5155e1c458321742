#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/config/checks.h"
#include "common/config/job_spec.h"
#include "common/config/model_kinds.h"
#include "common/config/optimizer_kinds.h"
#include "common/config/validate.h"

namespace longhaul {
namespace {

constexpr int64_t kStepsMax = 1'000'000'000;
constexpr int64_t kBatchMax = 1 << 20;
constexpr int kStrideMax = 1024;
constexpr int kGathersAheadMax = 64;
constexpr int64_t kSubgroupGrain = 128, kSubgroupMax = 1 << 30;
void ValidateHuggingFace(const v1::ModelSpec& model, ViolationList& violations) {
  if (!model.has_hf()) return;
  RequirePath(violations, "model.hf.path", model.hf().path());
  if (model.kind_case() == v1::ModelSpec::KIND_NOT_SET) {
    violations.Invalid("model.transformer", "is required together with model.hf",
                       "`longhaul submit` reads it from config.json if the folder is local; "
                       "otherwise write it in the spec");
  } else if (!model.has_transformer()) {
    violations.Invalid("model.hf", "goes with model.transformer alone", "leave it out");
  }
}

void ValidateModel(const v1::ModelSpec& model, ViolationList& violations) {
  ValidateHuggingFace(model, violations);
  if (const ModelKind* const kind = ModelKindOf(model); kind != nullptr) {
    kind->validate(model, violations);
  } else if (!model.has_hf()) {
    violations.Invalid("model", "is required", "set model.transformer, or model.graph_sage");
  }
}

void ValidateCudaGraphs(const v1::JobSpec& spec, ViolationList& violations) {
  const auto refuse = [&](const char* reason, const char* hint) {
    violations.Invalid("train.cuda_graphs", reason, hint);
  };
  if (!Trains(spec.model())) refuse("this model computes nothing", "leave it out");
  if (spec.train().device() != v1::CUDA)
    refuse("needs train.device: cuda", "set that, or leave it out");
  const absl::StatusOr<PartitionMap> map = PartitionOf(spec.partition());
  if (map.ok() && (map->weights.level != Level::kRank || map->gradients.level != Level::kRank)) {
    refuse("the partition splits weights or gradients, whose memory then changes",
           "use partition.preset: ddp or zero1, or leave it out");
  }
  if (spec.offload().optimizer()) refuse("does not go with offload.optimizer", "leave one out");
}

void ValidateDevice(const v1::JobSpec& spec, ViolationList& violations) {
  const v1::TrainSpec& train = spec.train();
  if (train.device() == v1::CUDA && train.blocks() == v1::FUSED) {
    violations.NotBuilt("train.blocks", "fused blocks are not built yet for device cuda",
                        "use auto, or autograd");
  }
  if (train.device() == v1::CUDA && spec.model().has_synthetic()) {
    violations.Invalid("train.device", "found cuda, expected cpu for the synthetic model");
  }
  if (train.cuda_graphs()) ValidateCudaGraphs(spec, violations);
}

void ValidateTrain(const v1::JobSpec& spec, ViolationList& violations) {
  const v1::TrainSpec& train = spec.train();
  if (train.steps() == 0) {
    violations.Invalid("train.steps", "is required");
  } else {
    RequireInteger(violations, "train.steps", train.steps(), 1, kStepsMax);
  }
  // The synthetic model has no examples.
  const int least = Trains(spec.model()) ? 1 : 0;
  if (train.batch() == 0 && least > 0) {
    violations.Invalid("train.batch", "is required");
  } else {
    RequireInteger(violations, "train.batch", train.batch(), least, kBatchMax);
  }
  RequireInteger(violations, "train.accumulation", train.accumulation(), 1,
                 std::max(1, train.batch()), "at most train.batch");
  ValidateDevice(spec, violations);
}

void ValidateInner(const v1::JobSpec& spec, ViolationList& violations) {
  const v1::InnerOptimizerSpec& inner = spec.inner();
  OptimizerKindOf(inner).validate(spec, violations);
  RequireInteger(violations, "inner.schedule.warmup_steps", inner.schedule().warmup_steps(), 0,
                 std::max<int64_t>(0, spec.train().steps()), "at most train.steps");
  RequireNumber(violations, "inner.schedule.final_fraction", inner.schedule().final_fraction(),
                {.low = 0, .high = 1});
  if (!std::isfinite(inner.clip_norm())) {
    violations.Invalid("inner.clip_norm", "found a number that is not finite",
                       "negative: no clipping");
  }
}

void ValidatePartition(const v1::JobSpec& spec, ViolationList& violations) {
  const absl::StatusOr<PartitionMap> map = PartitionOf(spec.partition());
  if (!map.ok()) {
    const absl::Span<const char* const> presets = PartitionPresets();
    return RequireChoice(violations, "partition.preset", spec.partition().preset(),
                         {presets.begin(), presets.end()}, {});
  }
  if (spec.partition().has_gathers_ahead()) {
    RequireInteger(violations, "partition.gathers_ahead", spec.partition().gathers_ahead(), 0,
                   kGathersAheadMax, "each is a unit's whole weights on every rank");
    if (map->weights.level == Level::kRank) {
      violations.Invalid("partition.gathers_ahead",
                         "has no effect: weights that every rank holds are not gathered",
                         "use partition.preset: zero3, or leave it out");
    }
  }
  for (const PartitionProblem& problem : FindProblems(*map))
    violations.Invalid(absl::StrCat("partition.map.", problem.field), problem.what, problem.hint);
  if (spec.train().precision() == v1::BFLOAT16 && map->weights.bits == 32) {
    violations.Invalid("partition.map.weights.bits",
                       "found 32, but the model computes in bf16 (train.precision)",
                       "leave it out");
  }
}

void ValidateOffload(const v1::JobSpec& spec, ViolationList& violations) {
  const v1::OffloadSpec& offload = spec.offload();
  if (!offload.optimizer()) {
    const char* const without = offload.parameters()               ? "offload.parameters"
                                : offload.has_stride()             ? "offload.stride"
                                : offload.device_share() != 0      ? "offload.device_share"
                                : offload.subgroup_elements() != 0 ? "offload.subgroup_elements"
                                                                   : nullptr;
    if (without != nullptr)
      violations.Invalid(without, "means nothing without offload.optimizer", "set that too");
    return;
  }
  if (!Trains(spec.model())) {
    violations.Invalid("offload.optimizer", "this model has no optimizer", "leave it out");
    return;
  }
  if (spec.inner().has_onebit_adam()) {
    violations.Invalid(
        "offload.optimizer",
        "does not go with inner.onebit_adam: each rank needs its whole momentum, and "
        "the host's memory is all that a device CPU has",
        "use inner.adamw, or leave it out");
  }
  RequireInteger(violations, "offload.stride", offload.stride(), 0, kStrideMax,
                 "0: none on the device; 1: all");
  RequireNumber(violations, "offload.device_share", offload.device_share(), {.low = 0, .high = 1});
  RequireInteger(violations, "offload.subgroup_elements", offload.subgroup_elements(),
                 kSubgroupGrain, kSubgroupMax);
  if (offload.subgroup_elements() % kSubgroupGrain != 0) {
    violations.Invalid(
        "offload.subgroup_elements",
        absl::StrFormat("found %d, expected a multiple of 128", offload.subgroup_elements()));
  }
  const absl::StatusOr<PartitionMap> map = PartitionOf(spec.partition());
  if (offload.parameters() && map.ok() && map->weights.level == Level::kRank) {
    violations.Invalid("offload.parameters", "the partition leaves the weights on every rank whole",
                       "use partition.preset: zero3, or leave it out");
  }
}

}  // namespace

void ValidateTraining(const v1::JobSpec& spec, ViolationList& violations) {
  RequireName(violations, "name", spec.name());
  ValidateModel(spec.model(), violations);
  ValidateData(spec, violations);
  ValidateGraph(spec, violations);
  ValidateTrain(spec, violations);
  ValidateInner(spec, violations);
  ValidatePartition(spec, violations);
  ValidateOffload(spec, violations);
}

}  // namespace longhaul
