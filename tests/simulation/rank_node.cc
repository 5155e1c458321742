#include "tests/simulation/rank_node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/status_details.h"
#include "tests/scenarios/core_text.h"
#include "worker/session/error_reason.h"

namespace longhaul::simulation {
namespace {

constexpr absl::Duration kRetry = absl::Milliseconds(400);
constexpr int64_t kMessageBytes = 200;

template <typename... Kinds>
bool IsOneOf(const session::Action& action) {
  return (std::holds_alternative<Kinds>(action) || ...);
}

// What the shell of a rank tries again: the agent is about to join, the coordinator is busy.
bool Passes(const absl::Status& status) {
  return session::ReasonOf(status) == "POOL_UNKNOWN" || absl::IsUnavailable(status) ||
         absl::IsResourceExhausted(status);
}

std::optional<int64_t> HaveVersion(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = ErrorInfoOf(status);
  int64_t have = 0;
  if (!detail.has_value() || !detail->metadata.contains("have")) return std::nullopt;
  if (!absl::SimpleAtoi(detail->metadata.at("have"), &have)) return std::nullopt;
  return have;
}

bool IsForeground(const session::Action& action) {
  return IsOneOf<session::AgreeOnVersions, session::RunStep, session::Push, session::Merge,
                 session::Evaluate, session::Draining, session::Finish, session::Restart>(action);
}

}  // namespace

RankNode::RankNode(World* world, CoordinatorNode* coordinator, RankHost* host, RankId id, int node,
                   absl::Duration step_takes)
    : world_(world),
      coordinator_(coordinator),
      host_(host),
      id_(std::move(id)),
      name_(absl::StrCat(id_.pool, "/", id_.incarnation, ".", id_.rank)),
      node_(node),
      step_takes_(step_takes) {}

void RankNode::Stop() {
  alive_ = false;
  BreakConnection();
}

void RankNode::BreakConnection() {
  if (connection_ != nullptr) world_->network.Break(connection_);
}

void RankNode::Connect() {
  if (!alive_ || session_.state() == session::SessionState::kEnded) return;
  const auto retry = [self = shared_from_this()] { self->Connect(); };
  if (!coordinator_->up()) return world_->loop.After(kRetry, retry);
  connection_ = world_->network.Connect(
      node_, kCoordinatorNode, [self = shared_from_this()] { self->Broken(); }, nullptr);
  if (connection_ == nullptr) return world_->loop.After(kRetry, retry);
  Call([this, connection = connection_] {
    coordinator_->Watch(id_,
                        [this, self = shared_from_this(), connection](const session::Event& event) {
                          Back(connection, [this, event] { Feed(event); });
                        });
  });
}

void RankNode::Broken() {
  connection_ = nullptr;
  if (!alive_) return;
  Feed(session::Disconnected{});
  world_->loop.After(kRetry, [self = shared_from_this()] { self->Connect(); });
}

void RankNode::Call(std::function<void()> call) {
  if (connection_ == nullptr) return;
  world_->network.Send(connection_, node_, kMessageBytes,
                       [self = shared_from_this(), call = std::move(call)] { call(); });
}

void RankNode::Back(const sim::ConnectionPtr& connection, std::function<void()> run) {
  world_->network.Send(connection, kCoordinatorNode, kMessageBytes,
                       [self = shared_from_this(), run = std::move(run)] {
                         if (self->alive_) run();
                       });
}

void RankNode::Drain() {
  drain_ = true;
  Feed(session::Drain{});
}

void RankNode::Feed(const session::Event& event) {
  if (const auto* refused = std::get_if<session::PlanRefused>(&event)) {
    // The agent is about to join again.
    if (Passes(refused->status) || refused->reason == "POOL_UNKNOWN") return BreakConnection();
  }
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

void RankNode::RunForeground() {
  while (alive_ && !busy_ && !foreground_.empty()) {
    const session::Action action = std::move(foreground_.front());
    foreground_.pop_front();
    std::visit([this](const auto& a) { Do(a); }, action);
  }
}

void RankNode::Together(std::string name, std::vector<int64_t> values, absl::Duration takes,
                        std::function<void(const RankHost::Gathered&)> then) {
  busy_ = true;
  host_->Collective(
      id_.rank, name, std::move(values), takes,
      [self = shared_from_this(), then = std::move(then)](const RankHost::Gathered& values) {
        if (!self->alive_) return;
        self->busy_ = false;
        then(values);
        self->RunForeground();
      });
}

RankNode::Fragment& RankNode::At(int fragment) {
  if (fragment >= fragments()) fragments_.resize(fragment + 1);
  return fragments_[fragment];
}

// --- Background.

void RankNode::Do(const session::SeedPush& action) {
  for (int f : action.fragments) {
    Fragment& fragment = At(f);
    // Pools differ here, so that a mixture of two seeds would show.
    for (int i = 0; i < kWords; ++i)
      fragment.kept[i] = NoiseOf(Mix(HashOf(absl::StrCat(id_.pool, id_.incarnation)), f * kWords + i));
    world_->checker.Pushes(id_, f, 0, fragment.kept, fragment.residual, fragment.error);
    Send(f, 0, RoundKind::kSeed);
  }
}

void RankNode::Do(const session::PullWhole& action) {
  Call([this, connection = connection_, f = action.fragment] {
    const std::optional<PullAnswer> answered = coordinator_->Pull({id_, f, -1, true});
    if (!answered.has_value()) return;
    Back(connection, [this, f, answer = *answered] {
      if (!answer.refused.ok()) return Refused(session::PullRefused{f, answer.refused}, answer.refused);
      Fragment& fragment = At(f);
      fragment.outer = fragment.live = answer.words;
      world_->checker.Holds(id_, f, answer.version, fragment.outer);
      Feed(session::PulledWhole{f, answer.version});
    });
  });
}

void RankNode::Do(const session::PushAgain& action) {
  const Fragment& fragment = At(action.fragment);
  for (const session::Action& queued : foreground_) {
    const auto* push = std::get_if<session::Push>(&queued);
    if (push != nullptr && push->fragment == action.fragment && push->version == action.version)
      return;
  }
  if (fragment.kept_version != action.version)
    return world_->checker.Violation("the bytes to push again are gone");
  Send(action.fragment, action.version, fragment.kept_kind);
}

void RankNode::Do(const session::Pull& action) {
  Call([this, connection = connection_, f = action.fragment, version = action.version] {
    const std::optional<PullAnswer> answered = coordinator_->Pull({id_, f, version, false});
    if (!answered.has_value()) return;
    Back(connection, [this, f, answer = *answered] {
      if (!answer.refused.ok()) return Refused(session::PullRefused{f, answer.refused}, answer.refused);
      At(f).downlink = answer.words;
      if (world_->mutation == Mutation::kDamagedDownlink && world_->Chance(0.1))
        At(f).downlink[id_.rank] += 1;
      Feed(session::Pulled{f, answer.version});
    });
  });
}

void RankNode::Send(int f, int64_t version, RoundKind kind) {
  PushRequest push{id_, f, version, kind, At(f).kept};
  Call([this, connection = connection_, push = std::move(push)] {
    const std::optional<absl::Status> answer = coordinator_->Push(push);
    // It crashed: nobody answers.
    if (!answer.has_value()) return;
    Back(connection, [this, f = push.fragment, version = push.version, kind = push.kind,
                      status = *answer] {
      if (status.ok()) return Feed(session::PushDone{f, version});
      if (!Passes(status)) {
        return Feed(session::PushRefused{f, version, status, session::ReasonOf(status),
                                         HaveVersion(status)});
      }
      world_->loop.After(kRetry, [this, self = shared_from_this(), f, version, kind] {
        if (alive_ && (kind == RoundKind::kSeed || At(f).kept_version == version))
          Send(f, version, kind);
      });
    });
  });
}

// A refusal that a later try may not meet ends the connection: the next plan tells what is wanted.
void RankNode::Refused(session::PullRefused refused, const absl::Status& status) {
  if (Passes(status)) return BreakConnection();
  refused.reason = session::ReasonOf(status);
  Feed(refused);
}

// --- Foreground.

void RankNode::Do(const session::AgreeOnVersions& action) {
  Together("agree", action.versions, absl::Milliseconds(1),
           [this](const RankHost::Gathered& versions) { Feed(session::VersionsAgreed{versions}); });
}

void RankNode::Do(const session::RunStep& action) {
  // The ranks agree whether it is their last step.
  Together(ToText(session::Action(action)), {drain_}, step_takes_,
           [this, step = action.step](const RankHost::Gathered& drains) {
             for (int64_t f = 0; f < fragments(); ++f) {
               for (float& word : fragments_[f].live)
                 word += NoiseOf(Mix(HashOf(absl::StrCat(id_.pool, id_.incarnation)), step * 64 + f));
             }
             const bool drain = std::any_of(drains.begin(), drains.end(),
                                            [](const auto& asked) { return asked[0] != 0; });
             Feed(session::StepDone{step, drain});
           });
}

void RankNode::Do(const session::Push& action) {
  Fragment& fragment = At(action.fragment);
  const Words error = fragment.error;
  for (int i = 0; i < kWords; ++i) {
    const float u = fragment.outer[i] - fragment.live[i] + fragment.error[i];
    fragment.kept[i] = Encoded(u);
    fragment.residual[i] = u - fragment.kept[i];
  }
  fragment.kept_version = action.version;
  fragment.kept_kind = action.kind;
  if (world_->mutation == Mutation::kEarlyFeedback) fragment.error = fragment.residual;
  world_->checker.Holds(id_, action.fragment, action.version - 1, fragment.outer);
  world_->checker.Pushes(id_, action.fragment, action.version, fragment.kept, fragment.residual,
                         error);
  Send(action.fragment, action.version, action.kind);
}

void RankNode::Do(const session::Merge& action) {
  Together(ToText(session::Action(action)), {}, absl::Milliseconds(1),
           [this, action](const RankHost::Gathered&) { Apply(action); });
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
}

void RankNode::Do(const session::Evaluate& action) {
  Together(ToText(session::Action(action)), {}, absl::Milliseconds(100),
           [this, action](const RankHost::Gathered&) { host_->RankEvaluated(id_, action); });
}

void RankNode::Do(const session::Draining&) { host_->RankDrains(id_); }

void RankNode::Do(const session::Finish& action) {
  foreground_.clear();
  host_->RankEnded(id_, action.done);
}

void RankNode::Do(const session::Restart& action) { host_->RankWantsRestart(id_, action.reason); }

}  // namespace longhaul::simulation
