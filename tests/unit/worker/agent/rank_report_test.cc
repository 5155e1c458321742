#include "worker/agent/rank_report.h"

#include <gtest/gtest.h>

#include <limits>

namespace longhaul {
namespace {

TEST(RankReportTest, AStatusSurvivesARoundTrip) {
  for (const RankStatus& status :
       {RankStatus{}, RankStatus{.step = std::numeric_limits<int64_t>::max()},
        RankStatus{.step = 3, .expected_seconds = 0.25, .waits_for = "the coordinator's plan"},
        RankStatus{.expected_seconds = 1e6, .in_collective = true, .damaged_pulls = 3}}) {
    const auto report = ParseRankReport(ToLine(status));
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(std::get<RankStatus>(*report), status);
  }
}

TEST(RankReportTest, AStatusIsOneLine) {
  const std::string line = ToLine({.waits_for = "two\nlines"});
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(std::get<RankStatus>(*ParseRankReport(line)).waits_for, "two lines");
}

TEST(RankReportTest, AHeartbeatIsProtoJson) {
  const auto report = ParseRankReport("{\"progress\": {\"innerStep\": \"5\"}}\n");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(std::get<v1::HeartbeatRequest>(*report).progress().inner_step(), 5);
}

TEST(RankReportTest, OtherLinesAreRefused) {
  for (const std::string& line :
       {std::string(), std::string("nonsense"), std::string("status 1 2 0 0"),
        std::string("status -1 0 0 0 "), std::string("status 1 nan 0 0 "),
        std::string("status 1 -2 0 0 "), std::string("status 1 inf 0 0 "),
        std::string("status x 0 0 0 "), std::string("status 1 2 0 x "),
        std::string(kRankReportBytesMax + 1, ' ')}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseRankReport(line).status())) << line.substr(0, 40);
  }
}

}  // namespace
}  // namespace longhaul
