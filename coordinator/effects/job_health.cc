#include "coordinator/effects/job_health.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/counted.h"
#include "common/wire/proto_values.h"
#include "coordinator/effects/job_events.h"
#include "coordinator/job/divergence.h"

namespace longhaul::coordinator {
namespace {

constexpr v1::JobHealth::Level kWarning = v1::JobHealth::WARNING, kFailing = v1::JobHealth::FAILING;

// A loss of one batch may be far off for a moment.
constexpr absl::Duration kTrainLossBad = absl::Seconds(10);
// The held-out loss is so many times its best, for so long.
constexpr double kRise = 1.2;
constexpr absl::Duration kRisen = absl::Minutes(1);
// A pool contributes nothing in so many rounds of each fragment, and for so long.
constexpr int64_t kRoundsWithout = 2;
constexpr absl::Duration kContributesNothing = absl::Seconds(30);
// Steps were skipped within so long, or are such a share of all.
constexpr absl::Duration kSkippedLately = absl::Minutes(1);
constexpr double kSkippedShare = 0.01;
// Outer parameters have grown by this factor within an hour.
constexpr double kGrowth = 2;
constexpr absl::Duration kGrowthWithin = absl::Hours(1), kNormsEach = absl::Minutes(5);
// The pools' mean cosine is below this for so long.
constexpr double kCosineLow = 0.05;
constexpr absl::Duration kDisagree = absl::Minutes(10);
// Shared parameters lack so much of what a pool's own have learned since the first evaluation.
constexpr double kLacking = 0.15;
constexpr double kUtilizationLow = 0.5;
constexpr absl::Duration kWaiting = absl::Minutes(10);

constexpr char kPoolsDisagree[] = "POOLS_DISAGREE";
constexpr char kLowerRate[] =
    "submit it anew with a lower learning rate, a longer warm-up or clipping";

}  // namespace

void JobHealth::Found(const std::string& code, const std::string& pool, Finding finding,
                      absl::Duration after, absl::Time now) {
  finding.since = now;
  Finding& kept = findings_.try_emplace({code, pool}, finding).first->second;
  kept.level = finding.level;
  kept.message = std::move(finding.message);
  kept.hint = std::move(finding.hint);
  kept.now = true;
  kept.shown = kept.shown || now - kept.since >= after;
}

void JobHealth::Grow(const HealthFacts& facts, const HealthFacts::Pool& pool, absl::Time now) {
  Growth& growth =
      growth_.try_emplace(pool.name, Growth{.at = now, .rounds = facts.rounds}).first->second;
  const bool idle = !pool.trains && !facts.finishing;
  // What a pool does not do while it is away does not count when it comes back.
  if (pool.contributed_tokens > growth.tokens || idle) {
    growth.tokens = pool.contributed_tokens;
    growth.at = now;
    growth.rounds = facts.rounds;
  }
  if (pool.skipped_steps > growth.skipped) {
    growth.skipped = pool.skipped_steps;
    growth.skipped_at = now;
  }
}

void JobHealth::LookAtPool(const HealthFacts& facts, const HealthFacts::Pool& pool, bool alone,
                           std::optional<int64_t> newest, absl::Time now) {
  if (pool.steps == 0 || (!pool.trains && !facts.finishing)) return;
  const Growth& growth = growth_.at(pool.name);
  if (IsWorseThanGuessing(pool.train_loss, facts.guess)) {
    const bool at_once = facts.finishing || !std::isfinite(pool.train_loss);
    Found("TRAIN_LOSS_DIVERGED", pool.name,
          {.level = alone ? kFailing : kWarning,
           .message = absl::StrCat("the train loss is ", LossInWords(pool.train_loss, facts.guess)),
           .hint = alone ? kLowerRate
                         : "look at that site's data, memory and hardware: other pools train"},
          at_once ? absl::ZeroDuration() : kTrainLossBad, now);
  }
  if (pool.left_out_fragments > 0) {
    Found("POOL_LEFT_OUT", pool.name,
          {.level = kWarning,
           .message =
               absl::StrFormat("guard.outer leaves out its contributions: the newest in %d of %s",
                               pool.left_out_fragments, Counted(facts.fragments, "fragment")),
           .hint = "`longhaul events` says why: look at the pool's loss, data and devices"},
          absl::ZeroDuration(), now);
  }
  const int64_t without = newest.value_or(growth.rounds) - growth.rounds;
  const bool never = facts.finishing && newest.has_value() && growth.tokens == 0;
  const bool lately = without >= kRoundsWithout * facts.fragments &&
                      now - growth.at >= kContributesNothing && !facts.finishing;
  if (never || lately) {
    Found("POOL_CONTRIBUTES_NOTHING", pool.name,
          {.level = kWarning,
           .message = never ? "none of its training is part of a committed round"
                            : absl::StrCat("nothing of its training is part of the last ",
                                           Counted(without, "round")),
           .hint = "`longhaul logs` of the pool says why: its steps are skipped, or it is late"},
          absl::ZeroDuration(), now);
  }
  const bool many =
      static_cast<double>(pool.skipped_steps) > kSkippedShare * static_cast<double>(pool.steps);
  const bool now_and_then = !facts.finishing && now - growth.skipped_at < kSkippedLately;
  if (growth.skipped > 0 && (many || now_and_then)) {
    Found("STEPS_SKIPPED", pool.name,
          {.level = kWarning,
           .message = absl::StrCat(Counted(pool.skipped_steps, "step"), " of ", pool.steps,
                                   " changed nothing: their gradient was not finite"),
           .hint = absl::StrCat("if all pools skip steps, ", kLowerRate,
                                "; if one does, look at its data and hardware")},
          absl::ZeroDuration(), now);
  }
}

void JobHealth::LookAtPools(const HealthFacts& facts, absl::Time now) {
  bool alone = true;
  std::optional<int64_t> newest;
  for (const HealthFacts::Pool& pool : facts.pools) {
    Grow(facts, pool, now);
    alone &= (!pool.trains && !facts.finishing) || pool.steps == 0 ||
             IsWorseThanGuessing(pool.train_loss, facts.guess);
    if (growth_.at(pool.name).tokens == 0) continue;
    newest = std::max(newest.value_or(0), growth_.at(pool.name).rounds);
  }
  for (const HealthFacts::Pool& pool : facts.pools) LookAtPool(facts, pool, alone, newest, now);
  const bool none = std::none_of(facts.pools.begin(), facts.pools.end(),
                                 [](const HealthFacts::Pool& pool) { return pool.trains; });
  for (const auto& [pool, why] : facts.set_aside) {
    const auto& [reason, failures] = why;
    Found("POOL_SET_ASIDE", pool,
          {.level = none && failures > 1 && !facts.finishing ? kFailing : kWarning,
           .message = absl::StrCat("it is set aside: ", reason),
           .hint = "`longhaul pools` has its hint; while the job is live the pool retries"},
          absl::ZeroDuration(), now);
  }
}

void JobHealth::LookAtLosses(const HealthFacts& facts, absl::Time now) {
  const v1::EvalLoss& loss = facts.evaluation;
  if (loss.evaluations() < 2 || loss.best() <= 0 || loss.last() <= kRise * loss.best()) return;
  Found("EVAL_LOSS_ROSE", "",
        {.level = kWarning,
         .message = absl::StrFormat("the held-out loss is %.4g nats, and was %.4g", loss.last(),
                                    loss.best()),
         .hint = "lower the outer learning rate or momentum; `longhaul checkpoints` shows the "
                 "checkpoints from before"},
        facts.finishing ? absl::ZeroDuration() : kRisen, now);
}

void JobHealth::LookAtRounds(const HealthFacts& facts, absl::Time now) {
  if (!facts.norm.empty()) {
    Found("OUTER_GRADIENT_LARGE", "",
          {.level = kWarning,
           .message = facts.norm,
           .hint = "if it lasts, look at each pool's loss and data"},
          absl::ZeroDuration(), now);
  }
  if (norms_.empty() || now - norms_.back().first >= kNormsEach)
    norms_.emplace_back(now, facts.parameter_norms);
  while (norms_.size() > 1 && now - norms_[1].first >= kGrowthWithin) norms_.pop_front();
  if (now - norms_.front().first >= kGrowthWithin) {
    for (const auto& [fragment, norm] : facts.parameter_norms) {
      const auto before = norms_.front().second.find(fragment);
      if (before == norms_.front().second.end() || before->second <= 0 ||
          norm <= kGrowth * before->second)
        continue;
      Found("PARAMETERS_GROW", "",
            {.level = kWarning,
             .message = absl::StrFormat("the norm of fragment %d is %.3g, and was %.3g an hour ago",
                                        fragment, norm, before->second),
             .hint = "an early sign of divergence, but usual in a job's first hours: lower the "
                     "outer learning rate or momentum if the held-out loss rises"},
            absl::ZeroDuration(), now);
    }
  }
  if (facts.utilization > 0 && facts.utilization < kUtilizationLow) {
    Found("UTILIZATION_LOW", "",
          {.level = kWarning,
           .message = absl::StrFormat("the pools compute for %.0f %% of their time",
                                      100 * facts.utilization),
           .hint = "raise sync.h or sync.tau, or use a codec with fewer bits; `longhaul doctor` at "
                   "a site measures its link"},
          kWaiting, now);
  }
}

// Pools that train on data of one kind pull the same way. Where each site has data of its own, they
// pull apart in any case once the shared parameters are a compromise: that is wrong only if these
// lack much of what a pool's own parameters learn between two merges. Towards the end of a schedule
// the own ones no longer move far, so what was found stays as long as the pools pull apart.
void JobHealth::LookAtAgreement(const HealthFacts& facts, absl::Time now) {
  if (!facts.cosine.has_value() || *facts.cosine >= kCosineLow) return;
  std::string message =
      absl::StrFormat("the mean cosine of the pools' outer gradients is %.2f", *facts.cosine);
  bool known = false, lacking = false;
  for (const HealthFacts::Pool& pool : facts.pools) {
    if (!pool.outer_loss.has_value() || !pool.own_loss.has_value()) continue;
    known = true;
    const double learned = std::max(0.0, facts.evaluation.first() - *pool.own_loss);
    if (*pool.outer_loss - *pool.own_loss <= kLacking * learned) continue;
    lacking = true;
    absl::StrAppendFormat(&message,
                          "; at %s the loss of the shared parameters is %.4g, of its own %.4g",
                          pool.name, *pool.outer_loss, *pool.own_loss);
  }
  const auto found = findings_.find({kPoolsDisagree, ""});
  if (known && !lacking && (found == findings_.end() || !found->second.shown)) return;
  Found(kPoolsDisagree, "",
        {.level = kWarning,
         .message = std::move(message),
         .hint = "look at each pool's data; lower sync.h, or raise the batch"},
        kDisagree, now);
}

std::vector<v1::JobEvent> JobHealth::Observe(const HealthFacts& facts, absl::Time now) {
  for (auto& [key, finding] : findings_) finding.now = !facts.running && key.first != kDivergedCode;
  if (facts.running) {
    known_ = true;
    LookAtLosses(facts, now);
    LookAtPools(facts, now);
    LookAtRounds(facts, now);
    LookAtAgreement(facts, now);
  }
  if (!facts.divergence.empty()) {
    known_ = true;
    Found(kDivergedCode, "",
          {.level = facts.divergence_lasts || facts.finishing ? kFailing : kWarning,
           .message = facts.divergence,
           .hint = absl::StrCat(kLowerRate, ", or from a checkpoint of before")},
          absl::ZeroDuration(), facts.divergence_since.value_or(now));
  }
  std::vector<v1::JobEvent> events;
  for (auto& [key, finding] : findings_) {
    if (!finding.shown) continue;
    const bool began = finding.now && !finding.told;
    if (!began && finding.now) continue;
    finding.told = true;
    // They have events of their own (NORM_ALERT, POOL_SET_ASIDE, POOL_LEFT_OUT).
    if (key.first == "OUTER_GRADIENT_LARGE" || key.first == "POOL_SET_ASIDE") continue;
    if (began && key.first == "POOL_LEFT_OUT") continue;
    v1::JobEvent& event = events.emplace_back(
        MakeEvent(began ? v1::FINDING_BEGAN : v1::FINDING_ENDED,
                  !began                      ? v1::INFO
                  : finding.level == kFailing ? v1::ERROR
                                              : v1::WARNING,
                  began ? finding.message : absl::StrCat("not any more: ", finding.message)));
    event.set_code(key.first);
    event.set_pool(key.second);
    if (began) event.set_hint(finding.hint);
  }
  std::erase_if(findings_, [](const auto& entry) { return !entry.second.now; });
  return events;
}

v1::JobHealth JobHealth::Report() const {
  v1::JobHealth report;
  if (!known_) return report;
  report.set_level(v1::JobHealth::HEALTHY);
  for (const v1::JobHealth::Level level : {kFailing, kWarning}) {
    for (const auto& [key, finding] : findings_) {
      if (!finding.shown || finding.level != level ||
          report.findings_size() == static_cast<int>(kFindingsMax))
        continue;
      report.set_level(std::max(report.level(), level));
      v1::HealthFinding& shown = *report.add_findings();
      shown.set_code(key.first);
      shown.set_level(level);
      shown.set_message(finding.message);
      *shown.mutable_since() = ToProto(finding.since);
      shown.set_pool(key.second);
      shown.set_hint(finding.hint);
    }
  }
  return report;
}

}  // namespace longhaul::coordinator
