#include "worker/rank/rank_end.h"

namespace longhaul {
namespace {

FaultOrigin OriginOf(session::Outcome::Origin origin) {
  switch (origin) {
    case session::Outcome::Origin::kTraining:
      return FaultOrigin::kTraining;
    case session::Outcome::Origin::kContribution:
      return FaultOrigin::kContribution;
    case session::Outcome::Origin::kPlan:
      return FaultOrigin::kPlan;
  }
  return FaultOrigin::kTraining;
}

RankExit ExitOf(session::Extent done) {
  switch (done) {
    case session::Extent::kNothing:
      return kRankFinished;
    case session::Extent::kPart:
      return kRankStopped;
    case session::Extent::kAll:
      return kRankCompleted;
  }
  return kRankRestart;
}

}  // namespace

RankEnd EndOf(FaultOrigin origin, const v1::JobSpec& spec, const absl::Status& status) {
  RankEnd end{.fault = DescribeFault(origin, spec, status)};
  end.code = IsReported(*end.fault) ? kRankFailed : kRankRestart;
  return end;
}

RankEnd EndOf(const session::Outcome& outcome, const v1::JobSpec& spec) {
  switch (outcome.kind) {
    case session::Outcome::Kind::kFinished:
      return {.code = ExitOf(outcome.done)};
    case session::Outcome::Kind::kRestart:
      return {.code = kRankRestart};
    case session::Outcome::Kind::kFailed:
      return EndOf(OriginOf(outcome.origin), spec, outcome.status);
  }
  return {};
}

}  // namespace longhaul
