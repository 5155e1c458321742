// `longhaul simulate` needs no server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "cli_runner.h"
#include "tests/testing/temp_dir.h"

namespace longhaul::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SimulateTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    std::ofstream(dir_.Join(name)) << bytes;
    return dir_.Join(name);
  }
  Json DataOf(std::vector<std::string> args) {
    args.insert(args.begin(), "simulate");
    args.insert(args.end(), {"-o", "json"});
    const CliResult result = run_(args);
    EXPECT_EQ(result.exit, 0) << result.err;
    return result.envelope()["data"];
  }
  // The message and the hint of a command line that is refused.
  std::string RefusalOf(std::vector<std::string> args) {
    args.insert(args.begin(), "simulate");
    const CliResult result = run_(args);
    EXPECT_EQ(result.exit, 4) << result.out;
    return result.err;
  }
  TempDir dir_;
  CliRunner run_;
};

constexpr char kTimes[] =
    "workload,core_ghz,l1_ghz,l2_ghz,l3_ghz,seconds\n"
    "adamw,2,2,2,2,4.5\n"
    "adamw,4,2,2,2,2.5\n"
    "gather,2,2,2,2,3\n"
    "gather,4,4,4,4,3\n";

TEST_F(SimulateTest, ShowsTheLinkThatAUtilizationNeeds) {
  const std::vector<std::string> model = {"utilization", "--params", "1e9",      "--layers",   "24",
                                          "--step-time", "0.1",      "--method", "overlap-fp4"};
  std::vector<std::string> args = model;
  args.insert(args.end(), {"--targets", "0.5,0.99"});
  const Json targets = DataOf(args)["targets"];
  ASSERT_EQ(targets.size(), 2u);
  EXPECT_EQ(targets[1]["utilization"], 0.99);
  EXPECT_NEAR(double{targets[1]["gbit_per_second"]}, 2.95, 0.01);
  args = model;
  args.insert(args.end(), {"--bandwidth", "2.95"});
  EXPECT_GE(double{DataOf(args)["utilization"]}, 0.9895);
  EXPECT_THAT(RefusalOf(model), HasSubstr("give --targets or --bandwidth"));
  args.insert(args.end(), {"--h", "4"});
  EXPECT_THAT(RefusalOf(args), HasSubstr("8 fragments do not fit into h = 4 steps"));
  args.back() = "100";
  args.insert(args.end(), {"--tau", "100"});
  EXPECT_THAT(RefusalOf(args), HasSubstr("--tau: 100 steps are not below h = 100"));
}

TEST_F(SimulateTest, FindsTheStrideOfAnUpdate) {
  const Json law = DataOf({"offload", "--point", "2=3.5", "--point", "4=3.75"});
  EXPECT_NEAR(double{law["host_seconds"]}, 4, 1e-9);
  EXPECT_NEAR(double{law["device_seconds"]}, 3, 1e-9);
  EXPECT_EQ(law["best_stride"], 2);
  EXPECT_EQ(law["strides"][0]["stride"], 2);
  const Json bound =
      DataOf({"offload", "--params", "1e9", "--host-rate", "1e9", "--device-rate", "1e11",
              "--up-rate", "25e9", "--down-rate", "25e9", "--memory-rate", "1e11"});
  EXPECT_EQ(bound["best_stride"], 2);
  EXPECT_THAT(RefusalOf({"offload", "--point", "2:3"}), HasSubstr("'2:3' is not K=SECONDS"));
  EXPECT_THAT(RefusalOf({"offload", "--params", "1e9"}), HasSubstr("all five rates"));
}

TEST_F(SimulateTest, CountsRequestsOfAGather) {
  EXPECT_EQ(DataOf({"gather-requests", "--dim", "129", "--aligned"})["requests"], 5);
  EXPECT_NEAR(double{DataOf({"gather-requests", "--dim", "129"})["requests"]}, 8.875, 1e-9);
  EXPECT_THAT(RefusalOf({"gather-requests", "--dim", "0"}), HasSubstr("--dim"));
}

TEST_F(SimulateTest, PredictsOtherClocksFromTimes) {
  const std::string times = Write("times.csv", kTimes);
  const std::string clocks = Write("clocks.csv",
                                   "Workload,core_GHz,l1 ghz,l2_ghz,l3_ghz\r\n"
                                   "adamw,8,2,2,2\r\ngather,8,8,8,8\r\n");
  const Json data = DataOf({"cores", "--calibrate", times, "--predict", clocks});
  ASSERT_EQ(data.size(), 2u);
  EXPECT_EQ(data[0]["workload"], "adamw");
  EXPECT_NEAR(double{data[0]["seconds"]}, 1.5, 1e-6);
  EXPECT_NEAR(double{data[0]["speedup"]}, 3, 1e-6);
  EXPECT_EQ(data[1]["limit"], "memory");
  EXPECT_EQ(data[1]["core_stops_paying_ghz"], 0);
  EXPECT_NEAR(double{data[1]["speedup"]}, 1, 1e-6);
  EXPECT_EQ(DataOf({"cores", "--calibrate", times}).size(), 4u);
}

TEST_F(SimulateTest, PredictsOtherClocksFromCounters) {
  const std::string counters =
      Write("counters.csv",
            "workload,core_ghz,instr,L1I,L1D,L1D miss,L2 acc,L2 miss,L3 acc,L3 miss,ms\n"
            "bt,4,422.74,26.547,193.953,3.151,1.674,0.0088,0.0093,0.0089,48.554\n");
  const std::string clocks =
      Write("clocks.csv", "workload,core_ghz,l1_ghz,l2_ghz,l3_ghz\nbt,20,20,20,20\n");
  const Json data = DataOf({"cores", "--counters", counters, "--predict", clocks});
  // 4.94 is published.
  EXPECT_NEAR(double{data[0]["speedup"]}, 4.94, 0.1);
  EXPECT_NEAR(double{data[0]["fetch_bound_seconds"]}, 3 * 26.547e6 / 20e9, 1e-9);
}

// The published programs (deploy/examples/cores): their mean speedup with the core alone at 100
// GHz, and with each level of the caches.
TEST_F(SimulateTest, MeetsThePublishedSpeedups) {
  const std::string cores = "deploy/examples/cores/";
  const double published[] = {2.06, 5.34, 11.3, 14.9}, off[] = {0.1, 0.4, 1, 1};
  for (const std::vector<std::string>& from :
       {std::vector<std::string>{"--counters", cores + "counters.csv"},
        {"--calibrate", cores + "times.csv", "--core", "out-of-order"}}) {
    std::vector<std::string> args = {"cores", "--predict", cores + "clocks.csv"};
    args.insert(args.end(), from.begin(), from.end());
    const Json data = DataOf(args);
    ASSERT_EQ(data.size(), 32u);
    for (int configuration = 0; configuration < 4; ++configuration) {
      double product = 1;
      for (size_t i = configuration; i < data.size(); i += 4) product *= double{data[i]["speedup"]};
      EXPECT_NEAR(std::pow(product, 1.0 / 8), published[configuration], off[configuration]);
    }
  }
  const Json in_order =
      DataOf({"cores", "--counters", cores + "counters_in_order.csv", "--core", "in-order"});
  EXPECT_EQ(in_order[0]["memory_bound"], false);
  EXPECT_NEAR(double{in_order[0]["seconds"]}, 0.162297, 1e-6);
}

TEST_F(SimulateTest, NamesLineAndColumnOfAFileThatIsWrong) {
  const std::string times = Write("times.csv", kTimes);
  const auto refusal = [&](const std::string& bytes) {
    return RefusalOf({"cores", "--calibrate", Write("wrong.csv", bytes)});
  };
  const std::string heading = "workload,core_ghz,l1_ghz,l2_ghz,l3_ghz,seconds\n";
  EXPECT_THAT(refusal("workload,ghz\nx,1\n"),
              AllOf(HasSubstr("line 1, column 2: 'ghz' is not one of them"),
                    HasSubstr("the columns must be workload,core_ghz")));
  EXPECT_THAT(refusal("name,core_ghz\n"), HasSubstr("column 1: expected the heading workload"));
  EXPECT_THAT(refusal("workload,core_ghz,core_ghz\n"),
              HasSubstr("column 3: 'core_ghz' comes twice"));
  EXPECT_THAT(refusal("workload,core_ghz,l1_ghz,l2_ghz,l3_ghz\n"),
              HasSubstr("column 6: expected the heading seconds"));
  EXPECT_THAT(refusal("workload;core_ghz\n"), HasSubstr("separated by commas"));
  EXPECT_THAT(refusal(heading + "x,1,1,1,fast,1\n"),
              AllOf(HasSubstr("line 2"), HasSubstr("column 5 (l3_ghz)"), HasSubstr("'fast'")));
  EXPECT_THAT(refusal(heading + "x,1,1,1\n"), HasSubstr("column 5: it has 4 columns instead of 6"));
  EXPECT_THAT(
      refusal(heading + "x,1,1,1,1,-2\n"),
      HasSubstr("line 2, column 6 (seconds): expected a number from 1e-09 to 1e+09, found '-2'"));
  EXPECT_THAT(refusal(heading + "x,0,1,1,1,1\n"),
              HasSubstr("line 2, column 2 (core_ghz): expected a number from"));
  EXPECT_THAT(refusal(heading + "x,1,1,1,nan,1\n"), HasSubstr("found 'nan'"));
  EXPECT_THAT(refusal(heading + ",1,1,1,1,1\n"), HasSubstr("column 1 (workload): expected a name"));
  EXPECT_THAT(refusal(heading + "x,1,1,1,1,1\n"),
              AllOf(HasSubstr("line 2, column 1 (workload)"), HasSubstr("has one time")));
  EXPECT_THAT(refusal(heading + "x,1,1,1,1,1\nx,1,1,1,1,2\n"),
              AllOf(HasSubstr("line 2, column 1 (workload)"), HasSubstr("times at one clock")));
  EXPECT_THAT(refusal(heading), HasSubstr("there are no rows"));
  EXPECT_THAT(RefusalOf({"cores", "--calibrate", dir_.Join("none.csv")}), HasSubstr("none.csv"));
  const std::string other =
      Write("other.csv", "workload,core_ghz,l1_ghz,l2_ghz,l3_ghz\nsort,1,1,1,1\n");
  EXPECT_THAT(RefusalOf({"cores", "--calibrate", times, "--predict", other}),
              AllOf(HasSubstr("line 2"), HasSubstr("workload sort is not in")));
  const std::string counters =
      "workload,core_ghz,instr,l1i,l1d,l1d_miss,l2_acc,l2_miss,l3_acc,l3_miss,ms\n";
  EXPECT_THAT(
      RefusalOf({"cores", "--counters",
                 Write("twice.csv", counters + "x,4,1,1,1,1,1,1,1,1,1\nx,4,1,1,1,1,1,1,1,1,1\n")}),
      HasSubstr("line 3, column 1 (workload): x comes twice"));
  EXPECT_THAT(RefusalOf({"cores", "--calibrate", times, "--core", "slow"}), HasSubstr("--core"));
}

TEST_F(SimulateTest, MeasuringAMachineIsOneOfTheThree) {
  const std::string times = Write("times.csv", kTimes);
  EXPECT_THAT(RefusalOf({"cores"}), HasSubstr("--calibrate, --counters or --host"));
  EXPECT_THAT(RefusalOf({"cores", "--host", "--calibrate", times}), HasSubstr("--calibrate"));
  EXPECT_THAT(RefusalOf({"cores", "--host", "--counters", times}), HasSubstr("--counters"));
  EXPECT_THAT(RefusalOf({"cores", "--host", "--predict", times}), HasSubstr("--predict"));
  EXPECT_THAT(RefusalOf({"cores", "--host", "--core", "in-order"}), HasSubstr("--core"));
  EXPECT_THAT(RefusalOf({"cores", "--calibrate", times, "--threads", "2"}), HasSubstr("--host"));
  for (const char* wrong : {"0", "-1", "4097", "1.5", "all"})
    EXPECT_THAT(RefusalOf({"cores", "--host", "--threads", wrong}), HasSubstr("--threads"));
}

constexpr char kJobToSimulate[] =
    "{name: simulated, model: {transformer: {layers: 4, dim: 256, heads: 4, ff_dim: 768, context: "
    "256}}, data: {text: {path: corpus}}, train: {steps: 50000, batch: 8}, sync: {h: 20}, "
    "pools: {min: 2}}";

TEST_F(SimulateTest, RunsAJobInVirtualTime) {
  const std::vector<std::string> job = {"job",      "-f",    Write("job.yaml", kJobToSimulate),
                                        "--rounds", "20",    "--link-mbps",
                                        "20",       "--set", "evaluation.every_cycles=-1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), job.begin(), job.end());
    return more;
  };
  const Json data = DataOf(with({"--pools", "1,4", "--rtt-ms", "30"}));
  ASSERT_EQ(data["growth"].size(), 2u);
  EXPECT_EQ(data["growth"][0]["pools"], 1);
  EXPECT_EQ(data["pools"], 4);
  EXPECT_TRUE(data["completed"]);
  EXPECT_NEAR(double{data["utilization"]}, double{data["forecast_utilization"]}, 0.03);
  const auto seconds = [&](const std::string& rtt_ms) {
    return double{DataOf(with({"--pools", "4", "--rtt-ms", rtt_ms}))["seconds"]};
  };
  EXPECT_LT(seconds("0"), seconds("200"));
  const std::string faults = Write("faults.csv",
                                   "fault,pool,at_seconds,per_hour,lasts_seconds,factor\n"
                                   "pool-lost,0,20,0,60,1\n");
  const Json faulty =
      DataOf(with({"--pools", "4", "--rtt-ms", "30", "--faults", faults, "--seed", "3"}));
  EXPECT_EQ(faulty["pools_lost"], 1);
  EXPECT_LT(double{faulty["goodput"]}, double{data["goodput"]});
  const std::string sites = Write("sites.yaml", "pools: [{tokens_per_second: 100}]");
  EXPECT_GT(double{DataOf(with({"--pools", "4", "--rtt-ms", "30", "--sites", sites}))["seconds"]},
            double{data["seconds"]});
}

TEST_F(SimulateTest, RefusesWhatNoSimulatedJobCanHave) {
  const auto refusal = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"job", "-f", Write("job.yaml", kJobToSimulate)};
    args.insert(args.end(), more.begin(), more.end());
    return RefusalOf(args);
  };
  EXPECT_THAT(refusal({"--pools", "0"}), HasSubstr("--pools"));
  EXPECT_THAT(refusal({"--pools", "2", "--rounds", "0"}), HasSubstr("--rounds"));
  const auto faults = [&](const std::string& row) {
    return refusal(
        {"--pools", "2", "--faults",
         Write("faults.csv", "fault,pool,at_seconds,per_hour,lasts_seconds,factor\n" + row)});
  };
  EXPECT_THAT(faults("fire,0,1,0,1,1\n"),
              AllOf(HasSubstr("line 2, column 1 (fault): 'fire' is not a fault"),
                    HasSubstr("expected one of pool-lost")));
  EXPECT_THAT(faults("slow,0.5,1,0,1,1\n"), HasSubstr("column 2 (pool): expected a whole number"));
  EXPECT_THAT(faults("slow,3,1,0,1,2\n"), HasSubstr("pool 3 of 2"));
  EXPECT_THAT(faults("slow,1,1,0,0,2\n"), HasSubstr("column 5 (lasts_seconds)"));
  EXPECT_THAT(refusal({"--pools", "2", "--set", "sync.h=0"}), HasSubstr("sync.h"));
  EXPECT_THAT(refusal({"--pools", "2", "--sites", Write("sites.yaml", "pools: [{machine: x}]")}),
              HasSubstr("pools[0].machine"));
}

}  // namespace
}  // namespace longhaul::cli
