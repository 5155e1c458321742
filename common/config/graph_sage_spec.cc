#include "common/config/graph_sage_spec.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace longhaul {

GraphSageShape ShapeOf(const v1::GraphSageSpec& spec) {
  GraphSageShape shape{.columns = spec.columns(),
                       .hidden = spec.hidden(),
                       .classes = spec.classes(),
                       .fanout = {spec.fanout().begin(), spec.fanout().end()},
                       .dropout = spec.dropout(),
                       .normalize = spec.normalize(),
                       .layer_norm = spec.norm() == v1::GraphSageSpec::LAYER,
                       .links = spec.has_links()};
  if (spec.aggregator() == v1::GraphSageSpec::SUM) shape.aggregator = GraphAggregator::kSum;
  if (spec.aggregator() == v1::GraphSageSpec::MAX) shape.aggregator = GraphAggregator::kMax;
  return shape;
}

void FillGraphSage(v1::GraphSageSpec& spec) {
  if (spec.fanout().empty() && (spec.layers() == 0 || spec.layers() == 2)) {
    spec.add_fanout(15);
    spec.add_fanout(10);
  }
  if (spec.layers() == 0) spec.set_layers(spec.fanout_size());
  if (spec.task_case() == v1::GraphSageSpec::TASK_NOT_SET) spec.mutable_nodes();
}

void ValidateGraphSage(const v1::GraphSageSpec& spec, ViolationList& violations) {
  if (spec.columns() == 0) {
    violations.Invalid("model.graph_sage.columns", "is required",
                       "`longhaul graph info` prints the number of columns");
  }
  if (spec.has_links() && spec.classes() != 0) {
    violations.Invalid("model.graph_sage.classes",
                       "model.graph_sage.links predicts links, which have no classes", "omit it");
  } else if (spec.classes() == 0 && !spec.has_links()) {
    violations.Invalid("model.graph_sage.classes", "is required",
                       "`longhaul graph info` prints the number of classes");
  }
  if (spec.fanout_size() != spec.layers()) {
    violations.Invalid("model.graph_sage.fanout",
                       absl::StrFormat("has %d numbers for %d layers (model.graph_sage.layers)",
                                       spec.fanout_size(), spec.layers()),
                       "give a number for each layer, the first for the hop next to the seeds; "
                       "layers may be omitted");
  }
  if (spec.has_links()) {
    const v1::LinkTask& links = spec.links();
    const auto require = [&](const char* field, int64_t value, int64_t most) {
      if (1 <= value && value <= most) return;
      violations.Invalid(absl::StrCat("model.graph_sage.links.", field),
                         absl::StrFormat("found %d, expected 1 to %d", value, most),
                         "omit it for the default");
    };
    require("negatives", links.negatives(), 1000);
    require("eval_negatives", links.eval_negatives(), 10'000);
  }
}

}  // namespace longhaul
