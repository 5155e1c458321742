// Commands that say what is wrong: with this machine and the connection, or with a job's training.
#include <string>

#include "commands_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(CommandsTest, ADoctorSaysWhatToDo) {
  const std::string nobody = NobodyListensAt();
  const CliResult gone = run_({"doctor", "--server", nobody, "-o", "json"});
  EXPECT_EQ(gone.exit, 2);
  const Json envelope = gone.envelope();
  EXPECT_EQ(envelope["error"]["code"], "UNHEALTHY");
  const Json last = envelope["data"]["checks"].back();
  EXPECT_EQ(last["check"], "coordinator");
  EXPECT_EQ(last["verdict"], "problem");
  EXPECT_THAT(last["advice"].get<std::string>(), HasSubstr("is the coordinator running at"));
  // One that is older than the calls that a doctor makes.
  ServeJobsAndPools();
  const CliResult old = RunCli({"doctor"});
  EXPECT_EQ(old.exit, 0);
  EXPECT_THAT(old.out, AllOf(HasSubstr("older than this program"), HasSubstr("1 of 1")));
  EXPECT_EQ(RunCli({"doctor", "--data-dir", "/nowhere"}).exit, 4);
}

TEST_F(CommandsTest, GetNamesThePoolsWhoseContributionsWereLeftOut) {
  fake_.get = [&](const v1::GetJobRequest&, v1::GetJobResponse* response) {
    *response->mutable_job() = SampleJob();
    response->mutable_job()->mutable_pools(1)->set_left_out_rounds(3);
    response->mutable_job()->mutable_pools(1)->set_left_out_fragments(1);
    return grpc::Status::OK;
  };
  fake_.Start();
  EXPECT_THAT(RunCli({"get", "quickstart"}).out,
              AllOf(HasSubstr("west: guard.outer left out 3 contributions, the newest in 1 of "),
                    Not(HasSubstr("east: "))));
}

v1::Job FailingJob(v1::JobState state) {
  v1::Job job = SampleJob(state);
  job.mutable_health()->set_level(v1::JobHealth::FAILING);
  v1::HealthFinding& finding = *job.mutable_health()->add_findings();
  finding.set_code("DIVERGED");
  finding.set_level(v1::JobHealth::FAILING);
  finding.set_message("the loss is 84");
  finding.set_hint("lower the learning rate");
  finding.mutable_since()->set_seconds(1700000100);
  v1::HealthFinding& skipped = *job.mutable_health()->add_findings();
  skipped.set_code("STEPS_SKIPPED");
  skipped.set_level(v1::JobHealth::WARNING);
  skipped.set_message("3 steps");
  skipped.set_pool("west");
  return job;
}

TEST_F(CommandsTest, ADoctorOfAJobSaysWhatIsWrongWithIt) {
  v1::Job job = FailingJob(v1::COMPLETED);
  fake_.get = [&](const v1::GetJobRequest& request, v1::GetJobResponse* response) {
    EXPECT_EQ(request.job(), "quickstart");
    *response->mutable_job() = job;
    return grpc::Status::OK;
  };
  fake_.Start();
  const CliResult failing = RunCli({"doctor", "quickstart"});
  EXPECT_EQ(failing.exit, 1);
  EXPECT_THAT(failing.out,
              AllOf(HasSubstr("problem  health              DIVERGED: the loss is 84, since "
                              "2023-11-14 22:15:00Z"),
                    HasSubstr("-> lower the learning rate"),
                    HasSubstr("warning  health              STEPS_SKIPPED: west: 3 steps"),
                    HasSubstr("warning  warning             momentum 0.9 needs rounds"),
                    Not(HasSubstr("machine"))));
  const CliResult shown = RunCli({"get", "quickstart"});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("health       failing"),
                               HasSubstr("failing      DIVERGED: the loss is 84"),
                               HasSubstr("hint         lower the learning rate"),
                               HasSubstr("warning      STEPS_SKIPPED: west: 3 steps")));
  job = SampleJob(v1::RUNNING);
  EXPECT_THAT(RunCli({"doctor", "quickstart"}).out, HasSubstr("not known"));
  job.mutable_health()->set_level(v1::JobHealth::HEALTHY);
  const CliResult healthy = RunCli({"doctor", "quickstart"});
  EXPECT_EQ(healthy.exit, 0);
  EXPECT_THAT(healthy.out, HasSubstr("nothing was found"));
  job = SampleJob(v1::FAILED);
  job.mutable_error()->set_message("no such file");
  EXPECT_EQ(RunCli({"doctor", "quickstart"}).exit, 1);
}

TEST_F(CommandsTest, AListMarksJobsThatDoNotTrainAsTheyShould) {
  fake_.list = [&](const v1::ListJobsRequest&, v1::ListJobsResponse* response) {
    *response->add_jobs() = FailingJob(v1::COMPLETED);
    *response->add_jobs() = SampleJob(v1::COMPLETED);
    return grpc::Status::OK;
  };
  fake_.Start();
  const std::string out = RunCli({"list"}).out;
  EXPECT_THAT(out, HasSubstr("COMPLETED, failing"));
  EXPECT_EQ(out.find("failing"), out.rfind("failing"));
}

TEST_F(CommandsTest, AWaitEndsWithAnErrorWhenItsJobIsFailingIfThatIsWanted) {
  fake_.streams = {[&](const v1::WatchJobRequest&, const auto& send, const auto& cancelled) {
    for (const v1::Job& job :
         {SampleJob(), FailingJob(v1::RUNNING), SampleJob(), FailingJob(v1::COMPLETED)}) {
      v1::WatchJobResponse update;
      *update.mutable_job() = job;
      if (!send(update) || cancelled()) break;
    }
    return grpc::Status::OK;
  }};
  fake_.Start();
  EXPECT_EQ(RunCli({"wait", "quickstart"}).exit, 0);
  const CliResult early = RunCli({"wait", "quickstart", "--fail-unhealthy", "-o", "json"});
  EXPECT_EQ(early.exit, 1);
  EXPECT_EQ(early.envelope()["error"]["code"], "JOB_UNHEALTHY");
  EXPECT_EQ(early.envelope()["data"]["state"], "RUNNING");
}

}  // namespace
}  // namespace longhaul::cli
