// What a rank's session asks its shell to do.
//
// The training thread performs foreground actions one after another, in the order in which Step
// returned them: SeedPush and Push (their snapshots), AgreeOnVersions, RunStep, AgreeOnMerge,
// Merge, Evaluate, Draining, Finish, Restart. All ranks of a pool get the same sequence of those
// that are collective, so the collectives inside match. Background actions begin at once and never
// delay training: PullWhole, Pull, PushAgain, and the coding and sending of SeedPush and Push. Wait
// is information for people.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/schedule/round_kind.h"

namespace longhaul::session {

// Push this rank's blocks of the initial parameters, exactly, as version 0. Then PushDone for each.
struct SeedPush {
  std::vector<int> fragments;
};
// Pull the newest outer parameters into outer and live. Then PulledWhole.
struct PullWhole {
  int fragment = 0;
};
// Gather `versions` (by fragment) of every rank. If they are equal, install the outer parameters as
// the live ones. Then VersionsAgreed. Collective.
struct AgreeOnVersions {
  std::vector<int64_t> versions;
  // The pool trained before and fell behind: its inner optimizer goes on with its state.
  bool again = false;
};
// Run inner step `step`. Then StepDone. Collective.
struct RunStep {
  int64_t step = 0;
  // At its end something may be pushed, merged or evaluated, so the ranks must hold the same
  // parameters then (Replica::Settle).
  bool settle = false;
};
// Take the delta now; encode, keep the coded bytes until the version is merged, send. Then PushDone
// or PushRefused.
struct Push {
  int fragment = 0;
  int64_t version = 0;
  RoundKind kind = RoundKind::kOuter;
  // Of the pool in the mean.
  int64_t weight = 1;
};
// Send the kept bytes again: the coordinator does not have them. If the training thread has not
// performed the Push itself yet, there is nothing to do: that Push sends them.
struct PushAgain {
  int fragment = 0;
  int64_t version = 0;
};
// Pull the downlink of a commit. Then Pulled.
struct Pull {
  int fragment = 0;
  int64_t version = 0;
};
// Gather from every rank whether it can merge this version (`here`). Then MergeAgreed. Collective.
struct AgreeOnMerge {
  int fragment = 0;
  int64_t version = 0;
  bool here = false;
};
// Put the version into effect: outer += downlink, live = alpha * live + (1 - alpha) * outer, and
// drop the kept bytes of a push for it. `contributed`: they counted, so the error feedback
// advances; otherwise it does not change. alpha is 0, so that live becomes outer, in the final
// round and for commits that a pool merges before its first step. Never for a SKIPPED version,
// which changes nothing. Then Merged. Collective.
struct Merge {
  int fragment = 0;
  int64_t version = 0;
  RoundKind kind = RoundKind::kOuter;
  double alpha = 0;
  bool contributed = false;
  // An earlier start of this pool contributed to it: the error feedback that this one began with no
  // longer counts.
  bool earlier = false;
};
// Evaluate the outer parameters, or the pool's own, and report the result. Collective.
struct Evaluate {
  int64_t version = 0;
  int64_t step = 0;
  bool final = false;
  bool of_pool = false;
};
// Training waits for `what`, before its first step or after `since_step`.
struct Wait {
  std::string what;
  int64_t since_step = 0;
};
// The pool was asked to stop, and `last_step` is its last one. Rounds with later pushes need not
// wait for this pool.
struct Draining {
  int64_t last_step = 0;
};
// How much of its job a rank has done when it ends.
enum class Extent {
  // No step: the same incarnation can begin again.
  kNothing,
  // Some steps. Its pushes may have counted, and its error feedback ends with it.
  kPart,
  // Every step, and the last commits are merged.
  kAll,
};
// End: nothing more is to be done.
struct Finish {
  std::string reason;
  Extent done = Extent::kNothing;
};
// End: this incarnation cannot go on. The pool's agent starts the ranks again under another one.
struct Restart {
  std::string reason;
};

using Action = std::variant<SeedPush, PullWhole, AgreeOnVersions, RunStep, Push, PushAgain, Pull,
                            AgreeOnMerge, Merge, Evaluate, Wait, Draining, Finish, Restart>;

}  // namespace longhaul::session
