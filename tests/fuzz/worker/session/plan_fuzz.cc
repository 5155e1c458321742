// A plan from the coordinator: the schedule, and the fragments' layouts.
//   input: Plan
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet_protobuf.h"
#include "tests/fuzz/worker/session/small_plan.h"
#include "worker/session/fragment_map.h"
#include "worker/session/plan_conversion.h"

namespace longhaul::fuzz::plan_fuzz {
namespace {

void CheckSchedule(const session::Plan& plan) {
  for (const session::FragmentPlan& fragment : plan.fragments) {
    const FragmentSchedule& schedule = fragment.schedule;
    if (schedule.rounds == 0) continue;
    LH_CHECK(schedule.PushStep(1) >= 1, "steps count from 1");
    LH_CHECK(schedule.MergeStep(schedule.rounds) <= plan.steps, "rounds are within the job");
    LH_CHECK(schedule.RoundPushedAt(schedule.PushStep(schedule.rounds)) == schedule.rounds,
             "a round is pushed at its step");
  }
}

void CheckLayouts(const std::vector<FragmentLayout>& layouts, const ModelLayout& model) {
  int64_t elements = 0;
  for (const FragmentLayout& layout : layouts) {
    int64_t end = 0;
    for (const UnitSpan& unit : layout.units) {
      LH_CHECK(unit.offset >= end && unit.offset - end < kBlockElements, "no gap beyond a block");
      end = unit.offset + unit.elements;
      elements += unit.elements;
    }
    for (int rank = 0; rank < 3; ++rank) {
      const session::FragmentMap map(layout, OwnedBlocks(layout, rank, 3));
      LH_CHECK(map.elements() <= layout.elements, "a rank owns a part");
    }
  }
  LH_CHECK(elements == model.elements(), "each parameter is in one fragment");
}

}  // namespace

std::vector<Seed> Seeds() {
  v1::Plan seeded = SmallPlan();
  for (v1::FragmentPlan& fragment : *seeded.mutable_fragments()) {
    fragment.set_version(3);
    *fragment.mutable_commit() = SmallCommit(fragment.fragment(), 3);
  }
  return {{"plan", SmallPlan().SerializeAsString()}, {"seeded", seeded.SerializeAsString()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  v1::Plan proto;
  if (!proto.ParseFromArray(data, static_cast<int>(size))) return 0;
  const absl::StatusOr<session::Plan> plan = session::PlanFromProto(proto, {"oslo", "1"});
  CheckDocumented(plan.status(), {absl::StatusCode::kInvalidArgument});
  if (plan.ok()) CheckSchedule(*plan);
  const ModelLayout model = SmallModel();
  const auto layouts = session::LayoutsFromProto(proto, model);
  CheckDocumented(layouts.status(), {absl::StatusCode::kInvalidArgument});
  if (layouts.ok()) CheckLayouts(*layouts, model);
  return 0;
}

}  // namespace longhaul::fuzz::plan_fuzz
