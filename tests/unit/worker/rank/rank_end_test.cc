#include "worker/rank/rank_end.h"

#include <gtest/gtest.h>

#include "common/base/status_marks.h"

namespace longhaul {
namespace {

using session::Extent;
using session::Outcome;

TEST(RankEndTest, TheAgentLearnsHowMuchWasDone) {
  const auto code = [](Extent done) { return EndOf(Outcome{.done = done}, v1::JobSpec()).code; };
  EXPECT_EQ(code(Extent::kNothing), kRankFinished);
  EXPECT_EQ(code(Extent::kPart), kRankStopped);
  EXPECT_EQ(code(Extent::kAll), kRankCompleted);
  EXPECT_EQ(EndOf(Outcome{.kind = Outcome::Kind::kRestart}, v1::JobSpec()).code, kRankRestart);
}

TEST(RankEndTest, TheFaultOfSiteOrJobIsReportedAndNoOther) {
  const auto end = [](Outcome::Origin origin, const absl::Status& status) {
    return EndOf(Outcome{.kind = Outcome::Kind::kFailed, .origin = origin, .status = status},
                 v1::JobSpec());
  };
  const RankEnd site = end(Outcome::Origin::kContribution, absl::InvalidArgumentError("infinite"));
  EXPECT_EQ(site.code, kRankFailed);
  EXPECT_EQ(site.fault->fault_class(), v1::SITE_FAULT);
  const RankEnd peer =
      end(Outcome::Origin::kTraining, MarkPeerFault(absl::UnavailableError("rank 1 is gone")));
  EXPECT_EQ(peer.code, kRankRestart);
  EXPECT_EQ(peer.fault->fault_class(), v1::PEER_FAULT);
  const RankEnd plan = end(Outcome::Origin::kPlan, absl::InvalidArgumentError("fragment 9"));
  EXPECT_EQ(plan.code, kRankRestart);
  EXPECT_EQ(plan.fault->fault_class(), v1::COORDINATOR_FAULT);
  EXPECT_EQ(EndOf(FaultOrigin::kPreparation, v1::JobSpec(), absl::NotFoundError("data")).code,
            kRankFailed);
}

}  // namespace
}  // namespace longhaul
