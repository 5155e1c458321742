// The end of an inner step, after the inner update: due fragments are pushed, then due commits are
// merged.
#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "worker/session/core/session.h"

namespace longhaul::session {

void Session::On(const StepDone& event, Actions& out) {
  LH_CHECK(state_ == SessionState::kTraining && event.step == step_,
           "a step that was not asked for");
  state_ = SessionState::kBlocked;
  ++steps_run_;
  push_after_ = event.step - 1;
  step_ = std::max(step_, event.called);
  for (int i = 0; i < static_cast<int>(fragments_.size()); ++i) PushDue(i, out);
  if (event.drain && state_ != SessionState::kEnded) return BeginDrain(out);
  EndStep(out);
}

// Is called again when a commit arrives that it waited for. It then merges the rest and pushes
// nothing twice.
void Session::EndStep(Actions& out) {
  if (state_ == SessionState::kEnded) return;
  if (!MergeDue(/*final=*/false, out)) return StopHere(out);
  if (step_ == plan_.steps) {
    if (plan_.final_round && !std::exchange(final_pushed_, true)) PushFinal(out);
    if (!MergeDue(/*final=*/true, out)) return StopHere(out);
    // A pool that fell behind may have got the last versions whole, so that it merged none of them.
    if (!evaluated_last_) EvaluateDue(out);
    return End(Finish{"all steps are done", Extent::kAll}, out);
  }
  waiting_.reset();
  state_ = SessionState::kTraining;
  ++step_;
  out.push_back(RunStep{step_, SettlesAt(step_)});
}

// Settling is collective, so this depends only on the schedule and on merged versions, which are
// the same on all ranks. The commits that a rank has received by now are not.
bool Session::SettlesAt(int64_t step) const {
  // With a quorum the pool may be called at any step.
  if (step == plan_.steps || plan_.quorum) return true;
  for (const Fragment& fragment : fragments_) {
    if (fragment.schedule.RoundPushedAt(step) > 0) return true;
    if (fragment.held < fragment.schedule.rounds && MergeStep(fragment, fragment.held + 1) <= step)
      return true;
  }
  return false;
}

// Pushes what is due after push_after_ up to step_.
void Session::PushDue(int index, Actions& out) {
  const FragmentSchedule& schedule = fragments_[index].schedule;
  const int64_t round = schedule.LastPushedUntil(step_);
  if (round > 0 && schedule.PushStep(round) > push_after_)
    PushRound(index, round, RoundKind::kOuter, out);
}

void Session::PushFinal(Actions& out) {
  for (int i = 0; i < static_cast<int>(fragments_.size()); ++i) {
    PushRound(i, LastVersion(fragments_[i]), RoundKind::kFinal, out);
  }
}

// A pool that began later than others may already have the commit of a round whose step it reaches
// now. It pushes nothing then.
void Session::PushRound(int index, int64_t version, RoundKind kind, Actions& out) {
  Fragment& fragment = fragments_[index];
  if (state_ == SessionState::kEnded || fragment.held >= version || fragment.due >= version) return;
  // Steps were left out, and the version before is merged first. MergeNext pushes then.
  if (plan_.quorum && fragment.held != version - 1) return;
  // All ranks count the steps alike, whichever commits they have received by now.
  fragment.due = version;
  const int64_t steps = steps_run_ - std::exchange(fragment.steps_before, steps_run_);
  if (fragment.newest.version >= version) return;
  if (fragment.held != version - 1) {
    return End(Restart{absl::StrFormat("fragment %d: version %d is due, this pool holds %d", index,
                                       version, fragment.held)},
               out);
  }
  fragment.pushed = true;
  fragment.sent = false;
  const int64_t weight = plan_.quorum ? std::clamp<int64_t>(steps, 1, fragment.schedule.period) : 1;
  out.push_back(Push{index, version, kind, weight});
}

// Merges the commits that are due at step_, in fragment order. False: the next one has not arrived.
bool Session::MergeDue(bool final, Actions& out) {
  for (int i = 0; i < static_cast<int>(fragments_.size()); ++i) {
    const Fragment& fragment = fragments_[i];
    const int64_t last = final ? LastVersion(fragment) : fragment.schedule.rounds;
    while (fragment.held < last && MergeStep(fragment, fragment.held + 1) <= step_) {
      if (!MergeNext(i, out)) return false;
    }
  }
  return true;
}

bool Session::CanMerge(const Fragment& fragment) const {
  const bool skipped =
      fragment.next.version == fragment.held + 1 && fragment.next.kind == RoundKind::kSkipped;
  return fragment.pulled || skipped;
}

bool Session::MergeNext(int index, Actions& out) {
  Fragment& fragment = fragments_[index];
  const int64_t version = fragment.held + 1;
  const bool here = CanMerge(fragment);
  // With a quorum a later version may have been committed before this one was pulled.
  if (!here && !(plan_.quorum && fragment.newest.version > version)) {
    WaitFor(absl::StrFormat("fragment %d version %d", index, version), out);
    return false;
  }
  if (plan_.quorum && !std::exchange(merge_agreed_, false)) {
    waiting_.reset();
    state_ = SessionState::kMerging;
    out.push_back(AgreeOnMerge{index, version, here});
    return false;
  }
  const Commit commit = fragment.next;
  if (commit.kind != RoundKind::kSkipped) {
    // Before the first step there are no local parameters to keep.
    const bool outer_only = commit.kind == RoundKind::kFinal || step_ == begin_step_;
    fragment.merging = plan_.quorum;
    // This incarnation may have pushed, too, though that of an earlier one was being applied.
    const bool earlier = commit.earlier || !fragment.pushed;
    out.push_back(Merge{index, version, commit.kind, outer_only ? 0 : plan_.alpha,
                        commit.contributed && !earlier, commit.contributed && earlier});
  }
  fragment.held = version;
  fragment.pulled = fragment.pull_asked = fragment.pushed = fragment.sent = false;
  if (commit.evaluate) evaluate_ = version;
  EvaluateDue(out);
  EvaluateCycle(version, out);
  if (!plan_.quorum) return true;
  // The next round may be due already, or its commit be there.
  PushDue(index, out);
  PullNext(index, out);
  return true;
}

void Session::On(const Merged& event, Actions& out) {
  if (!std::exchange(fragments_[event.fragment].merging, false)) return;
  if (state_ == SessionState::kDraining) return;
  PullNext(event.fragment, out);
}

void Session::On(const MergeAgreed& event, Actions& out) {
  LH_CHECK(state_ == SessionState::kMerging, "a merge that was not asked for");
  state_ = SessionState::kBlocked;
  if (!event.here) return BeginAgain(out);
  merge_agreed_ = true;
  EndStep(out);
}

// The commit that asked for the evaluation may be merged before others of its cycle. The evaluation
// waits until all commits of the cycle are merged. After the last round every pool may be asked.
void Session::EvaluateDue(Actions& out) {
  if (!evaluate_.has_value() && !plan_.all_evaluate_last) return;
  bool cycle = evaluate_.has_value(), complete = true;
  int64_t oldest = fragments_[0].held;
  for (const Fragment& fragment : fragments_) {
    cycle = cycle && *evaluate_ <= fragment.schedule.rounds && fragment.held >= *evaluate_;
    complete &= fragment.held == LastVersion(fragment);
    oldest = std::min(oldest, fragment.held);
  }
  if (!cycle && !complete) return;
  evaluate_.reset();
  evaluated_last_ = complete;
  out.push_back(Evaluate{oldest, step_, complete});
}

// Every pool evaluates at the same inner step, so none falls behind the others. Before the first
// step a pool's parameters are the outer ones: there is nothing of its own to evaluate.
void Session::EvaluateCycle(int64_t version, Actions& out) {
  // Every fragment reaches `version` once. The last one to do so completes the cycle.
  bool last = true;
  for (const Fragment& fragment : fragments_) {
    if (version > fragment.schedule.rounds || fragment.held < version) return;
    last &= fragment.held == LastVersion(fragment);
  }
  const auto due = [&](int64_t every) {
    return every > 0 && (version == 1 || version % every == 0);
  };
  // EvaluateDue evaluates the last ones.
  if (due(plan_.outer_evaluation_cycles) && !last)
    out.push_back(Evaluate{.version = version, .step = step_});
  if (due(plan_.pool_evaluation_cycles) && step_ > begin_step_)
    out.push_back(Evaluate{.version = version, .step = step_, .of_pool = true});
}

int64_t Session::LastVersion(const Fragment& fragment) const {
  return fragment.schedule.rounds + (plan_.final_round ? 1 : 0);
}

int64_t Session::PushStep(const Fragment& fragment, int64_t version) const {
  return version <= fragment.schedule.rounds ? fragment.schedule.PushStep(version) : plan_.steps;
}

int64_t Session::MergeStep(const Fragment& fragment, int64_t version) const {
  return version <= fragment.schedule.rounds ? fragment.schedule.MergeStep(version) : plan_.steps;
}

}  // namespace longhaul::session
