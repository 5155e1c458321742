// The kinds of models that a spec can name, a row for each: what the rest of the system asks of a
// kind before a worker has it. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "common/config/violation_list.h"
#include "common/layout/model_layout.h"
#include "longhaul/v1/model.pb.h"

namespace longhaul {

struct ModelKind {
  // The field of the spec: "model.transformer".
  const char* field;
  // What reports count, in the plural: "tokens".
  const char* unit_name;
  // It has examples and an optimizer. The synthetic model has none.
  bool trains;
  // Every pool has held-out data of its own, so that each evaluates the outer parameters.
  bool every_pool_evaluates;
  // Fills in defaults that depend on other fields.
  void (*fill)(v1::ModelSpec& spec);
  // Reports what is missing, unknown or not built. `lay_out` checks whether sizes fit each other.
  void (*validate)(const v1::ModelSpec& spec, ViolationList& violations);
  // INVALID_ARGUMENT: a message that begins with the name of a field, without `field`.
  absl::StatusOr<ModelLayout> (*lay_out)(const v1::ModelSpec& spec);
};

// Null: the spec names no kind.
const ModelKind* ModelKindOf(const v1::ModelSpec& spec);

// "tokens" where the kind is not known.
const char* UnitNameOf(const v1::ModelSpec& spec);

bool EveryPoolEvaluates(const v1::ModelSpec& spec);

// Whether it names a kind that has examples and an optimizer.
bool Trains(const v1::ModelSpec& spec);

}  // namespace longhaul
