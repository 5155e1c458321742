// The session's core: a deterministic state machine that decides what one rank does when. The
// counterpart of the coordinator's core. It has no thread, socket, file, clock or randomness.
// Buffers are named by fragment and version, and never pass through it.
//
//   start    plan -> (seed) -> pull every fragment whole -> agree with the pool's other ranks on
//            the versions
//   step t   run -> push what is due at t, in fragment order -> merge what is due at t, in fragment
//            order
//   step N   the same, then the final round: push all, merge all -> evaluate -> finish
//   drain    at the end of a step: push what is due, merge nothing -> all pushes done -> finish
//
// Training waits in one place: where a merge is due and its commit has not arrived. What a rank
// does on the training thread depends only on the plan, the versions that all ranks agreed on, and
// durable commits. It never depends on when a message arrived. So all ranks of a pool run the same
// collectives in the same order.
//
// Externally synchronised: all threads of the shell call Step under one lock. No call blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "worker/session/core/action.h"
#include "worker/session/core/event.h"

namespace longhaul::session {

enum class SessionState {
  // There is no plan yet.
  kConnecting,
  // The rank waits for seeds and whole fragments.
  kStarting,
  // The rank compares versions with the other ranks.
  kAgreeing,
  // An inner step runs.
  kTraining,
  // A merge is due and its commit has not arrived.
  kBlocked,
  // No further step follows; pushes are being sent.
  kDraining,
  // Finish or Restart was returned; later events are ignored.
  kEnded,
};
const char* SessionStateName(SessionState state);

struct Waiting {
  std::string what;
  int64_t since_step = 0;
  absl::Time since;
};

class Session {
 public:
  Session() = default;

  // Takes an event, and returns what is to be done.
  std::vector<Action> Step(const Event& event, absl::Time now);

  SessionState state() const { return state_; }
  bool connected() const { return connected_; }
  // The inner step that runs, or ran last.
  int64_t step() const { return step_; }
  // The version of the outer parameters in effect. -1: none.
  int64_t version(int fragment) const;
  const std::optional<Waiting>& waiting() const { return waiting_; }
  // What the training thread waits for when it has no action. Empty: the session has ended.
  std::string WaitsFor() const;

 private:
  struct Fragment {
    FragmentSchedule schedule;
    // The newest commit that was received.
    Commit newest;
    // The version in effect.
    int64_t held = -1;
    // Before the first step: the newest version of any rank, which all must pull.
    int64_t wanted = 0;
    // Before the first step: PullWhole was asked for, and has not reported.
    bool whole_asked = false;
    // The contribution to held + 1 was pushed; its bytes are kept.
    bool pushed = false;
    // That push needs nothing more of this rank.
    bool sent = false;
    // Pull of held + 1 was asked for, and has not reported.
    bool pull_asked = false;
    // The downlink of held + 1 was pulled.
    bool pulled = false;
  };
  using Actions = std::vector<Action>;

  void On(const PlanReceived& event, Actions& out);
  void On(const PlanRefused& event, Actions& out);
  void On(const SeedRequested& event, Actions& out);
  void On(const CommitPublished& event, Actions& out);
  void On(const Ended& event, Actions& out);
  void On(const Disconnected& event, Actions& out);
  void On(const PulledWhole& event, Actions& out);
  void On(const Pulled& event, Actions& out);
  // Counts only while draining: otherwise the commit ends the round.
  void On(const PushDone& event, Actions& out);
  void On(const PushRefused& event, Actions& out);
  void On(const PullRefused& event, Actions& out);
  void On(const VersionsAgreed& event, Actions& out);
  void On(const StepDone& event, Actions& out);
  void On(const Drain& event, Actions& out);

  // session_start.cc: from the plan to the first step.
  void Begin(const Plan& plan, Actions& out);
  void AskSeed(Actions& out);
  void AskWhole(Actions& out);

  // session_step.cc: the end of a step.
  void EndStep(Actions& out);
  void PushDue(Actions& out);
  void PushFinal(Actions& out);
  void PushRound(int fragment, int64_t version, RoundKind kind, Actions& out);
  bool MergeDue(bool final, Actions& out);
  bool MergeNext(int fragment, Actions& out);
  bool SettlesAt(int64_t step) const;
  void EvaluateDue(Actions& out);
  void EvaluateOwnIfDue(int64_t version, Actions& out);
  int64_t LastVersion(const Fragment& fragment) const;
  int64_t MergeStep(const Fragment& fragment, int64_t version) const;

  // session_reconnect.cc: the second and later plans.
  void Resume(const Plan& plan, Actions& out);
  void ResumeFragment(int fragment, const FragmentPlan& plan, Actions& out);

  // session_drain.cc: after the last step.
  // Begins to drain if the pool was asked to stop while training waits for a commit.
  void StopHere(Actions& out);
  void BeginDrain(Actions& out);
  void FinishIfSent(Actions& out);
  void ResumeDrain(const Plan& plan, Actions& out);
  void Sent(int fragment, int64_t version, Actions& out);

  void Learn(int fragment, const Commit& commit, Actions& out);
  void PullNext(int fragment, Actions& out);
  void WaitFor(std::string what, Actions& out);
  void End(Action last, Actions& out);

  SessionState state_ = SessionState::kConnecting;
  bool connected_ = false;
  absl::Time now_;
  // The first plan. Its fragments' newest commits are not kept up to date.
  Plan plan_;
  std::vector<Fragment> fragments_;
  // This pool seeds.
  bool seed_asked_ = false;
  // SeedPush was asked for on the current connection.
  bool seed_pushed_ = false;
  int64_t step_ = 0;
  bool final_pushed_ = false;
  bool drain_asked_ = false;
  // The cycle for which a merged commit asked this pool to evaluate.
  std::optional<int64_t> evaluate_;
  std::optional<Waiting> waiting_;
};

}  // namespace longhaul::session
