// The session's core under a coordinator that sends whatever it likes: plans, commits, calls,
// seeds, ends, the versions of pulls, refusals. The rank itself keeps to its contract. No answer
// may stop it otherwise than by the core's own Finish or Restart.
//   input: steps: u8 what | its message or number
#include <optional>
#include <variant>
#include <vector>

#include "common/base/overloaded.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet_protobuf.h"
#include "tests/fuzz/worker/session/small_plan.h"
#include "worker/session/core/session.h"
#include "worker/session/plan_conversion.h"

namespace longhaul::fuzz::session_fuzz {
namespace {

using session::Action;
using session::Event;

constexpr char kPool[] = "oslo";
constexpr int kEventsMax = 500, kFragmentsMax = 16;

enum What : uint8_t {
  kPlan,
  kCommit,
  kSeed,
  kAnswer,
  kTrain,
  kLose,
  kRefuse,
  kEnd,
  kDrain,
  kCall,
  kWhats
};

// A rank around the core: keeps what is under way, performs the foreground at once.
class Rank {
 public:
  explicit Rank(FuzzInput input) : input_(input) {}

  void Run() {
    for (events_ = 0; !input_.empty() && events_ < kEventsMax && !ended_; ++events_) Next();
  }

 private:
  void Next() {
    switch (input_.Byte() % kWhats) {
      case kPlan:
        return TakePlan();
      case kCommit:
        return TakeCommit();
      case kSeed:
        return Post(session::SeedRequested{});
      case kAnswer:
        return AnswerPull();
      case kTrain:
        if (running_) {
          const bool drain = drain_ && input_.Flag();
          return Post(session::StepDone{*std::exchange(running_, std::nullopt), drain,
                                        core_.called_step()});
        }
        // The other rank may lack the commit.
        if (merge_) Post(session::MergeAgreed{*std::exchange(merge_, std::nullopt) && !lacks_});
        return;
      case kLose:
        whole_.clear();
        downlinks_.clear();
        return Post(session::Disconnected{});
      case kRefuse:
        return Refuse();
      case kEnd:
        if (input_.Flag()) Post(session::Ended{"completed"});
        return;
      case kDrain:
        drain_ = true;
        if (input_.Flag()) return Post(session::Drain{});
        // The other rank has stopped.
        running_.reset();
        merge_.reset();
        return Post(session::Drain{.stopped = true});
      case kCall:
        return TakeCall();
    }
  }

  void TakeCall() {
    lacks_ = input_.Flag();
    const int fragment = input_.Byte();
    if (fragment < fragments_) Post(session::RoundCalled{fragment, input_.Take<int64_t>()});
  }

  void TakePlan() {
    v1::Plan proto;
    const absl::string_view bytes = input_.String();
    if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    absl::StatusOr<session::Plan> plan = session::PlanFromProto(proto, {kPool, "1"});
    if (!plan.ok() || plan->fragments.size() > kFragmentsMax) return;
    if (fragments_ == 0) fragments_ = static_cast<int>(plan->fragments.size());
    if (static_cast<int>(plan->fragments.size()) == fragments_) {
      Post(session::PlanReceived{*std::move(plan)});
    }
  }

  void TakeCommit() {
    v1::Commit proto;
    const absl::string_view bytes = input_.String();
    if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    const absl::StatusOr<session::Commit> commit = session::CommitFromProto(proto, {kPool, "1"});
    if (!commit.ok() || proto.fragment() < 0 || proto.fragment() >= fragments_) return;
    Post(session::CommitPublished{proto.fragment(), *commit});
  }

  // A whole pull brings the version that its header has; a downlink the one that was asked for.
  void AnswerPull() {
    if (!downlinks_.empty()) {
      const session::Pull pull = downlinks_.back();
      downlinks_.pop_back();
      return Post(session::Pulled{pull.fragment, pull.version});
    }
    if (whole_.empty()) return;
    const int fragment = whole_.back();
    whole_.pop_back();
    Post(session::PulledWhole{fragment, input_.Take<int64_t>()});
  }

  void Refuse() {
    if (fragments_ == 0)
      return Post(session::PlanRefused{absl::NotFoundError("no"), "JOB_UNKNOWN"});
    const int fragment = input_.Byte() % fragments_;
    const std::string reason = input_.Flag() ? "JOB_ENDED" : "VERSION_MISMATCH";
    const absl::Status status = absl::FailedPreconditionError("refused");
    if (input_.Flag()) return Post(session::PullRefused{fragment, status, reason});
    const auto version = input_.Take<int64_t>(), have = input_.Take<int64_t>();
    Post(session::PushRefused{fragment, version, status, reason, have});
  }

  void Post(const Event& event) {
    for (const Action& action : core_.Step(event, absl::UnixEpoch())) Perform(action);
  }

  void Perform(const Action& action) {
    std::visit(Overloaded{[&](const session::PullWhole& a) { whole_.push_back(a.fragment); },
                          [&](const session::Pull& a) { downlinks_.push_back(a); },
                          [&](const session::RunStep& a) { running_ = a.step; },
                          [&](const session::AgreeOnMerge& a) { merge_ = a.here; },
                          [&](const session::AgreeOnVersions& a) { Agree(a.versions); },
                          [&](const session::Finish&) { ended_ = true; },
                          [&](const session::Restart&) { ended_ = true; },
                          [&](const session::Push& a) { CheckFragment(a.fragment); },
                          [&](const session::Merge& a) {
                            CheckFragment(a.fragment);
                            Post(session::Merged{a.fragment});
                          },
                          [](const auto&) {}},
               action);
  }

  // The other rank of the pool has the same versions.
  void Agree(const std::vector<int64_t>& versions) {
    LH_CHECK(static_cast<int>(versions.size()) == fragments_, "a version of each fragment");
    if (++agreements_ > kEventsMax) return;
    Post(session::VersionsAgreed{{versions, versions}});
  }

  void CheckFragment(int fragment) const {
    LH_CHECK(fragment >= 0 && fragment < fragments_, "a fragment of the plan");
  }

  FuzzInput input_;
  session::Session core_;
  int fragments_ = 0, events_ = 0, agreements_ = 0;
  bool ended_ = false, drain_ = false, lacks_ = false;
  std::optional<int64_t> running_;
  std::optional<bool> merge_;
  std::vector<int> whole_;
  std::vector<session::Pull> downlinks_;
};

}  // namespace

std::vector<Seed> Seeds() {
  const auto commit = [](FuzzWriter& out, int fragment, int64_t version) {
    out.Byte(kCommit).String(SmallCommit(fragment, version).SerializeAsString());
  };
  FuzzWriter start, rounds, lost;
  for (FuzzWriter* seed : {&start, &rounds, &lost}) {
    seed->Byte(kPlan).String(SmallPlan().SerializeAsString()).Byte(kSeed);
    for (const int fragment : {0, 1}) {
      commit(*seed, fragment, 0);
      seed->Byte(kAnswer).Put(int64_t{0});
    }
    for (int step = 0; step < 5; ++step) seed->Byte(kTrain);
  }
  commit(rounds, 0, 1);
  rounds.Byte(kAnswer);
  for (int step = 0; step < 10; ++step) rounds.Byte(kTrain);
  commit(rounds, 1, 1);
  rounds.Byte(kAnswer).Byte(kTrain).Byte(kEnd).Byte(1);
  FuzzWriter drained = start;
  drained.Byte(kDrain).Byte(1).Byte(kTrain).Byte(1).Byte(kLose);
  drained.Byte(kPlan).String(SmallPlan().SerializeAsString());
  v1::Plan plan = SmallPlan();
  for (v1::FragmentPlan& fragment : *plan.mutable_fragments()) {
    fragment.set_version(0);
    *fragment.mutable_commit() = SmallCommit(fragment.fragment(), 0);
  }
  lost.Byte(kLose).Byte(kPlan).String(plan.SerializeAsString()).Byte(kTrain);
  v1::Plan quorum_plan = SmallPlan();
  quorum_plan.set_quorum(true);
  FuzzWriter quorum;
  quorum.Byte(kPlan).String(quorum_plan.SerializeAsString());
  for (const int fragment : {0, 1}) {
    commit(quorum, fragment, 0);
    quorum.Byte(kAnswer).Put(int64_t{0});
  }
  quorum.Byte(kTrain).Byte(kCall).Byte(1).Byte(0).Put(int64_t{1}).Byte(kTrain).Byte(kTrain);
  commit(quorum, 0, 1);
  quorum.Byte(kAnswer).Byte(kTrain).Byte(kTrain).Byte(kAnswer).Put(int64_t{1}).Byte(kTrain);
  return {{"start", start.Take()},
          {"quorum", quorum.Take()},
          {"rounds", rounds.Take()},
          {"lost", lost.Take()},
          {"drained", drained.Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  Rank(FuzzInput(data, size)).Run();
  return 0;
}

}  // namespace longhaul::fuzz::session_fuzz
