#include "worker/agent/agent_membership.h"

#include <utility>

namespace longhaul {

std::optional<AgentMembership::Part> AgentMembership::running() const {
  if (part_.incarnation.empty()) return std::nullopt;
  return part_;
}

bool AgentMembership::Granted(const std::string& job, int ordinal, const Part& part) {
  joined_ = true;
  return Assign(job, ordinal, part);
}

bool AgentMembership::BeginAnew(std::string incarnation) {
  joined_ = false;
  before_ = std::exchange(incarnation_, std::move(incarnation));
  return Assign("", 0, {});
}

AgentMembership::Remedy AgentMembership::Refused(const absl::Status& error) {
  if (joined_ && absl::IsInvalidArgument(error)) return Remedy::kDropReports;
  if (joined_ && absl::IsNotFound(error)) {
    joined_ = false;
    return Remedy::kJoin;
  }
  if (absl::IsAborted(error)) return Remedy::kBeginAnew;
  if (absl::IsAlreadyExists(error) && !part_.incarnation.empty()) return Remedy::kLeaveGroup;
  return Remedy::kNone;
}

bool AgentMembership::Drain(const Subject& of) {
  if (several_ && !About(of)) return false;
  draining_ = true;
  return true;
}

bool AgentMembership::Assign(const std::string& job, int ordinal, const Part& part) {
  part_ = part;
  Subject subject{of_ranks(), job, ordinal};
  if (subject_ == subject) return false;
  // The group that drained has ended.
  if (several_ && subject_.has_value() && subject_->incarnation != subject.incarnation)
    draining_ = false;
  subject_ = std::move(subject);
  return true;
}

}  // namespace longhaul
