#include "tests/simulation/rank_node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_marks.h"
#include "tests/scenarios/core_text.h"
#include "worker/session/error_reason.h"

namespace longhaul::simulation {
namespace {

// Of the last evaluation. They take 3 s at most.
constexpr int64_t kFinalBatchesMax = 30;

template <typename... Kinds>
bool IsOneOf(const session::Action& action) {
  return (std::holds_alternative<Kinds>(action) || ...);
}

bool IsForeground(const session::Action& action) {
  return IsOneOf<session::AgreeOnVersions, session::RunStep, session::Push, session::AgreeOnMerge,
                 session::Merge, session::Evaluate, session::Draining, session::Finish,
                 session::Restart>(action);
}

}  // namespace

RankNode::RankNode(World* world, CoordinatorNode* coordinator, Site* site, RankHost* host,
                   Options options)
    : world_(world),
      coordinator_(coordinator),
      site_(site),
      host_(host),
      options_(std::move(options)),
      name_(absl::StrCat(id_.pool, "/", id_.incarnation, ".", id_.rank)),
      process_(std::make_shared<Process>(&world->loop)),
      monitor_(kProgress) {}

void RankNode::Start() {
  world_->groups.Starts(id_, options_.machine, options_.nodes);
  address_ = site_->Listen(options_.machine);
  Report();
  Meet();
}

void RankNode::Prepare() {
  Later(options_.prepare, [this] {
    if (options_.fails_after != 0) return Begin();
    End(EndOf(FaultOrigin::kPreparation, v1::JobSpec(), absl::NotFoundError("no data")));
  });
}

void RankNode::Begin() {
  begun_ = true;
  Connect();
  RunForeground();
}

// From a thread of its own: whatever the training thread does. The time-out of a collective is
// looked at here, too, which makes it up to a second late.
void RankNode::Report() {
  host_->Reported(id_.rank, monitor_.Status());
  Later(kRankStatusEach, [this] { Report(); });
  if (collective_ == 0 || world_->loop.now() < collective_until_) return;
  PeersAreGone(MarkPeerFault(absl::DeadlineExceededError("a collective took too long")));
}

void RankNode::Kill(bool silently) {
  if (ended()) return;
  process_->End();
  world_->groups.Ends(id_);
  BreakConnection();
  if (rendezvous_ != nullptr) world_->network.Break(std::exchange(rendezvous_, nullptr));
  site_->Close(address_, silently);
  communicator_.reset();
}

// As the rank's main does on SIGTERM.
void RankNode::Drain() {
  process_->Run([this, self = shared_from_this()] {
    if (!begun_) return End({.code = kRankFinished});
    drain_ = true;
    Later(0.9 * kDrain,
          [this] { Feed(session::Ended{"the time for its last transfers is over"}); });
    Feed(session::Drain{});
  });
}

void RankNode::End(const RankEnd& end) {
  foreground_.clear();
  Kill();
  host_->Ended(id_.rank, end);
}

void RankNode::Later(absl::Duration delay, std::function<void()> run) {
  process_->After(delay, [self = shared_from_this(), run = std::move(run)] { run(); });
}

void RankNode::Feed(const session::Event& event) {
  for (session::Action& action : session_.Step(event, world_->loop.now())) {
    if (world_->trace) world_->Trace(name_, ToText(action));
    if (IsForeground(action)) {
      foreground_.push_back(std::move(action));
    } else {
      std::visit([this](const auto& a) { Do(a); }, action);
    }
  }
  RunForeground();
}

// The training thread.
void RankNode::RunForeground() {
  while (!ended() && !busy_ && !foreground_.empty()) {
    const session::Action action = std::move(foreground_.front());
    foreground_.pop_front();
    if (std::exchange(waits_, false)) monitor_.WaitsFor("");
    if (!SkipsFor(action)) std::visit([this](const auto& a) { Do(a); }, action);
  }
  if (begun_ && !ended() && !busy_ && !std::exchange(waits_, true))
    monitor_.WaitsFor(session_.WaitsFor());
}

// Whether nothing can be done of it, since another rank of the pool has stopped.
bool RankNode::SkipsFor(const session::Action& action) {
  if (!peers_stopped_ || IsOneOf<session::Draining, session::Finish, session::Restart>(action))
    return false;
  if (const auto* push = std::get_if<session::Push>(&action)) {
    Feed(session::PushRefused{push->fragment, push->version, absl::CancelledError("asked to stop"),
                              "", std::nullopt});
  }
  return true;
}

std::optional<absl::Time> RankNode::Together(
    std::string name, std::vector<int64_t> values, absl::Duration takes,
    std::function<void(const Communicator::Gathered&)> then) {
  busy_ = true;
  collective_ = ++collectives_;
  collective_until_ = world_->loop.now() + monitor_.BeginCollective();
  const auto met = [this, number = collective_,
                    then = std::move(then)](const absl::StatusOr<Communicator::Gathered>& values) {
    if (collective_ != number) return;  // Given up.
    if (!values.ok()) return PeersAreGone(values.status());
    collective_ = 0;
    busy_ = false;
    monitor_.EndCollective();
    then(*values);
    RunForeground();
  };
  return communicator_->Collective(id_.rank, name, std::move(values), takes,
                                   [self = shared_from_this(), met](const auto& values) {
                                     self->process_->Run([self, met, values] { met(values); });
                                   });
}

// Its collective failed. A rank that was asked to stop was only slower than another; else the group
// is lost.
void RankNode::PeersAreGone(const absl::Status& status) {
  collective_ = 0;
  busy_ = false;
  monitor_.EndCollective();
  using session::Outcome;
  if (!drain_) {
    return End(EndOf(Outcome{.kind = Outcome::Kind::kFailed, .status = status}, v1::JobSpec()));
  }
  peers_stopped_ = true;
  Feed(session::Drain{.stopped = true});
}

RankNode::Fragment& RankNode::At(int fragment) {
  if (fragment >= fragments()) fragments_.resize(fragment + 1);
  return fragments_[fragment];
}

// --- Foreground.

void RankNode::Do(const session::AgreeOnVersions& action) {
  Together("agree", action.versions, absl::Milliseconds(1),
           [this, own = action.versions](const Communicator::Gathered& versions) {
             const bool equal = std::all_of(versions.begin(), versions.end(),
                                            [&](const auto& rank) { return rank == own; });
             for (Fragment& fragment : fragments_) {
               if (equal) fragment.live = fragment.outer;
             }
             Feed(session::VersionsAgreed{versions});
           });
}

void RankNode::Do(const session::RunStep& action) {
  busy_ = true;
  monitor_.BeginStep();
  const absl::Time begin = world_->loop.now();
  const auto done = [this, step = action.step, begin](const Communicator::Gathered& ranks) {
    monitor_.EndStep(step, world_->loop.now() - begin);
    // No two words are alike, so that those of two incarnations are never equal by chance.
    const uint64_t seed = HashOf(absl::StrCat(id_.pool, id_.incarnation));
    for (int64_t f = 0; f < fragments(); ++f) {
      for (int i = 0; i < kWords; ++i)
        fragments_[f].live[i] += NoiseOf(Mix(seed, step * 64 + f * kWords + i));
    }
    if (++steps_done_ == options_.fails_after) {
      using session::Outcome;
      return End(EndOf(Outcome{.kind = Outcome::Kind::kFailed,
                               .origin = Outcome::Origin::kContribution,
                               .status = absl::InvalidArgumentError("the values are infinite")},
                       v1::JobSpec()));
    }
    session::StepDone agreed{step};
    for (const auto& rank : ranks) {
      agreed.drain |= rank[0] != 0;
      agreed.called = std::max(agreed.called, rank[1]);
    }
    Feed(agreed);
  };
  Later(options_.step_takes + std::exchange(dawdle_, absl::ZeroDuration()), [this, action, done] {
    // The ranks agree whether it is their last step, and how far the other pools are.
    const std::optional<absl::Time> all =
        Together(ToText(session::Action(action)), {drain_, session_.called_step()},
                 absl::Milliseconds(1), done);
    if (all.has_value()) world_->groups.Trains(id_, *all, world_->loop.now());
  });
}

void RankNode::Do(const session::Push& action) {
  Fragment& fragment = At(action.fragment);
  const Words error = fragment.error;
  const auto wild = world_->wild.find(JobNameOf(id_.job));
  const bool is_wild = wild != world_->wild.end() && wild->second.pool == id_.pool &&
                       action.version >= wild->second.from;
  for (int i = 0; i < kWords; ++i) {
    const float u = fragment.outer[i] - fragment.live[i] + fragment.error[i];
    fragment.kept[i] = Encoded(u);
    fragment.residual[i] = u - fragment.kept[i];
    if (!is_wild) continue;
    const uint64_t what = HashOf(absl::StrCat(id_.pool, id_.incarnation, "wild", action.version));
    fragment.kept[i] = 1000 * NoiseOf(Mix(what, action.fragment * kWords + i));
  }
  fragment.kept_version = action.version;
  fragment.kept_kind = action.kind;
  fragment.kept_weight = action.weight;
  if (world_->mutation == Mutation::kEarlyFeedback) fragment.error = fragment.residual;
  world_->checker.Holds(id_, action.fragment, action.version - 1, fragment.outer);
  world_->checker.Pushes(id_, action.fragment, action.version, fragment.kept, fragment.residual,
                         error, action.weight);
  Send(action.fragment, action.version, action.kind);
}

void RankNode::Do(const session::AgreeOnMerge& action) {
  const std::string name =
      absl::StrFormat("agree to merge %d version %d", action.fragment, action.version);
  Together(name, {action.here}, absl::Milliseconds(1), [this](const Communicator::Gathered& ranks) {
    Feed(session::MergeAgreed{
        std::all_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank[0] != 0; })});
  });
}

void RankNode::Do(const session::Merge& action) {
  Together(ToText(session::Action(action)), {}, absl::Milliseconds(1),
           [this, action](const Communicator::Gathered&) { Apply(action); });
}

void RankNode::Apply(const session::Merge& merge) {
  Fragment& fragment = At(merge.fragment);
  const Words error = fragment.error;
  for (int i = 0; i < kWords; ++i) {
    fragment.outer[i] += fragment.downlink[i];
    const float apart = fragment.live[i] - fragment.outer[i];
    fragment.live[i] = merge.alpha == 0 ? fragment.outer[i] : fragment.outer[i] + apart / 2;
    if (merge.contributed) fragment.error[i] = fragment.residual[i];
  }
  world_->checker.Holds(id_, merge.fragment, merge.version, fragment.outer);
  world_->checker.Merged(id_, merge.fragment, merge.version, error, fragment.error);
  Feed(session::Merged{merge.fragment});
}

void RankNode::Do(const session::Evaluate& action) {
  int64_t batches = 2;
  if (action.final) {
    host_->Merged(id_.rank);
    batches = 1 + static_cast<int64_t>(HashOf(absl::StrCat(id_.job, id_.pool, id_.incarnation)) %
                                       kFinalBatchesMax);
  }
  monitor_.BeginEvaluation(batches);
  Evaluate(action, batches);
}

// As in the product, a batch takes less than a step, and then the ranks add up its losses.
void RankNode::Evaluate(const session::Evaluate& action, int64_t batches_left) {
  busy_ = true;
  Later(options_.step_takes / 2, [this, action, batches_left] {
    Together(absl::StrFormat("%s: %d batches", ToText(session::Action(action)), batches_left), {},
             absl::Milliseconds(1), [this, action, batches_left](const Communicator::Gathered&) {
               if (batches_left > 1) return Evaluate(action, batches_left - 1);
               monitor_.EndEvaluation();
               host_->Evaluated(id_.rank, action);
             });
  });
}

void RankNode::Do(const session::Draining& action) {
  // A rank that trained nothing reports no progress.
  if (steps_done_ > 0) host_->Drains(id_.rank, action.last_step);
}

void RankNode::Do(const session::Finish& action) {
  End(EndOf(session::Outcome{.done = action.done, .reason = action.reason}, v1::JobSpec()));
}

void RankNode::Do(const session::Restart& action) {
  using session::Outcome;
  End(EndOf(Outcome{.kind = Outcome::Kind::kRestart, .reason = action.reason}, v1::JobSpec()));
}

}  // namespace longhaul::simulation
