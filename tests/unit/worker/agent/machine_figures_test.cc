#include "worker/agent/machine_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "nlohmann/json.hpp"
#include "tests/testing/temp_dir.h"
#include "worker/measure/host_figures.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

// A script in place of the ranks' program. It counts its runs in the file "runs".
class MachineFiguresTest : public testing::Test {
 protected:
  MachineFiguresTest() {
    options_.work_dir = dir_.path();
    options_.rank_program = dir_.Join("rank.sh");
    options_.cores = {{.threads = 3}};
    options_.ranks = 2;
    options_.log = Logger({.level = LogLevel::kError});
  }
  void Program(const std::string& does) {
    std::ofstream(options_.rank_program)
        << "#!/bin/sh\necho \"$@\" >> " << dir_.Join("runs") << "\n"
        << does << "\n";
    std::filesystem::permissions(options_.rank_program, std::filesystem::perms::owner_all);
  }
  std::string Figures(const std::string& version = LONGHAUL_VERSION) const {
    return absl::StrCat("{\"version\": \"", version, "\", \"machine\": \"", MachineOf(3, 2),
                        "\", \"threads\": 3, \"ranks\": 2, \"gemm\": [{\"dim\": 96, "
                        "\"gigaflops\": 50}]}");
  }
  // It writes them to the file after --measure.
  void Measures(const std::string& figures) {
    std::ofstream(dir_.Join("figures")) << figures;
    Program("cp " + dir_.Join("figures") + " \"$2\"");
  }
  std::string Runs() const {
    std::stringstream text;
    text << std::ifstream(dir_.Join("runs")).rdbuf();
    return text.str();
  }
  std::string Kept() const { return dir_.Join("machine_figures.json"); }
  bool Find() {
    options_.figures.reset();
    FindMachineFigures(kMeasureMax, options_);
    return options_.figures.has_value();
  }

  TempDir dir_;
  AgentOptions options_;
};

TEST_F(MachineFiguresTest, AreMeasuredOnceForAMachine) {
  Measures(Figures());
  ASSERT_TRUE(Find());
  EXPECT_EQ(options_.figures->gemm(0).gigaflops(), 50);
  const std::string runs = Runs();
  EXPECT_THAT(runs, HasSubstr("--threads 3 --node-ranks 2"));
  ASSERT_TRUE(Find());
  EXPECT_EQ(Runs(), runs) << "they were kept";
  // Other threads are another machine.
  options_.cores[0].threads = 1;
  Find();
  EXPECT_NE(Runs(), runs);
}

TEST_F(MachineFiguresTest, OfAnotherVersionAreMeasuredAgain) {
  std::ofstream(Kept()) << Figures("0.0.1");
  Measures(Figures());
  ASSERT_TRUE(Find());
  EXPECT_EQ(options_.figures->version(), LONGHAUL_VERSION);
  EXPECT_NE(Runs(), "");
}

TEST_F(MachineFiguresTest, AreKeptWithTheStateIfThatIsKept) {
  options_.state_dir = dir_.Join("state");
  std::filesystem::create_directory(options_.state_dir);
  Measures(Figures());
  ASSERT_TRUE(Find());
  EXPECT_TRUE(std::filesystem::exists(options_.state_dir + "/machine_figures.json"));
  EXPECT_FALSE(std::filesystem::exists(Kept()));
}

TEST_F(MachineFiguresTest, WhatIsKeptAndIsNoneIsReplaced) {
  for (const std::string& kept : {std::string("{"), std::string("[]"), std::string(100 << 10, 'x'),
                                  std::string(""), std::string("{\"threads\": -1}")}) {
    std::ofstream(Kept()) << kept;
    Measures(Figures());
    EXPECT_TRUE(Find()) << kept.substr(0, 20);
  }
}

TEST_F(MachineFiguresTest, WithoutTimeNothingIsMeasured) {
  Measures(Figures());
  FindMachineFigures(absl::ZeroDuration(), options_);
  EXPECT_FALSE(options_.figures.has_value());
  EXPECT_EQ(Runs(), "");
}

TEST_F(MachineFiguresTest, SayWhyThereAreNone) {
  Program("echo \"longhaul-rank: too little memory\" >&2; exit 1");
  EXPECT_FALSE(Find()) << "the pool works without";
  const absl::Status failed = MeasureMachine(options_, kMeasureMax).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(failed)) << failed;
  EXPECT_THAT(failed.ToString(), HasSubstr("too little memory"));
  Program("exit 0");
  EXPECT_FALSE(MeasureMachine(options_, kMeasureMax).ok()) << "it wrote nothing";
  Measures("{\"threads\": 3, \"ranks\": 2, \"gemm\": [{\"dim\": 96, \"gigaflops\": -1}]}");
  EXPECT_THAT(MeasureMachine(options_, kMeasureMax).status().ToString(),
              HasSubstr("figures.gemm[0].gigaflops"));
  Program("sleep 60");
  const absl::Status late = MeasureMachine(options_, absl::Seconds(1)).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_FALSE(std::filesystem::exists(Kept()));
}

TEST_F(MachineFiguresTest, OneWorkerOfAMachineMeasuresAtATime) {
  const absl::Time start = SteadyTime();
  auto first = std::make_unique<MeasuringTurn>();
  std::atomic<bool> second = false;
  std::jthread other([&] {
    const MeasuringTurn turn;
    second = true;
  });
  absl::SleepFor(absl::Milliseconds(200));
  if (SteadyTime() - start < kMeasureMax) EXPECT_FALSE(second);
  first.reset();
  other.join();
  EXPECT_TRUE(second);
}

TEST_F(MachineFiguresTest, AreShownToPeopleAndPrograms) {
  Measures(Figures());
  ASSERT_TRUE(Find());
  const auto json = nlohmann::json::parse(FiguresJson(*options_.figures));
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["status"], "ok");
  EXPECT_EQ(json["data"]["gemm"][0]["gigaflops"], 50);
  EXPECT_EQ(json["data"]["ranks"], 2);
  const std::string text = FiguresText(*options_.figures);
  EXPECT_THAT(text, HasSubstr("96 x 96"));
  EXPECT_THAT(text, HasSubstr("not measured"));
}

}  // namespace
}  // namespace longhaul
