// `longhaul compare` against a coordinator over real gRPC, and its plot.
#include "cli_runner.h"
#include "coordinator/cli/loss_plot.h"
#include "fake_coordinator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sample_job.h"

namespace longhaul::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CompareTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_.get = [](const v1::GetJobRequest& request, v1::GetJobResponse* response) {
      if (request.job() == "unknown")
        return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such job");
      v1::Job& job = *response->mutable_job();
      job = SampleJob(v1::COMPLETED);
      job.set_id(request.job());
      job.mutable_spec()->set_name(request.job());
      job.mutable_spec()->mutable_sync()->set_h(request.job() == "slow" ? 100 : 30);
      if (request.job().find("graph") != std::string::npos) job.set_unit_name("nodes");
      return grpc::Status::OK;
    };
    fake_.curves = [](const v1::GetCurvesRequest& request, v1::GetCurvesResponse* response) {
      const bool slow = request.job() == "slow";
      if (request.job() == "young") return grpc::Status::OK;
      for (const char* name : {"eval/loss", "train/loss", "train/tokens"}) {
        v1::Curve& curve = *response->add_curves();
        curve.set_name(name);
        if (curve.name() != "eval/loss") curve.set_pool("east");
        for (int step = 10; step <= (slow ? 200 : 100); step += 10) {
          v1::CurvePoint& point = *curve.add_points();
          point.set_step(step);
          // The slow one has half of the tokens per step.
          const double tokens = step * (slow ? 50. : 100.);
          point.set_value(curve.name() == "train/tokens" ? tokens
                                                         : (slow ? 6. : 5.) - tokens / 5000);
        }
      }
      return grpc::Status::OK;
    };
    fake_.Start();
  }
  CliResult RunCli(std::vector<std::string> args) {
    args.push_back("--server=" + fake_.address());
    return run_(args);
  }

  FakeCoordinator fake_;
  CliRunner run_;
};

TEST_F(CompareTest, JobsOnGraphsCountNodes) {
  const CliResult nodes = RunCli({"compare", "graph", "graph-two"});
  EXPECT_THAT(nodes.out, AllOf(HasSubstr("NODES"), HasSubstr("nats per node, at equal nodes"),
                               HasSubstr("held-out data"), Not(HasSubstr("token"))));
  EXPECT_THAT(RunCli({"compare", "graph", "fast"}).out, HasSubstr("EXAMPLES"));
}

TEST_F(CompareTest, ShowsLossesAtEqualTokensAndWhatDiffersInTheSpecs) {
  const CliResult table = RunCli({"compare", "fast", "slow"});
  EXPECT_EQ(table.exit, 0) << table.err;
  EXPECT_THAT(table.out, AllOf(HasSubstr("A  fast"), HasSubstr("B  slow"), HasSubstr("sync.h  30"),
                               HasSubstr("100"), Not(HasSubstr("train.seed")),
                               HasSubstr("held-out text"), HasSubstr("10.0k   3.0000  4.0000"),
                               HasSubstr(" A "), HasSubstr("10.0k tokens")));
  const Json data = RunCli({"compare", "fast", "slow", "-o", "json"}).envelope()["data"];
  EXPECT_EQ(data["loss"], "eval/loss");
  EXPECT_EQ(data["differences"], (Json{{"sync.h", {"30", "100"}}}));
  ASSERT_EQ(data["equal_tokens"].size(), 8);
  for (const Json& row : data["equal_tokens"]) {
    const double tokens = row["tokens"];
    EXPECT_NEAR(row["losses"][0], 5 - tokens / 5000, 1e-9);
    EXPECT_NEAR(row["losses"][1], 6 - tokens / 5000, 1e-9);
  }
  EXPECT_EQ(data["jobs"][1]["curve"].size(), 20);
}

TEST_F(CompareTest, OneJobIsPlottedWithItsPools) {
  const CliResult one = RunCli({"compare", "fast"});
  EXPECT_EQ(one.exit, 0);
  EXPECT_THAT(one.out, AllOf(HasSubstr("a east, training"), HasSubstr("O outer parameters"),
                             Not(HasSubstr("differ"))));
}

TEST_F(CompareTest, JobsWithoutLossesAreComparedWithoutThem) {
  const CliResult young = RunCli({"compare", "fast", "young"});
  EXPECT_EQ(young.exit, 0);
  EXPECT_THAT(young.out, AllOf(HasSubstr("B  young"), Not(HasSubstr("at equal tokens"))));
  EXPECT_THAT(RunCli({"compare", "young"}).out, HasSubstr("Too few losses"));
  EXPECT_THAT(RunCli({"compare", "young", "other-young"}).out, HasSubstr("differ in nothing"));
}

TEST_F(CompareTest, FaultsNameTheirReason) {
  EXPECT_EQ(RunCli({"compare", "fast", "unknown"}).exit, 1);
  EXPECT_THAT(RunCli({"compare"}).err, HasSubstr("JOB is required"));
  std::vector<std::string> many(28, "fast");
  many[0] = "compare";
  EXPECT_THAT(RunCli(many).err, HasSubstr("expected at most 26"));
}

TEST_F(CompareTest, AnEarlierCoordinatorHasNoCurves) {
  FakeCoordinator old;
  old.get = fake_.get;
  old.Start();
  const CliResult result = run_({"compare", "fast", "--server=" + old.address()});
  EXPECT_EQ(result.exit, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("earlier version"), HasSubstr("status page")));
}

TEST(LossPlotTest, AFallingCurveFallsThroughEveryColumn) {
  PlottedCurve curve{'A', {}};
  for (int i = 0; i <= 2000; ++i) curve.points.push_back({i, 5 * std::pow(0.9, i / 100.)});
  const std::string plot = LossPlot({curve}, 80, "tokens");
  std::istringstream lines(plot);
  int marks = 0, row = 0;
  size_t before = 0;
  for (std::string line; std::getline(lines, line); ++row) {
    EXPECT_LE(line.size(), 80);
    if (row >= 14) continue;
    ASSERT_NE(line.find('A'), std::string::npos) << plot;
    EXPECT_GE(line.find('A'), before);
    before = line.rfind('A');
    marks += static_cast<int>(std::count(line.begin(), line.end(), 'A'));
  }
  EXPECT_EQ(row, 16);
  EXPECT_EQ(marks, 71);
  EXPECT_THAT(plot, AllOf(HasSubstr("       5|A"), HasSubstr("2.0k tokens")));
}

TEST(LossPlotTest, WhatCannotBeDrawnIsLeftOut) {
  EXPECT_EQ(LossPlot({}, 80, "tokens"), "");
  EXPECT_EQ(LossPlot({{'A', {{30, 4.}}}, {'B', {{30, 4.1}}}}, 80, "tokens"), "");
  const double infinity = HUGE_VAL;
  const std::string plot =
      LossPlot({{'A', {{0, 2.}, {50, infinity}, {60, 0.}, {70, NAN}, {100, 1.}}},
                {'B', {{0, 2.}, {100, 1.5}}}},
               5, "tokens");
  EXPECT_THAT(plot, AllOf(HasSubstr("2|*"), HasSubstr("A"), HasSubstr("B")));
}

}  // namespace
}  // namespace longhaul::cli
