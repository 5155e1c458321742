// Converts protos of SyncService to the values of the session's core. Plans come from outside the
// process, so every value is checked. Pure functions. INVALID_ARGUMENT: the message says what is
// wrong.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/layout/fragment_layout.h"
#include "longhaul/v1/sync.pb.h"
#include "worker/session/core/event.h"

namespace longhaul::session {

// Who reads the message.
struct PoolIdentity {
  std::string_view pool, incarnation;
};

absl::StatusOr<Plan> PlanFromProto(const v1::Plan& plan, const PoolIdentity& self);
// The canonical layouts of the fragments. Every unit of `model` must lie in exactly one of them.
absl::StatusOr<std::vector<FragmentLayout>> LayoutsFromProto(const v1::Plan& plan,
                                                             const ModelLayout& model);
absl::StatusOr<Commit> CommitFromProto(const v1::Commit& commit, const PoolIdentity& self);

}  // namespace longhaul::session
