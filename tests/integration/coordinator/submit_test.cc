// JobService without pools: which jobs are accepted, which are refused, and how they are found
// again.
#include "tests/integration/coordinator/coordinator_fixture.h"

namespace longhaul {
namespace {

class SubmitTest : public CoordinatorFixture {
 protected:
  std::vector<std::string> FieldsOf(const v1::JobSpec& spec, absl::StatusCode code) {
    const auto response = Submit(spec);
    EXPECT_EQ(response.status().code(), code) << response.status();
    std::vector<std::string> fields;
    for (const FieldViolation& violation : FieldViolationsOf(response.status()))
      fields.push_back(violation.field);
    return fields;
  }
  using Fields = std::vector<std::string>;
};

TEST_F(SubmitTest, TheSameNameAndSpecFindTheJobThatExists) {
  const auto first = Submit(Spec("twice"));
  const auto again = Submit(Spec("twice"));
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_TRUE(first->created());
  EXPECT_FALSE(again->created());
  EXPECT_EQ(again->job().id(), first->job().id());
}

TEST_F(SubmitTest, ATakenNameWithAnotherSpecIsRefused) {
  ASSERT_TRUE(Submit(Spec("taken")).ok());
  const auto other = Submit(Spec("taken", 3));
  EXPECT_TRUE(absl::IsAlreadyExists(other.status())) << other.status();
  EXPECT_EQ(ReasonOf(other.status()), "NAME_TAKEN");
}

TEST_F(SubmitTest, ARepeatedTokenGivesTheFirstAnswerAlsoAfterARestart) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = Spec("token-one");
  request.set_idempotency_token("token");
  const auto first = Submit(request);
  ASSERT_TRUE(first.ok()) << first.status();
  Restart();
  const auto second = Submit(request);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(second->created());
  EXPECT_EQ(second->job().id(), first->job().id());
  *request.mutable_spec() = Spec("token-two");
  const auto other = Submit(request);
  EXPECT_TRUE(absl::IsAlreadyExists(other.status())) << other.status();
  EXPECT_EQ(ReasonOf(other.status()), "TOKEN_TAKEN");
}

TEST_F(SubmitTest, TheNameOfACancelledJobIsNotAnAnswer) {
  ASSERT_TRUE(Submit(Spec("gone")).ok());
  v1::CancelJobRequest cancel;
  cancel.set_job("gone");
  v1::CancelJobResponse cancelled;
  ASSERT_TRUE(jobs_->CancelJob(Context().get(), cancel, &cancelled).ok());
  const auto again = Submit(Spec("gone"));
  EXPECT_TRUE(absl::IsAlreadyExists(again.status())) << again.status();
  EXPECT_NE(again.status().message().find("CANCELLED"), absl::string_view::npos);
}

TEST_F(SubmitTest, ValidateOnlyStoresNothing) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = Spec("dry");
  request.set_validate_only(true);
  const auto response = Submit(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->job().parameters(), 2 * kElements);
  EXPECT_TRUE(absl::IsNotFound(Get("dry").status()));
}

TEST_F(SubmitTest, RefusalsNameTheField) {
  v1::JobSpec spec = Spec("refused");
  spec.mutable_sync()->set_tau(2);
  EXPECT_EQ(FieldsOf(spec, absl::StatusCode::kInvalidArgument), Fields{"sync.tau"});
  spec = Spec("refused");
  spec.mutable_pools()->set_min(-1);
  EXPECT_EQ(FieldsOf(spec, absl::StatusCode::kInvalidArgument), Fields{"pools.min"});
  spec = Spec("refused");
  spec.mutable_sync()->mutable_quorum()->set_pools(2);
  EXPECT_EQ(FieldsOf(spec, absl::StatusCode::kInvalidArgument), Fields{"sync.quorum"});
  spec = Spec("refused");
  spec.mutable_sync()->mutable_down()->set_codec(v1::TOPK2);
  EXPECT_EQ(FieldsOf(spec, absl::StatusCode::kInvalidArgument), Fields{"sync.down.codec"});
  spec = Spec("Refused!");
  EXPECT_EQ(FieldsOf(spec, absl::StatusCode::kInvalidArgument), Fields{"name"});
  spec = Spec("refused");
  spec.mutable_model()->mutable_synthetic()->set_units(4096);
  spec.mutable_model()->mutable_synthetic()->set_elements(int64_t{1} << 28);
  EXPECT_EQ(FieldsOf(spec, absl::StatusCode::kInvalidArgument), Fields{"model"});
}

TEST_F(SubmitTest, UnknownJobsAreNotFound) {
  EXPECT_TRUE(absl::IsNotFound(Get("nobody").status()));
  EXPECT_TRUE(absl::IsNotFound(Await("nobody", v1::COMPLETED).status()));
  v1::CancelJobRequest cancel;
  cancel.set_job("nobody");
  v1::CancelJobResponse cancelled;
  EXPECT_EQ(jobs_->CancelJob(Context().get(), cancel, &cancelled).error_code(),
            grpc::StatusCode::NOT_FOUND);
  v1::ListCheckpointsRequest list;
  list.set_job("nobody");
  v1::ListCheckpointsResponse listed;
  EXPECT_EQ(jobs_->ListCheckpoints(Context().get(), list, &listed).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(SubmitTest, ASpecThatAnswersCouldNotCarryIsRefused) {
  v1::JobSpec spec = Spec("large");
  spec.mutable_data()->mutable_text()->set_path(std::string(2 << 20, 'x'));
  const absl::Status refused = Submit(spec).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  ASSERT_EQ(FieldViolationsOf(refused).size(), 1u);
  EXPECT_EQ(FieldViolationsOf(refused)[0].field, "spec");
}

TEST_F(SubmitTest, ListsInPagesNewestFirst) {
  for (const char* name : {"one", "two", "three"}) ASSERT_TRUE(Submit(Spec(name)).ok());
  std::vector<std::string> names;
  v1::ListJobsRequest request;
  request.set_page_size(2);
  do {
    v1::ListJobsResponse response;
    ASSERT_TRUE(jobs_->ListJobs(Context().get(), request, &response).ok());
    for (const v1::Job& job : response.jobs()) names.push_back(job.spec().name());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(names, (std::vector<std::string>{"three", "two", "one"}));
  request.set_page_token("guess");
  v1::ListJobsResponse response;
  EXPECT_EQ(jobs_->ListJobs(Context().get(), request, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

// Records are read in several parts.
TEST_F(SubmitTest, APageMayHaveManyJobs) {
  constexpr int kJobs = 70;
  for (int i = 0; i < kJobs; ++i) ASSERT_TRUE(Submit(Spec(absl::StrCat("job-", i))).ok());
  for (const int size : {64, kJobs, 1000}) {
    v1::ListJobsRequest request;
    request.set_page_size(size);
    v1::ListJobsResponse response;
    ASSERT_TRUE(jobs_->ListJobs(Context().get(), request, &response).ok());
    ASSERT_EQ(response.jobs_size(), std::min(size, kJobs));
    for (int i = 0; i < response.jobs_size(); ++i)
      EXPECT_EQ(response.jobs(i).spec().name(), absl::StrCat("job-", kJobs - 1 - i));
    EXPECT_EQ(response.next_page_token().empty(), size > kJobs);
  }
}

// Each spec has almost 1 MiB. A list has what lists show.
TEST_F(SubmitTest, AListHasNoLargePartsOfSpecs) {
  constexpr int kJobs = 12;
  v1::JobSpec spec = LargeSpec("job", 240);
  for (int i = 0; i < kJobs; ++i) {
    spec.set_name(absl::StrCat("job-", i));
    ASSERT_TRUE(Submit(spec).ok());
  }
  const auto expect_listed = [&](int live) {
    v1::ListJobsRequest request;
    request.set_page_size(1000);
    v1::ListJobsResponse response;
    ASSERT_TRUE(jobs_->ListJobs(Context().get(), request, &response).ok());
    ASSERT_EQ(response.jobs_size(), kJobs);
    EXPECT_EQ(response.next_page_token(), "");
    EXPECT_LT(response.ByteSizeLong(), 100'000u);
    for (int i = 0; i < kJobs; ++i) {
      const v1::Job& job = response.jobs(kJobs - 1 - i);
      EXPECT_EQ(job.spec().name(), absl::StrCat("job-", i));
      EXPECT_EQ(job.spec().train().steps(), spec.train().steps());
      EXPECT_EQ(job.state(), i < live ? v1::PENDING : v1::CANCELLED);
      EXPECT_EQ(job.parameters(), response.jobs(0).parameters());
      EXPECT_TRUE(job.spec_shortened());
      EXPECT_FALSE(job.spec().has_data());
    }
    const auto whole = Get("job-0");
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_FALSE(whole->spec_shortened());
    EXPECT_EQ(whole->spec().data().pools_size(), 240);
  };
  expect_listed(kJobs);
  for (int i = kJobs / 2; i < kJobs; ++i) {
    v1::CancelJobRequest cancel;
    cancel.set_job(absl::StrCat("job-", i));
    v1::CancelJobResponse cancelled;
    ASSERT_TRUE(jobs_->CancelJob(Context().get(), cancel, &cancelled).ok());
  }
  expect_listed(kJobs / 2);
  Restart();
  expect_listed(kJobs / 2);
}

TEST_F(SubmitTest, ACursorOfTheFutureIsOutOfRange) {
  ASSERT_TRUE(Submit(Spec("watched")).ok());
  v1::WatchJobRequest request;
  request.set_job("watched");
  request.set_cursor(int64_t{1} << 62);
  const auto context = Context();
  const auto reader = jobs_->WatchJob(context.get(), request);
  v1::WatchJobResponse response;
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::OUT_OF_RANGE);
}

TEST_F(SubmitTest, TwoCoordinatorsDoNotShareADataFolder) {
  coordinator::CoordinatorServerOptions options;
  options.data_dir = data_.path();
  options.log.level = LogLevel::kError;
  const auto second = coordinator::CoordinatorServer::Start(std::move(options));
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_NE(second.status().message().find("another coordinator"), absl::string_view::npos);
}

}  // namespace
}  // namespace longhaul
