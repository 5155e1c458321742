// Makes groups of some of the ranks that are threads.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "tests/testing/thread_group.h"

namespace longhaul {

// Meets the other ranks in `meeting`. Every rank calls it with the members of its own group, and
// brings a candidate for the group's state. Returns that of the first member. Errors: those of
// ThreadGroup::Meet; FAILED_PRECONDITION: ranks of a group name different members.
template <typename Group>
absl::StatusOr<std::shared_ptr<Group>> MakeSubgroup(ThreadGroup& meeting, int rank,
                                                    absl::Span<const int> members,
                                                    std::shared_ptr<Group> group,
                                                    absl::Duration timeout) {
  struct Brought {
    std::shared_ptr<Group> group;
    std::vector<int> members;
  };
  const Brought own = {std::move(group), {members.begin(), members.end()}};
  LH_RETURN_IF_ERROR(meeting.Meet(rank, {"split", {}, &own}, timeout));
  const auto brought_by = [&](int member) -> const Brought& {
    return *static_cast<const Brought*>(meeting.call(member).input);
  };
  bool agreed = true;
  for (const int member : members) agreed &= brought_by(member).members == own.members;
  std::shared_ptr<Group> result = brought_by(members[0]).group;
  meeting.Leave();
  if (agreed) return result;
  meeting.Abort("split: ranks of a group name different members");
  return absl::FailedPreconditionError("split: ranks of a group name different members");
}

}  // namespace longhaul
