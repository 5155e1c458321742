// Users whose tokens are withdrawn while the coordinator runs.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "common/io/posix_filesystem.h"
#include "gmock/gmock.h"
#include "tests/integration/coordinator/access_fixture.h"
#include "tests/testing/delegating_filesystem.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

absl::Status SubmitAsBob(const std::shared_ptr<grpc::Channel>& channel, v1::JobSpec spec) {
  v1::SubmitJobRequest submit;
  *submit.mutable_spec() = std::move(spec);
  return CallAny(channel, "/longhaul.v1.JobService/SubmitJob", submit.SerializeAsString(),
                 kSubmitterToken);
}

TEST_F(AccessTest, AStreamEndsWhenItsTokenIsWithdrawn) {
  const auto channel = Anybody();
  ASSERT_EQ(SubmitAsBob(channel, Spec("watched")), absl::OkStatus());
  const auto stub = v1::JobService::NewStub(channel);
  v1::WatchJobRequest request;
  request.set_job("watched");
  v1::WatchJobResponse response;
  const auto open = [&](grpc::ClientContext& context, const std::string& token) {
    context.AddMetadata("authorization", "Bearer " + token);
    context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
    auto reader = stub->WatchJob(&context, request);
    EXPECT_TRUE(reader->Read(&response));
    return reader;
  };
  grpc::ClientContext of_ann, of_bob, of_root;
  const auto anns = open(of_ann, kViewerToken), bobs = open(of_bob, kSubmitterToken),
             roots = open(of_root, kAdminToken);
  // Ann's is withdrawn, bob has another role.
  WriteSecret(tokens_, TokenLine("bob", "viewer", kSubmitterToken) +
                           TokenLine("root", "admin", kAdminToken));
  for (const auto* const reader : {&anns, &bobs}) {
    while ((*reader)->Read(&response)) {
    }
    const grpc::Status ended = (*reader)->Finish();
    EXPECT_EQ(ended.error_code(), grpc::StatusCode::UNAUTHENTICATED) << ended.error_message();
    EXPECT_THAT(ended.error_message(), HasSubstr("revoked"));
  }
  v1::CancelJobRequest cancel;
  cancel.set_job("watched");
  ASSERT_EQ(CallAny(channel, "/longhaul.v1.JobService/CancelJob", cancel.SerializeAsString(),
                    kAdminToken),
            absl::OkStatus());
  while (roots->Read(&response)) {
  }
  EXPECT_EQ(response.job().state(), v1::CANCELLED);
  EXPECT_TRUE(roots->Finish().ok());
}

// A disk on which a listing of checkpoints stands still until the test ends.
class HungDisk : public DelegatingFileSystem {
 public:
  using DelegatingFileSystem::DelegatingFileSystem;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    if (absl::StrContains(path, "checkpoints")) {
      ++hanging;
      release.WaitForNotification();
    }
    return DelegatingFileSystem::List(path);
  }
  std::atomic<int> hanging = 0;
  absl::Notification release;
};

class HungDiskTest : public AccessTest {
 protected:
  coordinator::CoordinatorServerOptions Options() override {
    coordinator::CoordinatorServerOptions options = AccessTest::Options();
    options.fs = &fs_;
    return options;
  }
  // The server must end before the file system that it uses.
  void TearDown() override { server_.reset(); }

  const std::unique_ptr<FileSystem> disk_ = MakePosixFileSystem();
  HungDisk fs_{disk_.get()};
};

TEST_F(HungDiskTest, CallsOfAWithdrawnTokenEndBesideADiskThatHangs) {
  const auto channel = Anybody();
  ASSERT_EQ(SubmitAsBob(channel, Spec("watched")), absl::OkStatus());
  const auto stub = v1::JobService::NewStub(channel);
  grpc::ClientContext context;
  context.AddMetadata("authorization", absl::StrCat("Bearer ", kViewerToken));
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  v1::WatchJobRequest request;
  request.set_job("watched");
  const auto reader = stub->WatchJob(&context, request);
  v1::WatchJobResponse response;
  ASSERT_TRUE(reader->Read(&response));
  v1::ListCheckpointsRequest list;
  list.set_job("watched");
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      (void)CallAny(channel, "/longhaul.v1.JobService/ListCheckpoints", list.SerializeAsString(),
                    kAdminToken);
    });
  }
  for (const absl::Time end = absl::Now() + kCallTimeout; fs_.hanging < 4 && absl::Now() < end;)
    absl::SleepFor(absl::Milliseconds(1));
  EXPECT_GE(fs_.hanging, 4);
  WriteSecret(tokens_, TokenLine("root", "admin", kAdminToken));
  while (reader->Read(&response)) {
  }
  const grpc::Status ended = reader->Finish();
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::UNAUTHENTICATED) << ended.error_message();
  fs_.release.Notify();
  for (std::thread& caller : callers) caller.join();
}

TEST_F(AccessTest, TokensAreReadAgainAndWithdrawnWhileItRuns) {
  const auto anybody = Anybody();
  const std::string method = "/longhaul.v1.JobService/ListJobs";
  const auto until = [&](const char* token, absl::StatusCode code) {
    for (const absl::Time end = absl::Now() + kCallTimeout; absl::Now() < end;) {
      if (CallAny(anybody, method, "", token).code() == code) return true;
      absl::SleepFor(absl::Milliseconds(50));
    }
    return false;
  };
  WriteSecret(tokens_, TokenLine("eve", "viewer", kNobodysToken));
  EXPECT_TRUE(until(kNobodysToken, absl::StatusCode::kOk));
  EXPECT_TRUE(until(kViewerToken, absl::StatusCode::kUnauthenticated));
  // A file that cannot be used does not change the tokens in force, for a while.
  WriteSecret(tokens_, "eve viewer " + std::string(kNobodysToken) + "\n");
  EXPECT_FALSE(absl::IsUnauthenticated(CallAny(anybody, method, "", kNobodysToken)));
  // One that is empty lets nobody in.
  WriteSecret(tokens_, "");
  EXPECT_TRUE(until(kNobodysToken, absl::StatusCode::kUnauthenticated));
}

}  // namespace
}  // namespace longhaul
