#include "worker/agent/rank_process.h"

#include <signal.h>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

// Runs a shell script as the rank's program.
struct ShellRank {
  explicit ShellRank(const std::string& script, const std::string& input = "") {
    auto started = RankProcess::Start({.program = "/bin/sh",
                                       .arguments = {"-c", script},
                                       .environment = {"MARK=42"},
                                       .input = input,
                                       .log = Logger({.level = LogLevel::kError})},
                                      {.on_report =
                                           [this](const v1::HeartbeatRequest& report) {
                                             reports.push_back(report);
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
  std::vector<v1::HeartbeatRequest> reports;  // Valid after `exited`.
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

TEST(RankProcessTest, MalformedReportsAreDroppedAndTheRestIsRead) {
  ShellRank run("echo nonsense >&3; echo '{\"jobId\": \"ok\"}' >&3; exit 10");
  run.exited.WaitForNotification();
  EXPECT_EQ(run.code, kRankRestart);
  ASSERT_EQ(run.reports.size(), 1u);
  EXPECT_EQ(run.reports[0].job_id(), "ok");
}

TEST(RankProcessTest, ASignalIsTold) {
  ShellRank run("kill -KILL $$");
  run.exited.WaitForNotification();
  EXPECT_EQ(run.code, 128 + SIGKILL);
}

TEST(RankProcessTest, TerminateEndsAStubbornProcess) {
  ShellRank run("trap '' TERM; echo '{}' >&3; while :; do sleep 1; done");
  run.reported.WaitForNotification();  // The trap is set.
  run.process->Terminate(absl::Milliseconds(100));
  EXPECT_TRUE(run.exited.HasBeenNotified());
  EXPECT_EQ(run.code, 128 + SIGKILL);
}

TEST(RankProcessTest, AProgramThatIsNotThereIsAnError) {
  const auto started = RankProcess::Start({.program = "/no/such/program", .log = Logger({})}, {});
  EXPECT_EQ(started.status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace longhaul
