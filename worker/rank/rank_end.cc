#include "worker/rank/rank_end.h"

namespace longhaul {
namespace {

FaultPlace PlaceOf(session::Outcome::Place place) {
  switch (place) {
    case session::Outcome::Place::kTraining:
      return FaultPlace::kTraining;
    case session::Outcome::Place::kContribution:
      return FaultPlace::kContribution;
    case session::Outcome::Place::kPlan:
      return FaultPlace::kPlan;
  }
  return FaultPlace::kTraining;
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

RankEnd EndOf(FaultPlace place, const v1::JobSpec& spec, const absl::Status& status) {
  RankEnd end{.fault = DescribeFault(place, spec, status)};
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
      return EndOf(PlaceOf(outcome.place), spec, outcome.status);
  }
  return {};
}

}  // namespace longhaul
