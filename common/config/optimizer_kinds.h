// The inner optimizers that a spec can name, a row for each: what the rest of the system asks of
// one before a worker has it. Pure.
#pragma once

#include <set>
#include <string>

#include "absl/types/span.h"
#include "common/config/defaults.h"
#include "common/config/violation_list.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {

// What the state of an optimizer depends on, of one rank.
struct OptimizerSizes {
  // Bytes of AdamW's state and of the masters: what the partition leaves to the rank.
  double adamw_bytes = 0;
  double parameters = 0;
  // How many of them are in hidden matrices.
  double matrix_elements = 0;
  int ranks = 1;
};

struct OptimizerKind {
  v1::InnerOptimizerSpec::KindCase kind;
  // Of its fields that have one.
  absl::Span<const FieldDefault> defaults;
  // Fills in a default that depends on the number of steps, where the spec has none.
  void (*fill_weight_decay)(v1::InnerOptimizerSpec& inner, double decay);
  void (*validate)(const v1::JobSpec& spec, ViolationList& violations);
  // What a worker with it says (capabilities.h), beyond what every worker has; and which of that a
  // spec needs.
  absl::Span<const char* const> capabilities;
  bool on_cuda;
  void (*add_needs)(const v1::JobSpec& spec, std::set<std::string>& needs);
  double (*state_bytes)(const v1::InnerOptimizerSpec& inner, const OptimizerSizes& sizes);
};

absl::Span<const OptimizerKind> OptimizerKinds();

// That of AdamW, the default, for a spec that names none.
const OptimizerKind& OptimizerKindOf(const v1::InnerOptimizerSpec& inner);

}  // namespace longhaul
