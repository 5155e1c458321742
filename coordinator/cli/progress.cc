#include "coordinator/cli/progress.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/bytes_text.h"
#include "coordinator/cli/text.h"
#include "coordinator/cli/views.h"

namespace longhaul::cli {
namespace {

constexpr absl::Duration kLineInterval = absl::Seconds(5);
constexpr int kBarCellsMax = 24;

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

std::string Eta(const v1::Job& job, absl::Time now) {
  const double done = DoneFraction(job);
  if (job.state() != v1::RUNNING || !job.has_started_at() || done == 0) return "";
  // The pool that trained longest has taken part from the start, or nearly.
  double trained = 0;
  for (const v1::PoolProgress& pool : job.pools()) {
    trained = std::max(trained, pool.compute_seconds() + pool.sync_seconds() + pool.eval_seconds() +
                                    pool.exposed_wait_seconds());
  }
  const absl::Duration elapsed = trained > 0
                                     ? absl::Seconds(trained)
                                     : now - absl::FromUnixSeconds(job.started_at().seconds());
  return absl::StrCat("ETA ", DurationText(elapsed * ((1 - done) / done)));
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

std::string Bar(double done, int cells_max) {
  const int cells = static_cast<int>(done * cells_max);
  return absl::StrCat("[", std::string(cells, '#'), std::string(cells_max - cells, '.'), "]",
                      absl::StrFormat(" %3.0f %%", 100 * done));
}

// A part of the text. Where there is little room, parts with a lower rank are shown first.
struct Part {
  std::string text;
  int rank;
  bool clips = false;  // May be shown in part.
};

// In the order of the text. A part that is not known yet is empty.
std::vector<Part> PartsOf(const v1::Job& job, absl::Time now) {
  const PoolMeans means = MeansOf(job);
  const bool trains = means.reporting > 0;
  const v1::WireBytes& wire = job.wire_bytes();
  const auto if_known = [](bool known, auto make) { return known ? make() : std::string(); };
  return {{StateName(job.state()), 3},
          {if_known(!job.waiting_for().empty(),
                    [&] { return absl::StrCat("waiting for ", Printable(job.waiting_for())); }),
           0, true},
          {absl::StrCat("step ", job.inner_step(), "/", job.spec().train().steps()), 4},
          {if_known(trains, [&] { return absl::StrFormat("loss %.4f", means.loss); }), 5},
          {if_known(job.eval_loss().has_last(),
                    [&] { return absl::StrFormat("eval %.4f", job.eval_loss().last()); }),
           6},
          {if_known(trains && !HasEnded(job),
                    [&] {
                      return absl::StrCat(CountText(means.tokens_per_second), " ", UnitName(job),
                                          "/s");
                    }),
           8},
          {if_known(wire.up_total() + wire.down_total() > 0,
                    [&] {
                      return absl::StrCat("up ", BytesText(wire.up_total()), "  down ",
                                          BytesText(wire.down_total()));
                    }),
           9},
          {Eta(job, now), 2},
          {if_known(job.state() == v1::QUARANTINED,
                    [&] {
                      return absl::StrCat(Printable(job.error().code()), ": ",
                                          Printable(job.error().message()));
                    }),
           1, true},
          {if_known(job.health().findings_size() > 0,
                    [&] {
                      const v1::HealthFinding& worst = job.health().findings(0);
                      return absl::StrCat(
                          worst.level() == v1::JobHealth::FAILING ? "failing: " : "warning: ",
                          Printable(worst.message()));
                    }),
           1, true},
          {if_known(job.set_aside_size() > 0,
                    [&] { return absl::StrCat("set aside: ", SetAsidePools(job)); }),
           7, true}};
}

constexpr int kClippedMin = 12;  // Less of a part says nothing.

// Empties or clips the least important ones until all fit.
void Fit(std::vector<Part>& parts, int columns) {
  std::vector<Part*> by_rank;
  for (Part& part : parts) by_rank.push_back(&part);
  std::sort(by_rank.begin(), by_rank.end(),
            [](const Part* a, const Part* b) { return a->rank < b->rank; });
  for (Part* part : by_rank) {
    if (part->text.empty()) continue;
    const int room = columns - 2;
    if (part->clips && room >= kClippedMin) part->text = ClipColumns(part->text, room);
    if (ColumnsOf(part->text) > room) part->text.clear();
    if (!part->text.empty()) columns -= 2 + ColumnsOf(part->text);
  }
}

std::string Joined(const std::vector<Part>& parts) {
  std::vector<absl::string_view> texts;
  for (const Part& part : parts) {
    if (!part.text.empty()) texts.push_back(part.text);
  }
  return absl::StrJoin(texts, "  ");
}

}  // namespace

std::string ProgressText(const v1::Job& job, absl::Time now) { return Joined(PartsOf(job, now)); }

std::string ProgressLine(const v1::Job& job, absl::Time now, int columns) {
  const double done = DoneFraction(job);
  // " 100 %" and the brackets take 8.
  const int cells = std::clamp(columns / 5, 0, kBarCellsMax);
  std::string line = columns < 8 ? absl::StrFormat("%.0f%%", 100 * done) : Bar(done, cells);
  if (ColumnsOf(line) > columns) line = ClipColumns(line, columns);
  std::vector<Part> parts = PartsOf(job, now);
  Fit(parts, columns - ColumnsOf(line));
  const std::string text = Joined(parts);
  return text.empty() ? line : absl::StrCat(line, "  ", text);
}

void Progress::Show(const v1::Job& job, absl::Time now) {
  if (terminal_ != nullptr) {
    // The last column stays free: a cursor behind it wraps on some terminals.
    out_ << "\r" << ProgressLine(job, now, terminal_->columns() - 1) << "\x1b[K" << std::flush;
    drawn_ = true;
    return;
  }
  const std::string what = absl::StrCat(StateName(job.state()), "\n", job.eval_loss().evaluations(),
                                        "\n", job.waiting_for(), "\n", job.set_aside_size(), "\n",
                                        job.health().level(), job.health().findings_size());
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
