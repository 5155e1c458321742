// Results of jobs, over real gRPC and with the commands that people use: checkpoints on request,
// downloads, jobs that begin with a checkpoint, events, deletion.
#include <unistd.h>

#include <filesystem>
#include <set>
#include <thread>

#include "common/base/host_port.h"
#include "common/config/yaml_json.h"
#include "common/io/file_util.h"
#include "common/io/posix_filesystem.h"
#include "coordinator/cli/cli.h"
#include "coordinator/cli/download.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "tests/integration/coordinator/exchange_fixture.h"
#include "tests/testing/cutting_proxy.h"
#include "tests/testing/failing_filesystem.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ResultsTest : public ExchangeFixture {
 protected:
  struct Said {
    int exit = 0;
    std::string out, err;
    Json data() const { return Json::parse(out)["data"]; }
    Json error() const { return Json::parse(out)["error"]; }
  };

  coordinator::CoordinatorServerOptions Options() override {
    coordinator::CoordinatorServerOptions options = ExchangeFixture::Options();
    options.import_dir = imports_.path();
    return options;
  }

  // Runs the CLI in this process. `server`: empty for that of the fixture.
  Said Longhaul(std::vector<std::string> args, const std::string& input = "",
                std::string server = "") {
    args.insert(args.end(), {"--server", server.empty() ? address() : server});
    std::istringstream in(input);
    std::ostringstream out, err;
    const cli::Environment environment{
        .in = in, .out = out, .err = err, .clock = *real_clock_, .variable = [](const char*) {
          return std::optional<std::string>();
        }};
    const auto exit = static_cast<int>(cli::Run(args, environment));
    return {exit, out.str(), err.str()};
  }

  static std::string YamlOf(const v1::JobSpec& spec) {
    std::string json;
    EXPECT_TRUE(google::protobuf::util::MessageToJsonString(
                    spec, &json,
                    [] {
                      google::protobuf::util::JsonPrintOptions options;
                      options.preserve_proto_field_names = true;
                      return options;
                    }())
                    .ok());
    return json;
  }

  // Completes a job with this name. Returns what its pools hold at the end.
  std::vector<std::vector<float>> Complete(const std::string& name) {
    Members members = MakeMembers({name + "-a", name + "-b"});
    SubmitAndBegin(Named(name), members);
    if (HasFatalFailure()) return {};
    Rounds(members);
    Finish(members, 2.5);
    EXPECT_TRUE(Await(name, v1::COMPLETED).ok());
    return members[0]->outer;
  }

  // Only its own pools may work on it.
  static v1::JobSpec Named(const std::string& name) {
    v1::JobSpec spec = Spec(name);
    spec.mutable_pools()->add_names(name + "-a");
    spec.mutable_pools()->add_names(name + "-b");
    return spec;
  }

  // Waits until the job has a checkpoint of this step.
  bool HasCheckpoint(const std::string& job, int64_t step) {
    for (const absl::Time end = absl::Now() + kCallTimeout; absl::Now() < end;) {
      v1::ListCheckpointsRequest request;
      request.set_job(job);
      v1::ListCheckpointsResponse response;
      if (!jobs_->ListCheckpoints(Context().get(), request, &response).ok()) return false;
      for (const v1::CheckpointManifest& checkpoint : response.checkpoints()) {
        if (checkpoint.step() == step) return true;
      }
      absl::SleepFor(absl::Milliseconds(5));
    }
    return false;
  }

  std::vector<v1::JobEvent> Events(const std::string& job) {
    v1::ListEventsRequest request;
    request.set_job(job);
    v1::ListEventsResponse response;
    const auto answer = Finished(jobs_->ListEvents(Context().get(), request, &response), response);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return {response.events().begin(), response.events().end()};
  }
  static std::multiset<v1::EventKind> KindsOf(const std::vector<v1::JobEvent>& events) {
    std::multiset<v1::EventKind> kinds;
    for (const v1::JobEvent& event : events) kinds.insert(event.kind());
    return kinds;
  }

  std::string FileOf(const std::string& path) {
    const auto bytes = ReadFile(*real_files_, path, 1 << 20);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return bytes.value_or("");
  }

  TempDir imports_, downloads_;
  std::unique_ptr<Clock> real_clock_ = MakeSystemClock();
  std::unique_ptr<FileSystem> real_files_ = MakePosixFileSystem();
};

TEST_F(ResultsTest, ACheckpointThatIsAskedForComesAcrossARestart) {
  Members members = MakeMembers({"asked-a", "asked-b"});
  SubmitAndBegin(Named("asked"), members);
  if (HasFatalFailure()) return;
  const Said asked = Longhaul({"checkpoint", "asked", "-o", "json"});
  ASSERT_EQ(asked.exit, 0) << asked.err;
  const int64_t step = asked.data()["step"];
  EXPECT_EQ(step, 2);
  EXPECT_THAT(std::string(asked.data()["path"]), HasSubstr("step-00000002"));
  Restart();
  ASSERT_TRUE(AwaitOpen("asked").ok());
  for (auto& member : members) {
    member->pool.Dial(address());
    ASSERT_TRUE(member->pool.Join().ok());
    ASSERT_TRUE(member->pool.OpenPlan(Get("asked")->id()).ok());
  }
  Round(members, 1, 1, v1::OUTER);
  Round(members, 0, 1, v1::OUTER);
  EXPECT_TRUE(HasCheckpoint("asked", step));
  EXPECT_EQ(KindsOf(Events("asked")).count(v1::COORDINATOR_STARTED), 1u);
}

TEST_F(ResultsTest, ACancelledJobLeavesItsParameters) {
  Members members = MakeMembers({"stopped-a", "stopped-b"});
  SubmitAndBegin(Named("stopped"), members);
  if (HasFatalFailure()) return;
  Round(members, 1, 1, v1::OUTER);
  Round(members, 0, 1, v1::OUTER);
  ASSERT_EQ(Longhaul({"cancel", "stopped", "--reason", "enough"}).exit, 0);
  EXPECT_TRUE(HasCheckpoint("stopped", 2));
  EXPECT_EQ(Longhaul({"checkpoint", "stopped", "-o", "json"}).error()["reason"], "JOB_ENDED");
}

TEST_F(ResultsTest, ADownloadIsTheCheckpoint) {
  const auto outer = Complete("base");
  if (HasFatalFailure()) return;
  const std::string out = downloads_.Join("base");
  const Said done = Longhaul({"download", "base", "--out", out, "-o", "json"});
  ASSERT_EQ(done.exit, 0) << done.err;
  EXPECT_EQ(done.data()["step"], 4);
  EXPECT_EQ(done.data()["bytes"], 2 * kElements * 4);
  for (int f = 0; f < kFragments; ++f)
    EXPECT_EQ(FileOf(absl::StrCat(out, "/fragment-00", f, ".f32")), BytesOf(outer[f]));
  const Json manifest = Json::parse(FileOf(out + "/manifest.json"));
  EXPECT_EQ(manifest["fragments"][0]["digestHex"], Hex(outer[0]));
  EXPECT_EQ(manifest["model"]["synthetic"]["units"], 2);
  EXPECT_EQ(manifest["tensors"][1]["file"], "fragment-001.f32");
  EXPECT_FALSE(std::filesystem::exists(out + ".partial"));
  // A second download is verified and changes nothing.
  const Said again = Longhaul({"download", "base@4", "--out", out, "-o", "json"});
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_EQ(again.data()["received_bytes"], 0);
  EXPECT_EQ(Longhaul({"download", "base@3", "--out", downloads_.Join("x"), "-o", "json"})
                .error()["reason"],
            "CHECKPOINT_UNKNOWN");
  // Existing files are never replaced.
  ASSERT_TRUE(real_files_->CreateDir(downloads_.Join("mine")).ok());
  ASSERT_TRUE(real_files_->Create(downloads_.Join("mine/thesis")).ok());
  EXPECT_EQ(Longhaul({"download", "base", "--out", downloads_.Join("mine"), "-o", "json"})
                .error()["code"],
            "ALREADY_EXISTS");
}

TEST_F(ResultsTest, ADownloadAsksForItsOwnFilesAlone) {
  Complete("base");
  if (HasFatalFailure()) return;
  for (const std::string file : {"../../manifest", "/etc/passwd", "..", "", "fragment-009.f32"}) {
    v1::DownloadCheckpointRequest request;
    request.set_job("base");
    request.set_step(4);
    request.set_file(file);
    v1::DownloadCheckpointResponse chunk;
    const auto reader = jobs_->DownloadCheckpoint(Context().get(), request);
    EXPECT_FALSE(reader->Read(&chunk));
    EXPECT_EQ(ReasonOf(FromGrpcStatus(reader->Finish())), "CHECKPOINT_UNKNOWN") << file;
  }
  v1::DownloadCheckpointRequest behind;
  behind.set_job("base");
  behind.set_step(-1);
  behind.set_file("fragment-000.f32");
  behind.set_offset(kElements * 4 + 1);
  v1::DownloadCheckpointResponse chunk;
  const auto reader = jobs_->DownloadCheckpoint(Context().get(), behind);
  EXPECT_FALSE(reader->Read(&chunk));
  EXPECT_TRUE(absl::IsOutOfRange(FromGrpcStatus(reader->Finish())));
}

TEST_F(ResultsTest, ADownloadGoesOnWhereItBroke) {
  Complete("base");
  if (HasFatalFailure()) return;
  // Connections break in the middle of the manifest, or of a file. After each break the client
  // makes another connection to find out what is wrong.
  CuttingProxy proxy({.target_port = ParseHostPort(address())->port,
                      .direction = CuttingProxy::Direction::kDown,
                      .bytes_each = 1500,
                      .cuts = 4});
  const std::string out = downloads_.Join("base");
  // Once the server was reached, the client waits for it. Until then the test tries again.
  Said done;
  for (int i = 0; i < 5; ++i) {
    done = Longhaul({"download", "base", "--out", out, "-o", "json"}, "", proxy.address());
    if (done.exit == 0) break;
    EXPECT_EQ(done.exit, 2) << done.err;
  }
  ASSERT_EQ(done.exit, 0) << done.err;
  EXPECT_GE(proxy.cuts(), 2);
}

TEST_F(ResultsTest, ADownloadGoesOnAfterAFullDisk) {
  const auto outer = Complete("base");
  if (HasFatalFailure()) return;
  std::istringstream in;
  std::ostringstream out, err;
  const cli::Environment environment{
      .in = in, .out = out, .err = err, .clock = *real_clock_, .variable = [](const char*) {
        return std::optional<std::string>();
      }};
  cli::Client client(address(), absl::Seconds(30), {});
  FailingFileSystem full(real_files_.get());
  int writes = 0;
  full.SetDecision([&](int64_t, FileOp op) {
    return op == FileOp::kWrite && ++writes > 2 ? absl::ResourceExhaustedError("no space left")
                                                : absl::OkStatus();
  });
  const cli::DownloadOptions options{.out = downloads_.Join("base")};
  const auto stopped = cli::Download({"base", 4}, options, client, full, environment);
  EXPECT_TRUE(absl::IsResourceExhausted(stopped.status())) << stopped.status();
  EXPECT_TRUE(cli::IsLocal(stopped.status()));
  full.SetDecision([](int64_t, FileOp) { return absl::OkStatus(); });
  const auto done = cli::Download({"base", 4}, options, client, full, environment);
  ASSERT_TRUE(done.ok()) << done.status();
  // Bytes that were there were not sent again; the first half of the failed write counts, too.
  EXPECT_LT(done->received, done->bytes);
  EXPECT_EQ(FileOf(options.out + "/fragment-001.f32"), BytesOf(outer[1]));
}

TEST_F(ResultsTest, AJobBeginsWithACheckpoint) {
  const auto outer = Complete("base");
  if (HasFatalFailure()) return;
  v1::JobSpec spec = Named("next");
  spec.mutable_checkpoint()->set_keep(1);
  const Said submitted =
      Longhaul({"submit", "-f", "-", "--from", "base", "-o", "json"}, YamlOf(spec));
  ASSERT_EQ(submitted.exit, 0) << submitted.out << submitted.err;
  const std::string id = submitted.data()["id"];
  EXPECT_EQ(submitted.data()["spec"]["init"]["checkpoint"], Get("base")->id() + "@4");
  // The checkpoint is reserved until the job has begun.
  EXPECT_EQ(Longhaul({"delete", "base", "-o", "json"}).error()["reason"], "CHECKPOINT_IN_USE");
  Restart();
  Members members = MakeMembers({"next-a", "next-b"});
  for (auto& member : members) ASSERT_TRUE(member->pool.Join().ok());
  for (auto& member : members) ASSERT_TRUE(member->pool.AwaitAssignment(id).ok());
  for (auto& member : members) ASSERT_TRUE(member->pool.OpenPlan(id).ok());
  ASSERT_TRUE(Await("next", v1::RUNNING).ok());
  for (auto& member : members) {
    PullWhole(*member);
    for (int f = 0; f < kFragments; ++f) EXPECT_EQ(member->outer[f], outer[f]);
  }
  EXPECT_EQ(Longhaul({"delete", "base"}).exit, 0);
  // The same words name the same beginning, whatever became of the checkpoint.
  const Said again = Longhaul({"submit", "-f", "-", "--from", "base", "-o", "json"}, YamlOf(spec));
  ASSERT_EQ(again.exit, 0) << again.out << again.err;
  EXPECT_EQ(again.data()["id"], id);
  const Said other =
      Longhaul({"submit", "-f", "-", "--from", "base@3", "-o", "json"}, YamlOf(spec));
  EXPECT_NE(other.exit, 0) << other.out;
  // Recovery does not need the checkpoint any more.
  Restart();
  const auto recovered = AwaitOpen("next");
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  EXPECT_EQ(recovered->fragments(0).digest(), Hex(outer[0]));
}

TEST_F(ResultsTest, AJobBeginsWithAFolder) {
  const auto outer = Complete("base");
  if (HasFatalFailure()) return;
  const std::string folder = imports_.Join("pretrained");
  ASSERT_EQ(Longhaul({"download", "base", "--out", folder}).exit, 0);
  const Said submitted =
      Longhaul({"submit", "-f", "-", "--from", folder, "-o", "json"}, YamlOf(Named("next")));
  ASSERT_EQ(submitted.exit, 0) << submitted.out << submitted.err;
  const std::string id = submitted.data()["id"];
  Members members = MakeMembers({"next-a", "next-b"});
  for (auto& member : members) ASSERT_TRUE(member->pool.Join().ok());
  for (auto& member : members) ASSERT_TRUE(member->pool.AwaitAssignment(id).ok());
  for (auto& member : members) ASSERT_TRUE(member->pool.OpenPlan(id).ok());
  ASSERT_TRUE(Await("next", v1::RUNNING).ok());
  PullWhole(*members[0]);
  EXPECT_EQ(members[0]->outer[1], outer[1]);
}

// A client whose answer was lost asks again, when the job has begun and the folder is moved away.
TEST_F(ResultsTest, TheSameWordsNameTheSameJobWhateverBecameOfItsFolder) {
  Complete("base");
  if (HasFatalFailure()) return;
  const std::string folder = imports_.Join("pretrained");
  ASSERT_EQ(Longhaul({"download", "base", "--out", folder}).exit, 0);
  v1::SubmitJobRequest request;
  *request.mutable_spec() = Named("next");
  request.mutable_spec()->mutable_init()->set_folder("pretrained");
  request.set_idempotency_token("token");
  const auto submitted = Submit(request);
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  EXPECT_TRUE(submitted->created());
  std::filesystem::rename(folder, imports_.Join("away"));
  for (const char* const words : {"pretrained", "./pretrained/", "away/../pretrained"}) {
    request.mutable_spec()->mutable_init()->set_folder(words);
    const auto again = Submit(request);
    ASSERT_TRUE(again.ok()) << words << ": " << again.status();
    EXPECT_FALSE(again->created());
    EXPECT_EQ(again->job().id(), submitted->job().id());
  }
  // Also where the words are a link's, as long as it is there.
  std::filesystem::create_directory(folder);
  std::filesystem::create_directory_symlink(folder, imports_.Join("link"));
  request.mutable_spec()->mutable_init()->set_folder("link");
  EXPECT_TRUE(Submit(request).ok());
  request.mutable_spec()->mutable_init()->set_folder("away");
  EXPECT_TRUE(absl::IsAlreadyExists(Submit(request).status())) << "another folder";
  request.mutable_spec()->set_name("another");
  request.mutable_spec()->mutable_init()->set_folder("pretrained/none");
  EXPECT_TRUE(absl::IsInvalidArgument(Submit(request).status()));
}

TEST_F(ResultsTest, WhatCannotBeBegunWithIsRefusedByField) {
  Complete("base");
  if (HasFatalFailure()) return;
  const auto refusal = [&](const v1::JobSpec& spec, const std::string& from) {
    const Said said = Longhaul({"submit", "-f", "-", "--from", from, "-o", "json"}, YamlOf(spec));
    EXPECT_EQ(said.exit, 4) << said.out;
    const Json error = said.error();
    return error["fields"].empty() ? std::string(error["message"])
                                   : absl::StrCat(std::string(error["fields"][0]["field"]), ": ",
                                                  std::string(error["fields"][0]["description"]));
  };
  v1::JobSpec spec = Named("next");
  EXPECT_THAT(refusal(spec, "nobody"), HasSubstr("init.checkpoint: no job has the name"));
  EXPECT_THAT(refusal(spec, "base@3"), HasSubstr("no checkpoint of step 3"));
  EXPECT_THAT(refusal(spec, "base@x"), HasSubstr("neither JOB@STEP"));
  EXPECT_THAT(refusal(spec, "coordinator:" + data_.path()),
              AllOf(HasSubstr("init.folder: found"), HasSubstr("longhaul submit --from DIR")));
  // Others use that folder, too: the name must be of this process.
  EXPECT_THAT(refusal(spec, imports_.Join(absl::StrCat("../not-there-", getpid()))),
              HasSubstr("import-dir"));
  ASSERT_TRUE(real_files_->CreateDir(imports_.Join("empty")).ok());
  EXPECT_THAT(refusal(spec, imports_.Join("empty")), HasSubstr("manifest.json"));
  spec.mutable_model()->mutable_synthetic()->set_elements(kElements + 1);
  EXPECT_THAT(refusal(spec, "base"), HasSubstr("does not fit the model"));
}

TEST_F(ResultsTest, AJobFailsWhoseFolderIsDamaged) {
  Complete("base");
  if (HasFatalFailure()) return;
  const std::string folder = imports_.Join("pretrained");
  ASSERT_EQ(Longhaul({"download", "base", "--out", folder}).exit, 0);
  ASSERT_EQ(Longhaul({"submit", "-f", "-", "--from", folder}, YamlOf(Named("next"))).exit, 0);
  ASSERT_TRUE((*real_files_->Open(folder + "/fragment-000.f32"))->WriteAt(5, "x").ok());
  Members members = MakeMembers({"next-a", "next-b"});
  const std::string id = Get("next")->id();
  for (auto& member : members) ASSERT_TRUE(member->pool.Join().ok());
  for (auto& member : members) ASSERT_TRUE(member->pool.AwaitAssignment(id).ok());
  for (auto& member : members) (void)member->pool.OpenPlan(id);
  const auto job = Await("next", v1::FAILED);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->error().field(), "init");
  EXPECT_THAT(job->error().message(), HasSubstr("fragment-000.f32 is damaged"));
}

TEST_F(ResultsTest, DeletingFreesTheNameAndTheFiles) {
  ASSERT_TRUE(Submit(Named("gone")).ok());
  const Said live = Longhaul({"delete", "gone", "-o", "json"});
  EXPECT_EQ(live.exit, 1);
  EXPECT_EQ(live.error()["reason"], "JOB_LIVE");
  EXPECT_THAT(std::string(live.error()["hint"]), HasSubstr("longhaul cancel gone"));
  ASSERT_EQ(Longhaul({"cancel", "gone"}).exit, 0);
  ASSERT_EQ(Longhaul({"delete", "gone"}).exit, 0);
  EXPECT_TRUE(absl::IsNotFound(Get("gone").status()));
  EXPECT_EQ(Longhaul({"delete", "gone", "-o", "json"}).data()["deleted"], false);
  EXPECT_EQ(Longhaul({"delete", "never", "-o", "json"}).error()["reason"], "JOB_UNKNOWN");

  Complete("gone");
  if (HasFatalFailure()) return;
  const std::string folder = data_.Join("jobs/" + Get("gone")->id());
  EXPECT_TRUE(std::filesystem::exists(folder));
  ASSERT_EQ(Longhaul({"delete", "gone"}).exit, 0);
  // The files may or may not have been removed before. The next start does not report them as
  // missing.
  Restart();
  EXPECT_TRUE(absl::IsNotFound(Get("gone").status()));
  const absl::Time end = absl::Now() + kCallTimeout;
  while (std::filesystem::exists(folder) && absl::Now() < end)
    absl::SleepFor(absl::Milliseconds(5));
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(ResultsTest, EventsTellTheStoryAndOutliveTheCoordinator) {
  Complete("told");
  if (HasFatalFailure()) return;
  const auto before = Events("told");
  const auto kinds = KindsOf(before);
  EXPECT_EQ(kinds.count(v1::POOL_ASSIGNED), 2u);
  EXPECT_EQ(kinds.count(v1::POOL_JOINED), 2u);
  EXPECT_EQ(kinds.count(v1::CHECKPOINT_WRITTEN), 1u);
  EXPECT_EQ(before.front().message(), "was submitted");
  EXPECT_EQ(before.back().message(), "is COMPLETED");
  Restart();
  const auto after = Events("told");
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < after.size(); ++i)
    EXPECT_EQ(after[i].SerializeAsString(), before[i].SerializeAsString());
  const Said shown = Longhaul({"events", "told"});
  EXPECT_THAT(shown.out, HasSubstr("POOL_JOINED"));
  EXPECT_EQ(Longhaul({"events", "told", "-o", "json"}).data().size(), before.size());
  EXPECT_EQ(Longhaul({"events", "told", "--follow", "-o", "json"}).exit, 4);
}

TEST_F(ResultsTest, AFollowerGetsEachEventOnce) {
  Members members = MakeMembers({"live-a", "live-b"});
  SubmitAndBegin(Named("live"), members);
  if (HasFatalFailure()) return;
  Said followed;
  std::thread follower([&] { followed = Longhaul({"events", "live", "--follow"}); });
  Rounds(members);
  Finish(members, 2.5);
  follower.join();
  EXPECT_EQ(followed.exit, 0) << followed.err;
  const auto events = Events("live");
  EXPECT_EQ(std::count(followed.out.begin(), followed.out.end(), '\n'),
            static_cast<int64_t>(events.size()))
      << followed.out;
  EXPECT_THAT(followed.out, HasSubstr("is COMPLETED"));
}

}  // namespace
}  // namespace longhaul
