// What the membership of an agent decides: under which incarnation it joins, which reports count,
// and what follows an answer or an error. It knows no network, thread or clock. MembershipClient
// runs it over gRPC, the simulation in virtual time.
//
// Externally synchronised.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace longhaul {

class AgentMembership {
 public:
  // The job and incarnation for which ranks were started.
  struct Subject {
    std::string incarnation, job;
    int ordinal = 0;
    friend bool operator==(const Subject&, const Subject&) = default;
  };
  // A node's part in the group of a pool's nodes. Without an incarnation there is no group.
  struct Part {
    std::string incarnation;
    int node = 0;
  };
  // What to do after an error, besides trying again later.
  enum class Remedy {
    kNone,
    // The reports were refused, and would be again until the lease ends.
    kDropReports,
    // The coordinator restarted, or the lease ended: join again at once. The same incarnation keeps
    // its place, if it still has one.
    kJoin,
    // Another incarnation took the place: BeginAnew.
    kBeginAnew,
    // Another agent has this node's number, so the group has ended: any other number will do. The
    // ranks end.
    kLeaveGroup,
  };

  // `several`: of a pool of several nodes. `before`: an incarnation that has ended for certain.
  AgentMembership(bool several, std::string incarnation, std::string before = "")
      : several_(several), incarnation_(std::move(incarnation)), before_(std::move(before)) {}

  const std::string& incarnation() const { return incarnation_; }
  // What Join says, so that nobody waits for the lease of an incarnation before this one. Empty:
  // none is known.
  const std::string& before() const { return before_; }
  // True: it has a lease, and sends heartbeats. False: it joins.
  bool joined() const { return joined_; }
  bool draining() const { return draining_; }
  // What Join says, so that the ranks of the group continue while that exists. Nothing: none run.
  std::optional<Part> running() const;

  // A lease was granted, with this job (or ""). Returns whether the subject is another one now:
  // then reports about the one before do not count any more.
  bool Granted(const std::string& job, int ordinal, const Part& part);
  // As a new incarnation, without a lease and without a job. Returns as Granted.
  bool BeginAnew(std::string incarnation);
  // The group has ended. Returns as Granted.
  bool LeaveGroup() { return Assign("", 0, {}); }
  // Gave the lease back.
  void Left() { joined_ = false; }
  Remedy Refused(const absl::Status& error);

  // The incarnation under which ranks work: the agent's, or that of the group.
  const std::string& of_ranks() const { return several_ ? part_.incarnation : incarnation_; }
  // Whether a report about it counts: it is of the last answer. The coordinator would take another
  // for the current one.
  bool About(const Subject& of) const { return subject_ == of; }
  // Whether the pool must leave if such ranks were lost. Not if it works as another incarnation
  // since then.
  bool Rejoins(const Subject& of) const { return of.incarnation == of_ranks(); }
  // From now on the pool takes no new work, for as long as that group of nodes exists. Returns
  // whether it counts.
  bool Drain(const Subject& of);

 private:
  bool Assign(const std::string& job, int ordinal, const Part& part);

  const bool several_;
  std::string incarnation_, before_;
  bool joined_ = false, draining_ = false;
  Part part_;
  // Of the last answer.
  std::optional<Subject> subject_;
};

}  // namespace longhaul
