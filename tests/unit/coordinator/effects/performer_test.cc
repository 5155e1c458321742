// The performer over a database and a disk in memory: in which order what is decided takes effect,
// what a full disk holds up, what a failed one ends.
#include "coordinator/effects/performer.h"

#include <gtest/gtest.h>

#include <deque>
#include <sstream>

#include "absl/strings/str_join.h"
#include "common/config/capabilities.h"
#include "common/io/file_util.h"
#include "common/io/memory_filesystem.h"
#include "common/rpc/status_details.h"
#include "coordinator/fragments/part_intake.h"
#include "coordinator/store/data_folder.h"
#include "coordinator/store/fatal.h"

namespace longhaul::coordinator {
namespace {

using Trace = std::vector<std::string>;

std::string Words(const MetaRecord& record) {
  if (const auto* job = std::get_if<NewJob>(&record)) return "new " + job->job.name;
  if (const auto* update = std::get_if<JobUpdate>(&record))
    return absl::StrCat(update->job_id, " ", JobStateName(static_cast<JobState>(update->state)));
  if (const auto* place = std::get_if<ParticipantRecord>(&record)) {
    return absl::StrCat(place->job_id, " place of ", place->pool,
                        place->left                     ? " gone"
                        : place->start_step.has_value() ? " ready"
                                                        : "");
  }
  if (const auto* counters = std::get_if<JobCounters>(&record))
    return counters->job_id + " counters";
  return "evaluation";
}

std::string Words(const std::optional<Answer>& answer) {
  if (!answer.has_value()) return "nothing";
  if (const auto* refuse = std::get_if<Refuse>(&*answer)) return "refuse " + refuse->reason;
  if (const auto* grant = std::get_if<GrantLease>(&*answer)) return "lease " + grant->pool;
  return "admit " + std::get<AdmitRank>(*answer).pool;
}

// A database that can refuse or fail what is written.
class Records : public MetaLog {
 public:
  Records(MetaStore* meta, Trace* trace) : meta_(meta), trace_(trace) {}
  absl::Status Commit(absl::Span<const MetaRecord> records) override {
    const bool counters = std::holds_alternative<JobCounters>(records[0]);
    if (const absl::Status& refusal = counters ? counters_refusal : refusal_; !refusal.ok())
      return refusal;
    const absl::Status written = meta_->Commit(records);
    if (!written.ok()) return written;
    trace_->push_back("store " +
                      absl::StrJoin(records, ", ", [](std::string* out, const MetaRecord& record) {
                        out->append(Words(record));
                      }));
    return absl::OkStatus();
  }
  // What everything but counters is refused with.
  void Refuse(const absl::Status& status) { refusal_ = status; }
  absl::Status counters_refusal;

 private:
  MetaStore* const meta_;
  Trace* const trace_;
  absl::Status refusal_;
};

// Runs what was submitted when it is told to.
class HandCrank : public TaskRunner {
 public:
  HandCrank(std::string name, Trace* trace) : name_(std::move(name)), trace_(trace) {}
  bool Submit(Task task) override {
    if (refuses) return false;
    if (!name_.empty()) trace_->push_back("begin " + name_);
    tasks_.push_back(std::move(task));
    return true;
  }
  bool RunOne() {
    if (tasks_.empty()) return false;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    std::move(task)();
    return true;
  }
  bool refuses = false;

 private:
  const std::string name_;
  Trace* const trace_;
  std::deque<Task> tasks_;
};

class RecordingPublisher : public Publisher {
 public:
  explicit RecordingPublisher(Trace* trace) : trace_(trace) {}
  void SeedRequested(const LiveJob& job, const RequestSeed& request) override {
    trace_->push_back("ask " + request.pool + " for the seed");
  }
  void CommitPublished(const LiveJob& job, const PublishCommit& commit) override {
    EXPECT_EQ(job.progress.commit(commit.fragment)->version, commit.version);
    trace_->push_back(absl::StrCat("publish ", job.id(), " version ", commit.version));
  }
  void PoolReleased(const LiveJob& job, const ReleasePool& release) override {
    trace_->push_back("release " + release.pool);
    if (on_release) std::exchange(on_release, nullptr)();
  }
  void JobEnded(const LiveJob& job, const EndJob& end) override {
    trace_->push_back(absl::StrCat("end ", job.id(), " ", JobStateName(end.state)));
  }
  void JobChanged(const LiveJob& job) override { ++changes; }
  void JobForgotten(const LiveJob& job) override { trace_->push_back("forget " + job.id()); }
  std::string StatusOf(const LiveJob& job, const std::optional<JobFault>& fault) override {
    return absl::StrCat("status ", job.record.state, fault.has_value() ? fault->message : "");
  }
  std::function<void()> on_release;
  int changes = 0;

 private:
  Trace* const trace_;
};

// Nobody streams here.
class NoArbiter : public Arbiter {
 public:
  absl::Status Judge(const ContributionId&) const override { return absl::OkStatus(); }
  absl::Status CheckReader(const std::string&, const std::string&,
                           const std::string&) const override {
    return absl::OkStatus();
  }
  absl::Status Complete(const ContributionId&) override { return absl::OkStatus(); }
  void StoreFailed(const std::string&, const absl::Status&) override {}
};

class PerformerTest : public testing::Test {
 protected:
  static constexpr int64_t kElements = 200, kBlocks = 2;

  PerformerTest() {
    EXPECT_TRUE(CreateDirs(disk_, JobsFolder("data")).ok());
    Restart();
  }

  // A new process: what the database has.
  void Restart() {
    performer_.reset();
    fragments_ =
        std::make_unique<Fragments>(Fragments::Options{.data_dir = "data", .tile_threads = 1},
                                    Fragments::Parts{.fs = &disk_,
                                                     .arbiter = &arbiter_,
                                                     .apply = &apply_,
                                                     .background = &background_,
                                                     .metrics = &fragment_metrics_,
                                                     .log = &log_});
    absl::StatusOr<RecoveredState> recovered = RecoverState(*meta_, log_);
    ASSERT_TRUE(recovered.ok()) << recovered.status();
    performer_ = std::make_unique<Performer>(
        PerformerOptions{.core = {.lease = absl::Seconds(10)},
                         .linger = absl::Seconds(60),
                         .on_fatal = [this](const absl::Status&) { ++fatal_; }},
        PerformerParts{.meta = meta_.get(),
                       .records = &records_,
                       .fragments = fragments_.get(),
                       .publisher = &publisher_,
                       .owner = &owner_,
                       .now = [this] { return now_; },
                       .job_id = [this] { return absl::StrCat("id", ++ids_); },
                       .metrics = &effect_metrics_,
                       .log = &log_},
        *std::move(recovered));
    performer_->Start();
  }

  static ResolvedJob Spec(const std::string& name, int pools_min = 1, int64_t steps = 60) {
    v1::JobSpec spec;
    spec.set_name(name);
    spec.mutable_model()->mutable_synthetic()->set_units(1);
    spec.mutable_model()->mutable_synthetic()->set_elements(kElements);
    spec.mutable_train()->set_steps(steps);
    spec.mutable_pools()->set_min(pools_min);
    const absl::StatusOr<ResolvedJob> resolved = ResolveJobSpec(spec);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    return *resolved;
  }
  std::string Submit(const std::string& name, int pools_min = 1) {
    const absl::StatusOr<Submitted> submitted = performer_->Submit(Spec(name, pools_min), "");
    EXPECT_TRUE(submitted.ok()) << submitted.status();
    return submitted->job;
  }
  void Step(const Event& event) {
    performer_->Step(event, [this](const std::optional<Answer>& answer) {
      answer_ = answer;
      trace_.push_back("answer " + Words(answer));
    });
  }
  // With what the jobs here need.
  void Join(const std::string& pool) {
    const std::vector<std::string> needs = NeedsOf(Spec("any").spec);
    Step(JoinPool{pool, "1", 1, false, {needs.begin(), needs.end()}});
  }
  // Runs what is under way, and what follows, to its end.
  void Crank() {
    while (background_.RunOne() || apply_.RunOne() || owner_.RunOne()) {
    }
  }
  Trace Taken() { return std::exchange(trace_, {}); }
  void Pass(absl::Duration duration) {
    now_ += duration;
    performer_->Tick();
  }

  // Zeros, whole and in the log.
  void Push(const std::string& id, const std::string& pool, int64_t version, RoundKind kind) {
    const std::shared_ptr<JobFragments> job = performer_->Find(id)->fragments;
    ASSERT_NE(job->store(), nullptr);
    const Codec& codec = job->CodecFor(kind);
    const std::vector<float> zeros(kElements);
    std::vector<uint8_t> bytes(codec.PayloadBytes(kElements));
    const int32_t exponent = codec.Encode({zeros}, {}, absl::MakeSpan(bytes))->base_exponent;
    PartIntake intake(job, {0, version, pool, "1"}, kind);
    const CodedChunk chunk{.segments = {{0, kElements, exponent}},
                           .pieces = {bytes},
                           .payload_bytes = static_cast<int64_t>(bytes.size())};
    ASSERT_TRUE(intake.Take(chunk).ok());
    ASSERT_TRUE(intake.Finish().ok());
    Step(ContributionComplete{id, pool, "1", 0, version, kind});
  }
  // A job of pools a and b, RUNNING at version 0; pool a has contributed to version 1, b owes it.
  std::string RunPair() {
    const std::string id = Submit("pair", 2);
    for (const char* pool : {"a", "b"}) Join(pool);
    for (const char* pool : {"a", "b"}) Step(RankReady{id, pool, "1", 0});
    Crank();
    Push(id, "a", 0, RoundKind::kSeed);
    Crank();
    Push(id, "a", 1, RoundKind::kOuter);
    Taken();
    return id;
  }
  static Heartbeat Failing(const std::string& job, const std::string& pool) {
    Heartbeat heartbeat{pool, "1", job};
    heartbeat.fault = JobFault{.code = "NOT_FOUND", .message = "no data", .field = "data"};
    return heartbeat;
  }

  static absl::Status Full() { return absl::ResourceExhaustedError("no space left"); }

  Trace trace_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
  std::optional<Answer> answer_;
  int fatal_ = 0, ids_ = 0;
  std::ostringstream log_text_;
  Logger log_{{.format = LogFormat::kText, .stream = &log_text_}};
  MetricRegistry registry_;
  FragmentMetrics fragment_metrics_{registry_};
  EffectMetrics effect_metrics_{registry_};
  MemoryFileSystem disk_;
  std::unique_ptr<MetaStore> meta_ = *MetaStore::Open(":memory:");
  Records records_{meta_.get(), &trace_};
  HandCrank owner_{"", &trace_}, apply_{"apply", &trace_}, background_{"background", &trace_};
  RecordingPublisher publisher_{&trace_};
  NoArbiter arbiter_;
  std::unique_ptr<Fragments> fragments_;
  std::unique_ptr<Performer> performer_;
};

// --- Order.

TEST_F(PerformerTest, RecordsThenTheAnswerThenNoticesThenWorks) {
  const std::string id = RunPair();
  // Without b, round 1 has all that it waits for.
  Step(Failing(id, "b"));
  EXPECT_EQ(Taken(),
            (Trace{"store id1 place of b gone", "answer lease b", "release b", "begin apply"}));
}

TEST_F(PerformerTest, AJobsWayToItsFirstCommits) {
  const std::string id = Submit("job");
  EXPECT_EQ(Taken(), Trace{"store new job"});
  Join("a");
  EXPECT_EQ(Taken(), (Trace{"store id1 place of a", "answer lease a"}));
  Step(RankReady{id, "a", "1", 0});
  EXPECT_EQ(Taken(), (Trace{"store id1 place of a ready, id1 SEEDING", "answer admit a",
                            "begin background"}));
  Crank();
  EXPECT_EQ(Taken(), Trace{"ask a for the seed"});
  Push(id, "a", 0, RoundKind::kSeed);
  EXPECT_EQ(Taken(), (Trace{"answer nothing", "begin apply"}));
  apply_.RunOne();
  EXPECT_EQ(Taken(), Trace{"begin background"}) << "durable, and a snapshot is looked at; not told";
  owner_.RunOne();
  EXPECT_EQ(Taken(), (Trace{"store id1 RUNNING", "publish id1 version 0"}));
  EXPECT_EQ(performer_->View(id)->fragments[0].version, 0);
  EXPECT_EQ(performer_->Find(id)->record.started, now_);
  EXPECT_EQ(performer_->jobs_by_state().at(static_cast<int>(JobState::kRunning)), 1);
  EXPECT_EQ(performer_->jobs_by_state().at(static_cast<int>(JobState::kPending)), 0);
  EXPECT_EQ(meta_->GetJob(id)->status, "status 3") << "the report that is kept is of that state";
}

TEST_F(PerformerTest, AStepTakenFromAPublishersCallWaitsItsTurn) {
  const std::string id = RunPair();
  publisher_.on_release = [this, id] {
    Step(CancelJob{id, "enough"});
    trace_.push_back("the call returns");
  };
  Step(Failing(id, "b"));
  EXPECT_EQ(Taken(), (Trace{"store id1 place of b gone", "answer lease b", "release b",
                            "the call returns", "begin apply", "store id1 CANCELLED",
                            "answer nothing", "begin background", "end id1 CANCELLED"}));
}

TEST_F(PerformerTest, WhatAWorkEndedWithIsDroppedWhenTheJobIsForgotten) {
  const std::string id = RunPair();
  Step(Failing(id, "b"));
  Step(CancelJob{id});
  Pass(absl::Seconds(61));
  Taken();
  Crank();
  EXPECT_EQ(Taken(), Trace{"begin background"}) << "a snapshot of the commit";
}

TEST_F(PerformerTest, AWorkThatIsRefusedForTooMuchThatWaitsIsBegunAgain) {
  const std::string id = Submit("job");
  Join("a");
  background_.refuses = true;
  Step(RankReady{id, "a", "1", 0});
  Crank();
  EXPECT_NE(performer_->View(id)->waiting->what.find("too much waits"), std::string::npos);
  background_.refuses = false;
  Taken();
  Pass(absl::Seconds(1));
  Crank();
  const Trace taken = Taken();
  EXPECT_EQ(std::count(taken.begin(), taken.end(), "ask a for the seed"), 1);
}

TEST_F(PerformerTest, AStoreThatCannotBeOpenedQuarantinesItsJobAlone) {
  const std::string id = RunPair();
  const std::string manifest = JobFolder("data", id) + "/manifest";
  ASSERT_TRUE((*disk_.Open(manifest))->WriteAt(20, "damage").ok());
  Restart();
  Crank();
  EXPECT_EQ(performer_->View(id)->state, JobState::kQuarantined);
  EXPECT_EQ(performer_->Find(id)->state(), JobState::kQuarantined);
  EXPECT_EQ(performer_->Find(id)->record.state, static_cast<int>(JobState::kRunning))
      << "it is not stored: the next start tries again";
  EXPECT_TRUE(performer_->health().ok());
  Submit("another");
  EXPECT_EQ(fatal_, 0);
}

// --- A full disk.

TEST_F(PerformerTest, AFullDiskHoldsDecisionsUpInTheirOrder) {
  const std::string id = RunPair();
  records_.Refuse(Full());
  Step(Failing(id, "b"));
  EXPECT_EQ(Taken(), Trace()) << "nothing of it is said";
  EXPECT_TRUE(absl::IsResourceExhausted(performer_->health()));
  EXPECT_NE(performer_->health().message().find("no space left"), std::string::npos);
  Step(CancelJob{id});
  Pass(absl::Seconds(1));
  EXPECT_EQ(meta_->GetJob(id)->state, static_cast<int>(JobState::kRunning));
  const Trace before = Taken();
  EXPECT_TRUE(before == Trace{"store id1 counters"} || before.empty());
  records_.Refuse(absl::OkStatus());
  performer_->Tick();
  EXPECT_EQ(Taken(), (Trace{"store id1 place of b gone", "answer lease b", "release b",
                            "begin apply", "store id1 CANCELLED", "answer nothing",
                            "begin background", "end id1 CANCELLED"}));
  EXPECT_TRUE(performer_->health().ok());
}

TEST_F(PerformerTest, OnAFullDiskAJoinIsRefusedAtOnce) {
  const std::string id = RunPair();
  records_.Refuse(Full());
  Step(Failing(id, "b"));
  Join("c");
  ASSERT_EQ(Taken(), Trace{"answer refuse DISK_FULL"});
  const Refuse refuse = std::get<Refuse>(*answer_);
  EXPECT_TRUE(absl::IsResourceExhausted(refuse.status));
  EXPECT_TRUE(RetryDelayOf(refuse.status).has_value());
  EXPECT_EQ(performer_->Pools().size(), 2u) << "nothing was decided about it";
  records_.Refuse(absl::OkStatus());
  performer_->Tick();
  Taken();
  Join("c");
  EXPECT_EQ(Words(answer_), "lease c");
}

TEST_F(PerformerTest, OnAFullDiskAHeartbeatExtendsTheLeaseAndIsToBeRepeated) {
  const std::string id = RunPair();
  records_.Refuse(Full());
  Step(Failing(id, "b"));
  now_ += absl::Seconds(3);
  Step(Heartbeat{"a", "1", id, 40});
  EXPECT_EQ(Taken(), Trace{"answer refuse DISK_FULL"});
  const Refuse refuse = std::get<Refuse>(*answer_);
  EXPECT_TRUE(absl::IsResourceExhausted(refuse.status));
  EXPECT_GT(refuse.retry_after, absl::ZeroDuration());
  EXPECT_EQ(performer_->Pools()[0].lease_end, now_ + absl::Seconds(10));
  EXPECT_EQ(performer_->View(id)->participants[0].inner_step, 40);
}

TEST_F(PerformerTest, OnAFullDiskASubmitStoresNothing) {
  records_.Refuse(Full());
  const absl::Status first = performer_->Submit(Spec("job"), "once").status();
  EXPECT_TRUE(absl::IsResourceExhausted(first)) << first;
  EXPECT_TRUE(RetryDelayOf(first).has_value());
  EXPECT_TRUE(absl::IsNotFound(meta_->GetJob("job").status()));
  EXPECT_TRUE(performer_->All().empty());
  EXPECT_TRUE(performer_->jobs_by_state().empty());
  EXPECT_TRUE(performer_->health().ok()) << "no decision waits";
  records_.Refuse(absl::OkStatus());
  EXPECT_TRUE(performer_->Submit(Spec("job"), "once")->created);
}

TEST_F(PerformerTest, WhileDecisionsWaitForTheDiskNoJobIsTaken) {
  const std::string id = RunPair();
  records_.Refuse(Full());
  Step(Failing(id, "b"));
  const absl::Status refused = performer_->Submit(Spec("job"), "").status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_TRUE(RetryDelayOf(refused).has_value());
  // What is there already is found all the same.
  EXPECT_EQ(performer_->Submit(Spec("pair", 2), "")->job, id);
  EXPECT_EQ(Taken(), Trace());
}

// --- A failed disk.

TEST_F(PerformerTest, AFatalErrorHaltsOnce) {
  const std::string id = RunPair();
  records_.Refuse(MarkFatal(absl::DataLossError("input/output error")));
  Step(Failing(id, "b"));
  EXPECT_EQ(Taken(), Trace{"answer refuse HALTED"});
  EXPECT_TRUE(performer_->halted());
  EXPECT_TRUE(absl::IsUnavailable(performer_->health()));
  EXPECT_EQ(fatal_, 1);
  records_.Refuse(absl::OkStatus());
  Step(Heartbeat{"a", "1"});
  EXPECT_EQ(Taken(), Trace{"answer refuse HALTED"});
  EXPECT_TRUE(absl::IsUnavailable(performer_->Submit(Spec("job"), "").status()));
  EXPECT_TRUE(absl::IsUnavailable(performer_->Judge({id, "a", "1", 0, 1})));
  Pass(absl::Seconds(2));
  Crank();
  performer_->Note(MarkFatal(absl::DataLossError("again")));
  EXPECT_EQ(Taken(), Trace());
  EXPECT_EQ(fatal_, 1);
}

TEST_F(PerformerTest, ARecordThatTheDatabaseDoesNotTakeHalts) {
  const std::string id = RunPair();
  records_.Refuse(absl::NotFoundError("no such job"));
  Step(Failing(id, "b"));
  EXPECT_EQ(Words(answer_), "refuse HALTED");
  EXPECT_EQ(fatal_, 1);
}

TEST_F(PerformerTest, AFatalErrorAnswersWhatWaitedForTheDisk) {
  const std::string id = RunPair();
  records_.Refuse(Full());
  Step(Failing(id, "b"));
  Step(CancelJob{id});
  records_.Refuse(MarkFatal(absl::DataLossError("input/output error")));
  performer_->Tick();
  EXPECT_EQ(Taken(), (Trace{"answer refuse HALTED", "answer refuse HALTED"}));
}

TEST_F(PerformerTest, AFatalErrorElsewhereAnswersWhatWaitedForTheDisk) {
  const std::string id = RunPair();
  records_.Refuse(Full());
  Step(Failing(id, "b"));
  performer_->Note(MarkFatal(absl::DataLossError("input/output error")));
  performer_->Tick();
  EXPECT_EQ(Taken(), Trace{"answer refuse HALTED"});
  EXPECT_EQ(fatal_, 1);
}

TEST_F(PerformerTest, AFatalErrorWhileAJobIsStoredHalts) {
  records_.Refuse(MarkFatal(absl::DataLossError("input/output error")));
  EXPECT_TRUE(absl::IsDataLoss(performer_->Submit(Spec("job"), "").status()));
  EXPECT_TRUE(performer_->halted());
  EXPECT_EQ(fatal_, 1);
}

// --- Submit.

TEST_F(PerformerTest, ARepeatedSubmissionFindsItsJob) {
  const absl::StatusOr<Submitted> first = performer_->Submit(Spec("job"), "token");
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(first->created);
  for (const char* token : {"token", "", "another"}) {
    const absl::StatusOr<Submitted> again = performer_->Submit(Spec("job"), token);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->job, first->job);
    EXPECT_FALSE(again->created);
  }
  EXPECT_EQ(performer_->All().size(), 1u);
}

TEST_F(PerformerTest, ATokenThatCameWithAnotherSpecIsTaken) {
  const std::string id = performer_->Submit(Spec("job"), "token")->job;
  const absl::Status taken = performer_->Submit(Spec("other"), "token").status();
  EXPECT_TRUE(absl::IsAlreadyExists(taken));
  EXPECT_EQ(ErrorInfoOf(taken), (ErrorDetail{"TOKEN_TAKEN", {{"job", id}}}));
  EXPECT_TRUE(absl::IsNotFound(meta_->GetJob("other").status()));
}

TEST_F(PerformerTest, ANameWithAnotherSpecOrOfAJobThatDidNotCompleteIsTaken) {
  const std::string id = Submit("job");
  const ErrorDetail detail{"NAME_TAKEN", {{"job", id}}};
  EXPECT_EQ(ErrorInfoOf(performer_->Submit(Spec("job", 1, 61), "").status()), detail);
  Step(CancelJob{id});
  const absl::Status cancelled = performer_->Submit(Spec("job"), "").status();
  EXPECT_EQ(ErrorInfoOf(cancelled), detail);
  EXPECT_NE(cancelled.message().find("CANCELLED"), std::string::npos);
  Pass(absl::Seconds(61));
  EXPECT_EQ(ErrorInfoOf(performer_->Submit(Spec("job"), "").status()), detail)
      << "forgotten, stored";
}

// --- Counters, the end of jobs.

TEST_F(PerformerTest, CountersAreStoredTogetherAndOnlyWhenTheyChanged) {
  Submit("one");
  Submit("two");
  Taken();
  performer_->SaveCounters();
  EXPECT_EQ(Taken(), Trace{"store id1 counters, id2 counters"});
  performer_->SaveCounters();
  EXPECT_EQ(Taken(), Trace());
  performer_->Find("id2")->fragments->bytes_up().Add({.payload = 10, .total = 20});
  records_.counters_refusal = Full();
  performer_->SaveCounters();
  EXPECT_EQ(Taken(), Trace());
  EXPECT_EQ(fatal_, 0);
  records_.counters_refusal = absl::OkStatus();
  Pass(absl::Seconds(1));
  EXPECT_EQ(Taken(), Trace{"store id2 counters"});
  Pass(absl::Milliseconds(200));
  performer_->Find("id2")->fragments->bytes_up().Add({.payload = 1, .total = 1});
  Pass(absl::Milliseconds(200));
  EXPECT_EQ(Taken(), Trace()) << "once a second";
  Restart();
  EXPECT_EQ(performer_->Find("id2")->fragments->bytes_up().Value().total, 20);
}

TEST_F(PerformerTest, AFatalErrorWhileCountersAreStoredHalts) {
  Submit("job");
  records_.counters_refusal = MarkFatal(absl::DataLossError("input/output error"));
  performer_->SaveCounters();
  EXPECT_EQ(fatal_, 1);
}

TEST_F(PerformerTest, AnEndedJobIsForgottenAfterAWhile) {
  const std::string id = RunPair();
  Step(CancelJob{id});
  EXPECT_EQ(Taken(), (Trace{"store id1 CANCELLED", "answer nothing", "begin background",
                            "end id1 CANCELLED"}));
  Pass(absl::Seconds(59));
  ASSERT_NE(performer_->Find(id), nullptr);
  EXPECT_NE(fragments_->Find(id), nullptr) << "its last commits can be pulled";
  EXPECT_FALSE(performer_->View(id).has_value());
  Taken();
  Pass(absl::Seconds(1));
  const Trace taken = Taken();
  EXPECT_EQ(std::count(taken.begin(), taken.end(), "forget id1"), 1);
  EXPECT_EQ(performer_->Find(id), nullptr);
  EXPECT_EQ(fragments_->Find(id), nullptr);
  EXPECT_EQ(meta_->GetJob(id)->ended, absl::FromUnixSeconds(1000));
  EXPECT_EQ(performer_->jobs_by_state().at(static_cast<int>(JobState::kCancelled)), 1);
}

// --- Recovery.

class PerformerRecoveryTest : public PerformerTest {
 protected:
  void Store(const std::string& name, const std::string& spec,
             const std::vector<ParticipantRecord>& places = {}) {
    JobRecord record{.id = name,
                     .name = name,
                     .state = static_cast<int>(JobState::kPending),
                     .spec = spec,
                     .created = now_};
    ASSERT_TRUE(meta_->Commit({NewJob{record}}).ok());
    for (ParticipantRecord place : places) {
      place.job_id = name;
      ASSERT_TRUE(meta_->Commit({place}).ok());
    }
  }
  void Store(const std::string& name, const std::vector<ParticipantRecord>& places = {}) {
    Store(name, Spec(name).spec.SerializeAsString(), places);
  }
  std::string ReasonOf(const std::string& id) {
    const std::optional<JobView> view = performer_->View(id);
    if (!view.has_value() || view->state != JobState::kQuarantined) return "";
    EXPECT_EQ(performer_->Find(id)->state(), JobState::kQuarantined);
    EXPECT_EQ(performer_->Find(id)->quarantine->message, view->fault->message);
    return view->fault->message;
  }
};

TEST_F(PerformerRecoveryTest, AJobWhoseRecordsCannotBeUsedIsQuarantinedAndOthersGoOn) {
  v1::JobSpec refused = Spec("refused").spec;
  refused.mutable_train()->set_steps(-1);
  Store("bytes", "\xff\xff");
  Store("refused", refused.SerializeAsString());
  Store("gap", {{.pool = "a", .incarnation = "1", .ordinal = 1}});
  Store("twice", {{.pool = "a", .incarnation = "1", .ordinal = 0},
                  {.pool = "a", .incarnation = "2", .ordinal = 1}});
  Store("whole");
  Restart();
  EXPECT_NE(ReasonOf("bytes").find("damaged"), std::string::npos);
  EXPECT_NE(ReasonOf("refused").find("steps"), std::string::npos);
  EXPECT_NE(ReasonOf("gap").find("place 0 is missing"), std::string::npos);
  EXPECT_NE(ReasonOf("twice").find("two places"), std::string::npos);
  EXPECT_EQ(ReasonOf("whole"), "");
  Taken();
  Join("a");
  EXPECT_EQ(Taken(), (Trace{"store whole place of a", "answer lease a"}));
  performer_->SaveCounters();
  EXPECT_EQ(Taken(), Trace{"store whole counters"});
}

TEST_F(PerformerRecoveryTest, AQuarantinedJobCanBeCancelledAndRefusesItsPools) {
  Store("bytes", "\xff\xff", {{.pool = "a", .incarnation = "1", .ordinal = 0}});
  Restart();
  Join("a");
  EXPECT_FALSE(std::get<GrantLease>(*answer_).assignment.has_value());
  Step(RankReady{"bytes", "a", "1", 0});
  EXPECT_EQ(Words(answer_), "refuse JOB_QUARANTINED");
  EXPECT_EQ(ErrorInfoOf(performer_->Judge({"bytes", "a", "1", 0, 1}))->reason, "JOB_QUARANTINED");
  Taken();
  Step(CancelJob{"bytes", "no use"});
  EXPECT_EQ(Taken(), (Trace{"store bytes CANCELLED", "answer nothing", "end bytes CANCELLED"}));
  EXPECT_EQ(meta_->GetJob("bytes")->state, static_cast<int>(JobState::kCancelled));
  EXPECT_EQ(performer_->Find("bytes")->state(), JobState::kCancelled);
  Pass(absl::Seconds(61));
  EXPECT_EQ(performer_->Find("bytes"), nullptr);
}

TEST_F(PerformerRecoveryTest, AJobGoesOnWhereItWas) {
  const std::string id = RunPair();
  Heartbeat evaluated{"a", "1", id, 5};
  evaluated.evaluations = {{.step = 4, .version = 0, .loss = 2.5}};
  Step(evaluated);
  v1::PoolProgress told;
  told.set_inner_step(5);
  told.set_tokens(50);
  performer_->Find(id)->progress.Report("a", "1", 0, told);
  performer_->SaveCounters();
  Restart();
  EXPECT_EQ(performer_->Find(id)->progress.EvaluationLoss().first(), 2.5);
  EXPECT_EQ(performer_->Find(id)->progress.pools().at("a").Total().tokens(), 50);
  EXPECT_EQ(performer_->View(id)->participants.size(), 2u);
  EXPECT_EQ(ErrorInfoOf(performer_->Judge({id, "b", "1", 0, 1}))->reason, "STORE_OPENING");
  Crank();
  const JobView view = *performer_->View(id);
  EXPECT_EQ(view.state, JobState::kRunning);
  EXPECT_EQ(view.fragments[0].version, 0);
  EXPECT_EQ(view.fragments[0].contributors, std::vector<int>{0}) << "it lies in the log";
  EXPECT_EQ(performer_->Find(id)->progress.commit(0)->version, 0);
  Join("b");
  Push(id, "b", 1, RoundKind::kOuter);
  Taken();
  Crank();
  const Trace taken = Taken();
  EXPECT_EQ(std::count(taken.begin(), taken.end(), "publish id1 version 1"), 1);
}

}  // namespace
}  // namespace longhaul::coordinator
