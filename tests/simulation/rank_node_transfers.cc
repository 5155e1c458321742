// The connection of a simulated rank: the stream of its plan, pushes and pulls.
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/status_details.h"
#include "tests/simulation/rank_node.h"
#include "worker/session/error_reason.h"

namespace longhaul::simulation {
namespace {

constexpr absl::Duration kRetry = absl::Milliseconds(400);
constexpr int64_t kMessageBytes = 200;

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

}  // namespace

void RankNode::BreakConnection() {
  if (connection_ != nullptr) world_->network.Break(connection_);
}

void RankNode::Connect() {
  const auto retry = [this] { Connect(); };
  if (!coordinator_->up()) return Later(kRetry, retry);
  connection_ = world_->network.Connect(
      options_.machine, kCoordinatorNode,
      [self = shared_from_this()] { self->process_->Run([self] { self->Broken(); }); }, nullptr);
  if (connection_ == nullptr) return Later(kRetry, retry);
  Call([this, connection = connection_] {
    coordinator_->Watch(id_, [this, self = shared_from_this(),
                              connection](const session::Event& event) {
      Back(connection, [this, event] {
        // The agent is about to join again.
        const auto* refused = std::get_if<session::PlanRefused>(&event);
        if (refused != nullptr && (Passes(refused->status) || refused->reason == "POOL_UNKNOWN"))
          return BreakConnection();
        Feed(event);
      });
    });
  });
}

void RankNode::Broken() {
  connection_ = nullptr;
  Feed(session::Disconnected{});
  if (!ended()) Later(kRetry, [this] { Connect(); });
}

void RankNode::Call(std::function<void()> call) {
  if (connection_ == nullptr) return;
  world_->network.Send(connection_, options_.machine, kMessageBytes,
                       [self = shared_from_this(), call = std::move(call)] { call(); });
}

void RankNode::Back(const sim::ConnectionPtr& connection, std::function<void()> run) {
  world_->network.Send(connection, kCoordinatorNode, kMessageBytes,
                       [self = shared_from_this(), run = std::move(run)] {
                         self->process_->Run([self, run] { run(); });
                       });
}

void RankNode::Do(const session::SeedPush& action) {
  for (int f : action.fragments) {
    Fragment& fragment = At(f);
    // Pools differ here, so that a mixture of two seeds would show.
    for (int i = 0; i < kWords; ++i)
      fragment.kept[i] =
          NoiseOf(Mix(HashOf(absl::StrCat(id_.pool, id_.incarnation)), f * kWords + i));
    fragment.kept_weight = 1;
    world_->checker.Pushes(id_, f, 0, fragment.kept, fragment.residual, fragment.error, 1);
    Send(f, 0, RoundKind::kSeed);
  }
}

void RankNode::Do(const session::PullWhole& action) {
  Call([this, connection = connection_, f = action.fragment] {
    const std::optional<PullAnswer> answered = coordinator_->Pull({id_, f, -1, true});
    if (!answered.has_value()) return;
    Back(connection, [this, f, answer = *answered] {
      if (!answer.refused.ok())
        return Refused(session::PullRefused{f, answer.refused}, answer.refused);
      Fragment& fragment = At(f);
      fragment.outer = answer.words;
      fragment.error = {};
      world_->checker.Loaded(id_, f);
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
      if (!answer.refused.ok())
        return Refused(session::PullRefused{f, answer.refused}, answer.refused);
      // A whole fragment of that version, or of a later one, came first.
      if (answer.version <= session_.version(f)) return Feed(session::Pulled{f, answer.version});
      At(f).downlink = answer.words;
      if (world_->mutation == Mutation::kDamagedDownlink && world_->Chance(0.1))
        At(f).downlink[id_.rank] += 1;
      Feed(session::Pulled{f, answer.version});
    });
  });
}

void RankNode::Send(int f, int64_t version, RoundKind kind) {
  PushRequest push{id_, f, version, kind, At(f).kept, At(f).kept_weight};
  Call([this, connection = connection_, push = std::move(push)] {
    const std::optional<absl::Status> answer = coordinator_->Push(push);
    // It crashed: nobody answers.
    if (!answer.has_value()) return;
    Back(connection,
         [this, f = push.fragment, version = push.version, kind = push.kind, status = *answer] {
           if (status.ok()) return Feed(session::PushDone{f, version});
           if (!Passes(status)) {
             return Feed(session::PushRefused{f, version, status, session::ReasonOf(status),
                                              HaveVersion(status)});
           }
           Later(kRetry, [this, f, version, kind] {
             if (kind == RoundKind::kSeed || At(f).kept_version == version) Send(f, version, kind);
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

}  // namespace longhaul::simulation
