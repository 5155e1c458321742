// Reports of the performer's jobs, with what the publisher keeps of them.
#include "coordinator/service/stream_publisher.h"

#include "coordinator/service/job_metrics.h"
#include "coordinator/service/job_report.h"
#include "tests/unit/coordinator/effects/performer_testing.h"

namespace longhaul::coordinator {
namespace {

class StreamPublisherTest : public PerformerTest {
 protected:
  StreamPublisherTest() {
    publisher_.status_of = [this](const LiveJob& job, const JobRecord& record,
                                  const std::optional<JobFault>& fault) {
      stream_publisher_.Connect(performer_.get());
      return stream_publisher_.StatusOf(job, record, fault);
    };
  }
  // As GetJob, ListJobs and the first message of WatchJob show it; as its later ones do.
  v1::Job Stored(const std::string& id) { return Report(*performer_, *meta_->GetJob(id)); }
  v1::Job Watched(const std::string& id) { return Report(*performer_, id); }

  StreamPublisher stream_publisher_{nullptr, nullptr};
};

TEST_F(StreamPublisherTest, AnEndedJobIsReportedWithItsReasonWhileItIsStillServedAndLater) {
  const std::string id = RunPair();
  Step(Failing(id, "b"));
  EXPECT_EQ(Stored(id).set_aside(0).pool(), "b");
  Step(CancelJob{id, "enough"});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Stored(id).state(), v1::CANCELLED);
    EXPECT_EQ(Stored(id).error().message(), "enough");
    EXPECT_EQ(Stored(id).fragments(0).rounds_committed(), 0);
    EXPECT_NE(Stored(id).fragments(0).digest(), "");
    EXPECT_EQ(Stored(id).set_aside_size(), 0);
    Pass(absl::Seconds(61));
  }
}

TEST_F(StreamPublisherTest, TheLastMessageOfAWatchHasTheReason) {
  const std::string id = RunPair();
  Step(CancelJob{id, "enough"});
  EXPECT_EQ(Watched(id).state(), v1::CANCELLED);
  EXPECT_EQ(Watched(id).error().message(), "enough");
  EXPECT_EQ(Watched("another").id(), "");
}

TEST_F(StreamPublisherTest, AQuarantinedJobIsShownAsSuchWhateverItsRecordSays) {
  const std::string id = RunPair();
  Step(StoreFailed{id, {.code = "DATA_LOSS", .message = "bad bytes"}});
  EXPECT_EQ(Stored(id).state(), v1::QUARANTINED);
  EXPECT_EQ(Stored(id).error().message(), "bad bytes");
  Step(CancelJob{id, "no use"});
  EXPECT_EQ(Stored(id).state(), v1::CANCELLED);
  EXPECT_EQ(Stored(id).error().message(), "no use");
}

TEST_F(StreamPublisherTest, AJobThatIsNotUnderstoodIsShownCancelledAndShownAgain) {
  const JobRecord record{.id = "bytes",
                         .name = "bytes",
                         .state = JobState::kRunning,
                         .spec = "\xff\xff",
                         .created = now_};
  ASSERT_TRUE(meta_->Commit({NewJob{record}}).ok());
  Restart();
  JobMetrics metrics(registry_);
  metrics.Show(*performer_);
  EXPECT_EQ(Stored("bytes").state(), v1::QUARANTINED);
  EXPECT_EQ(Watched("bytes").state(), v1::QUARANTINED);
  Step(CancelJob{"bytes", "no use"});
  metrics.Show(*performer_);
  EXPECT_EQ(Stored("bytes").state(), v1::CANCELLED);
  EXPECT_EQ(Watched("bytes").state(), v1::CANCELLED);
  EXPECT_EQ(Watched("bytes").error().message(), "no use");
}

}  // namespace
}  // namespace longhaul::coordinator
