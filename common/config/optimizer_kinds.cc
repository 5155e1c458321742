#include "common/config/optimizer_kinds.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/config/capabilities.h"
#include "common/config/checks.h"
#include "common/config/job_spec.h"

namespace longhaul {
namespace {

constexpr double kInnerLearningRateMax = 10;
constexpr int64_t kUpdatesMax = 1'000'000'000;
constexpr int64_t kScaleBlockMin = 64, kScaleBlockMax = 1 << 30;
constexpr int kVarianceScalerMax = 1 << 20;
constexpr int64_t kLocalStepClipperMax = 1 << 16;
constexpr char kMuonNeed[] = "optimizer:muon";
constexpr char kOffloadMuonNeed[] = "offload:muon";
constexpr char kOnebitAdamNeed[] = "optimizer:onebit_adam";
constexpr char kOnebitVarianceNeed[] = "optimizer:onebit_variance";
constexpr char kOnebitLocalStepsNeed[] = "optimizer:onebit_local_steps";

constexpr FieldDefault kAdamWDefaults[] = {
    {"inner.adamw.lr", "1e-3"},  {"inner.adamw.beta1", "0.9"},       {"inner.adamw.beta2", "0.99"},
    {"inner.adamw.eps", "1e-8"}, {"inner.adamw.moments", "FLOAT32"},
};
constexpr FieldDefault kMuonDefaults[] = {
    {"inner.muon.lr", "0.02"},
    {"inner.muon.momentum", "0.9"},
    {"inner.muon.scaling", "SPECTRAL"},
    {"inner.muon.iterations", "BFLOAT16"},
    {"inner.muon.adamw.lr", "1e-3"},
    {"inner.muon.adamw.beta1", "0.9"},
    {"inner.muon.adamw.beta2", "0.99"},
    {"inner.muon.adamw.eps", "1e-8"},
    {"inner.muon.adamw.moments", "FLOAT32"},
};
constexpr FieldDefault kOnebitAdamDefaults[] = {
    {"inner.onebit_adam.lr", "1e-3"},           {"inner.onebit_adam.beta1", "0.9"},
    {"inner.onebit_adam.beta2", "0.99"},        {"inner.onebit_adam.eps", "1e-8"},
    {"inner.onebit_adam.freeze_ratio", "0.96"}, {"inner.onebit_adam.scale_block", "512"},
};

// Checks the fields that AdamWSpec and OneBitAdamSpec have in common.
template <typename Adam>
void ValidateAdam(const std::string& path, const Adam& adam, ViolationList& violations) {
  RequireNumber(violations, path + ".lr", adam.lr(),
                {.low = 0, .high = kInnerLearningRateMax, .open_low = true});
  const Interval beta = {.low = 0, .high = 1, .open_low = true, .open_high = true};
  RequireNumber(violations, path + ".beta1", adam.beta1(), beta);
  RequireNumber(violations, path + ".beta2", adam.beta2(), beta);
  RequireNumber(violations, path + ".eps", adam.eps(),
                {.low = kFloatMin, .high = 1, .open_high = true},
                "with a smaller one, parameters whose gradient is zero would become NaN");
  RequireNumber(violations, path + ".weight_decay", adam.weight_decay(), {.low = 0, .high = 1});
}

void ValidateAdamW(const v1::JobSpec& spec, const std::string& path, const v1::AdamWSpec& adamw,
                   ViolationList& violations) {
  ValidateAdam(path, adamw, violations);
  if (adamw.moments() == v1::BFLOAT16 && spec.train().device() == v1::CUDA) {
    violations.NotBuilt(path + ".moments", "bfloat16 moments are not built yet for device cuda",
                        "use float32");
  }
}

void ValidateAdamWKind(const v1::JobSpec& spec, ViolationList& violations) {
  ValidateAdamW(spec, "inner.adamw", spec.inner().adamw(), violations);
}

void ValidateMuon(const v1::JobSpec& spec, ViolationList& violations) {
  const v1::MuonSpec& muon = spec.inner().muon();
  // AdamW's learning rate is a multiple of this one.
  RequireNumber(violations, "inner.muon.lr", muon.lr(),
                {.low = kFloatMin, .high = kInnerLearningRateMax});
  RequireNumber(violations, "inner.muon.momentum", muon.momentum(),
                {.low = 0, .high = 1, .open_high = true});
  RequireNumber(violations, "inner.muon.weight_decay", muon.weight_decay(), {.low = 0, .high = 1});
  ValidateAdamW(spec, "inner.muon.adamw", muon.adamw(), violations);
  if (spec.model().has_synthetic()) {
    violations.Invalid("inner.muon", "the synthetic model has no matrices, which Muon updates",
                       "leave it out, or use model.transformer");
  }
}

// Explains why 1-bit Adam does not work with a partition that splits something.
std::string WhyNotOneBit(const PartitionMap& map) {
  if (map.gradients.level != Level::kRank)
    return "each rank must have its whole unreduced gradient, which is split here";
  if (map.weights.level != Level::kRank)
    return "the weights that are gathered for each use are many times the bytes that it saves";
  if (map.optimizer != Level::kRank) {
    return "the momentum must be whole on each rank, and the updated weights that are gathered "
           "after each step are the bytes that it saves";
  }
  return "gradients must be exact in its warm-up";
}

void ValidateLocalSteps(const v1::OneBitAdamSpec& onebit, const std::string& path,
                        ViolationList& violations) {
  RequireInteger(violations, path + ".local_step_scaler", onebit.local_step_scaler(), 0,
                 kUpdatesMax, "0: no local steps");
  if (onebit.local_step_scaler() == 0) {
    if (onebit.local_step_clipper() != 0) {
      violations.Invalid(path + ".local_step_clipper", "means nothing without local_step_scaler",
                         "set that too, or leave it out");
    }
    return;
  }
  RequireInteger(violations, path + ".local_step_clipper", onebit.local_step_clipper(), 2,
                 kLocalStepClipperMax, "the most steps between two synchronisations");
  if (onebit.var_update_scaler() > 0 && onebit.var_freeze_step() == 0) {
    violations.Invalid(path + ".var_freeze_step",
                       "is required with local_step_scaler and var_update_scaler: ranks that step "
                       "by themselves need a variance that no longer changes",
                       "give the step at which local steps start");
  }
}

void ValidateOneBitAdam(const v1::JobSpec& spec, ViolationList& violations) {
  const v1::OneBitAdamSpec& onebit = spec.inner().onebit_adam();
  const std::string path = "inner.onebit_adam";
  if (spec.model().has_synthetic())
    violations.Invalid(path, "the synthetic model has no optimizer", "leave it out");
  ValidateAdam(path, onebit, violations);
  RequireInteger(violations, path + ".freeze_step", onebit.freeze_step(), 0,
                 std::max<int64_t>(0, spec.train().steps() - 1), "less than train.steps");
  RequireNumber(violations, path + ".freeze_ratio", onebit.freeze_ratio(),
                {.low = 0, .high = 1, .open_low = true});
  RequireInteger(violations, path + ".scale_block", onebit.scale_block(), kScaleBlockMin,
                 kScaleBlockMax, "2^30: one scale for each tensor");
  RequireInteger(violations, path + ".var_update_scaler", onebit.var_update_scaler(), 0,
                 kVarianceScalerMax, "0: the variance stays frozen");
  RequireInteger(violations, path + ".var_freeze_step", onebit.var_freeze_step(), 0, kUpdatesMax,
                 "0: never");
  if (onebit.var_update_scaler() == 0 && onebit.var_freeze_step() != 0) {
    violations.Invalid(path + ".var_freeze_step", "means nothing without var_update_scaler",
                       "set that too, or freeze_step alone");
  }
  ValidateLocalSteps(onebit, path, violations);
  if (spec.train().device() == v1::CUDA) {
    violations.NotBuilt("inner.onebit_adam", "1-bit Adam is not built yet for device cuda",
                        "use inner.adamw");
  }
  const absl::StatusOr<PartitionMap> map = PartitionOf(spec.partition());
  if (map.ok() && !map->replicates()) {
    violations.Invalid(spec.partition().has_map() ? "partition.map" : "partition.preset",
                       absl::StrCat("does not go with inner.onebit_adam: ", WhyNotOneBit(*map)),
                       "use preset ddp, or inner.adamw");
  }
}

template <typename Spec>
void FillDecay(Spec& spec, double decay) {
  if (!spec.has_weight_decay()) spec.set_weight_decay(decay);
}

void FillMuonDecay(v1::InnerOptimizerSpec& inner, double decay) {
  FillDecay(*inner.mutable_muon(), decay);
  FillDecay(*inner.mutable_muon()->mutable_adamw(), decay);
}

void AddNeedsOfMoments(const v1::AdamWSpec& adamw, std::set<std::string>& needs) {
  if (adamw.moments() == v1::BFLOAT16) needs.insert(capability::kOptimizerBfloat16Moments);
}

void AddMuonNeeds(const v1::JobSpec& spec, std::set<std::string>& needs) {
  needs.insert(kMuonNeed);
  if (spec.offload().optimizer()) needs.insert(kOffloadMuonNeed);
  AddNeedsOfMoments(spec.inner().muon().adamw(), needs);
}

void AddOnebitAdamNeeds(const v1::JobSpec& spec, std::set<std::string>& needs) {
  const v1::OneBitAdamSpec& onebit = spec.inner().onebit_adam();
  needs.insert(kOnebitAdamNeed);
  if (onebit.var_update_scaler() != 0) needs.insert(kOnebitVarianceNeed);
  if (onebit.local_step_scaler() != 0) needs.insert(kOnebitLocalStepsNeed);
}

// Matrices have one moment.
double MuonBytes(const v1::InnerOptimizerSpec&, const OptimizerSizes& of) {
  return of.adamw_bytes * (1 - of.matrix_elements / of.parameters / 3);
}

double OnebitAdamBytes(const v1::InnerOptimizerSpec& inner, const OptimizerSizes& of) {
  const double local_steps = inner.onebit_adam().local_step_scaler() > 0 ? 8 * of.parameters : 0;
  return of.adamw_bytes + (4 + 4.0 / of.ranks) * of.parameters + local_steps;
}

constexpr const char* kMuonCapabilities[] = {kMuonNeed, kOffloadMuonNeed};
constexpr const char* kOnebitAdamCapabilities[] = {kOnebitAdamNeed, kOnebitVarianceNeed,
                                                   kOnebitLocalStepsNeed};

const OptimizerKind kOptimizerKinds[] = {
    {.kind = v1::InnerOptimizerSpec::kAdamw,
     .defaults = kAdamWDefaults,
     .fill_weight_decay = [](v1::InnerOptimizerSpec& inner,
                             double decay) { FillDecay(*inner.mutable_adamw(), decay); },
     .validate = ValidateAdamWKind,
     .capabilities = {},
     .on_cuda = true,
     .add_needs =
         [](const v1::JobSpec& spec, std::set<std::string>& needs) {
           AddNeedsOfMoments(spec.inner().adamw(), needs);
         },
     .state_bytes = [](const v1::InnerOptimizerSpec&,
                       const OptimizerSizes& of) { return of.adamw_bytes; }},
    {.kind = v1::InnerOptimizerSpec::kMuon,
     .defaults = kMuonDefaults,
     .fill_weight_decay = FillMuonDecay,
     .validate = ValidateMuon,
     .capabilities = kMuonCapabilities,
     .on_cuda = true,
     .add_needs = AddMuonNeeds,
     .state_bytes = MuonBytes},
    {.kind = v1::InnerOptimizerSpec::kOnebitAdam,
     .defaults = kOnebitAdamDefaults,
     .fill_weight_decay = [](v1::InnerOptimizerSpec& inner,
                             double decay) { FillDecay(*inner.mutable_onebit_adam(), decay); },
     .validate = ValidateOneBitAdam,
     .capabilities = kOnebitAdamCapabilities,
     .on_cuda = false,
     .add_needs = AddOnebitAdamNeeds,
     .state_bytes = OnebitAdamBytes},
};

}  // namespace

absl::Span<const OptimizerKind> OptimizerKinds() { return kOptimizerKinds; }

const OptimizerKind& OptimizerKindOf(const v1::InnerOptimizerSpec& inner) {
  for (const OptimizerKind& kind : kOptimizerKinds) {
    if (kind.kind == inner.kind_case()) return kind;
  }
  return kOptimizerKinds[0];
}

}  // namespace longhaul
