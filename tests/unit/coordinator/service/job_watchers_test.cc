// Watchers over real gRPC, and what waits for one that does not read.
#include "coordinator/service/job_watchers.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "coordinator/effects/job_events.h"
#include "longhaul/v1/job.grpc.pb.h"

namespace longhaul::coordinator {
namespace {

// Gives the stream of its only call to the test.
class OneWatch final : public v1::JobService::CallbackService {
 public:
  grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchJob(grpc::CallbackServerContext*,
                                                           const v1::WatchJobRequest*) override {
    stream = JobWatchStream::Open(2);
    opened.Notify();
    return stream.get();
  }
  std::shared_ptr<JobWatchStream> stream;
  absl::Notification opened;
};

// A call, from the client to the stream.
struct Watch {
  Watch() {
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
    reader = stub->WatchJob(&context, {});
    service.opened.WaitForNotification();
  }
  OneWatch service;
  const std::unique_ptr<Server> server = *Server::Start({.address = "127.0.0.1:0"}, {&service});
  const std::unique_ptr<v1::JobService::Stub> stub =
      v1::JobService::NewStub(MakeChannel({.address = server->address()}));
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<v1::WatchJobResponse>> reader;
};

TEST(JobWatchersTest, ThereIsAMostOfWatchersAndOneThatEndedDoesNotCount) {
  const JobWatchers::EventSource none = [](const std::string&, int64_t) {
    return std::vector<v1::JobEvent>();
  };
  v1::Job job;
  job.set_id("a");
  const absl::Time now = absl::FromUnixSeconds(1700000000);
  JobWatchers watchers(1);
  Watch first, second, third, late;
  watchers.Add({.stream = first.service.stream}, job, 0, now, none);
  watchers.Add({.stream = second.service.stream}, job, 0, now, none);
  const absl::Status refused = FromGrpcStatus(second.reader->Finish());
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(RetryDelayOf(refused).has_value());
  v1::Job ended = job;
  ended.set_state(v1::COMPLETED);
  watchers.Add({.stream = late.service.stream}, ended, 0, now, none);
  v1::WatchJobResponse last;
  EXPECT_TRUE(late.reader->Read(&last));
  EXPECT_FALSE(late.reader->Read(&last));
  EXPECT_TRUE(late.reader->Finish().ok()) << "it needs no place";
  first.service.stream->End(absl::OkStatus());
  watchers.Add({.stream = third.service.stream}, job, 0, now, none);
  watchers.EndAll(absl::UnavailableError("going down"));
  for (Watch* watch : {&first, &third}) {
    v1::WatchJobResponse response;
    EXPECT_TRUE(watch->reader->Read(&response));
    EXPECT_FALSE(watch->reader->Read(&response));
  }
  EXPECT_TRUE(first.reader->Finish().ok());
  EXPECT_EQ(third.reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(JobWatchersTest, ADeletedJobIsCalledByItsName) {
  Watch watch;
  const JobWatchers::EventSource none = [](const std::string&, int64_t) {
    return std::vector<v1::JobEvent>();
  };
  v1::Job job;
  job.set_id("a");
  job.mutable_spec()->set_name("train");
  const absl::Time now = absl::FromUnixSeconds(1700000000);
  JobWatchers watchers;
  watchers.Add({.stream = watch.service.stream}, job, 0, now, none);
  watchers.Changed("a", now);
  watchers.Flush([](const std::string&) { return v1::Job(); }, none);
  v1::WatchJobResponse seen;
  EXPECT_TRUE(watch.reader->Read(&seen));
  EXPECT_FALSE(watch.reader->Read(&seen));
  const absl::Status deleted = FromGrpcStatus(watch.reader->Finish());
  EXPECT_TRUE(absl::IsNotFound(deleted)) << deleted;
  EXPECT_EQ(deleted.message(), "job train was deleted");
}

TEST(JobWatchersTest, AWatcherThatDoesNotReadHasNoMoreEventsWaitingThanAreKept) {
  Watch watch;
  JobEvents events;
  const JobWatchers::EventSource source = [&](const std::string&, int64_t after) {
    return events.After(after);
  };
  // Too large for what a connection takes without a reader.
  v1::Job job;
  job.set_id("a");
  job.add_warnings(std::string(2 << 20, 'w'));
  absl::Time now = absl::FromUnixSeconds(1700000000);
  JobWatchers watchers;
  watchers.Add({.stream = watch.service.stream, .events_after = 0}, job, 0, now, source);
  const int64_t all = 3 * JobEvents::kEventsMax;
  for (int64_t e = 1; e <= all; ++e) {
    events.Add(MakeEvent(v1::POOL_LOST, v1::WARNING, absl::StrCat("event ", e)), now);
    now += absl::Milliseconds(1);
    watchers.Changed("a", now);
    watchers.Flush([&](const std::string&) { return job; }, source);
  }
  job.set_state(v1::COMPLETED);
  watchers.Changed("a", now);
  watchers.Flush([&](const std::string&) { return job; }, source);

  // Some messages were on their way before the connection was full.
  v1::WatchJobResponse last;
  while (watch.reader->Read(&last)) EXPECT_LE(last.events_size(), JobEvents::kEventsMax);
  EXPECT_EQ(last.job().state(), v1::COMPLETED);
  ASSERT_EQ(last.events_size(), JobEvents::kEventsMax);
  EXPECT_EQ(last.events(0).sequence(), all - JobEvents::kEventsMax + 1);
  EXPECT_EQ(last.events().rbegin()->sequence(), all);
  EXPECT_TRUE(watch.reader->Finish().ok());
}

}  // namespace
}  // namespace longhaul::coordinator
