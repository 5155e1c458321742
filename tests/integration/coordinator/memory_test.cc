// What the coordinator really takes while everything that takes memory happens at once: jobs whose
// states just fit, readers that stand still at several versions, and checkpoints and snapshots on a
// slow disk. Measured as the resident memory of this process, which has the clients, too.
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/io/posix_filesystem.h"
#include "coordinator/store/job_store.h"
#include "tests/integration/coordinator/exchange_fixture.h"
#include "tests/testing/delegating_filesystem.h"

namespace longhaul {
namespace {

// Elements of each of the two fragments of a job: 16 MiB of parameters.
constexpr int64_t kLargeElements = 4 << 20;
constexpr int kJobs = 2, kVersions = 4;
// Beyond the states of jobs: the clients (the values of a push, and its message), what sixteen
// streams that stand still have on their way, threads, and freed memory that the heap keeps. A copy
// of the parameters for each version that is read would take 256 MiB more.
constexpr int64_t kOtherBytes = int64_t{192} << 20;

// Checkpoints are written at about 40 MiB/s.
class SlowCheckpoints : public DelegatingFileSystem {
 public:
  using DelegatingFileSystem::DelegatingFileSystem;

  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
    LH_ASSIGN_OR_RETURN(std::unique_ptr<File> file, DelegatingFileSystem::Create(path));
    if (!absl::StrContains(path, "/checkpoints/")) return file;
    return std::make_unique<SlowFile>(std::move(file));
  }

 private:
  class SlowFile : public DelegatingFile {
   public:
    using DelegatingFile::DelegatingFile;

    absl::Status WriteAt(int64_t offset, absl::string_view data) override {
      absl::SleepFor(absl::Seconds(1) * (static_cast<double>(data.size()) / (40 << 20)));
      return DelegatingFile::WriteAt(offset, data);
    }
  };
};

// In bytes. Empty: the system does not say.
std::optional<int64_t> StatusBytes(absl::string_view field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    absl::string_view rest = line;
    int64_t kib = 0;
    if (!absl::ConsumePrefix(&rest, field) || !absl::ConsumePrefix(&rest, ":")) continue;
    absl::ConsumeSuffix(&rest, " kB");
    if (absl::SimpleAtoi(absl::StripAsciiWhitespace(rest), &kib)) return kib << 10;
  }
  return std::nullopt;
}

// From here on VmHWM counts anew.
bool ResetPeak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5";
  return static_cast<bool>(file.flush());
}

// A pull of a whole fragment whose client stands still after the first chunk.
class SlowReader {
 public:
  SlowReader(const std::string& address, const std::string& job, const std::string& pool,
             int fragment)
      : stub_(v1::SyncService::NewStub(
            MakeChannel({.address = address, .kind = ChannelKind::kBulk}))) {
    v1::PullRequest request;
    request.set_job_id(job);
    request.set_pool(pool);
    request.set_incarnation("0123456789abcdef");
    request.set_fragment(fragment);
    request.set_version(-1);
    request.set_whole(true);
    request.add_blocks()->set_count(kLargeElements / kBlockElements);
    context_.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(5)));
    reader_ = stub_->PullFragment(&context_, request);
    v1::PullMessage message;
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(reader_->Read(&message));
  }
  // Takes the rest, and returns how the stream ended.
  absl::Status Finish() {
    v1::PullMessage message;
    while (reader_->Read(&message)) {
    }
    return FromGrpcStatus(reader_->Finish());
  }

 private:
  const std::unique_ptr<v1::SyncService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::PullMessage>> reader_;
};

class MemoryTest : public ExchangeFixture {
 protected:
  coordinator::CoordinatorServerOptions Options() override {
    coordinator::CoordinatorServerOptions options = ExchangeFixture::Options();
    options.fs = &fs_;
    options.core.memory = kJobs * StateBytes();
    return options;
  }
  void TearDown() override { server_.reset(); }

  static int64_t StateBytes() {
    return JobStoreBytes({.fragment_elements = {kLargeElements, kLargeElements},
                          .down = {.kind = CodecKind::kE3m0}});
  }
  static v1::JobSpec LargeSpec(const std::string& name) {
    v1::JobSpec spec = Spec(name, 1);
    spec.mutable_model()->mutable_synthetic()->set_elements(kLargeElements);
    spec.mutable_train()->set_steps(100);
    spec.mutable_sync()->mutable_up()->set_codec(v1::E3M0);
    spec.mutable_sync()->mutable_down()->set_codec(v1::E3M0);
    spec.mutable_checkpoint()->set_every_cycles(1);
    return spec;
  }

  // A job with one pool, seeded.
  struct LargeJob {
    LargeJob(const std::string& address, const std::string& pool_name) : pool(address, pool_name) {}
    HandPool pool;
    std::string id;
  };
  void Begin(const std::string& name, LargeJob& job) {
    const auto submitted = Submit(LargeSpec(name));
    ASSERT_TRUE(submitted.ok()) << submitted.status();
    job.id = submitted->job().id();
    ASSERT_TRUE(job.pool.Join().ok());
    const absl::Status assigned = job.pool.AwaitAssignment(job.id);
    ASSERT_TRUE(assigned.ok()) << assigned;
    ASSERT_TRUE(job.pool.OpenPlan(job.id).ok());
    // The job's store is open.
    const auto event = job.pool.NextEvent();
    ASSERT_TRUE(event.ok() && event->has_seed()) << event.status();
    for (int f = 0; f < kFragments; ++f) Commit(job, f, 0);
  }
  void Commit(LargeJob& job, int fragment, int64_t version) {
    // A new stream, since each has a deadline.
    ASSERT_TRUE(job.pool.OpenPlan(job.id).ok());
    const bool seed = version == 0;
    const auto pushed = job.pool.Push(
        fragment, version, seed ? v1::SEED : v1::OUTER, seed ? CodecKind::kFp32 : CodecKind::kE3m0,
        std::vector<float>(kLargeElements, 0.5f + static_cast<float>(fragment)));
    ASSERT_TRUE(pushed.ok()) << pushed.status();
    const auto commit = job.pool.NextCommit();
    ASSERT_TRUE(commit.ok()) << commit.status();
    ASSERT_EQ(commit->fragment(), fragment);
    ASSERT_EQ(commit->version(), version);
  }
  void Read(const LargeJob& job) {
    for (int f = 0; f < kFragments; ++f) {
      readers_.push_back(std::make_unique<SlowReader>(address(), job.id, job.pool.name(), f));
    }
  }

  const std::unique_ptr<FileSystem> disk_ = MakePosixFileSystem();
  SlowCheckpoints fs_{disk_.get()};
  std::vector<std::unique_ptr<SlowReader>> readers_;
};

TEST_F(MemoryTest, StatesOfJobsAreAllThatGrows) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  const std::optional<int64_t> before = StatusBytes("VmRSS");
  if (!before.has_value() || !ResetPeak()) GTEST_SKIP() << "/proc does not tell the peak";
  std::vector<std::unique_ptr<LargeJob>> jobs;
  for (const char* name : {"one", "two"}) {
    jobs.push_back(std::make_unique<LargeJob>(address(), std::string("site-") + name));
    Begin(name, *jobs.back());
    if (HasFatalFailure()) return;
  }
  for (int64_t version = 0; version < kVersions; ++version) {
    for (const auto& job : jobs) {
      if (version > 0) {
        for (const int fragment : {1, 0}) Commit(*job, fragment, version);
      }
      if (HasFatalFailure()) return;
      Read(*job);
    }
  }
  // One is cancelled while checkpoints of both are being written. Its last one follows.
  v1::CancelJobRequest request;
  request.set_job("one");
  v1::CancelJobResponse response;
  ASSERT_TRUE(jobs_->CancelJob(Context().get(), request, &response).ok());
  for (const int fragment : {1, 0}) Commit(*jobs[1], fragment, kVersions);
  if (HasFatalFailure()) return;
  for (const auto& reader : readers_) {
    const absl::Status ended = reader->Finish();
    EXPECT_TRUE(ended.ok() || absl::IsUnavailable(ended)) << ended;
  }
  // A reader that was overtaken begins again, and comes to an end.
  for (int f = 0; f < kFragments; ++f) {
    const auto pulled = jobs[1]->pool.Pull(f, -1, true, kLargeElements);
    ASSERT_TRUE(pulled.ok()) << pulled.status();
    EXPECT_EQ(pulled->header.version(), kVersions);
    EXPECT_EQ(Hex(pulled->header.digest()), Hex(pulled->values));
  }
  const int64_t grown = StatusBytes("VmHWM").value_or(0) - *before;
  RecordProperty("grown_mib", static_cast<int>(grown >> 20));
  EXPECT_GT(grown, kJobs * 12 * kFragments * kLargeElements / 2) << "the states are there";
  EXPECT_LE(grown, kJobs * StateBytes() + kOtherBytes)
      << (grown >> 20) << " MiB, of which the states may take " << (kJobs * StateBytes() >> 20)
      << " MiB";
}

}  // namespace
}  // namespace longhaul
