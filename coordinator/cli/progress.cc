#include "coordinator/cli/progress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/text.h"
#include "coordinator/cli/views.h"

namespace longhaul::cli {
namespace {

constexpr absl::Duration kLineInterval = absl::Seconds(5);
constexpr int kBarCells = 24;

struct PoolMeans {
  int reporting = 0;  // Live pools that have trained.
  double loss = 0, tokens_per_second = 0;
};

PoolMeans MeansOf(const v1::Job& job) {
  PoolMeans means;
  for (const v1::PoolProgress& pool : job.pools()) {
    if (!pool.live() || pool.inner_step() == 0) continue;
    ++means.reporting;
    means.loss += pool.train_loss();
    means.tokens_per_second += pool.tokens_per_second();
  }
  if (means.reporting > 0) means.loss /= means.reporting;
  return means;
}

double DoneFraction(const v1::Job& job) {
  const int64_t steps = job.spec().train().steps();
  return steps > 0 ? std::clamp(static_cast<double>(job.inner_step()) / steps, 0.0, 1.0) : 0;
}

void AppendEta(const v1::Job& job, absl::Time now, std::string* text) {
  const double done = DoneFraction(job);
  if (job.state() != v1::RUNNING || !job.has_started_at() || done == 0) return;
  const absl::Duration elapsed = now - absl::FromUnixSeconds(job.started_at().seconds());
  absl::StrAppend(text, "  ETA ", DurationText(elapsed * ((1 - done) / done)));
}

// "east, west (NOT_FOUND: no such file)": the reason of the first.
std::string SetAsidePools(const v1::Job& job) {
  const auto name = [](std::string* out, const v1::SetAside& pool) {
    absl::StrAppend(out, Printable(pool.pool()));
  };
  const v1::JobError& error = job.set_aside(0).error();
  return absl::StrCat(absl::StrJoin(job.set_aside(), ", ", name), " (", Printable(error.code()),
                      ": ", Printable(error.message()), ")");
}

std::string Bar(double done) {
  const int cells = static_cast<int>(done * kBarCells);
  return absl::StrCat("[", std::string(cells, '#'), std::string(kBarCells - cells, '.'), "]",
                      absl::StrFormat(" %3.0f %%  ", 100 * done));
}

}  // namespace

std::string ProgressText(const v1::Job& job, absl::Time now) {
  std::string text = StateName(job.state());
  if (!job.waiting_for().empty()) {
    absl::StrAppend(&text, "  waiting for ", Printable(job.waiting_for()));
  }
  absl::StrAppend(&text, "  step ", job.inner_step(), "/", job.spec().train().steps());
  const PoolMeans means = MeansOf(job);
  if (means.reporting > 0) absl::StrAppendFormat(&text, "  loss %.4f", means.loss);
  if (job.eval_loss().has_last())
    absl::StrAppendFormat(&text, "  eval %.4f", job.eval_loss().last());
  if (means.reporting > 0 && !HasEnded(job)) {
    absl::StrAppend(&text, "  ", CountText(means.tokens_per_second), " tokens/s");
  }
  const v1::WireBytes& wire = job.wire_bytes();
  if (wire.up_total() + wire.down_total() > 0) {
    absl::StrAppend(&text, "  up ", BytesText(wire.up_total()), "  down ",
                    BytesText(wire.down_total()));
  }
  AppendEta(job, now, &text);
  if (job.state() == v1::QUARANTINED) {
    absl::StrAppend(&text, "  ", Printable(job.error().code()), ": ",
                    Printable(job.error().message()));
  }
  if (job.set_aside_size() > 0) absl::StrAppend(&text, "  set aside: ", SetAsidePools(job));
  return text;
}

void Progress::Show(const v1::Job& job, absl::Time now) {
  if (terminal_) {
    out_ << "\r" << Bar(DoneFraction(job)) << ProgressText(job, now) << "\x1b[K" << std::flush;
    drawn_ = true;
    return;
  }
  const std::string what = absl::StrCat(StateName(job.state()), "\n", job.eval_loss().evaluations(),
                                        "\n", job.waiting_for(), "\n", job.set_aside_size());
  if (what == shown_ && now - shown_at_ < kLineInterval) return;
  shown_ = what;
  shown_at_ = now;
  out_ << ProgressText(job, now) << std::endl;
}

void Progress::Note(const std::string& line) {
  Finish();
  out_ << line << std::endl;
}

void Progress::Finish() {
  if (drawn_) out_ << std::endl;
  drawn_ = false;
}

}  // namespace longhaul::cli
