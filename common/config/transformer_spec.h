// The shape that a TransformerSpec describes, sizes with names, and defaults that depend on other
// fields. Pure.
#pragma once

#include "common/config/violation_list.h"
#include "common/layout/model_layout.h"
#include "longhaul/v1/model.pb.h"

namespace longhaul {

// The shape for LayOutTransformer and for the worker's model. `spec` has its defaults filled in.
TransformerShape ShapeOf(const v1::TransformerSpec& spec);

// The inverse of ShapeOf. Every field is set.
v1::TransformerSpec SpecOf(const TransformerShape& shape);

// Fills in the fields that a named size gives, and those that follow from other fields. An unknown
// size gives nothing.
void FillTransformer(v1::TransformerSpec& spec);

// Reports missing fields and unknown names. Laying the model out checks whether the sizes fit each
// other.
void ValidateTransformer(const v1::TransformerSpec& spec, ViolationList& violations);

}  // namespace longhaul
