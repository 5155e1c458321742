#include "coordinator/service/recovery.h"

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/config/job_spec.h"
#include "common/io/file_util.h"
#include "common/blocks/coded_blocks.h"
#include "coordinator/service/messages.h"

namespace longhaul::coordinator {
namespace {

constexpr int kPage = 256;

absl::Status Annotate(const absl::Status& status, const std::string& job) {
  absl::Status annotated(status.code(),
                         absl::StrCat("recovering job ", job, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  return annotated;
}

// Oldest first.
absl::StatusOr<std::vector<JobRecord>> LiveRecords(MetaStore& meta, std::vector<int>* by_state) {
  std::vector<JobRecord> live;
  int64_t before = std::numeric_limits<int64_t>::max();
  while (true) {
    LH_ASSIGN_OR_RETURN(std::vector<JobRecord> page, meta.ListJobs(before, kPage));
    for (JobRecord& record : page) {
      before = record.order;
      if (v1::JobState_IsValid(record.state)) ++(*by_state)[record.state];
      if (record.ended == absl::InfinitePast()) live.push_back(std::move(record));
    }
    if (page.size() < kPage) break;
  }
  std::reverse(live.begin(), live.end());
  return live;
}

absl::Status RecoverParticipants(MetaStore& meta, LiveJob& job, RecoveredJob* recovered) {
  LH_ASSIGN_OR_RETURN(const std::vector<ParticipantRecord> participants,
                      meta.ListParticipants(job.id()));
  for (const ParticipantRecord& p : participants) {
    recovered->participants.push_back({p.pool, p.incarnation, p.ordinal, p.start_step, p.left});
    job.participants[p.ordinal] = p;
    job.SetPlace(p);
  }
  LH_ASSIGN_OR_RETURN(const std::string bytes, meta.GetCounters(job.id()));
  v1::Job counters;
  counters.ParseFromString(bytes);  // Ours; what does not parse counts from zero.
  job.bytes_up().Add(
      {.payload = counters.wire_bytes().up_payload(), .total = counters.wire_bytes().up_total()});
  job.bytes_down().Add({.payload = counters.wire_bytes().down_payload(),
                        .total = counters.wire_bytes().down_total()});
  job.progress.Restore(counters, participants);
  return absl::OkStatus();
}

// What the log holds of contributions to rounds that are not committed.
void RecoverContributions(const JobStore& store, LiveJob& job) {
  for (const auto& [ref, shard] : store.PendingShards()) {
    const ContributionKey key{shard.fragment, shard.version, shard.pool, shard.incarnation};
    std::vector<SegmentRef> segments;
    for (const SegmentRef& segment : shard.segments) {
      segments.push_back({segment.first_block, segment.elements, segment.base_exponent});
    }
    job.contributions().Confirm(key, job.contributions().Reserve(key, BlocksOf(segments)), ref);
  }
}

// The newest places of those whose whole contribution to this version is there.
std::vector<int> ContributorsOf(const LiveJob& job, int fragment, int64_t version) {
  std::vector<int> contributors;
  for (const ContributionKey& key : job.contributions().WholeOf(fragment, version)) {
    int newest = -1;
    for (const auto& [ordinal, place] : job.participants) {
      if (place.pool == key.pool && place.incarnation == key.incarnation) newest = ordinal;
    }
    if (newest >= 0) contributors.push_back(newest);
  }
  // A seed is one pool's: another's may be in the log as well, of a pool that was lost before its
  // seed was acknowledged.
  if (version == 0 && contributors.size() > 1) contributors.resize(1);
  return contributors;
}

absl::Status RecoverRounds(MetaStore& meta, FileSystem& fs, const std::string& dir, LiveJob& job,
                           RecoveredJob* recovered) {
  LH_ASSIGN_OR_RETURN(const std::vector<EvaluationRecord> evaluations,
                      meta.ListEvaluations(job.id()));
  for (const EvaluationRecord& evaluation : evaluations) {
    job.progress.AddEvaluation(evaluation);
    recovered->final_evaluation |= evaluation.final;
  }
  if (recovered->state == JobState::kPending) return absl::OkStatus();
  LH_ASSIGN_OR_RETURN(std::unique_ptr<JobStore> store, OpenJobStore(fs, dir, job.resolved()));
  RecoverContributions(*store, job);
  for (int f = 0; f < job.fragments(); ++f) {
    LH_ASSIGN_OR_RETURN(const int64_t version, store->Version(f));
    RecoveredFragment& fragment = recovered->fragments.emplace_back();
    fragment.version = version;
    fragment.contributors = ContributorsOf(job, f, version + 1);
    if (version < 0) continue;
    LH_ASSIGN_OR_RETURN(CommitRecord commit, store->LastCommit(f));
    fragment.evaluator = commit.evaluator;
    job.progress.SetCommit(std::move(commit));
  }
  job.set_store(std::move(store));
  return absl::OkStatus();
}

void LogRecovered(const LiveJob& job, const RecoveredJob& recovered, const Logger& log) {
  std::string line = absl::StrCat("recovered in state ", std::string(JobStateName(recovered.state)),
                                  ", ", recovered.participants.size(), " places");
  if (const JobStore* store = job.store()) {
    absl::StrAppend(&line, ", ", store->recovery().commits_replayed, " rounds applied again, ",
                    store->recovery().torn_bytes_dropped, " torn bytes dropped; versions");
    for (const RecoveredFragment& fragment : recovered.fragments)
      absl::StrAppend(&line, " ", fragment.version);
  }
  log.With({.job = job.name()}).Info(line);
}

}  // namespace

std::string JobDirOf(const std::string& data_dir, const std::string& job_id) {
  return JoinPath(JoinPath(data_dir, "jobs"), job_id);
}

absl::StatusOr<std::unique_ptr<JobStore>> OpenJobStore(FileSystem& fs, const std::string& dir,
                                                       const ResolvedJob& resolved) {
  absl::StatusOr<std::unique_ptr<JobStore>> found = JobStore::Recover(&fs, dir);
  if (!absl::IsNotFound(found.status())) return found;
  JobStoreOptions options = JobStoreOptionsOf(resolved);
  std::random_device random;
  options.log_salt = (uint64_t{random()} << 32) | random();
  LH_RETURN_IF_ERROR(CreateDirs(fs, dir));
  return JobStore::Create(&fs, dir, options);
}

absl::StatusOr<RecoveredState> RecoverState(MetaStore& meta, FileSystem& fs,
                                            const std::string& data_dir, const Logger& log) {
  RecoveredState state;
  state.jobs_by_state.resize(v1::JobState_ARRAYSIZE);
  LH_ASSIGN_OR_RETURN(const std::vector<JobRecord> records,
                      LiveRecords(meta, &state.jobs_by_state));
  for (const JobRecord& record : records) {
    v1::JobSpec spec;
    spec.ParseFromString(record.spec);
    absl::StatusOr<ResolvedJob> resolved = ResolveJobSpec(spec);
    if (!resolved.ok()) {
      log.With({.job = record.name})
          .Error(absl::StrCat("is left out: ", resolved.status().message()));
      continue;
    }
    RecoveredJob recovered{.job = record.id,
                           .options = JobOptionsOf(*resolved),
                           .state = FromProto(static_cast<v1::JobState>(record.state))};
    LH_ASSIGN_OR_RETURN(std::shared_ptr<LiveJob> job,
                        LiveJob::Create(record, *std::move(resolved)));
    absl::Status status = RecoverParticipants(meta, *job, &recovered);
    if (status.ok())
      status = RecoverRounds(meta, fs, JobDirOf(data_dir, record.id), *job, &recovered);
    if (!status.ok()) return Annotate(status, record.name);
    LogRecovered(*job, recovered, log);
    state.core.jobs.push_back(std::move(recovered));
    state.jobs.push_back(std::move(job));
  }
  return state;
}

}  // namespace longhaul::coordinator
