// The drain, after the pool was asked to stop: no further step and no merge. Pushes are completed,
// so that rounds of the other pools have this pool's contributions.
#include "absl/strings/str_format.h"
#include "worker/session/core/session.h"

namespace longhaul::session {

void Session::On(const Drain& event, Actions& out) {
  drain_asked_ = true;
  switch (state_) {
    case SessionState::kConnecting:
    case SessionState::kStarting:
    case SessionState::kAgreeing:
      if (steps_run_ == 0) return End(Finish{"asked to stop before its first step"}, out);
      // The pool begins again, and contributions may be under way.
      if (state_ == SessionState::kStarting || event.stopped) BeginDrain(out);
      return;
    case SessionState::kBlocked:
      return BeginDrain(out);
    case SessionState::kMerging:
      if (event.stopped) BeginDrain(out);
      return;
    case SessionState::kTraining:
      if (!event.stopped) return;
      // The current step does not end.
      --step_;
      return BeginDrain(out);
    case SessionState::kDraining:
    case SessionState::kEnded:
      return;
  }
}

// The other ranks wait here as well, or in the merges of this step, which are collective.
void Session::StopHere(Actions& out) {
  if (drain_asked_ && state_ == SessionState::kBlocked) BeginDrain(out);
}

void Session::BeginDrain(Actions& out) {
  state_ = SessionState::kDraining;
  waiting_.reset();
  out.push_back(Draining{step_});
  FinishIfSent(out);
}

void Session::FinishIfSent(Actions& out) {
  for (const Fragment& fragment : fragments_) {
    if (fragment.pushed && !fragment.sent && fragment.newest.version <= fragment.held) return;
  }
  End(Finish{absl::StrFormat("asked to stop: inner step %d was the last", step_)}, out);
}

// Called after PushDone. While draining also after a commit of that version, or a refusal: the
// round is over then, too.
void Session::Sent(int index, int64_t version, Actions& out) {
  Fragment& fragment = fragments_[index];
  if (fragment.pushed && version == fragment.held + 1) fragment.sent = true;
  if (state_ == SessionState::kDraining) FinishIfSent(out);
}

void Session::ResumeDrain(const Plan& plan, Actions& out) {
  if (plan.fragments.size() != fragments_.size()) return End(Finish{"asked to stop"}, out);
  for (int i = 0; i < static_cast<int>(fragments_.size()); ++i) {
    Fragment& fragment = fragments_[i];
    const FragmentPlan& here = plan.fragments[i];
    fragment.sent = here.contributed || here.newest.version > fragment.held;
    if (fragment.pushed && !fragment.sent) out.push_back(PushAgain{i, fragment.held + 1});
  }
  FinishIfSent(out);
}

}  // namespace longhaul::session
