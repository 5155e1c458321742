// Every command against a coordinator over real gRPC.
#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/synchronization/notification.h"
#include "cli_runner.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "fake_coordinator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sample_job.h"

namespace longhaul::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class CliTest : public ::testing::Test {
 protected:
  // Arguments with the fake's address.
  CliResult RunCli(std::vector<std::string> args) {
    args.push_back("--server=" + fake_.address());
    return run_(args);
  }
  std::string Example() const { return "deploy/examples/quickstart.yaml"; }

  FakeCoordinator fake_;
  CliRunner run_;
};

TEST_F(CliTest, GetShowsEveryPromisedKeyWithNumbersAsNumbers) {
  fake_.get = [](const v1::GetJobRequest& request, v1::GetJobResponse* response) {
    EXPECT_EQ(request.job(), "quickstart");
    *response->mutable_job() = SampleJob();
    return grpc::Status::OK;
  };
  fake_.Start();
  const CliResult result = RunCli({"get", "quickstart", "-o", "json"});
  EXPECT_EQ(result.exit, 0);
  EXPECT_EQ(result.err, "");
  const Json envelope = result.envelope();
  EXPECT_EQ(envelope["schema_version"], 1);
  EXPECT_EQ(envelope["status"], "ok");
  EXPECT_FALSE(envelope.contains("error"));
  const Json& data = envelope["data"];
  EXPECT_EQ(data["name"], "quickstart");
  EXPECT_EQ(data["id"], "j-1");
  EXPECT_EQ(data["state"], "RUNNING");
  EXPECT_EQ(data["steps"], 6000);
  EXPECT_EQ(data["inner_step"], 1200);
  EXPECT_EQ(data["tokens"], 1228800);
  EXPECT_EQ(data["parameters"], 9007199254740993);  // Exact beyond 2^53.
  EXPECT_EQ(data["fragments"].size(), 2);
  EXPECT_EQ(data["fragments"][0]["name"], "embeddings");
  EXPECT_EQ(data["fragments"][0]["fragment"], 0);
  EXPECT_EQ(data["fragments"][1]["rounds_committed"], 40);
  EXPECT_EQ(data["eval_loss"]["first"], 4.5);
  EXPECT_EQ(data["eval_loss"]["last"], 2.4);
  EXPECT_EQ(data["eval_loss"]["best"], 2.25);
  EXPECT_EQ(data["wire_bytes"]["up"]["payload"], 1000);
  EXPECT_EQ(data["wire_bytes"]["down"]["total"], 2200);
  EXPECT_EQ(data["exposed_wait_seconds"], 1.5);
  EXPECT_EQ(data["compute_seconds"], 100.0);
  EXPECT_EQ(data["utilization"], 0.98);
  EXPECT_EQ(data["data_parallel_bytes"], 3300000);
  EXPECT_EQ(data["pools"][1]["pool"], "west");
  EXPECT_TRUE(data["error"].is_null());
  EXPECT_EQ(data["warnings"][0], "momentum 0.9 needs rounds");
  EXPECT_EQ(data["started_at"], "2023-11-14T22:13:30.500Z");
  EXPECT_TRUE(data["ended_at"].is_null());
  EXPECT_EQ(data["spec"]["train"]["seed"], 18446744073709551615u);
  EXPECT_EQ(data["spec"]["sync"]["up"]["codec"], "E3M0");
}

TEST_F(CliTest, AJobThatHasJustBegunHasTheSameKeys) {
  fake_.get = [](const v1::GetJobRequest&, v1::GetJobResponse* response) {
    response->mutable_job()->mutable_spec()->set_name("a");
    return grpc::Status::OK;
  };
  fake_.Start();
  const Json data = RunCli({"get", "a", "-o", "json"}).envelope()["data"];
  EXPECT_TRUE(data["eval_loss"]["last"].is_null());
  EXPECT_EQ(data["eval_loss"]["evaluations"], 0);
  EXPECT_EQ(data["wire_bytes"]["up"]["payload"], 0);
  EXPECT_EQ(data["utilization"], 0);
  EXPECT_EQ(data["inner_step"], 0);
  EXPECT_TRUE(data["fragments"].is_array());
  EXPECT_TRUE(data["pools"].is_array());
  EXPECT_TRUE(data["warnings"].is_array());
  EXPECT_EQ(RunCli({"get", "a"}).exit, 0);  // The table too.
}

TEST_F(CliTest, TableAndYamlShowTheSameJob) {
  fake_.get = [](const v1::GetJobRequest&, v1::GetJobResponse* response) {
    *response->mutable_job() = SampleJob();
    response->mutable_job()->set_waiting_for("2 pools\x1b[2J");
    return grpc::Status::OK;
  };
  fake_.Start();
  const CliResult table = RunCli({"get", "quickstart"});
  EXPECT_THAT(table.out,
              AllOf(HasSubstr("RUNNING"), HasSubstr("1200/6000"), HasSubstr("layers 0,2"),
                    HasSubstr("west"), HasSubstr("1000 times as much")));
  EXPECT_THAT(table.out, Not(HasSubstr("\x1b")));  // A server cannot drive the terminal.
  const CliResult yaml = RunCli({"get", "quickstart", "-o", "yaml"});
  ViolationList violations;
  const Json parsed = ParseYaml(yaml.out, violations);
  EXPECT_TRUE(violations.empty());
  EXPECT_EQ(parsed["data"]["eval_loss"]["best"], 2.25);
  EXPECT_EQ(parsed["data"]["fragments"][1]["name"], "layers 0,2");
}

TEST_F(CliTest, ListFollowsPages) {
  fake_.list = [](const v1::ListJobsRequest& request, v1::ListJobsResponse* response) {
    *response->add_jobs() = SampleJob();
    response->mutable_jobs(0)->mutable_spec()->set_name("job-" + request.page_token());
    if (request.page_token().size() < 2) response->set_next_page_token(request.page_token() + "x");
    return grpc::Status::OK;
  };
  fake_.Start();
  const Json all = RunCli({"list", "-o", "json"}).envelope()["data"];
  ASSERT_EQ(all.size(), 3);
  EXPECT_EQ(all[2]["name"], "job-xx");
  EXPECT_EQ(RunCli({"list", "-o", "json", "--limit", "2"}).envelope()["data"].size(), 2);
  EXPECT_THAT(RunCli({"list"}).out, AllOf(StartsWith("NAME"), HasSubstr("job-xx")));
}

TEST_F(CliTest, ListAsksForSmallerPagesWhenOneDoesNotFit) {
  fake_.list = [](const v1::ListJobsRequest& request, v1::ListJobsResponse* response) {
    int next = 0;
    if (!request.page_token().empty()) next = std::stoi(request.page_token());
    for (int i = 0; i < request.page_size() && next < 30; ++i, ++next) {
      *response->add_jobs() = SampleJob();
      response->mutable_jobs(i)->set_waiting_for(std::string(400'000, 'x'));
    }
    if (next < 30) response->set_next_page_token(std::to_string(next));
    return grpc::Status::OK;
  };
  fake_.Start();
  const CliResult all = RunCli({"list", "-o", "json"});
  EXPECT_EQ(all.exit, 0) << all.err;
  EXPECT_EQ(all.envelope()["data"].size(), 30);
}

TEST_F(CliTest, OutputThatCannotBeWrittenIsAnError) {
  fake_.list = [](const v1::ListJobsRequest&, v1::ListJobsResponse* response) {
    *response->add_jobs() = SampleJob();
    return grpc::Status::OK;
  };
  fake_.Start();
  run_.broken_output = true;
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"list"}, {"list", "-o", "json"}, {"version"}, {"--help"}}) {
    const CliResult result = RunCli(command);
    EXPECT_EQ(result.exit, 1) << command[0];
    EXPECT_THAT(result.err, HasSubstr("standard output could not be written"));
  }
}

TEST_F(CliTest, SaysWhichPoolsAreSetAsideAndWhy) {
  v1::SetAside aside;
  aside.set_pool("west");
  aside.set_job("quickstart");
  aside.set_failures(3);
  aside.mutable_error()->set_code("NOT_FOUND");
  aside.mutable_error()->set_message("data.text.path: no such file");
  aside.mutable_retry_in()->set_seconds(20);
  fake_.get = [&](const v1::GetJobRequest&, v1::GetJobResponse* response) {
    *response->mutable_job() = SampleJob();
    *response->mutable_job()->add_set_aside() = aside;
    return grpc::Status::OK;
  };
  fake_.pools = [&](const v1::ListPoolsRequest&, v1::ListPoolsResponse* response) {
    v1::Pool* pool = response->add_pools();
    pool->set_name("west");
    pool->set_state(v1::DRAINING);
    *pool->add_set_aside() = aside;
    response->add_pools()->set_state(v1::AWAY);
    return grpc::Status::OK;
  };
  fake_.Start();
  const auto told = HasSubstr(
      "west is set aside for quickstart: NOT_FOUND: data.text.path: no such file (3 "
      "times in a row; again in 20s)");
  EXPECT_THAT(RunCli({"get", "quickstart"}).out, told);
  EXPECT_THAT(RunCli({"pools"}).out, AllOf(told, HasSubstr("DRAINING"), HasSubstr("AWAY")));
  EXPECT_EQ(RunCli({"pools", "-o", "json"}).envelope()["data"][0]["set_aside"][0]["retry_in"], 20);
}

TEST_F(CliTest, GetNamesThePoolsWithoutWhichRoundsWentOn) {
  int in_a_row = 1;
  fake_.get = [&](const v1::GetJobRequest&, v1::GetJobResponse* response) {
    *response->mutable_job() = SampleJob();
    response->mutable_job()->mutable_pools(1)->set_late_rounds(3);
    response->mutable_job()->mutable_pools(1)->set_late_rounds_in_a_row(in_a_row);
    return grpc::Status::OK;
  };
  fake_.Start();
  EXPECT_THAT(RunCli({"get", "quickstart"}).out,
              AllOf(HasSubstr("west: 3 rounds continued without it\n"), Not(HasSubstr("east: "))));
  EXPECT_EQ(
      RunCli({"get", "quickstart", "-o", "json"}).envelope()["data"]["pools"][1]["late_rounds"], 3);
  in_a_row = 2 * SampleJob().fragments_size();
  EXPECT_THAT(RunCli({"get", "quickstart"}).out,
              HasSubstr(absl::StrCat("west: 3 rounds continued without it, the last ", in_a_row,
                                     " in a row: it contributes nothing\n")));
}

TEST_F(CliTest, PoolsShowsAllPagesAndHowManyFaultsAreLeftOut) {
  fake_.pools = [](const v1::ListPoolsRequest& request, v1::ListPoolsResponse* response) {
    v1::Pool* pool = response->add_pools();
    pool->set_name("pool" + request.page_token());
    pool->set_set_aside_left_out(7);
    if (request.page_token().size() < 2) response->set_next_page_token(request.page_token() + "x");
    return grpc::Status::OK;
  };
  fake_.Start();
  EXPECT_THAT(RunCli({"pools"}).out,
              AllOf(HasSubstr("pool "), HasSubstr("poolx "), HasSubstr("poolxx "),
                    HasSubstr("and 7 more that are set aside\n")));
}

TEST_F(CliTest, PoolsShowsTheNodes) {
  fake_.pools = [](const v1::ListPoolsRequest&, v1::ListPoolsResponse* response) {
    v1::Pool* pool = response->add_pools();
    pool->set_name("east");
    pool->set_state(v1::FORMING);
    pool->set_waiting_for("node 1 of 2, for 4s");
    v1::Node* here = pool->add_nodes();
    here->set_here(true);
    here->set_ranks(8);
    here->set_address("10.0.0.2");
    here->set_host("gpu\x1b-2");
    pool->add_nodes()->set_node(1);
    v1::Pool* hostile = response->add_pools();
    hostile->set_name("we\x1b[2Jst");
    hostile->set_waiting_for("a node");
    hostile->add_nodes();
    return grpc::Status::OK;
  };
  fake_.Start();
  EXPECT_THAT(RunCli({"pools"}).out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(RunCli({"pools"}).out,
              AllOf(HasSubstr("2 nodes"), HasSubstr("east waits for node 1 of 2, for 4s\n"),
                    HasSubstr("east node 0: 10.0.0.2, 8 ranks, host gpu?-2\n"),
                    HasSubstr("east node 1: not here\n")));
}

TEST_F(CliTest, PausesWaitsForThePauseAndResumes) {
  fake_.pause = [](const v1::PauseJobRequest& request, v1::PauseJobResponse* response) {
    EXPECT_EQ(request.job(), "quickstart");
    v1::Job& job = *response->mutable_job() = SampleJob(v1::PAUSING);
    job.mutable_pause()->set_by("token:ann");
    job.mutable_pause()->set_reason(request.reason());
    return grpc::Status::OK;
  };
  v1::JobState next = v1::PAUSED;
  int asked = 0;
  fake_.get = [&](const v1::GetJobRequest& request, v1::GetJobResponse* response) {
    EXPECT_EQ(request.job(), "j-1") << "another job may have its name";
    *response->mutable_job() = SampleJob(++asked < 2 ? v1::PAUSING : next);
    response->mutable_job()->set_waiting_for("1 pool to stop");
    return grpc::Status::OK;
  };
  fake_.resume = [](const v1::ResumeJobRequest& request, v1::ResumeJobResponse* response) {
    EXPECT_EQ(request.job(), "quickstart");
    *response->mutable_job() = SampleJob(v1::RUNNING);
    return grpc::Status::OK;
  };
  fake_.Start();
  EXPECT_EQ(RunCli({"pause", "quickstart"}).out, "quickstart PAUSING\n");
  const Json data =
      RunCli({"pause", "quickstart", "--reason", "night", "-o", "json"}).envelope()["data"];
  EXPECT_EQ(data["pause"]["by"], "token:ann");
  EXPECT_EQ(data["pause"]["reason"], "night");
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(RunCli({"pause", "quickstart", "--wait"}).out, "quickstart PAUSED\n");
  EXPECT_EQ(asked, 2);
  // Somebody resumed it; or it came to its end before it had paused.
  next = v1::RUNNING;
  const CliResult resumed = RunCli({"pause", "quickstart", "--wait"});
  EXPECT_EQ(resumed.exit, 1);
  EXPECT_THAT(resumed.err, HasSubstr("is RUNNING, and was not paused"));
  next = v1::COMPLETED;
  EXPECT_EQ(RunCli({"pause", "quickstart", "--wait"}).out, "quickstart COMPLETED\n");
  next = v1::PAUSING;
  const CliResult late = RunCli({"pause", "quickstart", "--wait", "--timeout", "1s"});
  EXPECT_EQ(late.exit, 3);
  EXPECT_THAT(late.err, HasSubstr("it waits for 1 pool to stop"));
  EXPECT_EQ(RunCli({"resume", "quickstart"}).out, "quickstart RUNNING\n");
  EXPECT_EQ(RunCli({"pause"}).exit, 4);
}

TEST_F(CliTest, GetShowsWhoPausedAJobAndWhy) {
  fake_.get = [](const v1::GetJobRequest&, v1::GetJobResponse* response) {
    v1::Job& job = *response->mutable_job() = SampleJob(v1::PAUSED);
    job.mutable_pause()->mutable_at()->set_seconds(1);
    job.mutable_pause()->set_by("token:ann");
    job.mutable_pause()->set_reason("the\nnight");
    return grpc::Status::OK;
  };
  fake_.Start();
  EXPECT_THAT(RunCli({"get", "quickstart"}).out,
              AllOf(HasSubstr("PAUSED"), HasSubstr("ago, by token:ann: the?night")));
}

TEST_F(CliTest, CancelPoolsCheckpointsAndVersion) {
  fake_.cancel = [](const v1::CancelJobRequest& request, v1::CancelJobResponse* response) {
    EXPECT_EQ(request.reason(), "wrong data");
    *response->mutable_job() = SampleJob(v1::CANCELLED);
    return grpc::Status::OK;
  };
  fake_.pools = [](const v1::ListPoolsRequest&, v1::ListPoolsResponse* response) {
    v1::Pool* pool = response->add_pools();
    pool->set_name("east");
    pool->set_state(v1::PARTICIPATING);
    pool->mutable_lease_left()->set_seconds(12);
    return grpc::Status::OK;
  };
  fake_.checkpoints = [](const v1::ListCheckpointsRequest&, v1::ListCheckpointsResponse* response) {
    v1::CheckpointManifest* checkpoint = response->add_checkpoints();
    checkpoint->set_step(6000);
    checkpoint->set_final(true);
    checkpoint->set_path("/var/lib/longhaul/a");
    checkpoint->add_fragments()->set_elements(256);
    return grpc::Status::OK;
  };
  fake_.Start();
  EXPECT_EQ(RunCli({"cancel", "quickstart", "--reason", "wrong data"}).out,
            "quickstart CANCELLED\n");
  EXPECT_THAT(RunCli({"pools"}).out,
              AllOf(HasSubstr("east"), HasSubstr("PARTICIPATING"), HasSubstr("12s")));
  EXPECT_EQ(RunCli({"pools", "-o", "json"}).envelope()["data"][0]["lease_left"], 12.0);
  EXPECT_THAT(RunCli({"checkpoints", "a"}).out, AllOf(HasSubstr("6000"), HasSubstr("1.0 KiB")));
  EXPECT_EQ(RunCli({"checkpoints", "a", "-o", "json"}).envelope()["data"][0]["final"], true);
  EXPECT_THAT(run_({"version"}).out, StartsWith("longhaul "));
  EXPECT_TRUE(run_({"version", "-o", "json"}).envelope()["data"].contains("version"));
}

TEST_F(CliTest, SubmitSendsTheSpecWithItsOverrides) {
  v1::SubmitJobRequest got;
  fake_.submit = [&](const v1::SubmitJobRequest& request, v1::SubmitJobResponse* response) {
    got = request;
    *response->mutable_job() = SampleJob(v1::PENDING);
    response->set_created(true);
    return grpc::Status::OK;
  };
  fake_.Start();
  const CliResult result = RunCli({"submit", "-f", Example(), "--set", "sync.h=100", "--set",
                                   "data.text.path=/t.txt", "--token", "t-1", "-o", "json"});
  EXPECT_EQ(result.exit, 0);
  EXPECT_EQ(got.spec().sync().h(), 100);
  EXPECT_EQ(got.spec().data().text().path(), "/t.txt");
  EXPECT_EQ(got.idempotency_token(), "t-1");
  EXPECT_FALSE(got.validate_only());
  EXPECT_EQ(result.envelope()["data"]["state"], "PENDING");
  EXPECT_THAT(result.err, HasSubstr("warning: momentum"));
}

TEST_F(CliTest, DryRunValidatesOnlyAndShowsTheDefaults) {
  fake_.submit = [](const v1::SubmitJobRequest& request, v1::SubmitJobResponse* response) {
    EXPECT_TRUE(request.validate_only());
    *response->mutable_job()->mutable_spec() = request.spec();
    return grpc::Status::OK;
  };
  fake_.Start();
  const CliResult result = RunCli({"submit", "-f", Example(), "--dry-run"});
  EXPECT_EQ(result.exit, 0);
  EXPECT_THAT(result.out, AllOf(HasSubstr("name: quickstart"), HasSubstr("codec: E3M0")));
}

TEST_F(CliTest, SubmitReadsStandardInputAndSaysThatAJobExists) {
  fake_.submit = [](const v1::SubmitJobRequest& request, v1::SubmitJobResponse* response) {
    *response->mutable_job()->mutable_spec() = request.spec();
    return grpc::Status::OK;
  };
  fake_.Start();
  run_.input = "name: from-stdin\n";
  const CliResult result = RunCli({"submit", "-f", "-"});
  EXPECT_EQ(result.exit, 0);
  EXPECT_THAT(result.err, HasSubstr("job from-stdin already exists"));
}

TEST_F(CliTest, ASpecWithTyposNeverReachesTheServer) {
  fake_.Start();
  run_.input = "name: a\nsync: {tua: 1, up: {codec: e3m1}}\n";
  const CliResult result = RunCli({"submit", "-f", "-", "-o", "json"});
  EXPECT_EQ(result.exit, 4);
  const Json error = result.envelope()["error"];
  EXPECT_EQ(error["code"], "INVALID_ARGUMENT");
  ASSERT_EQ(error["fields"].size(), 2);
  EXPECT_EQ(error["fields"][0]["field"], "sync.tua");
  EXPECT_EQ(error["fields"][0]["description"], "unknown field (did you mean 'tau'?)");
  EXPECT_EQ(error["fields"][1]["field"], "sync.up.codec");
  EXPECT_THAT(result.err, HasSubstr("sync.tua: unknown field (did you mean 'tau'?)"));
}

TEST_F(CliTest, RefusalsOfTheServerNameTheirFields) {
  fake_.submit = [](const v1::SubmitJobRequest&, v1::SubmitJobResponse*) {
    return ToGrpcStatus(WithErrorInfo(
        BadRequestError({{"sync.tau", "found 30, expected 0 to 29"}, {"name", "is required"}}),
        {.reason = "SPEC_INVALID", .metadata = {{"hint", "read job.proto"}}}));
  };
  fake_.Start();
  const CliResult result = RunCli({"submit", "-f", Example(), "-o", "json"});
  EXPECT_EQ(result.exit, 4);
  const Json envelope = result.envelope();
  EXPECT_EQ(envelope["status"], "error");
  EXPECT_FALSE(envelope.contains("data"));
  EXPECT_EQ(envelope["error"]["reason"], "SPEC_INVALID");
  EXPECT_EQ(envelope["error"]["hint"], "read job.proto");
  EXPECT_EQ(envelope["error"]["fields"][0]["field"], "sync.tau");
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("sync.tau: found 30"), HasSubstr("hint: read job.proto")));
}

TEST_F(CliTest, ExitCodesFollowTheKindOfError) {
  absl::Status status;
  fake_.get = [&](const v1::GetJobRequest&, v1::GetJobResponse*) { return ToGrpcStatus(status); };
  fake_.Start();
  const auto exit_of = [&](absl::Status answer) {
    status = std::move(answer);
    return RunCli({"get", "a"}).exit;
  };
  EXPECT_EQ(exit_of(absl::NotFoundError("no job a")), 1);
  EXPECT_EQ(exit_of(absl::InternalError("broken")), 1);
  EXPECT_EQ(exit_of(absl::FailedPreconditionError("ended")), 1);
  EXPECT_EQ(exit_of(absl::UnimplementedError("no such call")), 1);
  EXPECT_EQ(exit_of(WithFieldViolations(absl::UnimplementedError("later"), {{"a", "b"}})), 4);
  EXPECT_EQ(exit_of(absl::UnauthenticatedError("no token")), 2);
  EXPECT_EQ(exit_of(absl::PermissionDeniedError("not yours")), 2);
  EXPECT_EQ(exit_of(absl::UnavailableError("draining")), 2);
  EXPECT_EQ(exit_of(absl::InvalidArgumentError("malformed")), 4);
  status = WithRetryDelay(absl::ResourceExhaustedError("busy"), absl::Seconds(7));
  const CliResult busy = RunCli({"get", "a", "-o", "json"});
  EXPECT_EQ(busy.exit, 1);
  EXPECT_EQ(busy.envelope()["error"]["retry_after_seconds"], 7.0);
  EXPECT_THAT(busy.err, HasSubstr("try again in 7s"));
}

TEST_F(CliTest, NobodyListeningIsAConnectionError) {
  std::string address;
  {
    FakeCoordinator gone;
    gone.Start();
    address = gone.address();
  }
  for (const char* command : {"get", "watch"}) {
    const CliResult result = run_({command, "a", "--server", address, "-o", "json"});
    EXPECT_EQ(result.exit, 2) << command;
    EXPECT_EQ(result.envelope()["error"]["code"], "UNAVAILABLE");
    EXPECT_THAT(result.envelope()["error"]["hint"].get<std::string>(), HasSubstr(address));
  }
}

TEST_F(CliTest, AServerThatAnsweredIsNotCalledSilent) {
  absl::Status status;
  fake_.get = [&](const v1::GetJobRequest&, v1::GetJobResponse*) { return ToGrpcStatus(status); };
  fake_.Start();
  for (const absl::Status& answer : {absl::DeadlineExceededError("the job's store is slow"),
                                     absl::UnavailableError("draining")}) {
    status = answer;
    const CliResult result = RunCli({"get", "a"});
    EXPECT_THAT(result.err, AllOf(HasSubstr(std::string(answer.message())),
                                  Not(HasSubstr("no answer")), Not(HasSubstr("running at"))));
  }
}

TEST_F(CliTest, ASlowServerIsATimeout) {
  // The handler outlives the test's body.
  const auto done = std::make_shared<absl::Notification>();
  fake_.get = [done](const v1::GetJobRequest&, v1::GetJobResponse*) {
    done->WaitForNotification();
    return grpc::Status::OK;
  };
  fake_.Start();
  const CliResult result = RunCli({"get", "a", "--timeout", "50ms", "-o", "json"});
  done->Notify();
  EXPECT_EQ(result.exit, 3);
  EXPECT_EQ(result.envelope()["error"]["code"], "DEADLINE_EXCEEDED");
  EXPECT_THAT(result.err, HasSubstr("no answer from"));
}

TEST_F(CliTest, ServerAddressComesFromFlagThenEnvironmentThenFile) {
  fake_.get = [](const v1::GetJobRequest&, v1::GetJobResponse* response) {
    *response->mutable_job() = SampleJob();
    return grpc::Status::OK;
  };
  fake_.Start();
  const std::filesystem::path home =
      std::filesystem::path(::testing::TempDir()) / "longhaul_cli_home";
  std::filesystem::create_directories(home / ".config/longhaul");
  const auto write_config = [&](const std::string& text) {
    std::ofstream(home / ".config/longhaul/config.yaml") << text;
  };
  run_.variables["HOME"] = home.string();
  write_config("server: " + fake_.address() + "\n");
  EXPECT_EQ(run_({"get", "a"}).exit, 0);
  write_config("sevrer: localhost:1\n");
  const CliResult typo = run_({"get", "a"});
  EXPECT_EQ(typo.exit, 4);
  EXPECT_THAT(typo.err, AllOf(HasSubstr("config.yaml"), HasSubstr("'server'")));
  run_.variables["LONGHAUL_SERVER"] = fake_.address();
  EXPECT_EQ(run_({"get", "a"}).exit, 0);
  run_.variables["LONGHAUL_SERVER"] = "no-port";
  EXPECT_EQ(run_({"get", "a"}).exit, 4);
  run_.variables["LONGHAUL_SERVER"] = "localhost:99999";
  EXPECT_THAT(run_({"get", "a"}).err, HasSubstr("0 to 65535"));
  EXPECT_EQ(RunCli({"get", "a"}).exit, 0);
  std::filesystem::remove_all(home);
}

TEST_F(CliTest, BadArgumentsAreUsageErrorsWithAHint) {
  EXPECT_EQ(run_({}).exit, 4);
  EXPECT_EQ(run_({"get"}).exit, 4);
  EXPECT_EQ(run_({"get", "a", "-o", "xml"}).exit, 4);
  EXPECT_EQ(run_({"get", "a", "--timeout", "soon"}).exit, 4);
  EXPECT_EQ(run_({"submit", "-f", "/does/not/exist.yaml"}).exit, 4);
  EXPECT_EQ(run_({"completion", "tcsh"}).exit, 4);
  // A file is no folder, also after another try.
  const std::string file = ::testing::TempDir() + "/no_folder";
  std::ofstream(file) << "x";
  const std::vector<std::vector<std::string>> certs = {{"certs", "init"},
                                                       {"certs", "issue", "pool", "site-a"}};
  for (std::vector<std::string> words : certs) {
    words.insert(words.end(), {"--dir", file});
    const CliResult result = run_(words);
    EXPECT_EQ(result.exit, 4);
    EXPECT_THAT(result.err, AllOf(HasSubstr(file), HasSubstr("Not a directory")));
  }
  // Nor does a folder without an authority get one by itself.
  const CliResult none = run_({"certs", "issue", "pool", "a", "--dir", "/does/not/exist"});
  EXPECT_EQ(none.exit, 4);
  EXPECT_THAT(none.err, HasSubstr("/does/not/exist contains no authority"));
  EXPECT_THAT(run_({"sumbit"}).err,
              AllOf(HasSubstr("no such command: sumbit"), HasSubstr("did you mean 'submit'?")));
  EXPECT_THAT(run_({"get", "a", "--tiemout=3s"}).err, HasSubstr("did you mean '--timeout'?"));
  const CliResult json = run_({"sumbit", "-o", "json"});
  EXPECT_EQ(json.envelope()["error"]["code"], "INVALID_ARGUMENT");
}

TEST_F(CliTest, HelpGoesToStandardOutput) {
  const CliResult result = run_({"--help"});
  EXPECT_EQ(result.exit, 0);
  EXPECT_THAT(result.out, AllOf(HasSubstr("submit"), HasSubstr("Exit codes")));
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(run_({"submit", "--help"}).out, HasSubstr("--dry-run"));
  // Where its options are that others have, too.
  EXPECT_THAT(run_({"get", "--help"}).out, HasSubstr("`longhaul --help` shows"));
  EXPECT_THAT(run_({"certs", "issue", "--help"}).out, HasSubstr("`longhaul certs --help` shows"));
}

TEST_F(CliTest, CompletionKnowsEveryCommandAndOption) {
  const CliResult bash = run_({"completion", "bash"});
  EXPECT_EQ(bash.exit, 0);
  for (const char* word :
       {"submit", "list", "get", "watch", "cancel", "pools", "checkpoints", "version", "--server",
        "--dry-run", "--reason", "complete -o filenames"}) {
    EXPECT_THAT(bash.out, HasSubstr(word));
  }
  EXPECT_THAT(run_({"completion", "zsh"}).out, StartsWith("#compdef longhaul"));
}

TEST_F(CliTest, TlsFilesComeFromFlagsOrTheEnvironmentAndMustBeThere) {
  const CliResult half = run_({"list", "--tls-ca", "/nowhere/ca.pem"});
  EXPECT_EQ(half.exit, 4);
  EXPECT_THAT(half.err, HasSubstr("/nowhere/ca.pem"));
  run_.variables = {{"LONGHAUL_SERVER", "localhost:1"}, {"LONGHAUL_TLS_KEY", "/nowhere/key.pem"}};
  const CliResult environment = run_({"list"});
  EXPECT_EQ(environment.exit, 4);
  EXPECT_THAT(environment.err, HasSubstr("--tls-ca"));
}

TEST_F(CliTest, OnlyAFaultOfTheSpecIsCalledOne) {
  std::string field = "idempotency_token";
  fake_.submit = [&](const v1::SubmitJobRequest&, v1::SubmitJobResponse*) {
    return ToGrpcStatus(BadRequestError({{field, "is too long"}}));
  };
  fake_.list = [](const v1::ListJobsRequest&, v1::ListJobsResponse*) {
    return ToGrpcStatus(BadRequestError({{"page_token", "is unknown"}}));
  };
  fake_.Start();
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"list"}, {"submit", "-f", Example(), "--token", "x"}}) {
    EXPECT_THAT(RunCli(args).err,
                AllOf(HasSubstr("error: the request is refused"), Not(HasSubstr("job spec"))));
  }
  field = "model";
  EXPECT_THAT(RunCli({"submit", "-f", Example()}).err, HasSubstr("error: the job spec is refused"));
}

}  // namespace
}  // namespace longhaul::cli
