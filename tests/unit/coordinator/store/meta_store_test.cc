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
    auto opened = MetaStore::Open(dir_.Join("meta.db"));
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  static JobRecord Job(const std::string& id, const std::string& name) {
    JobRecord job;
    job.id = id;
    job.name = name;
    job.state = 1;
    job.spec = std::string("spec\0bytes", 10);
    job.created = absl::FromUnixMicros(1700000000123456);
    return job;
  }

  TempDir dir_;
  std::unique_ptr<MetaStore> store_;
};

TEST_F(MetaStoreTest, KeepsAJobOverARestart) {
  JobRecord job = Job("id1", "alpha");
  job.idempotency_token = "token";
  ASSERT_TRUE(store_->CreateJob(job).ok());
  Reopen();
  for (const auto& found :
       {store_->GetJob("id1"), store_->GetJob("alpha"), store_->FindJobByToken("token")}) {
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->id, "id1");
    EXPECT_EQ(found->name, "alpha");
    EXPECT_EQ(found->idempotency_token, "token");
    EXPECT_EQ(found->state, 1);
    EXPECT_EQ(found->spec, std::string("spec\0bytes", 10));
    EXPECT_EQ(found->created, job.created);
    EXPECT_EQ(found->started, absl::InfinitePast());
  }
}

TEST_F(MetaStoreTest, RefusesTakenNamesIdsAndTokens) {
  JobRecord job = Job("id1", "alpha");
  job.idempotency_token = "token";
  ASSERT_TRUE(store_->CreateJob(job).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(store_->CreateJob(Job("id2", "alpha")).status()));
  EXPECT_TRUE(absl::IsAlreadyExists(store_->CreateJob(Job("id1", "beta")).status()));
  JobRecord other = Job("id2", "beta");
  other.idempotency_token = "token";
  EXPECT_TRUE(absl::IsAlreadyExists(store_->CreateJob(other).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->GetJob("id2").status()));
  // Without tokens there is nothing to clash.
  EXPECT_TRUE(store_->CreateJob(Job("id2", "beta")).ok());
  EXPECT_TRUE(store_->CreateJob(Job("id3", "gamma")).ok());
}

TEST_F(MetaStoreTest, UpdatesWhatChanges) {
  ASSERT_TRUE(store_->CreateJob(Job("id1", "alpha")).ok());
  JobRecord job = *store_->GetJob("id1");
  job.state = 5;
  job.status = "done";
  job.started = absl::FromUnixMicros(5);
  job.ended = absl::FromUnixMicros(9);
  ASSERT_TRUE(store_->UpdateJob(job).ok());
  Reopen();
  const JobRecord found = *store_->GetJob("id1");
  EXPECT_EQ(found.state, 5);
  EXPECT_EQ(found.status, "done");
  EXPECT_EQ(found.started, absl::FromUnixMicros(5));
  EXPECT_EQ(found.ended, absl::FromUnixMicros(9));
  job.id = "none";
  EXPECT_TRUE(absl::IsNotFound(store_->UpdateJob(job)));
}

TEST_F(MetaStoreTest, ListsNewestFirstInPages) {
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(store_->CreateJob(Job("id" + std::to_string(i), "n" + std::to_string(i))).ok());
  }
  auto page = *store_->ListJobs(std::numeric_limits<int64_t>::max(), 2);
  ASSERT_EQ(page.size(), 2u);
  EXPECT_EQ(page[0].id, "id4");
  EXPECT_EQ(page[1].id, "id3");
  page = *store_->ListJobs(page[1].order, 10);
  ASSERT_EQ(page.size(), 3u);
  EXPECT_EQ(page[2].id, "id0");
}

TEST_F(MetaStoreTest, AnIdGoesBeforeAName) {
  ASSERT_TRUE(store_->CreateJob(Job("a", "b")).ok());
  ASSERT_TRUE(store_->CreateJob(Job("b", "c")).ok());
  EXPECT_EQ(store_->GetJob("b")->name, "c");
}

TEST_F(MetaStoreTest, KeepsParticipantsByOrdinal) {
  ASSERT_TRUE(store_->CreateJob(Job("id1", "alpha")).ok());
  ASSERT_TRUE(store_->PutParticipant({"id1", "west", "00ff", 1, std::nullopt, false}).ok());
  ASSERT_TRUE(store_->PutParticipant({"id1", "east", "aa", 0, 120, false}).ok());
  ASSERT_TRUE(store_->PutParticipant({"id1", "west", "00ff", 1, 60, true}).ok());
  Reopen();
  const auto found = *store_->ListParticipants("id1");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].pool, "east");
  EXPECT_EQ(found[0].start_step, 120);
  EXPECT_FALSE(found[0].left);
  EXPECT_EQ(found[1].incarnation, "00ff");
  EXPECT_EQ(found[1].start_step, 60);
  EXPECT_TRUE(found[1].left);
  EXPECT_TRUE(absl::IsNotFound(store_->PutParticipant({"none", "west", "00", 0, 0, false})));
}

TEST_F(MetaStoreTest, KeepsEvaluationsOnce) {
  ASSERT_TRUE(store_->CreateJob(Job("id1", "alpha")).ok());
  ASSERT_TRUE(store_->PutEvaluation({"id1", 60, 2, 3.0, 100, false}).ok());
  ASSERT_TRUE(store_->PutEvaluation({"id1", 30, 1, 4.0, 100, false}).ok());
  ASSERT_TRUE(store_->PutEvaluation({"id1", 60, 2, 2.5, 100, false}).ok());
  ASSERT_TRUE(store_->PutEvaluation({"id1", 60, 3, NAN, 100, true}).ok());
  Reopen();
  const auto found = *store_->ListEvaluations("id1");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].step, 30);
  EXPECT_EQ(found[1].loss, 2.5);
  EXPECT_TRUE(found[2].final);
  EXPECT_EQ(found[2].version, 3);
  EXPECT_TRUE(std::isnan(found[2].loss));
  EXPECT_TRUE(absl::IsNotFound(store_->PutEvaluation({"none", 1, 1, 1, 1, false})));
}

TEST_F(MetaStoreTest, KeepsCounters) {
  ASSERT_TRUE(store_->CreateJob(Job("id1", "alpha")).ok());
  EXPECT_EQ(*store_->GetCounters("id1"), "");
  ASSERT_TRUE(store_->PutCounters("id1", std::string("\0\1", 2)).ok());
  Reopen();
  EXPECT_EQ(*store_->GetCounters("id1"), std::string("\0\1", 2));
  EXPECT_TRUE(absl::IsNotFound(store_->PutCounters("none", "")));
  EXPECT_TRUE(absl::IsNotFound(store_->GetCounters("none").status()));
}

TEST_F(MetaStoreTest, RefusesASecondProgram) {
  const auto second = MetaStore::Open(dir_.Join("meta.db"));
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
}

TEST_F(MetaStoreTest, RefusesANewerSchema) {
  store_.reset();
  {
    auto database = *SqliteDatabase::Open(dir_.Join("meta.db"));
    ASSERT_TRUE(database->Execute("PRAGMA user_version = 99").ok());
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(MetaStore::Open(dir_.Join("meta.db")).status()));
}

}  // namespace
}  // namespace longhaul
