// The performer over a database and a disk in memory. One trace shows everything that it tells and
// begins.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "common/config/capabilities.h"
#include "common/io/file_util.h"
#include "coordinator/effects/performer.h"
#include "coordinator/fragments/part_intake.h"
#include "coordinator/store/data_folder.h"
#include "tests/testing/failing_filesystem.h"
#include "tests/testing/hand_crank.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/unit/coordinator/fragments/willing_arbiter.h"

namespace longhaul::coordinator {
using Trace = std::vector<std::string>;

inline std::string Words(const MetaRecord& record) {
  if (const auto* job = std::get_if<NewJob>(&record)) return "new " + job->job.name;
  if (const auto* update = std::get_if<JobUpdate>(&record))
    return absl::StrCat(update->job_id, " ", JobStateName(update->state));
  if (const auto* place = std::get_if<ParticipantRecord>(&record)) {
    return absl::StrCat(place->job_id, " place of ", place->pool,
                        place->left                     ? " gone"
                        : place->start_step.has_value() ? " ready"
                                                        : "");
  }
  if (const auto* pause = std::get_if<PauseRecord>(&record))
    return absl::StrCat(pause->job_id, " pause ", static_cast<int>(pause->stage), pause->report);
  if (const auto* cleaned = std::get_if<CleanedUpJob>(&record))
    return cleaned->job_id + " is cleaned up";
  if (const auto* counters = std::get_if<JobCounters>(&record))
    return counters->job_id + " counters";
  return "evaluation";
}

inline std::string Words(const std::optional<Answer>& answer) {
  if (!answer.has_value()) return "nothing";
  if (const auto* refuse = std::get_if<Refuse>(&*answer)) return "refuse " + refuse->reason;
  if (const auto* grant = std::get_if<GrantLease>(&*answer)) return "lease " + grant->pool;
  return "admit " + std::get<AdmitRank>(*answer).pool;
}

// A database that can refuse writes, or fail.
class Records : public MetaLog {
 public:
  Records(MetaStore* meta, Trace* trace) : meta_(meta), trace_(trace) {}
  absl::Status Commit(absl::Span<const MetaRecord> records) override {
    if (refuses_while_ && !refuses_while_().ok()) return refuses_while_();
    const bool counters = std::holds_alternative<JobCounters>(records[0]) ||
                          std::holds_alternative<EventRecord>(records[0]) ||
                          std::holds_alternative<RunTime>(records[0]);
    if (const absl::Status& refusal = counters ? counters_refusal : refusal_; !refusal.ok())
      return refusal;
    const absl::Status written = meta_->Commit(records);
    if (!written.ok()) return written;
    // Nothing here depends on events and time.
    std::vector<std::string> words;
    for (const MetaRecord& record : records) {
      const bool shown =
          !std::holds_alternative<EventRecord>(record) && !std::holds_alternative<RunTime>(record);
      if (shown) words.push_back(Words(record));
    }
    if (!words.empty()) trace_->push_back("store " + absl::StrJoin(words, ", "));
    return absl::OkStatus();
  }
  // Writes of everything but counters fail with this status.
  void Refuse(const absl::Status& status) { refusal_ = status; }
  void RefuseWhile(std::function<absl::Status()> refuses) { refuses_while_ = std::move(refuses); }
  absl::Status counters_refusal;

 private:
  MetaStore* const meta_;
  Trace* const trace_;
  absl::Status refusal_;
  std::function<absl::Status()> refuses_while_;
};

// Adds every task that it gets to the trace.
class TracedCrank : public HandCrank {
 public:
  TracedCrank(std::string name, Trace* trace) : name_(std::move(name)), trace_(trace) {}
  bool Submit(Task task) override {
    if (!HandCrank::Submit(std::move(task))) return false;
    trace_->push_back("begin " + name_);
    return true;
  }

 private:
  const std::string name_;
  Trace* const trace_;
};

class RecordingPublisher : public Publisher {
 public:
  explicit RecordingPublisher(Trace* trace) : trace_(trace) {}
  void SeedRequested(const LiveJob& job, const RequestSeed& request) override {
    trace_->push_back("ask " + request.pool + " for the seed");
  }
  void CommitPublished(const LiveJob& job, const PublishCommit& commit) override {
    EXPECT_EQ(job.progress.commit(commit.round.fragment)->round.version, commit.round.version);
    trace_->push_back(absl::StrCat("publish ", job.id(), " version ", commit.round.version));
  }
  void RoundCalled(const LiveJob& job, const CallRound& call) override {
    trace_->push_back(absl::StrCat("call ", job.id(), " version ", call.round.version));
  }
  void PoolReleased(const LiveJob& job, const ReleasePool& release) override {
    trace_->push_back("release " + release.pool);
    if (on_release) std::exchange(on_release, nullptr)();
  }
  void JobEnded(const LiveJob& job, const EndJob& end) override {
    trace_->push_back(absl::StrCat("end ", job.id(), " ", JobStateName(end.state)));
  }
  void JobChanged(const LiveJob& job) override { ++changes; }
  std::string StatusOf(const LiveJob& job, const JobRecord& record,
                       const std::optional<JobFault>& fault) override {
    if (status_of) return status_of(job, record, fault);
    return absl::StrCat("status ", static_cast<int>(record.state),
                        fault.has_value() ? fault->message : "");
  }
  std::function<std::string(const LiveJob&, const JobRecord&, const std::optional<JobFault>&)>
      status_of;
  std::function<void()> on_release;
  int changes = 0;

 private:
  Trace* const trace_;
};

class PerformerTest : public testing::Test {
 protected:
  static constexpr int64_t kElements = 200, kBlocks = 2;

  PerformerTest() {
    EXPECT_TRUE(CreateDirs(disk_, JobsFolder("data")).ok());
    Restart();
  }

  // Starts a new process, which knows only what the database has.
  void Restart() {
    performer_.reset();
    // Waiting tasks are lost with the process.
    owner_.DropAll();
    apply_.DropAll();
    background_.DropAll();
    track_.DropAll();
    fragments_ =
        std::make_unique<Fragments>(Fragments::Options{.data_dir = "data", .tile_threads = 1},
                                    Fragments::Parts{.fs = &files_,
                                                     .arbiter = &arbiter_,
                                                     .apply = &apply_,
                                                     .opening = &background_,
                                                     .background = &background_,
                                                     .metrics = &fragment_metrics_,
                                                     .log = &log_});
    absl::StatusOr<RecoveredState> recovered = RecoverState(*meta_, log_);
    ASSERT_TRUE(recovered.ok()) << recovered.status();
    tracker_ = std::make_unique<Tracker>(&disk_, &track_, log_);
    tracks_ = std::make_unique<JobTracks>(tracker_.get(), "data");
    performer_ = std::make_unique<Performer>(
        PerformerOptions{.core = {.lease = absl::Seconds(10), .memory = memory_},
                         .ended_job_keep = keep_,
                         .on_expired = [this](const std::string& id) { expired_.push_back(id); },
                         .on_fatal = [this](const absl::Status&) { ++fatal_; }},
        PerformerParts{.meta = meta_.get(),
                       .records = &records_,
                       .fragments = fragments_.get(),
                       .publisher = &publisher_,
                       .owner = &owner_,
                       .now = [this] { return now_; },
                       .job_id = [this] { return absl::StrCat("id", ++ids_); },
                       .metrics = &effect_metrics_,
                       .tracks = tracks_.get(),
                       .ballast = &ballast_,
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
  // The pool has everything that the jobs here need.
  void Join(const std::string& pool) {
    const std::vector<std::string> needs = NeedsOf(Spec("any").spec);
    JoinPool join{pool, incarnation_, 1, false, {needs.begin(), needs.end()}};
    join.replaces = "1";
    Step(join);
  }
  // Runs all tasks, and those that follow, to their end.
  void Crank() {
    while (background_.RunOne() || apply_.RunOne() || owner_.RunOne()) {
    }
  }
  Trace Taken() { return std::exchange(trace_, {}); }
  void Pass(absl::Duration duration) {
    now_ += duration;
    performer_->PassTime();
  }

  // Writes zeros to the log as a complete contribution.
  void Push(const std::string& id, const std::string& pool, int64_t version, RoundKind kind) {
    const std::shared_ptr<JobFragments> job = performer_->Find(id)->fragments;
    ASSERT_NE(job->store(), nullptr);
    const Codec& codec = job->CodecFor(kind);
    const std::vector<float> zeros(kElements);
    std::vector<uint8_t> bytes(codec.PayloadBytes(kElements));
    const int32_t exponent = codec.Encode({zeros}, {}, absl::MakeSpan(bytes))->base_exponent;
    PartIntake intake(job, job->store(), {{0, version, kind}, pool, incarnation_});
    const CodedChunk chunk{.segments = {{0, kElements, exponent}},
                           .pieces = {bytes},
                           .payload_bytes = static_cast<int64_t>(bytes.size())};
    ASSERT_TRUE(intake.Take(chunk).ok());
    ASSERT_TRUE(intake.Finish().ok());
    Step(ContributionComplete{{id, pool, incarnation_, {0, version, kind}}});
  }
  // A job of pools a and b, RUNNING at version 0. Pool a has contributed to version 1; b owes it.
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

  static Heartbeat Evaluated(const std::string& job, const std::string& pool) {
    Heartbeat heartbeat{pool, "1", job, 4};
    heartbeat.evaluations = {{.step = 4, .version = 0, .loss = 2.5}};
    return heartbeat;
  }

  static absl::Status Full() { return absl::ResourceExhaustedError("no space left"); }

  Trace trace_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
  // Of every pool.
  std::string incarnation_ = "1";
  std::optional<Answer> answer_;
  int fatal_ = 0, ids_ = 0;
  // From the next restart on.
  absl::Duration keep_ = absl::InfiniteDuration();
  int64_t memory_ = std::numeric_limits<int64_t>::max();
  std::vector<std::string> expired_;
  std::ostringstream log_text_;
  Logger log_{{.format = LogFormat::kText, .stream = &log_text_}};
  MetricRegistry registry_;
  FragmentMetrics fragment_metrics_{registry_};
  EffectMetrics effect_metrics_{registry_};
  MemoryFileSystem disk_;
  FailingFileSystem files_{&disk_};
  Ballast ballast_{&disk_, BallastPath("data")};
  std::unique_ptr<MetaStore> meta_ = *MetaStore::Open(":memory:");
  Records records_{meta_.get(), &trace_};
  HandCrank owner_;
  TracedCrank apply_{"apply", &trace_}, background_{"background", &trace_};
  RecordingPublisher publisher_{&trace_};
  // There are no streams here.
  WillingArbiter arbiter_;
  std::unique_ptr<Fragments> fragments_;
  HandCrank track_;
  std::unique_ptr<Tracker> tracker_;
  std::unique_ptr<JobTracks> tracks_;
  std::unique_ptr<Performer> performer_;
};

}  // namespace longhaul::coordinator
