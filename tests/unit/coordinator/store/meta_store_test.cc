#include "coordinator/store/meta_store.h"

#include <cmath>
#include <limits>
#include <string>

#include "coordinator/store/sqlite_database.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

class MetaStoreTest : public testing::Test {
 protected:
  MetaStoreTest() { Reopen(); }
  void Reopen() {
    store_.reset();
    auto opened = MetaStore::Open(dir_.Join("coordinator.db"));
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  static JobRecord Job(const std::string& id, const std::string& name) {
    JobRecord job;
    job.id = id;
    job.name = name;
    job.state = JobState::kPending;
    job.spec = std::string("spec\0bytes", 10);
    job.created = absl::FromUnixMicros(1700000000123456);
    return job;
  }
  absl::Status Commit(const std::vector<MetaRecord>& records) { return store_->Commit(records); }
  absl::Status Create(JobRecord job) { return Commit({NewJob{std::move(job)}}); }

  TempDir dir_;
  std::unique_ptr<MetaStore> store_;
};

TEST_F(MetaStoreTest, KeepsAJobOverARestart) {
  JobRecord job = Job("id1", "alpha");
  job.idempotency_token = "token";
  job.owner = "token:ann";
  ASSERT_TRUE(Create(job).ok());
  Reopen();
  for (const auto& found :
       {store_->GetJob("id1"), store_->GetJob("alpha"), store_->FindJobByToken("token")}) {
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->id, "id1");
    EXPECT_EQ(found->name, "alpha");
    EXPECT_EQ(found->idempotency_token, "token");
    EXPECT_EQ(found->state, JobState::kPending);
    EXPECT_EQ(found->spec, std::string("spec\0bytes", 10));
    EXPECT_EQ(found->created, job.created);
    EXPECT_EQ(found->started, absl::InfinitePast());
    EXPECT_GT(found->order, 0);
    EXPECT_EQ(found->owner, "token:ann");
  }
  EXPECT_EQ(store_->ListJobs(1000, 10)->at(0).owner, "token:ann");
  EXPECT_EQ(Commit({DeletedJob{"id1", absl::FromUnixSeconds(1)}}), absl::OkStatus());
}

TEST_F(MetaStoreTest, AJobOfAnEarlierVersionHasNoOwnerAndAnEarlierVersionMayDeleteOne) {
  ASSERT_TRUE(Create(Job("id1", "alpha")).ok());
  EXPECT_EQ(store_->GetJob("id1")->owner, "");
  JobRecord owned = Job("id2", "beta");
  owned.owner = "token:ann";
  ASSERT_TRUE(Create(owned).ok());
  store_.reset();
  {
    auto database = SqliteDatabase::Open(dir_.Join("coordinator.db"));
    ASSERT_TRUE(database.ok()) << database.status();
    EXPECT_EQ((*database)->Query("DELETE FROM job WHERE id = ?", {std::string("id2")}).status(),
              absl::OkStatus());
  }
  Reopen();
  EXPECT_TRUE(absl::IsNotFound(store_->GetJob("id2").status()));
}

TEST_F(MetaStoreTest, RefusesTakenNamesIdsTokensAndOrders) {
  JobRecord job = Job("id1", "alpha");
  job.idempotency_token = "token";
  job.order = 7;
  ASSERT_TRUE(Create(job).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(Create(Job("id2", "alpha"))));
  EXPECT_TRUE(absl::IsAlreadyExists(Create(Job("id1", "beta"))));
  JobRecord other = Job("id2", "beta");
  other.idempotency_token = "token";
  EXPECT_TRUE(absl::IsAlreadyExists(Create(other)));
  other = Job("id2", "beta");
  other.order = 7;
  EXPECT_TRUE(absl::IsAlreadyExists(Create(other)));
  EXPECT_TRUE(absl::IsNotFound(store_->GetJob("id2").status()));
  // Jobs without tokens do not clash.
  EXPECT_TRUE(Create(Job("id2", "beta")).ok());
  EXPECT_TRUE(Create(Job("id3", "gamma")).ok());
  EXPECT_EQ(store_->GetJob("id2")->order, 8);
}

TEST_F(MetaStoreTest, UpdatesFieldsThatChange) {
  ASSERT_TRUE(Create(Job("id1", "alpha")).ok());
  JobUpdate update = {"id1", JobState::kCompleted, "done", absl::FromUnixMicros(5),
                      absl::FromUnixMicros(9)};
  ASSERT_TRUE(Commit({update}).ok());
  Reopen();
  const JobRecord found = *store_->GetJob("id1");
  EXPECT_EQ(found.state, JobState::kCompleted);
  EXPECT_EQ(found.status, "done");
  EXPECT_EQ(found.started, absl::FromUnixMicros(5));
  EXPECT_EQ(found.ended, absl::FromUnixMicros(9));
  EXPECT_EQ(found.spec, std::string("spec\0bytes", 10));
  update.job_id = "none";
  EXPECT_TRUE(absl::IsNotFound(Commit({update})));
}

TEST_F(MetaStoreTest, RecordsOfAStepAreWrittenAllOrNone) {
  ASSERT_TRUE(Commit({NewJob{Job("id1", "alpha")}, ParticipantRecord{"id1", "west", "00", 0},
                      JobUpdate{.job_id = "id1", .state = JobState::kSeeding}})
                  .ok());
  EXPECT_EQ(store_->GetJob("id1")->state, JobState::kSeeding);
  const auto refused = [&](const MetaRecord& last) {
    return Commit({JobUpdate{.job_id = "id1", .state = JobState::kRunning},
                   ParticipantRecord{"id1", "east", "01", 1}, JobCounters{"id1", "9"}, last});
  };
  EXPECT_TRUE(absl::IsAlreadyExists(refused(NewJob{Job("id2", "alpha")})));
  EXPECT_TRUE(absl::IsNotFound(refused(ParticipantRecord{"none", "west", "00", 0})));
  EXPECT_TRUE(absl::IsNotFound(refused(JobUpdate{.job_id = "none"})));
  EXPECT_TRUE(absl::IsNotFound(refused(JobCounters{"none", ""})));
  EXPECT_EQ(store_->GetJob("id1")->state, JobState::kSeeding);
  EXPECT_EQ(store_->ListParticipants("id1")->size(), 1u);
  EXPECT_EQ(*store_->GetCounters("id1"), "");
  EXPECT_TRUE(Commit({}).ok());
  EXPECT_TRUE(refused(EvaluationRecord{"id1"}).ok());
}

TEST_F(MetaStoreTest, ListsNewestFirstInPages) {
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(Create(Job("id" + std::to_string(i), "n" + std::to_string(i))).ok());
  }
  auto page = *store_->ListJobs(std::numeric_limits<int64_t>::max(), 2);
  ASSERT_EQ(page.size(), 2u);
  EXPECT_EQ(page[0].id, "id4");
  EXPECT_EQ(page[1].id, "id3");
  page = *store_->ListJobs(page[1].order, 10);
  ASSERT_EQ(page.size(), 3u);
  EXPECT_EQ(page[2].id, "id0");
}

TEST_F(MetaStoreTest, TellsLiveJobsFromEndedOnes) {
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(Create(Job("id" + std::to_string(i), "n" + std::to_string(i))).ok());
  }
  ASSERT_TRUE(
      Commit({JobUpdate{
                 .job_id = "id1", .state = JobState::kCompleted, .ended = absl::FromUnixMicros(9)}})
          .ok());
  const auto live = *store_->ListUnended();
  ASSERT_EQ(live.size(), 3u);
  EXPECT_EQ(live[0].id, "id0");
  EXPECT_EQ(live[1].id, "id2");
  const auto keys = *store_->ListKeys();
  ASSERT_EQ(keys.size(), 4u);
  EXPECT_EQ(keys[1].name, "n1");
  EXPECT_EQ(keys[1].state, JobState::kCompleted);
  EXPECT_EQ(keys[1].ended, absl::FromUnixMicros(9));
  EXPECT_FALSE(keys[2].has_ended());
  std::vector<std::string> asked(300, "n1");  // A name; and more than one query asks for.
  asked.insert(asked.end(), {"id2", "id1", "other"});
  EXPECT_THAT(*store_->EndedOf(asked), testing::ElementsAre("id1"));
  EXPECT_TRUE(store_->EndedOf({})->empty());
}

TEST_F(MetaStoreTest, KeepsForHowLongCoordinatorsHaveRunAndWhenJobsEnded) {
  EXPECT_EQ(*store_->GetRunTime(), absl::ZeroDuration());
  for (const char* const id : {"id1", "id2", "id3"}) ASSERT_TRUE(Create(Job(id, id)).ok());
  EXPECT_EQ(Commit({RunTime{absl::Seconds(5)}}), absl::OkStatus());
  EXPECT_EQ(Commit({JobUpdate{.job_id = "id1",
                              .state = JobState::kCompleted,
                              .ended = absl::FromUnixSeconds(9),
                              .run_time = absl::Seconds(7)}}),
            absl::OkStatus());
  EXPECT_EQ(*store_->GetRunTime(), absl::Seconds(7)) << "it ended then";
  EXPECT_EQ(Commit({JobUpdate{
                .job_id = "id2", .state = JobState::kRunning, .run_time = absl::Seconds(8)}}),
            absl::OkStatus());
  // As an earlier program ended it.
  EXPECT_EQ(Commit({NewJob{{.id = "id4",
                            .name = "id4",
                            .state = JobState::kFailed,
                            .ended = absl::FromUnixSeconds(9)}}}),
            absl::OkStatus());
  EXPECT_EQ(Commit({RunTime{absl::Seconds(6)}, EndedRunTime{absl::Seconds(8)}}), absl::OkStatus());
  EXPECT_EQ(Commit({EndedRunTime{absl::Seconds(9)}}), absl::OkStatus()) << "once";
  Reopen();
  EXPECT_EQ(*store_->GetRunTime(), absl::Seconds(7));
  EXPECT_EQ(store_->GetJob("id1")->ended_run_time, absl::Seconds(7));
  EXPECT_EQ(store_->GetJob("id2")->ended_run_time, std::nullopt);
  const auto keys = *store_->ListKeys();
  EXPECT_EQ(keys[2].ended_run_time, std::nullopt) << "it has not ended";
  EXPECT_EQ(keys[3].ended_run_time, absl::Seconds(8));
  const auto before = [this](int seconds, int limit) {
    std::vector<std::string> ids;
    const auto ended = *store_->ListEndedBefore(absl::Seconds(seconds), limit);
    for (const JobKey& job : ended) ids.push_back(job.id);
    return ids;
  };
  EXPECT_THAT(before(6, 9), testing::IsEmpty());
  EXPECT_THAT(before(7, 9), testing::ElementsAre("id1"));
  EXPECT_THAT(before(9, 9), testing::ElementsAre("id1", "id4"));
  EXPECT_THAT(before(9, 1), testing::ElementsAre("id1"));
  EXPECT_EQ(Commit({DeletedJob{"id1", absl::FromUnixSeconds(9)}}), absl::OkStatus());
  EXPECT_THAT(before(9, 9), testing::ElementsAre("id4"));
}

TEST_F(MetaStoreTest, KnowsOfWhichJobsTheLogsAreThere) {
  for (const char* const id : {"id1", "id2", "id3"}) ASSERT_TRUE(Create(Job(id, id)).ok());
  for (const char* const id : {"id1", "id3"}) {
    ASSERT_TRUE(
        Commit({JobUpdate{
                   .job_id = id, .state = JobState::kCancelled, .ended = absl::FromUnixSeconds(9)}})
            .ok());
  }
  EXPECT_EQ(*store_->CountByState(),
            (std::map<JobState, int64_t>{{JobState::kPending, 1}, {JobState::kCancelled, 2}}));
  EXPECT_EQ(Commit({CleanedUpJob{"id1"}, CleanedUpJob{"id1"}}), absl::OkStatus());
  Reopen();
  const auto left = *store_->ListNotCleanedUp();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].id, "id3");
  EXPECT_EQ(left[0].state, JobState::kCancelled);
  EXPECT_EQ(Commit({DeletedJob{"id1", absl::UnixEpoch()}}), absl::OkStatus());
}

TEST_F(MetaStoreTest, AnIdHasPrecedenceOverAName) {
  ASSERT_TRUE(Create(Job("a", "b")).ok());
  ASSERT_TRUE(Create(Job("b", "c")).ok());
  EXPECT_EQ(store_->GetJob("b")->name, "c");
}

TEST_F(MetaStoreTest, KeepsParticipantsByOrdinal) {
  const absl::Time back = absl::FromUnixMicros(1700000000123456);
  ASSERT_TRUE(Create(Job("id1", "alpha")).ok());
  ASSERT_TRUE(Commit({ParticipantRecord{"id1", "west", "00ff", 1, std::nullopt, false}}).ok());
  ASSERT_TRUE(Commit({ParticipantRecord{"id1", "east", "aa", 0, 120, false, false, back},
                      ParticipantRecord{"id1", "west", "00ff", 1, 60, true},
                      ParticipantRecord{"id1", "south", "bb", 2, 60, true, true}})
                  .ok());
  Reopen();
  const auto found = *store_->ListParticipants("id1");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].pool, "east");
  EXPECT_EQ(found[0].start_step, 120);
  EXPECT_FALSE(found[0].left);
  EXPECT_EQ(found[0].return_until, back);
  EXPECT_EQ(found[1].incarnation, "00ff");
  EXPECT_EQ(found[1].start_step, 60);
  EXPECT_TRUE(found[1].left);
  EXPECT_FALSE(found[1].missed);
  EXPECT_EQ(found[1].return_until, absl::InfinitePast());
  EXPECT_TRUE(found[2].left && found[2].missed);
}

TEST_F(MetaStoreTest, KeepsEvaluationsOnce) {
  ASSERT_TRUE(Create(Job("id1", "alpha")).ok());
  ASSERT_TRUE(Commit({EvaluationRecord{"id1", 60, 2, 3.0, 100, false}}).ok());
  ASSERT_TRUE(Commit({EvaluationRecord{"id1", 30, 1, 4.0, 100, false}}).ok());
  EvaluationRecord later{"id1", 60, 7, 2.5, 100, false};
  later.metrics = {{"perplexity", 1}};
  ASSERT_TRUE(Commit({later}).ok());
  EvaluationRecord of_pool{"id1", 60, 2, 4.0, 100, false, "west"};
  ASSERT_TRUE(Commit({of_pool}).ok());
  of_pool.loss = 1;
  of_pool.metrics = {{"perplexity", 1}};
  ASSERT_TRUE(Commit({of_pool}).ok());
  ASSERT_TRUE(Commit({EvaluationRecord{"id1", 60, 3, NAN, 100, true}}).ok());
  Reopen();
  const auto found = *store_->ListEvaluations("id1");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].step, 30);
  EXPECT_EQ(found[1].loss, 3.0) << "what is stored is not replaced";
  EXPECT_EQ(found[1].version, 2);
  EXPECT_TRUE(found[1].metrics.empty());
  const auto of_pools = *store_->ListPoolEvaluations("id1");
  ASSERT_EQ(of_pools.size(), 1u);
  EXPECT_EQ(of_pools[0].metrics, (std::vector<NamedValue>{{"loss", 4.0}}));
  EXPECT_TRUE(found[2].final);
  EXPECT_EQ(found[2].version, 3);
  EXPECT_TRUE(std::isnan(found[2].loss));
  EXPECT_TRUE(absl::IsNotFound(Commit({EvaluationRecord{"none", 1, 1, 1, 1, false}})));
}

TEST_F(MetaStoreTest, KeepsMetricsOfTheOuterParametersAndOfPools) {
  ASSERT_TRUE(Create(Job("id1", "alpha")).ok());
  EvaluationRecord outer{"id1", 60, 2, 3.0, 100, false};
  outer.metrics = {{"loss", 3.0}, {"perplexity", 20.5}, {"odd", NAN}};
  EvaluationRecord last = outer;
  last.final = true;
  last.metrics = {{"loss", 2.0}};
  EvaluationRecord of_pool{"id1", 60, 2, 4.0, 100, false, "west"};
  of_pool.metrics = {{"perplexity", 54.5}};
  ASSERT_TRUE(Commit({outer, EvaluationRecord{"id1", 30, 1, 4.0, 100, false}, last, of_pool}).ok());
  of_pool.step = 30;
  ASSERT_TRUE(Commit({of_pool}).ok());
  Reopen();
  const auto found = *store_->ListEvaluations("id1");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_TRUE(found[0].metrics.empty());
  EXPECT_EQ(found[1].metrics, (std::vector<NamedValue>{{"loss", 3.0}, {"perplexity", 20.5}}));
  EXPECT_EQ(found[2].metrics, (std::vector<NamedValue>{{"loss", 2.0}}));
  const auto pools = *store_->ListPoolEvaluations("id1");
  ASSERT_EQ(pools.size(), 2u);
  EXPECT_EQ(pools[0].step, 30);
  EXPECT_EQ(pools[1].pool, "west");
  EXPECT_EQ(pools[1].loss, 4.0);
  EXPECT_EQ(pools[1].metrics, (std::vector<NamedValue>{{"loss", 4.0}, {"perplexity", 54.5}}));
}

TEST_F(MetaStoreTest, KeepsWhatEachSiteFindsOfTheOuterParameters) {
  ASSERT_TRUE(Create(Job("id1", "alpha")).ok());
  const auto of_site = [](const char* site, int64_t step, double loss, bool final) {
    EvaluationRecord record{"id1", step, 2, loss, 100, final};
    record.site = site;
    record.metrics = {{"loss", loss}, {"accuracy", 0.5}, {"odd", NAN}};
    return record;
  };
  ASSERT_TRUE(Commit({of_site("west", 60, 3, true), of_site("west", 60, 2, false),
                      of_site("east", 60, 4, false), of_site("east", 30, 5, false)})
                  .ok());
  ASSERT_TRUE(Commit({of_site("west", 60, 9, false)}).ok());
  Reopen();
  EXPECT_TRUE(store_->ListEvaluations("id1")->empty());
  EXPECT_TRUE(store_->ListPoolEvaluations("id1")->empty());
  const auto found = *store_->ListSiteEvaluations("id1");
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].step, 30);
  EXPECT_EQ(found[1].site, "east");
  EXPECT_EQ(found[2].site, "west");
  EXPECT_EQ(found[2].loss, 2) << "what is stored is not replaced";
  EXPECT_EQ(found[2].tokens, 100);
  EXPECT_EQ(found[2].metrics, (std::vector<NamedValue>{{"accuracy", 0.5}, {"loss", 2}}));
  EXPECT_TRUE(found[3].final);
  const MetaRecord deleted = DeletedJob{"id1", absl::UnixEpoch()};
  ASSERT_TRUE(store_->Commit({&deleted, 1}).ok());
  EXPECT_TRUE(store_->ListSiteEvaluations("id1")->empty());
}

TEST_F(MetaStoreTest, KeepsCounters) {
  ASSERT_TRUE(Create(Job("id1", "alpha")).ok());
  EXPECT_EQ(*store_->GetCounters("id1"), "");
  ASSERT_TRUE(Commit({JobCounters{"id1", "old"}}).ok());
  ASSERT_TRUE(Commit({JobCounters{"id1", std::string("\0\1", 2)}}).ok());
  Reopen();
  EXPECT_EQ(*store_->GetCounters("id1"), std::string("\0\1", 2));
  EXPECT_TRUE(absl::IsNotFound(store_->GetCounters("none").status()));
}

TEST_F(MetaStoreTest, CanBeInMemory) {
  auto store = *MetaStore::Open(":memory:");
  const MetaRecord job = NewJob{Job("id1", "alpha")};
  ASSERT_TRUE(store->Commit({&job, 1}).ok());
  EXPECT_TRUE(store->GetJob("alpha").ok());
  EXPECT_TRUE(absl::IsNotFound((*MetaStore::Open(":memory:"))->GetJob("alpha").status()));
}

TEST_F(MetaStoreTest, RefusesASecondProgram) {
  const auto second = MetaStore::Open(dir_.Join("coordinator.db"));
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
}

TEST_F(MetaStoreTest, AddsWhatAnEarlierVersionLacks) {
  const MetaRecord job = NewJob{Job("id1", "alpha")};
  ASSERT_TRUE(store_->Commit({&job, 1}).ok());
  store_.reset();
  {
    auto database = *SqliteDatabase::Open(dir_.Join("coordinator.db"));
    ASSERT_TRUE(database
                    ->Execute("DROP TABLE event; DROP TABLE checkpoint_request;"
                              "DROP TABLE deleted; DROP TABLE run_time; DROP TABLE ended_run_time")
                    .ok());
  }
  Reopen();
  EXPECT_TRUE(store_->GetJob("alpha").ok());
  EXPECT_TRUE(store_->ListEvents("id1")->empty());
  EXPECT_TRUE(store_->ListUnremoved()->empty());
  EXPECT_EQ(*store_->GetRunTime(), absl::ZeroDuration());
}

TEST_F(MetaStoreTest, KeepsTheNewestEventsAndOneRequest) {
  const MetaRecord records[] = {
      NewJob{Job("id1", "alpha")},       EventRecord{"id1", 1, 1, "one"},
      EventRecord{"id1", 2, 1, "two"},   EventRecord{"id1", 3, 2, "three"},
      CheckpointRequestRecord{"id1", 4}, CheckpointRequestRecord{"id1", 5}};
  ASSERT_TRUE(store_->Commit(records).ok());
  Reopen();
  EXPECT_THAT(*store_->ListEvents("id1"), testing::ElementsAre("two", "three"));
  EXPECT_EQ(*store_->GetCheckpointRequest("id1"), 5);
  const MetaRecord none = CheckpointRequestRecord{"id1", 0};
  ASSERT_TRUE(store_->Commit({&none, 1}).ok());
  EXPECT_EQ(*store_->GetCheckpointRequest("id1"), 0);
}

TEST_F(MetaStoreTest, KeepsThePauseOfAJob) {
  EXPECT_EQ(store_->GetPause("id1")->stage, PauseStage::kNone);
  const MetaRecord records[] = {
      NewJob{Job("id1", "alpha")},
      PauseRecord{"id1", PauseStage::kPausing, absl::FromUnixSeconds(7), "token:ann", "night", ""},
      PauseRecord{"id1", PauseStage::kPaused, absl::FromUnixSeconds(7), "token:ann", "night",
                  std::string("r\0", 2)}};
  ASSERT_TRUE(store_->Commit(records).ok());
  Reopen();
  const PauseRecord pause = *store_->GetPause("id1");
  EXPECT_EQ(pause.stage, PauseStage::kPaused);
  EXPECT_EQ(pause.at, absl::FromUnixSeconds(7));
  EXPECT_EQ(pause.by, "token:ann");
  EXPECT_EQ(pause.reason, "night");
  EXPECT_EQ(pause.report, std::string("r\0", 2));
  // A job is deleted with it.
  const MetaRecord deleted = DeletedJob{"id1", absl::FromUnixSeconds(9)};
  ASSERT_TRUE(store_->Commit({&deleted, 1}).ok());
  EXPECT_EQ(store_->GetPause("id1")->stage, PauseStage::kNone);
  const MetaRecord again[] = {NewJob{Job("id2", "beta")}, PauseRecord{"id2", PauseStage::kResumed},
                              PauseRecord{"id2", PauseStage::kNone}};
  ASSERT_TRUE(store_->Commit(again).ok());
  EXPECT_EQ(store_->GetPause("id2")->stage, PauseStage::kNone);
}

TEST_F(MetaStoreTest, RemembersDeletedJobs) {
  const MetaRecord records[] = {
      NewJob{Job("id1", "alpha")},
      EventRecord{"id1", 1, 1, "one"},
      JobCounters{"id1", "c"},
      CheckpointRequestRecord{"id1", 4},
      EvaluationRecord{.job_id = "id1", .step = 1, .loss = 2},
      EvaluationRecord{
          .job_id = "id1", .step = 1, .loss = 2, .pool = "site-a", .metrics = {{"loss", 2}}},
      DeletedJob{"id1", absl::UnixEpoch()}};
  ASSERT_TRUE(store_->Commit(records).ok());
  Reopen();
  EXPECT_TRUE(absl::IsNotFound(store_->GetJob("alpha").status()));
  EXPECT_EQ(*store_->FindDeleted("alpha"), "id1");
  EXPECT_EQ(*store_->FindDeleted("id1"), "id1");
  EXPECT_TRUE(absl::IsNotFound(store_->FindDeleted("beta").status()));
  const std::vector<std::string> asked = {"id1"};
  EXPECT_THAT(*store_->EndedOf(asked), testing::ElementsAre("id1"));
  EXPECT_THAT(*store_->ListUnremoved(), testing::ElementsAre("id1"));
  // The name is free again.
  const MetaRecord again[] = {RemovedJob{"id1"}, NewJob{Job("id2", "alpha")}};
  ASSERT_TRUE(store_->Commit(again).ok());
  EXPECT_TRUE(store_->ListUnremoved()->empty());
  const MetaRecord nobody = DeletedJob{"id1", absl::UnixEpoch()};
  EXPECT_TRUE(absl::IsNotFound(store_->Commit({&nobody, 1})));
}

TEST_F(MetaStoreTest, RefusesAnotherSchema) {
  for (const std::string version : {"1", "99"}) {
    store_.reset();
    {
      auto database = *SqliteDatabase::Open(dir_.Join("coordinator.db"));
      ASSERT_TRUE(database->Execute("PRAGMA user_version = " + version).ok());
    }
    const absl::Status refused = MetaStore::Open(dir_.Join("coordinator.db")).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused));
    EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("schema " + version));
  }
}

// The query of specs must not read every row, since a coordinator keeps its ended jobs for years.
TEST_F(MetaStoreTest, AStartFindsLiveJobsByAnIndex) {
  store_.reset();
  auto database = *SqliteDatabase::Open(dir_.Join("coordinator.db"));
  const auto plan = *database->Query(
      "EXPLAIN QUERY PLAN SELECT spec FROM job WHERE ended IS NULL ORDER BY position", {});
  EXPECT_THAT(std::get<std::string>(plan[0][3]), testing::HasSubstr("job_unended"));
}

}  // namespace
}  // namespace longhaul
