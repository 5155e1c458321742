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
// does on the training thread depends only on the plan, on what all ranks agreed on, and on durable
// commits. It never depends on when a message arrived. So all ranks of a pool run the same
// collectives in the same order.
//
// With Plan::quorum rounds do not wait for this pool, and its steps follow those of the fastest
// pools. At the end of each step the ranks agree how far the others are (called_step): this pool
// leaves out the steps up to there, and pushes what is due by then. Before each merge they agree
// whether all of them have the commit. If one of them does not and cannot get it any more, since a
// later version was committed, the pool begins again from the outer parameters (BeginAgain).
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
  // Only with Plan::quorum: a merge is due, and the rank asks whether all ranks can merge.
  kMerging,
  // No further step follows; pushes are being sent.
  kDraining,
  // Finish or Restart was returned; later events are ignored.
  kEnded,
};

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
  // The inner step that runs, or ran last, or up to which steps were left out.
  int64_t step() const { return step_; }
  // The last step up to which other pools may be without this one: the furthest push of a round
  // that was called or committed. 0 without Plan::quorum.
  int64_t called_step() const { return called_step_; }
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
    // The commit of held + 1, once it was received. Else an older one.
    Commit next;
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
    // Only with Plan::quorum: `held` is being merged. The next downlink is added to the result.
    bool merging = false;
    // The newest version whose push was due.
    int64_t due = 0;
    // steps_run_ when it was due, whether or not the push came in time, or when the parameters were
    // installed later.
    int64_t steps_before = 0;
  };
  using Actions = std::vector<Action>;

  void On(const PlanReceived& event, Actions& out);
  void On(const PlanRefused& event, Actions& out);
  void On(const SeedRequested& event, Actions& out);
  void On(const CommitPublished& event, Actions& out);
  void On(const RoundCalled& event, Actions& out);
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
  void On(const MergeAgreed& event, Actions& out);
  void On(const Merged& event, Actions& out);
  void On(const Drain& event, Actions& out);

  // session_start.cc: from the plan to the first step.
  void Begin(const Plan& plan, Actions& out);
  void AskSeed(Actions& out);
  void AskWhole(Actions& out);
  void BeginAgain(Actions& out);

  // session_step.cc: the end of a step.
  void EndStep(Actions& out);
  void PushDue(int fragment, Actions& out);
  void PushFinal(Actions& out);
  void PushRound(int fragment, int64_t version, RoundKind kind, Actions& out);
  bool MergeDue(bool final, Actions& out);
  bool MergeNext(int fragment, Actions& out);
  bool CanMerge(const Fragment& fragment) const;
  bool SettlesAt(int64_t step) const;
  void EvaluateDue(Actions& out);
  void EvaluateCycle(int64_t version, Actions& out);
  int64_t LastVersion(const Fragment& fragment) const;
  int64_t PushStep(const Fragment& fragment, int64_t version) const;
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
  void LearnCall(int fragment, int64_t version);
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
  // SeedPush was asked for since the current connection or the newest request began.
  bool seed_pushed_ = false;
  int64_t step_ = 0;
  // The step at which the pool began, or began again, from the outer parameters.
  int64_t begin_step_ = 0;
  int64_t steps_run_ = 0;
  // The step before the newest one that was run.
  int64_t push_after_ = 0;
  int64_t called_step_ = 0;
  // With Plan::quorum: all ranks can make the next merge.
  bool merge_agreed_ = false;
  bool final_pushed_ = false;
  bool drain_asked_ = false;
  // The cycle for which a merged commit asked this pool to evaluate.
  std::optional<int64_t> evaluate_;
  bool evaluated_last_ = false;
  std::optional<Waiting> waiting_;
};

}  // namespace longhaul::session
