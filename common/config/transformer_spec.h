// What a TransformerSpec says, as a shape; named sizes; defaults that depend on other fields. Pure.
#pragma once

#include "common/config/violation_list.h"
#include "common/layout/model_layout.h"
#include "longhaul/v1/model.pb.h"

namespace longhaul {

// The shape as LayOutTransformer and the worker's model take it; `spec` has its defaults filled in.
TransformerShape ShapeOf(const v1::TransformerSpec& spec);

// The inverse of ShapeOf, every field written out.
v1::TransformerSpec SpecOf(const TransformerShape& shape);

// What a named size gives, and what follows from other fields. An unknown size gives nothing.
void FillTransformer(v1::TransformerSpec& spec);

// What is missing or names nothing. Whether the sizes fit each other is found by laying the model
// out.
void ValidateTransformer(const v1::TransformerSpec& spec, ViolationList& violations);

}  // namespace longhaul
