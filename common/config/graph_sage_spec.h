// The shape that a GraphSageSpec describes, and defaults that depend on other fields. Pure.
#pragma once

#include "common/config/violation_list.h"
#include "common/layout/graph_sage_layout.h"
#include "longhaul/v1/model.pb.h"

namespace longhaul {

// The shape for LayOutGraphSage and for the worker's model. `spec` has its defaults filled in.
GraphSageShape ShapeOf(const v1::GraphSageSpec& spec);

// Fills in `layers`, `fanout` and the task.
void FillGraphSage(v1::GraphSageSpec& spec);

// Reports missing fields, and what does not fit the task. Laying the model out checks the sizes.
void ValidateGraphSage(const v1::GraphSageSpec& spec, ViolationList& violations);

}  // namespace longhaul
