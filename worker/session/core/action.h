// What a rank's session asks its shell to do.
//
// Foreground actions belong to the training thread, which performs them one after another in the
// order they came from Step: AgreeOnVersions, RunStep, Push (its snapshot), Merge, Evaluate,
// Finish, Restart. All ranks of a pool get the same sequence of them, so the collectives inside
// match. Background actions begin at once and never delay training: SeedPush, PullWhole, Push
// (encoding and sending), PushAgain, Pull. Wait is for people.
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
// Gather `versions` (by fragment) of every rank. Then VersionsAgreed. Collective.
struct AgreeOnVersions {
  std::vector<int64_t> versions;
};
// Run inner step `step`. Then StepDone. Collective.
struct RunStep {
  int64_t step = 0;
  // Its end is one at which something may be pushed, merged or evaluated: the ranks are to hold the same
  // parameters then.
  bool settle = false;
};
// Take the delta now; encode, keep the coded bytes until the version is merged, send. Then PushDone
// or PushRefused.
struct Push {
  int fragment = 0;
  int64_t version = 0;
  RoundKind kind = RoundKind::kOuter;
};
// Send the kept bytes again: the coordinator does not hold them. Nothing is to be done while the
// training thread has not come to the Push itself, which sends them then.
struct PushAgain {
  int fragment = 0;
  int64_t version = 0;
};
// Get the downlink of a commit. Then Pulled.
struct Pull {
  int fragment = 0;
  int64_t version = 0;
};
// The version takes effect: outer += downlink, live = alpha * live + (1 - alpha) * outer. The kept
// bytes of a push for it are dropped; `contributed`: they counted, so error feedback advances (else
// it stays as it was). alpha is 0 where live becomes outer: the final round, and commits that a
// pool takes before its first step. Never for a SKIPPED version: it changes nothing. Collective.
struct Merge {
  int fragment = 0;
  int64_t version = 0;
  RoundKind kind = RoundKind::kOuter;
  double alpha = 0;
  bool contributed = false;
  // An earlier start of this pool contributed to it: what was owed before is not owed any more.
  bool earlier = false;
};
// Evaluate the outer parameters, or the pool's own as they are, and report them. Collective.
struct Evaluate {
  int64_t version = 0;
  int64_t step = 0;
  bool final = false;
  bool of_pool = false;
};
// Training waits for this, before or after it began.
struct Wait {
  std::string what;
  int64_t since_step = 0;
};
// The pool was asked to stop, and this is its last step: rounds that are pushed later need not wait
// for it.
struct Draining {
  int64_t last_step = 0;
};
// What a rank did of its job when it ends.
enum class Extent {
  // No step: the same incarnation can begin again.
  kNothing,
  // Some steps: what it pushed may have counted, and its error feedback ends with it.
  kPart,
  // Every step, and the last commits are merged.
  kAll,
};
// Nothing more is to be done.
struct Finish {
  std::string reason;
  Extent done = Extent::kNothing;
};
// This incarnation cannot go on; its agent starts the ranks anew under another.
struct Restart {
  std::string reason;
};

using Action = std::variant<SeedPush, PullWhole, AgreeOnVersions, RunStep, Push, PushAgain, Pull,
                            Merge, Evaluate, Wait, Draining, Finish, Restart>;

}  // namespace longhaul::session
