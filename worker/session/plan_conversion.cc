#include "worker/session/plan_conversion.h"

#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/rpc/proxy.h"
#include "common/wire/proto_values.h"

namespace longhaul::session {
namespace {

absl::Status Bad(const std::string& what) {
  return absl::InvalidArgumentError("the coordinator's plan: " + what);
}

absl::Status CheckUnit(const v1::UnitSpan& span, const ModelLayout& model,
                       std::vector<bool>& seen) {
  if (span.unit() < 0 || span.unit() >= static_cast<int>(model.units.size()) || seen[span.unit()]) {
    return Bad(absl::StrFormat("unit %d is unknown or given twice", span.unit()));
  }
  seen[span.unit()] = true;
  if (span.elements() != model.units[span.unit()].elements || span.offset() % kBlockElements != 0) {
    return Bad(absl::StrFormat("unit %d does not fit the model", span.unit()));
  }
  return absl::OkStatus();
}

// Whether all rounds lie within the job. Then the arithmetic on their steps cannot overflow.
bool IsSchedule(const v1::FragmentPlan& fragment, const v1::Plan& plan) {
  if (fragment.first_push_step() < 1 || fragment.period() < 1 || fragment.rounds() < 0 ||
      plan.tau() < 0 || plan.tau() >= fragment.period()) {
    return false;
  }
  if (fragment.rounds() == 0) return true;
  const int64_t last_push = plan.steps() - plan.tau();
  return fragment.first_push_step() <= last_push &&
         fragment.rounds() - 1 <= (last_push - fragment.first_push_step()) / fragment.period();
}

}  // namespace

absl::StatusOr<Commit> CommitFromProto(const v1::Commit& commit, const PoolIdentity& self) {
  const std::optional<RoundKind> kind = RoundKindFromProto(commit.kind());
  if (!kind) return Bad(absl::StrFormat("unknown kind of round %d", commit.kind()));
  if (!commit.incarnations().empty() && commit.incarnations_size() != commit.pools_size())
    return Bad("a commit's pools and incarnations differ in number");
  Commit result{.version = commit.version(), .kind = *kind};
  result.evaluate = commit.evaluator() == self.pool;
  for (int i = 0; i < commit.pools_size(); ++i) {
    if (commit.pools(i) != self.pool) continue;
    result.contributed = true;
    // A commit of an earlier version of the coordinator does not say which incarnation's it was.
    const bool known = !commit.incarnations().empty() && !commit.incarnations(i).empty();
    result.earlier = known && commit.incarnations(i) != self.incarnation;
  }
  return result;
}

absl::StatusOr<Plan> PlanFromProto(const v1::Plan& plan, const PoolIdentity& self) {
  Plan result{.steps = plan.steps(),
              .alpha = plan.alpha(),
              .final_round = plan.final_round(),
              .start_step = plan.start_step(),
              .ordinal = plan.ordinal(),
              .seed = plan.seed(),
              .pool_evaluation_cycles = plan.pool_evaluation_cycles(),
              .outer_evaluation_cycles = plan.outer_evaluation_cycles(),
              .all_evaluate_last = plan.all_evaluate_last(),
              .quorum = plan.quorum()};
  if (plan.steps() < 1 || plan.start_step() < 0 || plan.start_step() > plan.steps() ||
      plan.fragments().empty() || !(plan.alpha() >= 0 && plan.alpha() <= 1)) {
    return Bad("steps, start_step, alpha or fragments are out of range");
  }
  for (const v1::FragmentPlan& fragment : plan.fragments()) {
    if (fragment.fragment() != static_cast<int>(result.fragments.size()) ||
        !IsSchedule(fragment, plan)) {
      return Bad(absl::StrFormat("the schedule of fragment %d", fragment.fragment()));
    }
    if (!fragment.endpoint().empty()) {
      const absl::Status address = CheckAddress(fragment.endpoint());
      if (!address.ok()) return Bad("an endpoint: " + std::string(address.message()));
      LH_RETURN_IF_ERROR(ProxyOf(fragment.endpoint()).status());
    }
    FragmentPlan item{.schedule = {.first_push_step = fragment.first_push_step(),
                                   .period = fragment.period(),
                                   .tau = plan.tau(),
                                   .rounds = fragment.rounds()},
                      .contributed = fragment.contributed(),
                      .called = fragment.called()};
    if (fragment.version() >= 0) {
      LH_ASSIGN_OR_RETURN(item.newest, CommitFromProto(fragment.commit(), self));
      if (item.newest.version != fragment.version()) return Bad("a version and its commit differ");
    }
    result.fragments.push_back(item);
  }
  return result;
}

absl::StatusOr<std::vector<FragmentLayout>> LayoutsFromProto(const v1::Plan& plan,
                                                             const ModelLayout& model) {
  std::vector<FragmentLayout> result;
  std::vector<bool> seen(model.units.size());
  size_t units = 0;
  for (const v1::FragmentPlan& fragment : plan.fragments()) {
    FragmentLayout layout{.name = absl::StrFormat("%d", fragment.fragment())};
    for (const v1::UnitSpan& span : fragment.units()) {
      LH_RETURN_IF_ERROR(CheckUnit(span, model, seen));
      // Compares a difference, since a sum could overflow.
      if (span.offset() < layout.elements || span.offset() - layout.elements >= kBlockElements) {
        return Bad("units of a fragment overlap, or leave blocks out");
      }
      layout.units.push_back({span.unit(), span.offset(), span.elements()});
      layout.elements = span.offset() + span.elements();
    }
    if (layout.elements != fragment.elements())
      return Bad("a fragment's size differs from its units");
    units += layout.units.size();
    result.push_back(std::move(layout));
  }
  if (units != model.units.size()) return Bad("it does not hold every unit of the model");
  return result;
}

}  // namespace longhaul::session
