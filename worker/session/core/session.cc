#include "worker/session/core/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/check.h"

namespace longhaul::session {

std::vector<Action> Session::Step(const Event& event, absl::Time now) {
  now_ = now;
  Actions out;
  if (state_ != SessionState::kEnded) std::visit([&](const auto& e) { On(e, out); }, event);
  return out;
}

int64_t Session::version(int fragment) const {
  return fragment < static_cast<int>(fragments_.size()) ? fragments_[fragment].held : -1;
}

void Session::On(const PlanReceived& event, Actions& out) {
  connected_ = true;
  if (state_ == SessionState::kConnecting) {
    Begin(event.plan, out);
  } else if (state_ == SessionState::kDraining) {
    ResumeDrain(event.plan, out);
  } else {
    Resume(event.plan, out);
  }
}

void Session::On(const PlanRefused& event, Actions& out) {
  if (event.reason == "JOB_ENDED" || event.reason == "JOB_FINISHING" ||
      event.reason == "NOT_ASSIGNED" || event.reason == "JOB_QUARANTINED") {
    return End(Finish{std::string(event.status.message())}, out);
  }
  if (state_ == SessionState::kDraining) return End(Finish{"asked to stop"}, out);
  End(Restart{std::string(event.status.message())}, out);
}

void Session::On(const CommitPublished& event, Actions& out) {
  if (state_ == SessionState::kConnecting) return;
  LH_CHECK(event.fragment >= 0 && event.fragment < static_cast<int>(fragments_.size()),
           "the shell checks fragments");
  if (state_ == SessionState::kDraining) return Sent(event.fragment, event.commit.version, out);
  Learn(event.fragment, event.commit, out);
}

void Session::On(const RoundCalled& event, Actions&) {
  if (state_ == SessionState::kConnecting) return;
  LH_CHECK(event.fragment >= 0 && event.fragment < static_cast<int>(fragments_.size()),
           "the shell checks fragments");
  LearnCall(event.fragment, event.version);
}

void Session::On(const Ended& event, Actions& out) { End(Finish{event.reason}, out); }

void Session::On(const Disconnected&, Actions&) {
  connected_ = false;
  seed_pushed_ = false;
  for (Fragment& fragment : fragments_) fragment.whole_asked = fragment.pull_asked = false;
}

void Session::On(const Pulled& event, Actions& out) {
  Fragment& fragment = fragments_[event.fragment];
  if (event.version != fragment.held + 1 || state_ == SessionState::kStarting ||
      state_ == SessionState::kAgreeing || state_ == SessionState::kDraining)
    return;
  fragment.pulled = true;
  if (state_ == SessionState::kBlocked) EndStep(out);
}

void Session::On(const PushDone& event, Actions& out) { Sent(event.fragment, event.version, out); }

void Session::On(const PushRefused& event, Actions& out) {
  if (state_ == SessionState::kDraining) return Sent(event.fragment, event.version, out);
  const Fragment& fragment = fragments_[event.fragment];
  // Ended is about to arrive; or the version was committed before this answer arrived.
  if (event.reason == "JOB_ENDED" || fragment.held >= event.version || event.have == event.version)
    return;
  // The round went on without this contribution.
  const bool late = event.reason == "ROUND_CLOSED" || event.have >= event.version;
  if (plan_.quorum && late) return;
  // Another pool has seeded, or was asked to.
  if (event.version == 0 && absl::IsFailedPrecondition(event.status)) return;
  End(Restart{absl::StrFormat("push of fragment %d version %d: %s", event.fragment, event.version,
                              event.status.message())},
      out);
}

void Session::On(const PullRefused& event, Actions& out) {
  if (event.reason == "JOB_ENDED" || state_ == SessionState::kDraining) return;
  // A later version was committed. Its commit is here or about to arrive, and training learns of it
  // where this version is merged.
  if (plan_.quorum && event.reason == "VERSION_MISMATCH") return;
  End(Restart{absl::StrFormat("pull of fragment %d: %s", event.fragment, event.status.message())},
      out);
}

std::string Session::WaitsFor() const {
  const char* away =
      connected_ || state_ == SessionState::kConnecting ? "" : " (the coordinator is away)";
  switch (state_) {
    case SessionState::kConnecting:
      return "the coordinator's plan";
    case SessionState::kStarting:
      return (waiting_.has_value() ? waiting_->what : "the outer parameters") + away;
    case SessionState::kBlocked:
      return (waiting_.has_value() ? waiting_->what : "a commit") + away;
    case SessionState::kDraining:
      return std::string("pushes under way") + away;
    case SessionState::kAgreeing:
    case SessionState::kTraining:
    case SessionState::kMerging:
    case SessionState::kEnded:
      return "";
  }
  return "";
}

// Takes a commit from the stream or from a plan. The pull begins at once; the merge waits for its
// step.
void Session::Learn(int index, const Commit& commit, Actions& out) {
  Fragment& fragment = fragments_[index];
  if (commit.version > fragment.newest.version) fragment.newest = commit;
  LearnCall(index, commit.version);
  if (state_ == SessionState::kStarting || state_ == SessionState::kAgreeing) return AskWhole(out);
  PullNext(index, out);
  const bool blocked = state_ == SessionState::kBlocked;
  if (blocked && (plan_.quorum || commit.kind == RoundKind::kSkipped)) EndStep(out);
}

// The round that makes `version` is called, or committed.
void Session::LearnCall(int index, int64_t version) {
  const Fragment& fragment = fragments_[index];
  if (!plan_.quorum || version < 1 || version > LastVersion(fragment)) return;
  called_step_ = std::max(called_step_, PushStep(fragment, version));
}

void Session::PullNext(int index, Actions& out) {
  Fragment& fragment = fragments_[index];
  if (fragment.newest.version == fragment.held + 1) fragment.next = fragment.newest;
  if (fragment.newest.version > fragment.held + 1 && !plan_.quorum) {
    return End(Restart{absl::StrFormat("fragment %d is at version %d, this pool at %d", index,
                                       fragment.newest.version, fragment.held)},
               out);
  }
  const bool wanted =
      fragment.newest.version == fragment.held + 1 && fragment.newest.kind != RoundKind::kSkipped;
  if (!wanted || fragment.pulled || fragment.pull_asked || fragment.merging || !connected_) return;
  fragment.pull_asked = true;
  out.push_back(Pull{index, fragment.newest.version});
}

void Session::WaitFor(std::string what, Actions& out) {
  if (waiting_.has_value() && waiting_->what == what && waiting_->since_step == step_) return;
  waiting_ = Waiting{what, step_, now_};
  out.push_back(Wait{std::move(what), step_});
}

void Session::End(Action last, Actions& out) {
  if (state_ == SessionState::kEnded) return;
  state_ = SessionState::kEnded;
  waiting_.reset();
  auto* finish = std::get_if<Finish>(&last);
  if (finish != nullptr && finish->done != Extent::kAll && (steps_run_ > 0 || step_ > begin_step_))
    finish->done = Extent::kPart;
  out.push_back(std::move(last));
}

}  // namespace longhaul::session
