#include "worker/session/core/session.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/check.h"

namespace longhaul::session {

const char* SessionStateName(SessionState state) {
  switch (state) {
    case SessionState::kConnecting:
      return "connecting";
    case SessionState::kStarting:
      return "starting";
    case SessionState::kAgreeing:
      return "agreeing";
    case SessionState::kTraining:
      return "training";
    case SessionState::kBlocked:
      return "blocked";
    case SessionState::kDraining:
      return "draining";
    case SessionState::kEnded:
      return "ended";
  }
  return "unknown";
}

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
  // Another pool has seeded, or was asked to.
  if (event.version == 0 && absl::IsFailedPrecondition(event.status)) return;
  End(Restart{absl::StrFormat("push of fragment %d version %d: %s", event.fragment, event.version,
                              event.status.message())},
      out);
}

void Session::On(const PullRefused& event, Actions& out) {
  if (event.reason == "JOB_ENDED" || state_ == SessionState::kDraining) return;
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
  if (state_ == SessionState::kStarting || state_ == SessionState::kAgreeing) return AskWhole(out);
  PullNext(index, out);
  if (state_ == SessionState::kBlocked && commit.kind == RoundKind::kSkipped) EndStep(out);
}

void Session::PullNext(int index, Actions& out) {
  Fragment& fragment = fragments_[index];
  if (fragment.newest.version > fragment.held + 1) {
    return End(Restart{absl::StrFormat("fragment %d is at version %d, this pool at %d", index,
                                       fragment.newest.version, fragment.held)},
               out);
  }
  const bool wanted =
      fragment.newest.version == fragment.held + 1 && fragment.newest.kind != RoundKind::kSkipped;
  if (!wanted || fragment.pulled || fragment.pull_asked || !connected_) return;
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
  if (finish != nullptr && finish->done != Extent::kAll && step_ > plan_.start_step)
    finish->done = Extent::kPart;
  out.push_back(std::move(last));
}

}  // namespace longhaul::session
