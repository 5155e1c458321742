#include "worker/agent/rank_process.h"

#include <signal.h>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

// Runs a shell script as the rank's program.
struct ShellRank {
  explicit ShellRank(const std::string& script, const std::string& input = "") {
    auto started =
        RankProcess::Start({.program = "/bin/sh",
                            .arguments = {"-c", script},
                            .environment = {"MARK=42"},
                            .input = input,
                            .log = Logger({.level = LogLevel::kError})},
                           {.on_report =
                                [this](const RankReport& report) {
                                  if (const auto* status = std::get_if<RankStatus>(&report)) {
                                    statuses.push_back(*status);
                                    return;
                                  }
                                  reports.push_back(std::get<v1::HeartbeatRequest>(report));
                                  if (reports.size() == 1) reported.Notify();
                                },
                            .on_exit =
                                [this](int exit_code) {
                                  code = exit_code;
                                  exited.Notify();
                                }});
    EXPECT_TRUE(started.ok()) << started.status();
    process = *std::move(started);
  }
  // Both are valid after `exited`.
  std::vector<v1::HeartbeatRequest> reports;
  std::vector<RankStatus> statuses;
  int code = -1;
  absl::Notification reported, exited;
  std::unique_ptr<RankProcess> process;
};

TEST(RankProcessTest, ReadsItsInputAndReports) {
  ShellRank run("read job; echo \"{\\\"jobId\\\": \\\"$job-$MARK\\\"}\" >&3", "hello\n");
  run.exited.WaitForNotification();
  EXPECT_EQ(run.code, 0);
  ASSERT_EQ(run.reports.size(), 1u);
  EXPECT_EQ(run.reports[0].job_id(), "hello-42");
}

// A binding that a batch system exports would put all threads of a rank on one core.
TEST(RankProcessTest, SettingsOfOpenMpDoNotReachARank) {
  setenv("OMP_PROC_BIND", "true", 1);
  setenv("GOMP_CPU_AFFINITY", "0", 1);
  ShellRank run("echo \"{\\\"jobId\\\": \\\"$OMP_PROC_BIND-$GOMP_CPU_AFFINITY-$MARK\\\"}\" >&3");
  unsetenv("OMP_PROC_BIND");
  unsetenv("GOMP_CPU_AFFINITY");
  run.exited.WaitForNotification();
  ASSERT_EQ(run.reports.size(), 1u);
  EXPECT_EQ(run.reports[0].job_id(), "--42");
}

// More than a pipe holds.
TEST(RankProcessTest, AProcessThatDoesNotReadItsInputDelaysNobody) {
  ShellRank run(
      "trap go=1 TERM; echo '{}' >&3; for i in $(seq 1000); do [ $go ] && break; sleep 0.01; done; "
      "[ $go ] && echo \"{\\\"jobId\\\": \\\"$(wc -c)\\\"}\" >&3",
      std::string(1 << 20, 'x'));
  run.reported.WaitForNotification();
  run.process->Signal(SIGTERM);
  run.exited.WaitForNotification();
  EXPECT_EQ(run.code, 0) << "the process gave up waiting for the signal";
  ASSERT_EQ(run.reports.size(), 2u);
  EXPECT_EQ(run.reports[1].job_id(), "1048576");
}

TEST(RankProcessTest, MalformedReportsAreDroppedAndTheRestIsRead) {
  ShellRank run("echo nonsense >&3; echo '{\"jobId\": \"ok\"}' >&3; exit 10");
  run.exited.WaitForNotification();
  EXPECT_EQ(run.code, 10);
  ASSERT_EQ(run.reports.size(), 1u);
  EXPECT_EQ(run.reports[0].job_id(), "ok");
}

// A ShellRank whose lines are kept. They are complete when End returns.
struct SpeakingRank {
  explicit SpeakingRank(const std::string& script) {
    auto started = RankProcess::Start(
        {.program = "/bin/sh",
         .arguments = {"-c", script},
         .log = Logger({.level = LogLevel::kError})},
        {.on_report = [](const RankReport&) {},
         .on_exit = [this](int) { exited.Notify(); },
         .on_log = [this](absl::string_view line) { lines.emplace_back(line); }});
    EXPECT_TRUE(started.ok()) << started.status();
    process = *std::move(started);
  }
  // Waits until it has ended by itself, and joins the thread that reads.
  void End() {
    exited.WaitForNotification();
    process.reset();
  }
  std::vector<std::string> lines;
  absl::Notification exited;
  std::unique_ptr<RankProcess> process;
};

TEST(RankProcessTest, PassesOnItsStandardErrorLineByLine) {
  SpeakingRank run(
      "printf 'one\\ntwo\\n' >&2; head -c 100000 /dev/zero | tr '\\0' x >&2; echo >&2; "
      "printf last >&2; echo '{}' >&3");
  run.End();
  ASSERT_EQ(run.lines.size(), 5u);
  EXPECT_EQ(run.lines[0], "one");
  EXPECT_EQ(run.lines[1], "two");
  // Longer than a line may be, so it comes in parts.
  EXPECT_EQ(run.lines[2].size() + run.lines[3].size(), 100'000u);
  EXPECT_EQ(run.lines[4], "last");
}

// Such a program, a tokenizer for example, would hold the pipe of the rank's lines.
TEST(RankProcessTest, ProgramsThatTheRankStartedEndWithIt) {
  SpeakingRank run("(sleep 20; echo late >&2) 3>&- & exit 11");
  run.End();
  EXPECT_THAT(run.lines, testing::IsEmpty());
}

TEST(RankProcessTest, ReportsTheSignalThatEndedIt) {
  ShellRank run("kill -KILL $$");
  run.exited.WaitForNotification();
  EXPECT_EQ(run.code, 128 + SIGKILL);
}

TEST(RankProcessTest, KillEndsAProcessThatIgnoresSigterm) {
  ShellRank run("trap '' TERM; echo '{}' >&3; while :; do sleep 1; done");
  // The script has set its trap.
  run.reported.WaitForNotification();
  run.process->Signal(SIGTERM);
  EXPECT_TRUE(run.process->Kill(absl::Seconds(60)));
  EXPECT_TRUE(run.exited.HasBeenNotified());
  EXPECT_EQ(run.code, 128 + SIGKILL);
}

TEST(RankProcessTest, KillEndsAStoppedProcess) {
  ShellRank run("echo '{}' >&3; kill -STOP $$");
  run.reported.WaitForNotification();
  EXPECT_TRUE(run.process->Kill(absl::Seconds(60)));
  EXPECT_EQ(run.code, 128 + SIGKILL);
}

// Another process holds its pipe. From here this looks like a process that the system does not end.
TEST(RankProcessTest, KillDoesNotWaitForeverForTheEnd) {
  ShellRank run("setsid sh -c 'echo {} >&3; exec sleep 1' & wait");
  run.reported.WaitForNotification();
  EXPECT_FALSE(run.process->Kill(absl::Milliseconds(50)));
  run.process.reset();
  EXPECT_FALSE(run.exited.HasBeenNotified());
}

TEST(RankProcessTest, ReportsItsStatus) {
  ShellRank run("echo 'status 7 0.5 1 0 fragment 1 version 3' >&3");
  run.exited.WaitForNotification();
  ASSERT_EQ(run.statuses.size(), 1u);
  EXPECT_EQ(run.statuses[0], (RankStatus{.step = 7,
                                         .expected_seconds = 0.5,
                                         .in_collective = true,
                                         .waits_for = "fragment 1 version 3"}));
}

TEST(RankProcessTest, AMissingProgramIsAnError) {
  const auto started = RankProcess::Start({.program = "/no/such/program", .log = Logger({})}, {});
  EXPECT_EQ(started.status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace longhaul
