// From the first plan to the first step: seed if asked, pull every fragment whole, agree with the
// other ranks on the versions. Ranks pull at different times, and a commit may come in between;
// then the ranks with the older version pull again. Likewise when a pool that fell behind begins
// again.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "worker/session/core/session.h"

namespace longhaul::session {

void Session::Begin(const Plan& plan, Actions& out) {
  plan_ = plan;
  step_ = begin_step_ = plan.start_step;
  for (const FragmentPlan& fragment : plan.fragments) {
    fragments_.push_back({.schedule = fragment.schedule, .newest = fragment.newest});
  }
  for (int i = 0; i < static_cast<int>(fragments_.size()); ++i) {
    const int64_t version = plan.fragments[i].newest.version;
    LearnCall(i, version + (plan.fragments[i].called ? 1 : 0));
  }
  state_ = SessionState::kStarting;
  seed_asked_ = plan.seed;
  AskSeed(out);
  AskWhole(out);
}

void Session::On(const SeedRequested&, Actions& out) {
  seed_asked_ = true;
  // What was pushed before may have been refused, since another pool was asked meanwhile.
  seed_pushed_ = false;
  if (state_ == SessionState::kStarting) AskSeed(out);
}

void Session::AskSeed(Actions& out) {
  if (!seed_asked_ || seed_pushed_ || !connected_) return;
  SeedPush push;
  for (int i = 0; i < static_cast<int>(fragments_.size()); ++i) {
    if (fragments_[i].newest.version < 0) push.fragments.push_back(i);
  }
  if (push.fragments.empty()) return;
  seed_pushed_ = true;
  out.push_back(std::move(push));
}

// Pulls every fragment that is seeded and not held. Once all are held, compares versions.
void Session::AskWhole(Actions& out) {
  if (state_ != SessionState::kStarting) return;
  bool whole = true, seeded = true;
  for (int i = 0; i < static_cast<int>(fragments_.size()); ++i) {
    Fragment& fragment = fragments_[i];
    if (fragment.held >= fragment.wanted) continue;
    whole = false;
    if (fragment.newest.version < 0) {
      seeded = false;
    } else if (!fragment.whole_asked && connected_) {
      fragment.whole_asked = true;
      out.push_back(PullWhole{i});
    }
  }
  if (!seeded) WaitFor("the initial parameters", out);
  if (!whole) return;
  state_ = SessionState::kAgreeing;
  waiting_.reset();
  AgreeOnVersions agree{.again = steps_run_ > 0};
  for (const Fragment& fragment : fragments_) agree.versions.push_back(fragment.held);
  out.push_back(std::move(agree));
}

void Session::On(const PulledWhole& event, Actions& out) {
  Fragment& fragment = fragments_[event.fragment];
  if (state_ != SessionState::kStarting || !fragment.whole_asked) return;
  fragment.whole_asked = false;
  if (event.version < 0 || event.version > LastVersion(fragment)) {
    return End(
        Restart{absl::StrFormat("fragment %d came as version %d, which the job does not have",
                                event.fragment, event.version)},
        out);
  }
  fragment.held = event.version;
  fragment.pushed = fragment.sent = fragment.pulled = fragment.pull_asked = false;
  AskWhole(out);
}

// The pool fell behind: a rank cannot get the downlink of the next version of a fragment any more.
// Contributions that are under way to the versions that the pool holds stay as they are.
void Session::BeginAgain(Actions& out) {
  if (drain_asked_) return BeginDrain(out);
  state_ = SessionState::kStarting;
  for (Fragment& fragment : fragments_) {
    fragment.wanted = std::max(fragment.wanted, fragment.newest.version);
  }
  AskWhole(out);
}

void Session::On(const VersionsAgreed& event, Actions& out) {
  LH_CHECK(state_ == SessionState::kAgreeing, "versions that were not asked for");
  if (drain_asked_) return BeginDrain(out);
  bool equal = true;
  for (const auto& rank : event.versions) {
    for (size_t i = 0; i < fragments_.size(); ++i) {
      fragments_[i].wanted = std::max(fragments_[i].wanted, rank[i]);
      equal &= rank[i] == event.versions[0][i];
    }
  }
  if (!equal) {
    state_ = SessionState::kStarting;
    return AskWhole(out);
  }
  // A pool that begins again goes on where the outer parameters are.
  const bool again = steps_run_ > 0;
  for (Fragment& fragment : fragments_) {
    if (again && fragment.held > 0) step_ = std::max(step_, PushStep(fragment, fragment.held));
    fragment.steps_before = steps_run_;
  }
  begin_step_ = step_;
  // Merges the commits that were due up to the start step. Then EndStep begins the first step.
  state_ = SessionState::kBlocked;
  for (int i = 0; i < static_cast<int>(fragments_.size()) && state_ != SessionState::kEnded; ++i)
    PullNext(i, out);
  // Rounds up to there may wait for this pool: who pushed other fragments at that step may be lost.
  for (int i = 0; again && i < static_cast<int>(fragments_.size()); ++i) PushDue(i, out);
  EndStep(out);
}

}  // namespace longhaul::session
