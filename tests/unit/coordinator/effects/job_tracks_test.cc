#include "coordinator/effects/job_tracks.h"

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "common/io/file_util.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/unit/coordinator/effects/performer_testing.h"

namespace longhaul::coordinator {
namespace {

class JobTracksTest : public PerformerTest {
 protected:
  // "tag step" for every number of a run, except bytes.
  std::vector<std::string> Curves(const std::string& job, const std::string& run) {
    track_.RunAll();
    std::vector<std::string> points;
    const std::string path = absl::StrCat("data/jobs/", job, "/track/", run, "/scalars.jsonl");
    const std::string text = ReadFile(disk_, path, 1 << 20).value_or("");
    for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      const auto parsed = nlohmann::ordered_json::parse(line);
      for (const auto& [name, value] : parsed.items()) {
        if (name != "step" && name != "time" && !absl::StartsWith(name, "bytes/"))
          points.push_back(absl::StrCat(name, " ", parsed["step"].get<int>()));
      }
    }
    return points;
  }
  void Crash() {
    Restart();
    Crank();
  }
};

using Points = std::vector<std::string>;

TEST_F(JobTracksTest, AJobHasItsSpecItsCommitsAndItsEvaluations) {
  const std::string id = RunPair();
  Push(id, "b", 1, RoundKind::kOuter);
  Crank();
  Step(Evaluated(id, "a"));
  Heartbeat own = Evaluated(id, "b");
  own.evaluations[0].of_pool = true;
  own.evaluations[0].metrics = {{"loss", 2.5}, {"accuracy", 0.5}};
  Step(own);
  EXPECT_EQ(
      Curves(id, "outer"),
      (Points{"spec 0", "outer_parameter_norm/fragment_0 0", "outer_parameter_norm/fragment_0 29",
              "outer_gradient_norm/fragment_0 29", "downlink_nmse/fragment_0 29",
              "contributing_pools/fragment_0 29", "eval/loss 4", "eval/perplexity 4"}));
  EXPECT_EQ(Curves(id, "pool-b"), (Points{"eval/loss 4", "eval/accuracy 4"}));
  EXPECT_EQ(performer_->Find(id)->progress.PoolEvaluation("b")->metrics[1].name, "accuracy");
}

// The next start tracks again what is durable, and writes nothing twice.
TEST_F(JobTracksTest, TheNextStartAddsWhatACrashLost) {
  const std::string id = RunPair();
  const Points seeded = Curves(id, "outer");
  EXPECT_EQ(seeded.size(), 2u);
  Push(id, "b", 1, RoundKind::kOuter);
  Crank();
  Step(Evaluated(id, "a"));
  Crash();
  const Points all = Curves(id, "outer");
  EXPECT_EQ(all.size(), 8u);
  EXPECT_EQ(Points(all.begin(), all.begin() + 2), seeded);
  EXPECT_EQ(all[3], "outer_gradient_norm/fragment_0 29");
  Crash();
  EXPECT_EQ(Curves(id, "outer"), all);
}

TEST_F(JobTracksTest, AJobThatHasNoStoreYetGetsNoFolder) {
  const std::string id = Submit("job");
  Step(CancelJob{id});
  track_.RunAll();
  EXPECT_FALSE(disk_.List("data/jobs/" + id).ok());
}

}  // namespace
}  // namespace longhaul::coordinator
