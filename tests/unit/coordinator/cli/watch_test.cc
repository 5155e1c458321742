// `watch`, `submit --wait` and `--follow` against a coordinator over real gRPC.
#include <algorithm>
#include <thread>

#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "cli_runner.h"
#include "fake_coordinator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sample_job.h"

namespace longhaul::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

v1::WatchJobResponse Update(int64_t cursor, const v1::Job& job) {
  v1::WatchJobResponse update;
  update.set_cursor(cursor);
  *update.mutable_job() = job;
  return update;
}

// A stream of one update for each state.
FakeCoordinator::Stream States(std::vector<v1::JobState> states,
                               grpc::Status end = grpc::Status::OK) {
  return [=](const v1::WatchJobRequest& request, const auto& send, const auto&) {
    int64_t cursor = request.cursor();
    for (v1::JobState state : states) send(Update(++cursor, SampleJob(state)));
    return end;
  };
}

// Sleeps take no time.
class SkippingClock : public ManualClock {
 public:
  SkippingClock() : ManualClock(absl::Now()) {}
  void SleepUntil(absl::Time deadline) override {
    Advance(std::max(absl::ZeroDuration(), deadline - Now()));
  }
};

class WatchTest : public ::testing::Test {
 protected:
  CliResult RunCli(std::vector<std::string> args) {
    args.push_back("--server=" + fake_.address());
    return run_(args);
  }
  FakeCoordinator fake_;
  CliRunner run_;
};

TEST_F(WatchTest, ShowsLinesOnStandardErrorAndTheJobOnStandardOutput) {
  fake_.streams = {States({v1::PENDING, v1::RUNNING, v1::RUNNING, v1::COMPLETED})};
  fake_.Start();
  const CliResult result = RunCli({"watch", "quickstart", "-o", "json"});
  EXPECT_EQ(result.exit, 0);
  EXPECT_EQ(result.envelope()["data"]["state"], "COMPLETED");
  EXPECT_THAT(result.err, AllOf(HasSubstr("PENDING"),
                                HasSubstr("RUNNING  step 1200/6000  loss 2.5000  eval 2.4000"),
                                HasSubstr("4.0k tokens/s"), HasSubstr("COMPLETED")));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 3);  // Nothing new: no line.
}

TEST_F(WatchTest, AQuarantinedJobIsNotWaitedFor) {
  fake_.streams = {[](const v1::WatchJobRequest&, const auto& send, const auto& cancelled) {
    v1::Job job = SampleJob(v1::QUARANTINED);
    job.mutable_error()->set_code("DATA_LOSS");
    job.mutable_error()->set_message("log-3 is damaged at offset 4096");
    send(Update(1, job));
    return grpc::Status::OK;
  }};
  fake_.Start();
  const CliResult result = RunCli({"watch", "quickstart"});
  EXPECT_EQ(result.exit, 1);
  EXPECT_THAT(result.out, HasSubstr("QUARANTINED"));
  EXPECT_THAT(result.err, AllOf(HasSubstr("log-3 is damaged at offset 4096 (JOB_QUARANTINED)"),
                                HasSubstr("QUARANTINED  step 1200/6000")));
}

TEST_F(WatchTest, AJobThatIsDeletedIsAskedForByItsIdAndNamedAtTheEnd) {
  std::string asked;
  fake_.streams = {States({v1::RUNNING}, grpc::Status(grpc::StatusCode::UNAVAILABLE, "bye")),
                   [&asked](const v1::WatchJobRequest& request, const auto&, const auto&) {
                     asked = request.job();
                     return grpc::Status(grpc::StatusCode::NOT_FOUND, "no job j-1");
                   }};
  fake_.Start();
  const CliResult result = RunCli({"watch", "quickstart"});
  EXPECT_EQ(result.exit, 1);
  EXPECT_EQ(asked, "j-1");  // Another job may have its name by now.
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("job quickstart was deleted"), HasSubstr("RUNNING  step 1200/6000")));
}

TEST_F(WatchTest, DrawsABarOnATerminal) {
  fake_.streams = {States({v1::RUNNING, v1::COMPLETED})};
  fake_.Start();
  run_.terminal = true;
  const auto screen = std::make_unique<FakeTerminal>();
  run_.screen = screen.get();
  for (const char* command : {"watch", "wait"}) {
    const CliResult result = RunCli({command, "quickstart"});
    EXPECT_THAT(result.err, AllOf(HasSubstr("\r[###....."), HasSubstr("20 %"), HasSubstr("ETA")));
  }
}

TEST_F(WatchTest, WaitSaysNothingOnTheWayWithoutATerminal) {
  fake_.streams = {States({v1::RUNNING, v1::COMPLETED})};
  fake_.Start();
  const CliResult result = RunCli({"wait", "quickstart"});
  EXPECT_EQ(result.exit, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("COMPLETED"));
}

TEST_F(WatchTest, JsonLinesAreOneForEachUpdateAndTheOutcome) {
  fake_.streams = {States({v1::RUNNING, v1::FAILED})};
  fake_.Start();
  const CliResult result = RunCli({"watch", "quickstart", "-o", "jsonl"});
  EXPECT_EQ(result.exit, 1);
  std::vector<Json> lines;
  for (const absl::string_view line : absl::StrSplit(result.out, '\n', absl::SkipEmpty()))
    lines.push_back(Json::parse(line));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["data"]["state"], "RUNNING");
  EXPECT_EQ(lines[0]["status"], "ok");
  EXPECT_EQ(lines[1]["data"]["state"], "FAILED");
  EXPECT_EQ(lines[2]["error"]["code"], "JOB_FAILED");
  const CliResult wait = RunCli({"wait", "quickstart", "-o", "jsonl"});  // The outcome alone.
  EXPECT_EQ(wait.envelope()["error"]["code"], "JOB_FAILED");
}

TEST_F(WatchTest, NobodyWhoReadsTheLinesEndsTheWatch) {
  fake_.streams = {[](const v1::WatchJobRequest&, const auto& send, const auto& cancelled) {
    send(Update(1, SampleJob()));
    while (!cancelled()) absl::SleepFor(absl::Milliseconds(1));
    return grpc::Status::CANCELLED;
  }};
  fake_.Start();
  run_.broken_output = true;
  const CliResult result = RunCli({"watch", "quickstart", "-o", "jsonl"});
  EXPECT_EQ(result.exit, 1);
  EXPECT_THAT(result.err, HasSubstr("standard output could not be written"));
}

TEST_F(WatchTest, AFailedOrCancelledJobIsExitCodeOneWithItsReason) {
  v1::Job failed = SampleJob(v1::FAILED);
  failed.mutable_error()->set_message("no such file: text.txt");
  failed.mutable_error()->set_hint("mount the data");
  fake_.streams = {[&](const v1::WatchJobRequest&, const auto& send, const auto&) {
                     send(Update(1, failed));
                     return grpc::Status::OK;
                   },
                   States({v1::CANCELLED})};
  fake_.Start();
  const CliResult result = RunCli({"watch", "quickstart", "-o", "json"});
  EXPECT_EQ(result.exit, 1);
  EXPECT_EQ(result.envelope()["status"], "error");
  EXPECT_EQ(result.envelope()["error"]["code"], "JOB_FAILED");
  EXPECT_EQ(result.envelope()["error"]["message"],
            "job quickstart is FAILED: no such file: text.txt");
  EXPECT_EQ(result.envelope()["error"]["hint"], "mount the data");
  EXPECT_EQ(result.envelope()["data"]["state"], "FAILED");
  EXPECT_THAT(result.err, HasSubstr("no such file: text.txt"));
  EXPECT_EQ(RunCli({"watch", "quickstart"}).exit, 1);
}

TEST_F(WatchTest, ReconnectsWithItsCursorAndSaysSo) {
  std::vector<int64_t> cursors;
  const auto note = [&](FakeCoordinator::Stream stream) -> FakeCoordinator::Stream {
    return [&cursors, stream](const v1::WatchJobRequest& request, const auto& send,
                              const auto& cancelled) {
      cursors.push_back(request.cursor());
      return stream(request, send, cancelled);
    };
  };
  const grpc::Status away(grpc::StatusCode::UNAVAILABLE, "coordinator restarts");
  fake_.streams = {note(States({v1::RUNNING, v1::RUNNING}, away)), note(States({}, away)),
                   note(States({v1::COMPLETED}))};
  fake_.Start();
  const CliResult result = RunCli({"watch", "quickstart", "-o", "json"});
  EXPECT_EQ(result.exit, 0);
  EXPECT_THAT(cursors, ::testing::ElementsAre(0, 2, 2));
  EXPECT_THAT(result.err, AllOf(HasSubstr("connection lost (coordinator restarts)"),
                                HasSubstr("connected again")));
}

TEST_F(WatchTest, BeginsAnewWhenTheServerDoesNotKnowTheCursor) {
  fake_.streams = {States({v1::RUNNING}, grpc::Status(grpc::StatusCode::UNAVAILABLE, "away")),
                   [](const v1::WatchJobRequest& request, const auto& send, const auto&) {
                     if (request.cursor() != 0)
                       return grpc::Status(grpc::StatusCode::OUT_OF_RANGE, "newer");
                     send(Update(1, SampleJob(v1::COMPLETED)));
                     return grpc::Status::OK;
                   }};
  fake_.Start();
  EXPECT_EQ(RunCli({"watch", "quickstart"}).exit, 0);
}

TEST_F(WatchTest, OneThatIsRefusedBecauseManyWatchComesBack) {
  const grpc::Status many(grpc::StatusCode::RESOURCE_EXHAUSTED, "too many watch jobs already");
  fake_.streams = {States({v1::RUNNING}), States({}, many), States({v1::COMPLETED})};
  fake_.Start();
  EXPECT_EQ(RunCli({"watch", "quickstart"}).exit, 0);
}

TEST_F(WatchTest, OtherErrorsEndIt) {
  fake_.streams = {States({v1::RUNNING}, grpc::Status(grpc::StatusCode::NOT_FOUND, "removed"))};
  fake_.Start();
  EXPECT_EQ(RunCli({"watch", "quickstart"}).exit, 1);
}

TEST_F(WatchTest, TimeoutBoundsTheWholeWait) {
  fake_.streams = {[](const v1::WatchJobRequest&, const auto& send, const auto& cancelled) {
    send(Update(1, SampleJob(v1::RUNNING)));
    while (!cancelled()) std::this_thread::yield();
    return grpc::Status::OK;
  }};
  fake_.Start();
  const CliResult result = RunCli({"watch", "quickstart", "--timeout", "200ms", "-o", "json"});
  EXPECT_EQ(result.exit, 3);
  EXPECT_EQ(result.envelope()["error"]["code"], "DEADLINE_EXCEEDED");
  EXPECT_THAT(result.envelope()["error"]["message"].get<std::string>(), HasSubstr("quickstart"));
}

TEST_F(WatchTest, ARestartRightAfterSubmitIsWaitedFor) {
  fake_.submit = [](const v1::SubmitJobRequest&, v1::SubmitJobResponse* response) {
    *response->mutable_job() = SampleJob(v1::PENDING);
    return grpc::Status::OK;
  };
  fake_.streams = {States({}, grpc::Status(grpc::StatusCode::UNAVAILABLE, "away")),
                   States({v1::COMPLETED})};
  fake_.Start();
  EXPECT_EQ(RunCli({"submit", "-f", "deploy/examples/quickstart.yaml", "--wait"}).exit, 0);
}

TEST_F(WatchTest, AQuietJobIsStillWatchedWhenItsStreamBreaks) {
  SkippingClock clock;
  run_.time = &clock;
  fake_.submit = [](const v1::SubmitJobRequest&, v1::SubmitJobResponse* response) {
    *response->mutable_job() = SampleJob(v1::PENDING);
    return grpc::Status::OK;
  };
  fake_.streams = {[&](const v1::WatchJobRequest&, const auto&, const auto&) {
                     clock.Advance(absl::Minutes(20));
                     return grpc::Status(grpc::StatusCode::UNAVAILABLE, "away");
                   },
                   States({v1::COMPLETED})};
  fake_.Start();
  const CliResult result = RunCli({"submit", "-f", "deploy/examples/quickstart.yaml", "--wait"});
  EXPECT_EQ(result.exit, 0) << result.err;
}

TEST_F(WatchTest, ACoordinatorThatStaysAwayIsGivenUp) {
  SkippingClock clock;
  run_.time = &clock;
  fake_.streams = {States({v1::RUNNING}, grpc::Status(grpc::StatusCode::UNAVAILABLE, "away")),
                   [&](const v1::WatchJobRequest&, const auto&, const auto&) {
                     clock.Advance(absl::Minutes(2));
                     return grpc::Status(grpc::StatusCode::UNAVAILABLE, "away");
                   }};
  fake_.Start();
  EXPECT_EQ(RunCli({"watch", "quickstart"}).exit, 2);
}

TEST_F(WatchTest, QuietLogsAreStillFollowedWhenTheirStreamBreaks) {
  SkippingClock clock;
  run_.time = &clock;
  fake_.get = [](const v1::GetJobRequest&, v1::GetJobResponse* response) {
    *response->mutable_job() = SampleJob();
    return grpc::Status::OK;
  };
  int streams = 0;
  fake_.logs = [&]() -> grpc::Status {
    if (++streams > 2) return grpc::Status::OK;
    clock.Advance(absl::Minutes(20));
    return {grpc::StatusCode::UNAVAILABLE, "away"};
  };
  fake_.Start();
  const CliResult result = RunCli({"logs", "quickstart", "--follow"});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(streams, 3);
}

TEST_F(WatchTest, SubmitWaitsQuietlyAndFollowsAloud) {
  fake_.submit = [](const v1::SubmitJobRequest&, v1::SubmitJobResponse* response) {
    *response->mutable_job() = SampleJob(v1::PENDING);
    response->set_created(true);
    return grpc::Status::OK;
  };
  fake_.streams = {States({v1::RUNNING, v1::COMPLETED})};
  fake_.Start();
  const std::vector<std::string> submit = {"submit", "-f", "deploy/examples/quickstart.yaml", "-o",
                                           "json"};
  const auto with = [&](const char* flag) {
    std::vector<std::string> args = submit;
    args.push_back(flag);
    return RunCli(args);
  };
  const CliResult wait = with("--wait"), follow = with("--follow");
  EXPECT_EQ(wait.envelope()["data"]["state"], "COMPLETED");
  EXPECT_THAT(wait.err, Not(HasSubstr("step 1200")));
  EXPECT_EQ(follow.envelope()["data"]["state"], "COMPLETED");
  EXPECT_THAT(follow.err, HasSubstr("step 1200"));
}

}  // namespace
}  // namespace longhaul::cli
