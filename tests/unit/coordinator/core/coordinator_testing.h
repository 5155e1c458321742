// The coordinator's core with a job, for its tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/coordinator.h"

namespace longhaul::coordinator {

class CoordinatorTest : public testing::Test {
 protected:
  static JobOptions Options(const std::string& name = "j", int pools_min = 1) {
    return {.name = name,
            .pools_min = pools_min,
            .schedule = MakeSchedule({.fragments = 1, .h = 4, .tau = 1, .steps = 8}),
            .steps = 8};
  }
  Decision Do(const Event& event) { return core_.Step(event, now_); }
  void At(int seconds) { now_ = absl::UnixEpoch() + absl::Seconds(seconds); }
  static bool Nothing(const Decision& decision) {
    return decision.records.empty() && !decision.answer.has_value() && decision.notices.empty() &&
           decision.works.empty();
  }
  // The answer to the event. Fails if it has another type.
  template <typename T>
  T Answered(const Event& event) {
    const Decision decision = Do(event);
    if (decision.answer.has_value()) {
      if (const T* found = std::get_if<T>(&*decision.answer)) return *found;
    }
    ADD_FAILURE() << "no such answer";
    return T{};
  }
  // The entries of a list that have this type.
  template <typename T, typename List>
  static std::vector<T> All(const List& list) {
    std::vector<T> found;
    for (const auto& element : list) {
      if (const T* one = std::get_if<T>(&element)) found.push_back(*one);
    }
    return found;
  }
  template <typename T, typename List>
  static T One(const List& list) {
    const std::vector<T> found = All<T>(list);
    EXPECT_EQ(found.size(), 1u);
    return found.size() == 1 ? found[0] : T{};
  }
  Decision Complete(int64_t version, RoundKind kind = RoundKind::kOuter) {
    return Do(ContributionComplete{{"j", "a", "1", {0, version, kind}}});
  }
  // Makes job j: its store is open, fragment 0 is at version -1, and pool a is ready.
  void BeginJob(const JobOptions& options = Options()) {
    Do(SubmitJob{"j", options});
    Do(JoinPool{"a", "1", 2});
    Do(RankReady{"j", "a", "1", 0});
    Do(StoreOpened{"j", {{}}});
  }
  // Brings the job to version 0.
  void RunJob(const JobOptions& options = Options()) {
    BeginJob(options);
    Complete(0, RoundKind::kSeed);
    Do(RoundApplied{"j", {0, 0}});
  }
  // Brings the job after its last version: it waits for the final evaluation.
  void FinishJob(const JobOptions& options = Options()) {
    RunJob(options);
    for (int64_t version : {1, 2, 3}) {
      Complete(version, version == 3 ? RoundKind::kFinal : RoundKind::kOuter);
      Do(RoundApplied{"j", {0, version}});
    }
  }
  JobView View(const std::string& job = "j") const { return core_.job(job).value_or(JobView{}); }

  absl::Time now_ = absl::UnixEpoch();
  Coordinator core_{
      {.lease = absl::Seconds(10), .finish = absl::Seconds(60), .pools_max = 3}, {}, now_};
};

inline RecoveredJob Recovered(const std::string& id, JobState state,
                              std::vector<RecoveredPlace> places, JobOptions options) {
  options.name = id;
  return {.job = id, .options = std::move(options), .state = state, .places = std::move(places)};
}

}  // namespace longhaul::coordinator
