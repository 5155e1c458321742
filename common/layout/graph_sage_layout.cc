#include "common/layout/graph_sage_layout.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/layout/unit_tensors.h"

namespace longhaul {
namespace {

absl::Status ValidateGraphSage(const GraphSageShape& shape) {
  LH_RETURN_IF_ERROR(RequireRange("fanout", shape.layers(), 1, kGraphLayersMax));
  for (const int64_t drawn : shape.fanout) {
    if (drawn == -1 || (drawn >= 1 && drawn <= kGraphFanoutMax)) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "fanout: found %d, expected 1 to %d, or -1 for all neighbors", drawn, kGraphFanoutMax));
  }
  LH_RETURN_IF_ERROR(RequireRange("columns", shape.columns, 1, 1 << 20));
  LH_RETURN_IF_ERROR(RequireRange("hidden", shape.hidden, 1, kGraphHiddenMax));
  if (!shape.links) LH_RETURN_IF_ERROR(RequireRange("classes", shape.classes, 2, 65536));
  // With a larger one, values that are kept would be multiplied by more than a thousand.
  if (!(shape.dropout >= 0 && shape.dropout <= 0.999))
    return absl::InvalidArgumentError("dropout: expected a number from 0 to 0.999");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelLayout> LayOutGraphSage(const GraphSageShape& shape) {
  LH_RETURN_IF_ERROR(ValidateGraphSage(shape));
  ModelLayout model;
  for (int layer = 0; layer < shape.layers(); ++layer) {
    const bool last = layer + 1 == shape.layers();
    UnitLayout unit{
        .name = absl::StrCat("layer ", layer), .kind = UnitKind::kBlock, .layer = layer};
    const std::string prefix = absl::StrCat("layers.", layer, ".");
    const int64_t inputs = shape.inputs(layer), outputs = shape.outputs(layer);
    AddTensor(unit, prefix + "fc_self.weight", {outputs, inputs});
    AddTensor(unit, prefix + "fc_neigh.weight", {outputs, inputs});
    for (TensorLayout& matrix : unit.tensors) matrix.matrix = !last || shape.links;
    AddTensor(unit, prefix + "fc_self.bias", {outputs});
    if (shape.layer_norm && !last) {
      AddTensor(unit, absl::StrCat("norms.", layer, ".weight"), {outputs});
      AddTensor(unit, absl::StrCat("norms.", layer, ".bias"), {outputs});
    }
    model.units.push_back(std::move(unit));
  }
  LH_RETURN_IF_ERROR(RequireTotal(model));
  return model;
}

}  // namespace longhaul
