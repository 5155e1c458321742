#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/config/checks.h"
#include "common/config/job_spec.h"
#include "common/config/validate.h"

namespace longhaul {
namespace {

constexpr int64_t kStepsMax = 1'000'000'000;
constexpr int64_t kBatchMax = 1 << 20;
constexpr double kInnerLearningRateMax = 10;
constexpr int kByteVocab = 256;
constexpr int kInnerDeltasMax = 4096;  // One for each pool.

void RequireSize(ViolationList& violations, const std::string& field, int64_t value) {
  if (value == 0) violations.Invalid(field, "is required");
}

// Only what was left out: whether the sizes fit each other is found by laying the model out.
void ValidateModel(const v1::ModelSpec& model, ViolationList& violations) {
  switch (model.kind_case()) {
    case v1::ModelSpec::kTransformer: {
      const std::string path = "model.transformer.";
      RequireSize(violations, path + "layers", model.transformer().layers());
      RequireSize(violations, path + "dim", model.transformer().dim());
      RequireSize(violations, path + "heads", model.transformer().heads());
      RequireSize(violations, path + "ff_dim", model.transformer().ff_dim());
      RequireSize(violations, path + "context", model.transformer().context());
      break;
    }
    case v1::ModelSpec::kSynthetic: {
      RequireSize(violations, "model.synthetic.units", model.synthetic().units());
      RequireSize(violations, "model.synthetic.elements", model.synthetic().elements());
      constexpr double kFloatMax = std::numeric_limits<float>::max();
      RequireNumber(violations, "model.synthetic.initial", model.synthetic().initial(),
                    {-kFloatMax, kFloatMax});
      if (model.synthetic().inner_delta_size() > kInnerDeltasMax) {
        violations.Invalid("model.synthetic.inner_delta",
                           absl::StrFormat("found %d values, expected at most %d",
                                           model.synthetic().inner_delta_size(), kInnerDeltasMax));
        break;
      }
      for (int i = 0; i < model.synthetic().inner_delta_size(); ++i) {
        RequireNumber(violations, absl::StrCat("model.synthetic.inner_delta[", i, "]"),
                      model.synthetic().inner_delta(i), {-kFloatMax, kFloatMax});
      }
      break;
    }
    case v1::ModelSpec::kGraphSage:
      violations.NotBuilt("model.graph_sage", "this model is not built yet", "use transformer");
      break;
    case v1::ModelSpec::KIND_NOT_SET:
      violations.Invalid("model", "is required", "set model.transformer");
  }
}

void ValidateData(const v1::JobSpec& spec, ViolationList& violations) {
  const v1::DataSpec& data = spec.data();
  const bool synthetic = spec.model().has_synthetic();
  switch (data.source_case()) {
    case v1::DataSpec::kText:
      RequirePath(violations, "data.text.path", data.text().path());
      if (!data.text().tokenizer().empty()) {
        violations.NotBuilt("data.text.tokenizer", "tokenizers are not built yet",
                            "leave it out for bytes, or tokenize beforehand and use data.tokens");
      }
      if (spec.model().has_transformer() && spec.model().transformer().vocab() < kByteVocab) {
        violations.Invalid("model.transformer.vocab",
                           absl::StrFormat("found %d, expected at least 256 for bytes (data.text)",
                                           spec.model().transformer().vocab()));
      }
      break;
    case v1::DataSpec::kTokens:
      RequirePath(violations, "data.tokens.path", data.tokens().path());
      if (data.tokens().format() == v1::LLMC) {
        violations.NotBuilt("data.tokens.format", "llmc is not built yet",
                            "use nanogpt: the same tokens without the header");
      }
      break;
    case v1::DataSpec::kJsonl:
      violations.NotBuilt("data.jsonl", "this source is not built yet", "use data.text");
      break;
    case v1::DataSpec::kMegatron:
      violations.NotBuilt("data.megatron", "this source is not built yet", "use data.tokens");
      break;
    case v1::DataSpec::kGraph:
      violations.NotBuilt("data.graph", "this source is not built yet",
                          "use data.text or data.tokens");
      break;
    case v1::DataSpec::SOURCE_NOT_SET:
      if (!synthetic) violations.Invalid("data", "is required", "set data.text.path");
  }
  if (!synthetic || spec.has_data()) {
    RequireNumber(violations, "data.eval_fraction", data.eval_fraction(),
                  {.low = 0, .high = 0.5, .open_low = true});
  }
}

void ValidateDevice(const v1::JobSpec& spec, ViolationList& violations) {
  const v1::TrainSpec& train = spec.train();
  if (train.device() == v1::CPU && train.precision() == v1::BFLOAT16) {
    violations.NotBuilt("train.precision", "bfloat16 on cpu is not built yet",
                        "use float32, or train.device: cuda");
  }
  if (train.device() == v1::CUDA && spec.model().has_synthetic()) {
    violations.Invalid("train.device", "found cuda, expected cpu for the synthetic model");
  }
}

void ValidateTrain(const v1::JobSpec& spec, ViolationList& violations) {
  const v1::TrainSpec& train = spec.train();
  if (train.steps() == 0) {
    violations.Invalid("train.steps", "is required");
  } else {
    RequireInteger(violations, "train.steps", train.steps(), 1, kStepsMax);
  }
  if (train.batch() == 0 && spec.model().has_transformer()) {
    violations.Invalid("train.batch", "is required");
  } else {
    RequireInteger(violations, "train.batch", train.batch(), 0, kBatchMax);
  }
  RequireInteger(violations, "train.accumulation", train.accumulation(), 1,
                 std::max(1, train.batch()), "at most train.batch");
  ValidateDevice(spec, violations);
}

void ValidateAdamW(const v1::AdamWSpec& adamw, ViolationList& violations) {
  RequireNumber(violations, "inner.adamw.lr", adamw.lr(),
                {.low = 0, .high = kInnerLearningRateMax, .open_low = true});
  const Interval beta = {.low = 0, .high = 1, .open_low = true, .open_high = true};
  RequireNumber(violations, "inner.adamw.beta1", adamw.beta1(), beta);
  RequireNumber(violations, "inner.adamw.beta2", adamw.beta2(), beta);
  RequireNumber(violations, "inner.adamw.eps", adamw.eps(), beta);
  RequireNumber(violations, "inner.adamw.weight_decay", adamw.weight_decay(),
                {.low = 0, .high = 1});
}

void ValidateInner(const v1::JobSpec& spec, ViolationList& violations) {
  const v1::InnerOptimizerSpec& inner = spec.inner();
  if (inner.has_onebit_adam()) {
    violations.NotBuilt("inner.onebit_adam", "this optimizer is not built yet", "use inner.adamw");
  } else {
    ValidateAdamW(inner.adamw(), violations);
  }
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
  const bool is_map = spec.partition().has_map();
  const absl::StatusOr<PartitionMap> map = PartitionOf(spec.partition());
  if (!map.ok()) {
    const absl::Span<const char* const> presets = PartitionPresets();
    return RequireChoice(violations, "partition.preset", spec.partition().preset(),
                         {presets.begin(), presets.end()}, {});
  }
  for (const PartitionProblem& problem : FindProblems(*map))
    violations.Invalid(absl::StrCat("partition.map.", problem.field), problem.what, problem.hint);
  if (spec.train().precision() == v1::BFLOAT16 && map->weights.bits == 32) {
    violations.Invalid("partition.map.weights.bits",
                       "found 32, but the model computes in bf16 (train.precision)",
                       "leave it out");
  }
  if (spec.train().device() == v1::CUDA && map->quantizes()) {
    violations.NotBuilt(is_map ? "partition.map" : "partition.preset",
                        "4 and 8 bits are not built yet for device cuda",
                        is_map ? "use 16 bits" : "use zero3, or a map without them");
  }
}

}  // namespace

void ValidateTraining(const v1::JobSpec& spec, ViolationList& violations) {
  RequireName(violations, "name", spec.name());
  ValidateModel(spec.model(), violations);
  ValidateData(spec, violations);
  ValidateTrain(spec, violations);
  ValidateInner(spec, violations);
  ValidatePartition(spec, violations);
  for (const auto& [field, on] : {std::pair{"offload.optimizer", spec.offload().optimizer()},
                                  std::pair{"offload.parameters", spec.offload().parameters()}}) {
    if (on) violations.NotBuilt(field, "offload is not built yet", "leave it out");
  }
}

}  // namespace longhaul
