#include "worker/agent/agent_metrics.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/logging/standard_error.h"
#include "common/metrics/process_metrics.h"
#include "worker/agent/pool_supervisor.h"

namespace longhaul {
namespace {

// So that the last figures of a job are scraped.
constexpr absl::Duration kShownAfterEnd = absl::Minutes(1);

const char* ReasonOf(int code) {
  switch (code) {
    case kRankFinished:
    case kRankCompleted:
      return "finished";
    case kRankStopped:
      return "stopped";
    case kRankRestart:
      return "restart";
    case kRankFailed:
      return "failed";
    default:
      return "lost";
  }
}

}  // namespace

AgentMetrics::AgentMetrics()
    : last_answer_(registry_.Gauge("longhaul_worker_last_answer_timestamp_seconds",
                                   "Time of the coordinator's last answer, as Unix time; before "
                                   "the first answer, the start time of this program.")),
      ranks_(registry_.Gauge("longhaul_worker_ranks", "Running rank processes of this node.")),
      starts_(registry_.Counter("longhaul_worker_rank_starts_total", "Started rank processes.")),
      exits_(registry_.Counter("longhaul_worker_rank_exits_total",
                               "Rank processes that ended by themselves: finished, stopped (when "
                               "asked to), restart (cannot continue as this incarnation), failed "
                               "(reported an error), lost (anything else).")),
      rejoins_(registry_.Counter("longhaul_worker_rejoins_total",
                                 "Number of times that the pool rejoined as a new incarnation.")),
      rank_step_(registry_.Gauge("longhaul_worker_rank_inner_step", "Finished inner steps.")),
      rank_waits_(registry_.Gauge("longhaul_worker_rank_waiting",
                                  "1: the rank waits for the coordinator.")),
      rank_memory_(registry_.Gauge("longhaul_worker_rank_resident_memory_bytes",
                                   "Resident memory of the process.")),
      rank_cpu_(registry_.Counter("longhaul_worker_rank_cpu_seconds_total",
                                  "User and system time of the process.")),
      rank_damaged_pulls_(
          registry_.Counter("longhaul_worker_rank_damaged_pulls_total",
                            "Pull attempts whose bytes arrived damaged. They are retried.")),
      pool_(registry_, "longhaul_worker_pool") {
  AddProcessMetrics(registry_, "longhaul_worker_build_info", LONGHAUL_VERSION);
  registry_.Counter(
      "longhaul_worker_log_lines_dropped_total",
      "Log lines of the worker and its ranks that were dropped because nobody read standard error.",
      [] { return static_cast<double>(StandardErrorLinesDropped()); });
  // The series exists before the first event, so that rates begin at 0.
  last_answer_.With().Set(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()));
  ranks_.With().Set(0);
  starts_.With();
  rejoins_.With();
  for (const int code : {kRankFinished, kRankStopped, kRankRestart, kRankFailed}) {
    exits_.With({{"reason", ReasonOf(code)}});
  }
  exits_.With({{"reason", "lost"}});
}

void AgentMetrics::AddPages(Pages& pages) {
  AddMetricsPage(pages, registry_);
  AddProbes(pages, [this] { return Ready(SteadyTime()); });
}

void AgentMetrics::WatchTls(std::shared_ptr<const Tls> tls) {
  registry_.Gauge("longhaul_worker_certificate_expiry_timestamp_seconds",
                  "Expiry of the certificate in use (--tls-certificate), as Unix time.",
                  [tls] { return CertificateExpirySeconds(*tls); });
  registry_.Gauge("longhaul_worker_tls_files_refused",
                  "1: the current files of --tls-ca, --tls-certificate and --tls-key are invalid. "
                  "The previous ones stay in use.",
                  [tls] { return tls->files().refused() ? 1. : 0.; });
}

void AgentMetrics::WatchDisk(std::function<std::string()> stands,
                             std::function<absl::Duration()> slowest) {
  stands_ = std::move(stands);
  registry_.Gauge("longhaul_worker_slow_disk_operation_seconds",
                  "Age of the agent's oldest pending disk operation; 0 below 10 s.",
                  [slowest = std::move(slowest)] { return absl::ToDoubleSeconds(slowest()); });
}

void AgentMetrics::WatchTokens(Tokens* tokens) {
  registry_.Gauge("longhaul_worker_tokens_refused",
                  "1: the current file of --tokens is invalid. The users that were read before "
                  "stay valid for 10 minutes.",
                  [tokens] { return tokens->refused() ? 1. : 0.; });
}

void AgentMetrics::CoordinatorAnswered(absl::Time now, absl::Duration lease) {
  last_answer_.With().Set(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()));
  absl::MutexLock lock(&mutex_);
  answered_ = now;
  lease_ = lease;
}

absl::Status AgentMetrics::Ready(absl::Time now) const {
  if (const std::string stands = stands_ ? stands_() : ""; !stands.empty())
    return absl::UnavailableError(stands);
  absl::MutexLock lock(&mutex_);
  if (answered_ == absl::InfinitePast())
    return absl::UnavailableError("the coordinator has not answered yet");
  const absl::Duration silence = now - answered_;
  if (silence <= lease_) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the coordinator has not answered for ",
                   absl::FormatDuration(absl::Trunc(silence, absl::Seconds(1)))));
}

void AgentMetrics::RanksStarted(int ranks) {
  starts_.With().Increment(ranks);
  ranks_.With().Set(ranks);
}

void AgentMetrics::RankReported(int rank, pid_t pid, const RankStatus& status) {
  const MetricLabels labels = {{"rank", absl::StrCat(rank)}};
  shown_ranks_.Show(rank_step_, labels).Set(static_cast<double>(status.step));
  shown_ranks_.Show(rank_waits_, labels).Set(status.waits_for.empty() ? 0 : 1);
  RaiseTo(shown_ranks_.Show(rank_damaged_pulls_, labels),
          static_cast<double>(status.damaged_pulls));
  const std::optional<ProcessFigures> process = ReadProcess(pid);
  if (!process.has_value()) return;
  shown_ranks_.Show(rank_memory_, labels).Set(process->resident_bytes);
  RaiseTo(shown_ranks_.Show(rank_cpu_, labels), process->cpu_seconds);
}

void AgentMetrics::RankExited(int code) {
  exits_.With({{"reason", ReasonOf(code)}}).Increment();
  ranks_.With().Decrement();
  if (ranks_.With().Value() <= 0) shown_ranks_.Clear();
}

void AgentMetrics::RanksEnded() {
  ranks_.With().Set(0);
  shown_ranks_.Clear();
}

void AgentMetrics::Rejoined() { rejoins_.With().Increment(); }

void AgentMetrics::Progressed(const std::string& job, const v1::PoolProgress& progress,
                              absl::Time now) {
  progressed_ = now;
  if (std::exchange(job_, job) != job) shown_pool_.Clear();
  pool_.Show(job, progress, shown_pool_);
}

void AgentMetrics::Tick(absl::Time now) {
  if (job_.empty() || ranks_.With().Value() > 0 || now - progressed_ < kShownAfterEnd) return;
  shown_pool_.Clear();
  job_.clear();
}

}  // namespace longhaul
