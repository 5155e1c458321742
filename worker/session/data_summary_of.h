// What a rank tells the coordinator about its pool's data.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "common/base/named_value.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::session {

// `phase`: Replica::InnerStatePhase. Empty if the replica has no data. Of `warnings` one of each
// kind, which says how many there are more. Pure.
v1::DataSummary DataSummaryOf(absl::Span<const NamedValue> phase,
                              absl::Span<const v1::DataWarning> warnings = {},
                              const std::string& features = "");

}  // namespace longhaul::session
