// Whether a job trains as it should: what is known of it now, and since when. The only place where
// this is judged; reports, events, metrics and the CLI show what it found. Only the guard of a job
// acts on its own, by evaluations alone (coordinator/job/divergence.h).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "longhaul/v1/event.pb.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::coordinator {

// What is known of a job at one time.
struct HealthFacts {
  struct Pool {
    std::string name;
    // It holds a lease, and its ranks have begun.
    bool trains = false;
    double train_loss = 0;
    // Of all its stays in the job.
    int64_t steps = 0, skipped_steps = 0, contributed_tokens = 0;
    // In how many fragments guard.outer left out its newest contribution.
    int left_out_fragments = 0;
    // Where every pool evaluates the outer parameters on data of its own: their newest loss there,
    // and that of the pool's own parameters.
    std::optional<double> outer_loss = std::nullopt, own_loss = std::nullopt;
  };

  // RUNNING or FINISHING, and not paused.
  bool running = false;
  // It does no more steps: what is found now is kept.
  bool finishing = false;
  // The loss of uniform guesses, or 0.
  double guess = 0;
  // The newest evaluation of the outer parameters is worse than guessing, or the guard acted: why.
  std::string divergence;
  std::optional<absl::Time> divergence_since = std::nullopt;
  // By more than one evaluation.
  bool divergence_lasts = false;
  v1::EvalLoss evaluation;
  std::vector<Pool> pools;
  // Pools that are set aside for the job: their reasons, and how often in a row.
  std::map<std::string, std::pair<std::string, int>> set_aside;
  // Committed rounds with contributions since the start of the coordinator, and fragments.
  int64_t rounds = 0;
  int fragments = 1;
  // What NormWatch says of the newest rounds. Empty: nothing.
  std::string norm;
  // By fragment: the norm of the outer parameters.
  std::map<int, double> parameter_norms;
  // Of the newest rounds, mean over fragments.
  std::optional<double> cosine = std::nullopt;
  double utilization = 0;
};

// A value; not thread-safe. `now` must not go backwards.
class JobHealth {
 public:
  static constexpr size_t kFindingsMax = 100;

  // Looks at the job. Returns the events of findings that began or ended. Call it every second or
  // so, and at each change of state. While the job is not running, findings stay as they are, but
  // for that of its divergence.
  std::vector<v1::JobEvent> Observe(const HealthFacts& facts, absl::Time now);
  // What was found. Without a level if the job has not run yet.
  v1::JobHealth Report() const;

 private:
  // By code and pool.
  using Key = std::pair<std::string, std::string>;
  struct Finding {
    v1::JobHealth::Level level = v1::JobHealth::WARNING;
    std::string message, hint;
    absl::Time since;
    // It has lasted for long enough.
    bool shown = false;
    // An event told of it.
    bool told = false;
    // Found by this Observe.
    bool now = true;
  };
  // The growth of a pool's contributed tokens.
  struct Growth {
    int64_t tokens = 0, skipped = 0;
    // When and at which round of the job they grew.
    absl::Time at, skipped_at;
    int64_t rounds = 0;
  };

  // It is found now. It is shown once it has been found for `after`.
  void Found(const std::string& code, const std::string& pool, Finding finding,
             absl::Duration after, absl::Time now);
  void LookAtPools(const HealthFacts& facts, absl::Time now);
  // `alone`: no pool trains better. `newest`: the newest round with which a pool's tokens grew, or
  // nothing.
  void LookAtPool(const HealthFacts& facts, const HealthFacts::Pool& pool, bool alone,
                  std::optional<int64_t> newest, absl::Time now);
  void Grow(const HealthFacts& facts, const HealthFacts::Pool& pool, absl::Time now);
  void LookAtLosses(const HealthFacts& facts, absl::Time now);
  void LookAtRounds(const HealthFacts& facts, absl::Time now);
  void LookAtAgreement(const HealthFacts& facts, absl::Time now);

  bool known_ = false;
  std::map<Key, Finding> findings_;
  std::map<std::string, Growth> growth_;
  // Norms of outer parameters with their times, some minutes apart: of the newest hour.
  std::deque<std::pair<absl::Time, std::map<int, double>>> norms_;
};

}  // namespace longhaul::coordinator
