#include "tests/simulation/checker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

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
                     const Words& residual, const Words& error) {
  const PoolKey key{who.job, who.pool, who.incarnation, fragment};
  Contribution& contribution = contributions_[{key, version}];
  const Words& expected = errors_.try_emplace(key, kWords).first->second;
  for (int i = 0; i < kWords; ++i) {
    if (!who.Owns(i)) continue;
    if (error[i] != expected[i])
      Violation(absl::StrFormat("2: error feedback of %s changed outside a commit", NameOf(who)));
    contribution.words[i] = words[i];
    contribution.residual[i] = residual[i];
  }
}

void Checker::Merged(const RankId& who, int fragment, int64_t version, const Words& before,
                     const Words& after) {
  const PoolKey key{who.job, who.pool, who.incarnation, fragment};
  Words& expected = errors_.try_emplace(key, kWords).first->second;
  const auto& contributors = history_[{who.job, fragment}][version].contributors;
  const bool counted = std::any_of(contributors.begin(), contributors.end(), [&](const auto& c) {
    return c.pool == who.pool && c.incarnation == who.incarnation;
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

void Checker::Committed(const std::string& job, int fragment, const StoredFragment& commit) {
  auto& history = history_[{job, fragment}];
  const std::string name =
      absl::StrFormat("%s fragment %d version %d", job, fragment, commit.version);
  if (commit.kind == RoundKind::kSeed && !history.empty())
    return Violation(absl::StrCat("4: seeded again: ", name));
  if (commit.version != static_cast<int64_t>(history.size())) {
    return Violation(absl::StrFormat("3: %s follows version %d", name, history.size() - 1));
  }
  Outer expected = history.empty() ? Outer{} : history.back().outer;
  std::vector<Words> contributions;
  int before = -1;
  for (const auto& c : commit.contributors) {
    if (c.ordinal <= before) Violation(absl::StrCat("2: contributors out of order: ", name));
    before = c.ordinal;
    const auto it =
        contributions_.find({PoolKey{job, c.pool, c.incarnation, fragment}, commit.version});
    if (it == contributions_.end())
      return Violation(absl::StrFormat("2: %s counts %s, which never pushed", name, c.pool));
    contributions.push_back(it->second.words);
  }
  ApplyContributions(commit.kind, contributions, expected);
  if (expected.parameters != commit.outer.parameters ||
      expected.momentum != commit.outer.momentum) {
    Violation(absl::StrFormat("2: %s is not made of its contributions, each once and whole", name));
  }
  history.push_back(commit);
}

void Checker::Published(const std::string& job, int fragment, int64_t version) {
  if (version >= static_cast<int64_t>(history_[{job, fragment}].size())) {
    Violation(absl::StrFormat("3: %s fragment %d version %d was published before it was durable",
                              job, fragment, version));
  }
  int64_t& newest = published_.try_emplace({job, fragment}, -1).first->second;
  newest = std::max(newest, version);
}

void Checker::Placed(const std::string& job, int ordinal, const std::string& pool,
                     const std::string& incarnation) {
  const std::string who = absl::StrCat(pool, "/", incarnation);
  const std::string& first = places_.try_emplace({job, ordinal}, who).first->second;
  if (first != who)
    Violation(absl::StrFormat("3: ordinal %d of %s was %s, now %s", ordinal, job, first, who));
}

void Checker::Ended(const std::string& job, JobState state) {
  if (!ended_.emplace(job, state).second) Violation(absl::StrCat("3: ended twice: ", job));
}

void Checker::Restarted(const DurableStore& store) {
  for (const std::string& job : acknowledged_) {
    if (!store.jobs.contains(job))
      return Violation(absl::StrCat("3: a submitted job is gone: ", job));
  }
  for (const auto& [fragment, version] : published_) {
    if (store.jobs.at(fragment.first).fragments[fragment.second].version >= version) continue;
    Violation(absl::StrFormat("3: published version %d of fragment %d is gone", version,
                              fragment.second));
  }
  for (const auto& [job, state] : ended_) {
    if (store.jobs.at(job).state != state)
      Violation(absl::StrCat("3: the end of a job is gone: ", job));
  }
}

void Checker::Applies(const coordinator::JobView& job, const coordinator::ApplyRound& apply,
                      int64_t push_step) {
  if (apply.kind == RoundKind::kSeed) return;
  const auto counts = [&](int ordinal) {
    return std::any_of(apply.contributors.begin(), apply.contributors.end(),
                       [&](const auto& c) { return c.ordinal == ordinal; });
  };
  for (const coordinator::ParticipantView& p : job.participants) {
    const bool owes = p.start_step.has_value() && *p.start_step < push_step;
    if (p.live && owes && !counts(p.ordinal)) {
      Violation(absl::StrFormat("lockstep: fragment %d version %d goes on without %s",
                                apply.fragment, apply.version, p.pool));
    }
    if (counts(p.ordinal) && !owes) {
      Violation(absl::StrFormat("lockstep: fragment %d version %d counts %s, which began later",
                                apply.fragment, apply.version, p.pool));
    }
  }
}

void Checker::Finally(const DurableStore& store, bool cancelled_allowed, bool faulty) {
  for (const std::string& id : acknowledged_) {
    const StoredJob& job = store.jobs.at(id);
    if (job.state == JobState::kCancelled && cancelled_allowed) continue;
    if (job.state != JobState::kCompleted) {
      Violation(absl::StrFormat("liveness: %s is %s after the faults ended", id,
                                JobStateName(job.state)));
      continue;
    }
    const bool rounds = std::any_of(job.fragments.begin(), job.fragments.end(),
                                    [](const auto& f) { return f.version > 0; });
    if (!faulty && rounds && !job.final_evaluation)
      Violation(absl::StrCat("liveness: no final evaluation of ", id));
    for (size_t f = 0; f < job.fragments.size(); ++f) {
      const int64_t last = job.options.schedule[f].rounds + (job.options.final_round ? 1 : 0);
      if (job.fragments[f].version != last) {
        Violation(absl::StrFormat("liveness: %s completed with fragment %d at version %d of %d", id,
                                  f, job.fragments[f].version, last));
      }
    }
  }
}

void Checker::Violation(std::string what) {
  if (!violation_.has_value()) violation_ = std::move(what);
}

}  // namespace longhaul::simulation
