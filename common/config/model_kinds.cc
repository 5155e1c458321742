#include "common/config/model_kinds.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/config/checks.h"
#include "common/config/graph_sage_spec.h"
#include "common/config/transformer_spec.h"

namespace longhaul {
namespace {

// One for each pool.
constexpr int kInnerDeltasMax = 4096;

void FillNothing(v1::ModelSpec&) {}

void ValidateSynthetic(const v1::SyntheticModelSpec& model, ViolationList& violations) {
  if (model.units() == 0) violations.Invalid("model.synthetic.units", "is required");
  if (model.elements() == 0) violations.Invalid("model.synthetic.elements", "is required");
  constexpr double kFloatMax = std::numeric_limits<float>::max();
  RequireNumber(violations, "model.synthetic.initial", model.initial(), {-kFloatMax, kFloatMax});
  if (model.inner_delta_size() > kInnerDeltasMax) {
    violations.Invalid("model.synthetic.inner_delta",
                       absl::StrFormat("found %d values, expected at most %d",
                                       model.inner_delta_size(), kInnerDeltasMax));
    return;
  }
  for (int i = 0; i < model.inner_delta_size(); ++i) {
    RequireNumber(violations, absl::StrCat("model.synthetic.inner_delta[", i, "]"),
                  model.inner_delta(i), {-kFloatMax, kFloatMax});
  }
}

constexpr ModelKind kTransformerModel = {
    .field = "model.transformer",
    .unit_name = "tokens",
    .trains = true,
    .every_pool_evaluates = false,
    .fill = [](v1::ModelSpec& spec) { FillTransformer(*spec.mutable_transformer()); },
    .validate =
        [](const v1::ModelSpec& spec, ViolationList& violations) {
          ValidateTransformer(spec.transformer(), violations);
        },
    .lay_out =
        [](const v1::ModelSpec& spec) { return LayOutTransformer(ShapeOf(spec.transformer())); }};

constexpr ModelKind kSyntheticModel = {
    .field = "model.synthetic",
    .unit_name = "tokens",
    .trains = false,
    .every_pool_evaluates = false,
    .fill = &FillNothing,
    .validate = [](const v1::ModelSpec& spec,
                   ViolationList& violations) { ValidateSynthetic(spec.synthetic(), violations); },
    .lay_out =
        [](const v1::ModelSpec& spec) {
          return LayOutSynthetic(spec.synthetic().units(), spec.synthetic().elements());
        }};

constexpr ModelKind kGraphSageModel = {
    .field = "model.graph_sage",
    .unit_name = "nodes",
    .trains = true,
    .every_pool_evaluates = true,
    .fill = [](v1::ModelSpec& spec) { FillGraphSage(*spec.mutable_graph_sage()); },
    .validate = [](const v1::ModelSpec& spec,
                   ViolationList& violations) { ValidateGraphSage(spec.graph_sage(), violations); },
    .lay_out =
        [](const v1::ModelSpec& spec) { return LayOutGraphSage(ShapeOf(spec.graph_sage())); }};

// The same model, on pairs of nodes.
constexpr ModelKind kGraphSageLinks = [] {
  ModelKind kind = kGraphSageModel;
  kind.unit_name = "pairs";
  return kind;
}();

}  // namespace

const ModelKind* ModelKindOf(const v1::ModelSpec& spec) {
  switch (spec.kind_case()) {
    case v1::ModelSpec::kTransformer:
      return &kTransformerModel;
    case v1::ModelSpec::kSynthetic:
      return &kSyntheticModel;
    case v1::ModelSpec::kGraphSage:
      return spec.graph_sage().has_links() ? &kGraphSageLinks : &kGraphSageModel;
    case v1::ModelSpec::KIND_NOT_SET:
      break;
  }
  return nullptr;
}

const char* UnitNameOf(const v1::ModelSpec& spec) {
  const ModelKind* const kind = ModelKindOf(spec);
  return kind == nullptr ? "tokens" : kind->unit_name;
}

bool EveryPoolEvaluates(const v1::ModelSpec& spec) {
  const ModelKind* const kind = ModelKindOf(spec);
  return kind != nullptr && kind->every_pool_evaluates;
}

bool Trains(const v1::ModelSpec& spec) {
  const ModelKind* const kind = ModelKindOf(spec);
  return kind != nullptr && kind->trains;
}

}  // namespace longhaul
