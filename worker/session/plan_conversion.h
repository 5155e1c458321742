// From the protos of SyncService to the values of the session's core. Plans come from outside:
// everything is checked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/layout/fragment_layout.h"
#include "longhaul/v1/sync.pb.h"
#include "worker/session/core/event.h"

namespace longhaul::session {

// INVALID_ARGUMENT names what is wrong with the plan.
absl::StatusOr<Plan> PlanFromProto(const v1::Plan& plan, std::string_view pool);
// The fragments' canonical layouts; every unit of `model` lies in exactly one of them.
absl::StatusOr<std::vector<FragmentLayout>> LayoutsFromProto(const v1::Plan& plan,
                                                             const ModelLayout& model);
absl::StatusOr<Commit> CommitFromProto(const v1::Commit& commit, std::string_view pool);

}  // namespace longhaul::session
