// `longhaul plan` and `longhaul simulate partition` need no server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "cli_runner.h"
#include "tests/testing/temp_dir.h"

namespace longhaul::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kJob[] =
    "{name: planned, model: {transformer: {layers: 4, dim: 256, heads: 4, ff_dim: 768, context: "
    "256}}, data: {text: {path: corpus}}, train: {steps: 50000, batch: 8}, sync: {h: 20}}";
constexpr char kSites[] =
    "pools: [{name: home, copies: 2, tokens_per_second: 5000, host_gib: 16, link: {up_mbps: 4}, "
    "price_per_hour: 0.5}]";

class PlanTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    std::ofstream(dir_.Join(name)) << bytes;
    return dir_.Join(name);
  }
  CliResult Plan(const std::string& sites, std::vector<std::string> more = {}) {
    more.insert(more.begin(),
                {"plan", "-f", Write("job.yaml", kJob), "--sites", Write("sites.yaml", sites)});
    return run_(more);
  }
  TempDir dir_;
  CliRunner run_;
};

TEST_F(PlanTest, ForecastsAndSaysWhatToChange) {
  const CliResult shown = Plan(kSites);
  EXPECT_EQ(shown.exit, 0) << shown.err;
  EXPECT_THAT(shown.out,
              AllOf(HasSubstr("home x 2"), HasSubstr("of 16.0 GiB"), HasSubstr("It costs"),
                    HasSubstr("sync.h"), HasSubstr("COMPUTES"), HasSubstr("Assumed:")));
  const Json data = Plan(kSites, {"-o", "json"}).envelope()["data"];
  const double utilization = data["pace_utilization"];
  EXPECT_GT(utilization, 0);
  EXPECT_LT(utilization, 0.9);
  EXPECT_FALSE(data["changes"].empty());
  EXPECT_TRUE(data["pools"][0]["host_fits"]);
  EXPECT_EQ(data["coordinator_memory_fits"], nullptr) << "its memory is not known";
  EXPECT_EQ(data["at_other_bandwidths"].size(), 10u);
  // A wish that is met needs no change.
  EXPECT_TRUE(
      Plan(kSites, {"-o", "json", "--utilization", "0.01"}).envelope()["data"]["changes"].empty());
  // What it says comes true.
  for (const Json& change : data["changes"]) {
    if (change["field"] != "sync.h") continue;
    ASSERT_TRUE(change["reaches"]);
    const Json longer =
        Plan(kSites, {"-o", "json", "--set", "sync.h=" + change["to"].get<std::string>()})
            .envelope()["data"];
    EXPECT_GE(double{longer["pace_utilization"]}, 0.9);
    EXPECT_NEAR(double{longer["pace_utilization"]}, double{change["utilization"]}, 1e-9);
  }
}

TEST_F(PlanTest, TakesLinksFromTheCommandLine) {
  const auto at = [&](const std::string& mbps) {
    return double{
        Plan(kSites, {"-o", "json", "--link-mbps", mbps}).envelope()["data"]["pace_utilization"]};
  };
  EXPECT_LT(at("2"), at("8"));
  EXPECT_THAT(Plan(kSites, {"--link-mbps", "0"}).err, HasSubstr("--link-mbps"));
  // A round trip of 0 is one, too.
  const auto seconds = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"-o", "json"};
    args.insert(args.end(), more.begin(), more.end());
    const char* const far =
        "pools: [{copies: 2, tokens_per_second: 5000, link: {up_mbps: 40, rtt_ms: 900}}]";
    return double{Plan(far, args).envelope()["data"]["seconds"]};
  };
  EXPECT_LT(seconds({"--rtt-ms", "0"}), seconds({}));
  EXPECT_EQ(seconds({"--rtt-ms", "900"}), seconds({}));
  // Without a file of sites it needs a coordinator.
  const CliResult alone = run_({"--server", "127.0.0.1:1", "plan", "-f", Write("job.yaml", kJob)});
  EXPECT_EQ(alone.exit, 2) << alone.err;
  EXPECT_THAT(alone.err, HasSubstr("describe the sites"));
}

TEST_F(PlanTest, TellsWhatDoesNotFit) {
  const CliResult shown = Plan("pools: [{copies: 1, tokens_per_second: 5000, host_gib: 0.1}]");
  EXPECT_EQ(shown.exit, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("NO: "));
}

TEST_F(PlanTest, RefusesWhatIsWrong) {
  const CliResult sites = Plan("pools: [{machine: h100}]");
  EXPECT_EQ(sites.exit, 4);
  EXPECT_THAT(sites.err, AllOf(HasSubstr("sites.yaml are refused"), HasSubstr("pools[0].machine"),
                               HasSubstr("train.device of the job is CPU")));
  EXPECT_THAT(Plan("pools: [{").err, HasSubstr("sites.yaml are refused"));
  EXPECT_THAT(Plan("pools: [{link: {up_mbps: 0}}]").err,
              HasSubstr("pools[0].link.up_mbps: found 0, which is not possible here (leave the "
                        "field out for its default, 1000)"));
  // What is wrong with the job is not wrong with the sites.
  const CliResult graph =
      run_({"plan", "-f", "deploy/examples/packages.yaml", "--sites", Write("sites.yaml", kSites)});
  EXPECT_THAT(graph.err, AllOf(HasSubstr("the job spec is refused"), HasSubstr("on a graph")));
  EXPECT_THAT(Plan(kSites, {"--set", "sync.hh=3"}).err, HasSubstr("the job spec is refused"));
  EXPECT_THAT(Plan(kSites, {"--utilization", "1.5"}).err, HasSubstr("--utilization"));
  EXPECT_EQ(run_({"plan", "-f", dir_.Join("none.yaml"), "--sites", dir_.Join("none")}).exit, 4);
}

TEST_F(PlanTest, ShowsWhatAPartitionMoves) {
  const std::vector<std::string> model = {
      "simulate", "partition", "--params", "98304", "--layers", "3", "--node", "4", "--ranks", "8"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), model.begin(), model.end());
    return run_(more);
  };
  const Json data = with({"--preset", "zero3", "-o", "json"}).envelope()["data"];
  EXPECT_EQ(data["received"]["forward"]["pool"], 98304);  // Half of two bytes each.
  EXPECT_EQ(data["state_bytes_per_rank"]["optimizer"], 12 * 98304 / 8);
  EXPECT_FALSE(data.contains("seconds"));
  const CliResult timed = with({"--links", "200,75,12.5"});
  EXPECT_EQ(timed.exit, 0) << timed.err;
  EXPECT_THAT(timed.out, HasSubstr("together"));
  EXPECT_THAT(with({"--links", "200,75"}).err, HasSubstr("three positive rates"));
  EXPECT_THAT(
      run_({"simulate", "partition", "--params", "96", "--layers", "2", "--ranks", "9"}).err,
      HasSubstr("multiple of --node"));
  EXPECT_THAT(with({"--preset", "zero9"}).err, HasSubstr("--preset"));
  EXPECT_THAT(run_({"simulate", "partition", "--params", "96", "--layers", "2", "--node", "3",
                    "--ranks", "3", "--preset", "frontier3"})
                  .err,
              HasSubstr("give another --node"));
  EXPECT_EQ(run_({"simulate", "partition", "--params", "1", "--layers", "2", "--ranks", "8"}).exit,
            4);
}

}  // namespace
}  // namespace longhaul::cli
