// The session's core: what one rank must do when, as a deterministic state machine; the coordinator
// core's twin. No thread, socket, file, clock or randomness; buffers are named by fragment and
// version and never pass through.
//
//   start    plan -> (seed) -> pull every fragment whole -> agree with the pool's other ranks on
//            the versions
//   step t   run -> push what is due at t, in fragment order -> merge what is due at t, in fragment
//            order
//   step N   the same, then the final round: push all, merge all -> evaluate if asked -> finish
//   drain    at the end of a step: push what is due, merge nothing -> all pushes there -> finish
//
// Training blocks in one place: where a merge is due and its commit is not here. What a rank does
// on the training thread depends on the plan, the versions that all ranks agreed on, and durable
// commits alone, never on when a message arrived: so all ranks of a pool run the same collectives
// in the same order.
//
// Externally synchronised: the training thread and the stream's thread call Step under one lock.
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
  kConnecting,  // No plan yet.
  kStarting,    // Waits for seeds and whole fragments.
  kAgreeing,    // Compares versions with the other ranks.
  kTraining,    // An inner step runs.
  kBlocked,     // A merge is due and its commit is not here.
  kDraining,    // Takes no further step; pushes are under way.
  kEnded,       // Finish or Restart was given; later events are ignored.
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

  std::vector<Action> Step(const Event& event, absl::Time now);

  SessionState state() const { return state_; }
  bool connected() const { return connected_; }
  int64_t step() const { return step_; }  // The inner step that runs or ran last.
  int64_t version(int fragment) const;    // Held: in effect. -1: none.
  const std::optional<Waiting>& waiting() const { return waiting_; }
  // What the training thread waits for when it has nothing to do. Empty: nothing, it has ended.
  std::string WaitsFor() const;

 private:
  struct Fragment {
    FragmentSchedule schedule;
    Commit newest;             // The newest that was received.
    int64_t held = -1;         // In effect.
    int64_t wanted = 0;        // Start: the least version that will do; the ranks' newest.
    bool whole_asked = false;  // Start: PullWhole is under way.
    bool pushed = false;       // For held + 1; its bytes are kept.
    bool sent = false;         // That push needs nothing more of this rank.
    bool pull_asked = false;   // Pull of held + 1 is under way.
    bool pulled = false;       // The downlink of held + 1 is here.
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
  void On(const PushDone& event, Actions& out);  // A commit is what counts, but when draining.
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
  void StopHere(Actions& out);  // Training stands still, if the pool was asked to stop, for good.
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
  Plan plan_;  // The first one: its fragments' newest commits are not kept up to date.
  std::vector<Fragment> fragments_;
  bool seed_asked_ = false;   // This pool seeds.
  bool seed_pushed_ = false;  // Since the connection was made.
  int64_t step_ = 0;
  bool final_pushed_ = false;
  bool drain_asked_ = false;
  std::optional<int64_t> evaluate_;  // A merged commit asked for an evaluation of this cycle.
  std::optional<Waiting> waiting_;
};

}  // namespace longhaul::session
