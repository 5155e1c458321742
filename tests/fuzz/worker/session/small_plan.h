// A plan of a small job, as the coordinator sends it.
#pragma once

#include "common/base/check.h"
#include "common/layout/model_layout.h"
#include "longhaul/v1/sync.pb.h"

namespace longhaul::fuzz {

inline ModelLayout SmallModel() { return *LayOutSynthetic(3, 300); }

// Three units in two fragments, not seeded yet.
inline v1::Plan SmallPlan() {
  v1::Plan plan;
  plan.set_job_id("j");
  plan.set_steps(40);
  plan.set_tau(1);
  plan.set_alpha(0.5);
  plan.set_final_round(true);
  plan.mutable_up()->set_codec(v1::E3M0);
  plan.mutable_down()->set_codec(v1::FP32);
  for (int i = 0; i < 2; ++i) {
    v1::FragmentPlan& fragment = *plan.add_fragments();
    fragment.set_fragment(i);
    fragment.set_first_push_step(4 + 5 * i);
    fragment.set_period(10);
    fragment.set_rounds(3);
    fragment.set_version(-1);
    for (int unit = i; unit < 3; unit += 2) {
      v1::UnitSpan& span = *fragment.add_units();
      span.set_unit(unit);
      span.set_offset(unit == 2 ? 384 : 0);
      span.set_elements(300);
      fragment.set_elements(span.offset() + span.elements());
    }
  }
  return plan;
}

inline v1::Commit SmallCommit(int fragment, int64_t version) {
  v1::Commit commit;
  commit.set_fragment(fragment);
  commit.set_version(version);
  commit.set_kind(version == 0 ? v1::SEED : v1::OUTER);
  commit.add_pools("oslo");
  return commit;
}

}  // namespace longhaul::fuzz
