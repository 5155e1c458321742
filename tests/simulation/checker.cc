#include "tests/simulation/checker.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/config/job_spec.h"
#include "common/io/file_util.h"
#include "coordinator/fragments/fragments.h"
#include "coordinator/store/checkpoint.h"
#include "coordinator/store/data_folder.h"
#include "coordinator/store/job_log_removal.h"
#include "coordinator/store/job_state_file.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::simulation {
namespace {

std::string NameOf(const RankId& who) {
  return absl::StrFormat("%s/%s rank %d", who.pool, who.incarnation, who.rank);
}

}  // namespace

void Checker::Holds(const RankId& who, int fragment, int64_t version, const Words& parameters) {
  const auto& history = history_[{who.job, fragment}];
  if (version < 0 || version >= static_cast<int64_t>(history.size())) {
    return Violation(absl::StrFormat("1: %s holds fragment %d version %d, which is not durable",
                                     NameOf(who), fragment, version));
  }
  for (int i = 0; i < kWords; ++i) {
    if (!who.Owns(i) || parameters[i] == history[version].outer.parameters[i]) continue;
    return Violation(absl::StrFormat("1: %s holds other bytes of fragment %d version %d",
                                     NameOf(who), fragment, version));
  }
}

void Checker::Pushes(const RankId& who, int fragment, int64_t version, const Words& words,
                     const Words& residual, const Words& error, int64_t weight) {
  const PoolKey key{who.job, who.pool, who.incarnation, fragment};
  Contribution& contribution = contributions_[{key, version}];
  contribution.weight = weight;
  const Words& expected = errors_[key];
  for (int i = 0; i < kWords; ++i) {
    if (!who.Owns(i)) continue;
    if (error[i] != expected[i])
      Violation(absl::StrFormat("2: error feedback of %s changed outside a commit", NameOf(who)));
    contribution.words[i] = words[i];
    contribution.residual[i] = residual[i];
  }
}

void Checker::Loaded(const RankId& who, int fragment) {
  Words& expected = errors_[{who.job, who.pool, who.incarnation, fragment}];
  for (int i = 0; i < kWords; ++i) {
    if (who.Owns(i)) expected[i] = 0;
  }
}

void Checker::Merged(const RankId& who, int fragment, int64_t version, const Words& before,
                     const Words& after) {
  const PoolKey key{who.job, who.pool, who.incarnation, fragment};
  Words& expected = errors_[key];
  const auto& contributors = history_[{who.job, fragment}][version].contributors;
  const bool counted = std::any_of(contributors.begin(), contributors.end(), [&](const auto& c) {
    return c.first == who.pool && c.second == who.incarnation;
  });
  for (int i = 0; i < kWords; ++i) {
    if (!who.Owns(i)) continue;
    if (before[i] != expected[i])
      Violation(absl::StrFormat("2: error feedback of %s changed before a commit", NameOf(who)));
    if (counted) expected[i] = contributions_[{key, version}].residual[i];
    if (after[i] == expected[i]) continue;
    Violation(absl::StrFormat(
        "2: error feedback of %s is not that of what counted in fragment %d version %d",
        NameOf(who), fragment, version));
  }
}

bool Checker::Knows(const std::string& job, int fragment, int64_t version) const {
  const auto found = history_.find({job, fragment});
  return found != history_.end() && version < static_cast<int64_t>(found->second.size());
}

// The version as the oracle makes it, from contributions that were really pushed: of a pool that
// began anew either incarnation's may have counted. Nothing: no choice explains the commit.
std::optional<Checker::Version> Checker::Explain(const FragmentKey& key, const Commit& commit,
                                                 const OuterRule& rule) const {
  const auto history = history_.find(key);
  const bool first = history == history_.end() || history->second.empty();
  // By pool of the commit: the incarnations that pushed.
  std::vector<std::vector<std::pair<std::string, const Contribution*>>> choices;
  for (const std::string& pool : commit.pools) {
    auto& candidates = choices.emplace_back();
    for (const auto& [id, contribution] : contributions_) {
      const auto& [job, name, incarnation, fragment] = id.first;
      if (job == key.first && name == pool && fragment == key.second && id.second == commit.version)
        candidates.emplace_back(incarnation, &contribution);
    }
    if (candidates.empty()) return std::nullopt;
  }
  std::vector<size_t> chosen(choices.size(), 0);
  while (true) {
    Version version{.outer = first ? Outer{} : history->second.back().outer};
    std::vector<Weighted> words;
    for (size_t i = 0; i < choices.size(); ++i) {
      const auto& [incarnation, contribution] = choices[i][chosen[i]];
      words.push_back({contribution->words, static_cast<float>(contribution->weight)});
      version.contributors.emplace_back(commit.pools[i], incarnation);
    }
    ApplyContributions(commit.kind, rule, words, version.outer);
    if (version.outer.parameters == commit.parameters) return version;
    size_t at = 0;
    while (at < choices.size() && ++chosen[at] == choices[at].size()) chosen[at++] = 0;
    if (at == choices.size()) return std::nullopt;
  }
}

void Checker::Begins(const std::string& job, const v1::CheckpointManifest& checkpoint) {
  beginnings_[job] = [this, checkpoint](int fragment) {
    const int64_t version = checkpoint.fragments(fragment).version();
    return history_.at({checkpoint.job_id(), fragment})[version].outer.parameters;
  };
}

void Checker::Begins(const std::string& job, std::vector<Words> parameters) {
  beginnings_[job] = [parameters = std::move(parameters)](int f) { return parameters[f]; };
}

std::optional<Checker::Version> Checker::Beginning(const FragmentKey& key,
                                                   const Commit& commit) const {
  if (commit.pools != std::vector<std::string>{coordinator::kCheckpointPool}) return std::nullopt;
  Version seed{.outer = {.parameters = beginnings_.at(key.first)(key.second)}};
  if (seed.outer.parameters != commit.parameters) return std::nullopt;
  return seed;
}

void Checker::Shown(const std::string& job, bool paused) {
  if (paused) {
    paused_.insert(job);
  } else if (may_be_resumed_.contains(job)) {
    paused_.erase(job);
  }
}

void Checker::Committed(const std::string& job, int fragment, const Commit& commit,
                        const OuterRule& rule) {
  auto& history = history_[{job, fragment}];
  const std::string name =
      absl::StrFormat("%s fragment %d version %d", job, fragment, commit.version);
  if (commit.version != static_cast<int64_t>(history.size())) {
    return Violation(absl::StrFormat("3: %s follows version %d", name, history.size() - 1));
  }
  if (!std::is_sorted(commit.pools.begin(), commit.pools.end(),
                      [&](const std::string& a, const std::string& b) {
                        return OrdinalOf(job, a) < OrdinalOf(job, b);
                      }))
    Violation(absl::StrCat("2: contributors out of order: ", name));
  if (paused_.contains(job)) Violation(absl::StrCat("3: committed while it is paused: ", name));
  const bool begins = commit.version == 0 && beginnings_.contains(job);
  std::optional<Version> version =
      begins ? Beginning({job, fragment}, commit) : Explain({job, fragment}, commit, rule);
  if (!version.has_value()) {
    return Violation(
        absl::StrFormat("2: %s is not made of its contributions, each once and whole", name));
  }
  history.push_back(*std::move(version));
  ++commits_;
}

void Checker::LeavesOut(const std::string& job, int fragment, const Commit& commit,
                        const v1::GuardSpec& guard, int quorum) {
  const bool steps = commit.kind == RoundKind::kOuter || commit.kind == RoundKind::kFinal;
  std::vector<std::pair<std::string, std::string>> all = commit.left_out;
  for (size_t i = 0; i < commit.pools.size(); ++i)
    all.emplace_back(commit.pools[i], commit.incarnations[i]);
  std::set<std::string> expected, found;
  for (const auto& [pool, incarnation] : commit.left_out) found.insert(pool);
  if (guard.outer() == v1::LEAVE_OUT && steps) {
    std::map<std::string, double> norms;
    std::vector<double> sorted;
    for (const auto& [pool, incarnation] : all) {
      double energy = 0;
      for (const float word :
           contributions_[{{job, pool, incarnation, fragment}, commit.version}].words)
        energy += double{word} * word;
      sorted.push_back(norms[pool] = std::sqrt(energy * kBlockElements));
    }
    std::sort(sorted.begin(), sorted.end());
    const double middle = sorted[(sorted.size() - 1) / 2];
    std::vector<double>& middles = middles_[{job, fragment}];
    if (static_cast<int>(middles.size()) >= guard.outer_rounds()) {
      std::vector<double> newest(middles.end() - std::min<int64_t>(16, middles.size()),
                                 middles.end());
      std::sort(newest.begin(), newest.end());
      const double usual = std::max(middle, newest[(newest.size() - 1) / 2]);
      for (const auto& [pool, norm] : norms)
        if (usual > 0 && norm > guard.outer_norm() * usual) expected.insert(pool);
      const size_t left = all.size() - expected.size();
      if (2 * left < all.size() || static_cast<int>(left) < std::max(quorum, 1)) expected.clear();
    }
    middles.push_back(middle);
  }
  if (expected != found) {
    Violation(absl::StrFormat("guard: %s fragment %d version %d leaves out [%s] instead of [%s]",
                              job, fragment, commit.version, absl::StrJoin(found, " "),
                              absl::StrJoin(expected, " ")));
  }
}

void Checker::Published(const std::string& job, int fragment, int64_t version) {
  if (version >= static_cast<int64_t>(history_[{job, fragment}].size())) {
    Violation(absl::StrFormat("3: %s fragment %d version %d was published before it was durable",
                              job, fragment, version));
  }
  int64_t& newest = published_.try_emplace({job, fragment}, -1).first->second;
  newest = std::max(newest, version);
}

void Checker::Placed(const std::string& job, int ordinal, const std::string& pool) {
  if (paused_.contains(job))
    Violation(absl::StrFormat("3: %s is paused, and %s works on it", job, pool));
  const std::string& first = places_.try_emplace({job, ordinal}, pool).first->second;
  if (first != pool)
    Violation(absl::StrFormat("3: place %d of %s was %s's, now %s's", ordinal, job, first, pool));
  if (OrdinalOf(job, pool) != ordinal)
    Violation(absl::StrFormat("3: pool %s has two places in %s", pool, job));
}

void Checker::Admitted(const coordinator::AdmitRank& rank) {
  Placed(rank.job, rank.ordinal, rank.pool);
  const int64_t start =
      starts_.try_emplace({rank.job, rank.pool, rank.incarnation}, rank.start_step).first->second;
  if (start != rank.start_step) {
    Violation(absl::StrFormat("3: ranks of pool %s begin %s after step %d and after step %d",
                              rank.pool, rank.job, start, rank.start_step));
  }
}

int Checker::OrdinalOf(const std::string& job, const std::string& pool) const {
  for (const auto& [place, name] : places_) {
    if (place.first == job && name == pool) return place.second;
  }
  return -1;
}

void Checker::Ended(const std::string& job, JobState state) {
  paused_.erase(job);
  bool synchronised = false;
  for (const auto& [key, history] : history_) {
    if (key.first != job) continue;
    const auto published = published_.find(key);
    synchronised = published != published_.end() && published->second >= 1;
    if (!synchronised) break;
  }
  if (synchronised && state != JobState::kCompleted) owed_last_.insert(job);
  if (!ended_.emplace(job, state).second) Violation(absl::StrCat("3: ended twice: ", job));
}

void Checker::Deletes(const std::string& job, MetaStore& meta, absl::Time now,
                      absl::Duration keep) {
  const absl::StatusOr<JobRecord> record = meta.GetJob(job);
  if (!record.ok() || !IsEnded(record->state))
    return Violation(absl::StrCat("3: deleted before its end: ", job));
  if (may_be_deleted_.contains(job)) return;
  // Its end may have waited for a full disk before it was stored.
  if (now + absl::Seconds(12) < record->ended + keep)
    return Violation(absl::StrCat("3: deleted too early: ", job));
  MayBeDeleted(job);
  Deleted(job);
}

double Checker::Reports(const std::string& pool) {
  reports_.push_back(pool);
  return static_cast<double>(reports_.size());
}

void Checker::Asks(const std::string& job, int64_t version, const std::string& pool) {
  asked_[{job, version}].insert(pool);
}

void Checker::Evaluated(const EvaluationRecord& evaluation, int64_t step) {
  if (!evaluation.pool.empty() || evaluation.final) return;
  const std::string& job = evaluation.job_id;
  const int64_t version = evaluation.version;
  const std::string& pool = reports_[static_cast<size_t>(evaluation.loss) - 1];
  const std::string what =
      absl::StrFormat("evaluations: that of pool %s of %s version %d", pool, job, version);
  if (evaluation.step != step)
    Violation(absl::StrFormat("%s has step %d instead of %d", what, evaluation.step, step));
  if (!evaluated_.emplace(std::pair(job, version), evaluation.loss).second)
    Violation(absl::StrCat(what, " is not the first"));
  int64_t& answered = answered_[{job, pool}];
  answered = std::max(answered, version);
  const auto unknown = asked_unknown_until_.find(job);
  if (unknown != asked_unknown_until_.end() && version <= unknown->second) return;
  const auto exact = asked_.find({job, version});
  if (exact != asked_.end()) {
    const bool may =
        std::any_of(exact->second.begin(), exact->second.end(), [&](const auto& asked) {
          // It answered for a later version first: it will not come back to this one.
          return asked == pool || answered_[{job, asked}] > version;
        });
    if (!may) Violation(absl::StrFormat("%s: %s was asked", what, *exact->second.begin()));
    return;
  }
  // A pool that began again may hold a later version than the one that it was asked for.
  for (auto asked = asked_.lower_bound({job, 0});
       asked != asked_.end() && asked->first.first == job && asked->first.second < version;
       ++asked) {
    if (asked->second.contains(pool)) return;
  }
  Violation(absl::StrCat(what, ": it was not asked"));
}

void Checker::CheckEvaluations(const std::string& job,
                               const std::vector<EvaluationRecord>& stored) {
  for (const EvaluationRecord& evaluation : stored) {
    if (!evaluation.pool.empty() || evaluation.final) continue;
    const auto first = evaluated_.find({job, evaluation.version});
    if (first != evaluated_.end() && first->second == evaluation.loss) continue;
    Violation(absl::StrFormat("evaluations: that of %s version %d was replaced", job,
                              evaluation.version));
  }
}

void Checker::Restarted(MetaStore& meta) {
  // A version that became durable at the crash is not in the history yet.
  for (const auto& [key, history] : history_) {
    int64_t& until = asked_unknown_until_[key.first];
    until = std::max(until, static_cast<int64_t>(history.size()));
  }
  std::set<std::string> gone;
  for (const std::string& job : acknowledged_) {
    if (meta.GetJob(job).ok()) continue;
    gone.insert(job);
    if (!may_be_deleted_.contains(job))
      return Violation(absl::StrCat("3: a submitted job is gone: ", job));
  }
  for (const std::string& job : std::set<std::string>(paused_)) {
    const absl::StatusOr<JobRecord> record = meta.GetJob(job);
    const bool lives = record.ok() && !IsEnded(record->state);
    if (lives && meta.GetPause(job)->stage == PauseStage::kPaused) continue;
    if (lives && !may_be_resumed_.contains(job))
      return Violation(absl::StrCat("3: a pause is forgotten: ", job));
    paused_.erase(job);
  }
  for (const std::string& job : deleted_) {
    if (meta.GetJob(job).ok()) return Violation(absl::StrCat("3: a deleted job is back: ", job));
  }
  for (const auto& [job, state] : ended_) {
    if (!gone.contains(job) && meta.GetJob(job)->state != state)
      Violation(absl::StrCat("3: the end of a job is gone: ", job));
  }
  for (const auto& [place, pool] : places_) {
    if (gone.contains(place.first)) continue;
    bool found = false;
    const auto stored = meta.ListParticipants(place.first);
    for (const ParticipantRecord& p : *stored) found |= p.ordinal == place.second && p.pool == pool;
    if (!found) Violation(absl::StrFormat("3: place %d of %s is gone", place.second, place.first));
  }
}

void Checker::Forget(const std::string& job) {
  for (auto* jobs : {&acknowledged_, &paused_, &deleted_, &stays_paused_, &owed_last_})
    jobs->erase(job);
  ended_.erase(job);
}

void Checker::Adopted(MetaStore& meta, FileSystem& disk) {
  const auto jobs = meta.ListKeys();
  const auto has_name_of = [&](const std::string& id) {
    return std::any_of(jobs->begin(), jobs->end(),
                       [&](const JobKey& job) { return job.name == JobNameOf(id); });
  };
  for (const std::string& id : std::set<std::string>(acknowledged_)) {
    const std::string folder = JobFolder(kDataDir, id);
    const absl::StatusOr<JobStateNote> note = ReadJobState(disk, folder);
    const absl::StatusOr<JobRecord> job = meta.GetJob(id);
    if (!job.ok()) {
      // Without a store there is nothing to adopt, and only one job can have a name.
      const bool may = !disk.List(folder).ok() || (note.ok() && note->deleted) || has_name_of(id);
      if (!may) Violation(absl::StrCat("adoption: ", id, " was left alone"));
      Forget(id);
      continue;
    }
    // Whether these were written to the folder before the crash.
    const bool end_noted = note.ok() && IsEnded(note->state);
    const bool pause_noted = note.ok() && note->state == JobState::kPaused;
    if (deleted_.erase(id) > 0 && note.ok() && note->deleted)
      Violation(absl::StrCat("adoption: a deleted job is back: ", id));
    const auto ended = ended_.find(id);
    if (ended != ended_.end() && ended->second != job->state) {
      if (end_noted) Violation(absl::StrCat("adoption: the end of a job is gone: ", id));
      ended_.erase(ended);
      owed_last_.erase(id);
    }
    const PauseStage stage = meta.GetPause(id)->stage;
    const bool stops = stage == PauseStage::kPausing || stage == PauseStage::kPaused;
    if (pause_noted && !stops && !IsEnded(job->state))
      Violation(absl::StrCat("adoption: a pause is forgotten: ", id));
    if (stage != PauseStage::kPaused) paused_.erase(id);
    if (stops) {
      // If it was resumed just before, nobody resumes it again.
      stays_paused_.insert(id);
    } else {
      stays_paused_.erase(id);
    }
  }
  places_.clear();
  starts_.clear();
  promised_.clear();
  evaluated_.clear();
}

void Checker::Opened(const std::string& job, int fragment, int64_t version) {
  const auto published = published_.find({job, fragment});
  if (published == published_.end() || published->second <= version) return;
  Violation(absl::StrFormat("%d: published version %d of fragment %d is gone", version < 0 ? 4 : 3,
                            published->second, fragment));
}

void Checker::Applies(const coordinator::JobView& view, int fragment, int64_t version,
                      RoundKind kind, const std::vector<std::string>& pools, int64_t push_step,
                      int quorum) {
  if (kind == RoundKind::kSeed) return;
  if (quorum > 0 && static_cast<int>(pools.size()) >= quorum) return;
  for (const coordinator::ParticipantView& p : view.participants) {
    const bool counts = std::find(pools.begin(), pools.end(), p.pool) != pools.end();
    const bool owes = p.start_step.has_value() && *p.start_step < push_step;
    const bool awaited = owes && (!p.last_step.has_value() || push_step <= *p.last_step);
    if (p.live && awaited && !counts) {
      Violation(
          absl::StrFormat("rounds: fragment %d version %d goes on without %s, with %d of a quorum "
                          "of %d",
                          fragment, version, p.pool, pools.size(), quorum));
    }
  }
}

bool Checker::LacksLast(const JobRecord& job, FileSystem& disk) const {
  if (damaged_.contains(job.id) || !owed_last_.contains(job.id)) return false;
  const auto last = ReadLastCheckpoint(disk, JobFolder(kDataDir, job.id));
  return !last.ok() || !last->has_value();
}

bool Checker::RestsPaused(const std::string& job, MetaStore& meta) const {
  const PauseRecord pause = *meta.GetPause(job);
  if (pause.stage != PauseStage::kPaused) return false;
  if (pause.by != kGuardName) return stays_paused_.contains(job);
  const auto diverges = may_diverge_.find(meta.GetJob(job)->name);
  return diverges != may_diverge_.end() && diverges->second == v1::PAUSE;
}

bool Checker::Settled(MetaStore& meta, FileSystem& disk) const {
  for (const std::string& id : acknowledged_) {
    if (deleted_.contains(id)) {
      if (disk.List(JobFolder(kDataDir, id)).ok()) return false;
      continue;
    }
    const absl::StatusOr<JobRecord> job = meta.GetJob(id);
    if (!job.ok() || RestsPaused(id, meta)) continue;
    if (!IsEnded(job->state) || LacksLast(*job, disk)) return false;
  }
  return true;
}

void Checker::Finally(MetaStore& meta, FileSystem& disk, bool faulty) {
  for (const std::string& id : acknowledged_) {
    if (deleted_.contains(id)) {
      if (disk.List(JobFolder(kDataDir, id)).ok())
        Violation(absl::StrCat("liveness: the files of a deleted job are there: ", id));
      continue;
    }
    const absl::StatusOr<JobRecord> job = meta.GetJob(id);
    if (!job.ok()) return Violation(absl::StrCat("3: a submitted job is gone: ", id));
    const JobState state = job->state;
    if (RestsPaused(id, meta)) continue;
    const auto diverges = may_diverge_.find(job->name);
    const bool guarded = diverges != may_diverge_.end() && diverges->second != v1::NONE;
    if (state == JobState::kCompleted) {
      Completed(*job, meta, disk, faulty);
    } else if (!(state == JobState::kCancelled && cancelled_.contains(id)) &&
               !(state == JobState::kFailed && may_fail_.contains(id)) &&
               !(state == JobState::kFailed && guarded)) {
      Violation(
          absl::StrFormat("liveness: %s is %s after the faults ended", id, JobStateName(state)));
    } else if (LacksLast(*job, disk)) {
      Violation(absl::StrCat("liveness: no last checkpoint of ", id));
    } else {
      const auto checkpoints = ListCheckpoints(disk, JobFolder(kDataDir, id));
      for (const auto& checkpoint : checkpoints.value_or(std::vector<v1::CheckpointManifest>()))
        CheckCheckpoint(checkpoint, disk, JobFolder(kDataDir, id));
    }
  }
}

void Checker::Completed(const JobRecord& job, MetaStore& meta, FileSystem& disk, bool faulty) {
  v1::JobSpec spec;
  LH_CHECK(spec.ParseFromString(job.spec), "ours");
  const ResolvedJob resolved = *ResolveJobSpec(spec);
  bool rounds = false, evaluated = false;
  for (size_t f = 0; f < resolved.schedule.size(); ++f) {
    const int64_t last = resolved.schedule[f].rounds + (resolved.spec.sync().final_round() ? 1 : 0);
    const int64_t version =
        static_cast<int64_t>(history_[{job.id, static_cast<int>(f)}].size()) - 1;
    rounds |= version > 0;
    if (version == last) continue;
    Violation(absl::StrFormat("liveness: %s completed with fragment %d at version %d of %d", job.id,
                              f, version, last));
  }
  const auto evaluations = meta.ListEvaluations(job.id);
  for (const EvaluationRecord& evaluation : *evaluations) evaluated |= evaluation.final;
  CheckEvaluations(job.id, *evaluations);
  // Infinite ones are not stored. Such a job completes only if its spec wants that.
  const auto diverges = may_diverge_.find(job.name);
  evaluated |= diverges != may_diverge_.end() && diverges->second == v1::NONE;
  // Pools that stop do not evaluate.
  if (!faulty && rounds && !evaluated && !may_be_paused_.contains(job.id))
    Violation(absl::StrCat("liveness: no final evaluation of ", job.id));

  const std::string folder = JobFolder(kDataDir, job.id);
  const auto checkpoints = ListCheckpoints(disk, folder);
  if (!checkpoints.ok()) return Violation(absl::StrCat("5: ", checkpoints.status().message()));
  std::set<int64_t> missing = promised_[job.id];
  for (const v1::CheckpointManifest& checkpoint : *checkpoints) {
    missing.erase(checkpoint.step());
    CheckCheckpoint(checkpoint, disk, folder);
  }
  // Where few are kept, newer ones take their places.
  const bool all_kept = resolved.spec.checkpoint().keep() == kKeepAll;
  if (all_kept && !missing.empty()) {
    Violation(absl::StrFormat("5: the promised checkpoint of step %d of %s is not there",
                              *missing.begin(), job.id));
  }
}

void Checker::CheckCheckpoint(const v1::CheckpointManifest& checkpoint, FileSystem& disk,
                              const std::string& folder) {
  const std::string path = CheckpointPath(folder, checkpoint.step());
  const std::vector<absl::Status> faults = longhaul::CheckCheckpoint(disk, path);
  if (!faults.empty()) return Violation(absl::StrCat("5: ", faults[0].message()));
  for (const v1::CheckpointFragment& fragment : checkpoint.fragments()) {
    const absl::StatusOr<std::string> bytes =
        ReadFile(disk, JoinPath(path, fragment.file()), kWords * kBlockElements * sizeof(float));
    LH_CHECK(bytes.ok(), "its digest is right");
    const Words& committed =
        history_[{checkpoint.job_id(), fragment.fragment()}][fragment.version()].outer.parameters;
    for (int i = 0; i < kWords; ++i) {
      float word = 0;
      std::memcpy(&word, bytes->data() + i * kBlockElements * sizeof(float), sizeof(float));
      if (word == committed[i]) continue;
      return Violation(absl::StrFormat("5: %s has other bytes of fragment %d version %d", path,
                                       fragment.fragment(), fragment.version()));
    }
  }
}

void Checker::Violation(std::string what) {
  if (!violation_.has_value()) violation_ = std::move(what);
}

}  // namespace longhaul::simulation
