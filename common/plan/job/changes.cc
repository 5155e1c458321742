// ChangesFor of job_forecast.h.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/plan/job/job_forecast.h"

namespace longhaul::plan {
namespace {

// How far a change goes.
constexpr int64_t kFactorMax = 64;
constexpr double kLinkFactorMax = 256, kLinkGrain = 1.05;

class Search {
 public:
  Search(const ResolvedJob& job, const v1::Sites& sites, double wanted)
      : job_(job), sites_(sites), wanted_(wanted) {}

  // Sets a value of the spec.
  using Set = absl::FunctionRef<void(v1::JobSpec&, int64_t)>;

  // Tries a whole number from `low` to `high`, where more is at least as good: adds the smallest
  // that reaches what is wanted, or the largest.
  void Number(const std::string& field, int64_t from, int64_t high, Set set,
              const std::string& note) {
    if (high <= from) return;
    const auto pace = [&](int64_t value) { return With(value, set); };
    const std::optional<Pace> most = pace(high);
    if (!most.has_value()) return;
    if (most->utilization < wanted_)
      return Add(field, absl::StrCat(from), absl::StrCat(high), *most, "");
    int64_t low = from, reaching = high;
    Pace best = *most;
    while (reaching - low > 1) {
      const int64_t middle = low + (reaching - low) / 2;
      const std::optional<Pace> tried = pace(middle);
      if (tried.has_value() && tried->utilization >= wanted_) {
        reaching = middle;
        best = *tried;
      } else {
        low = middle;
      }
    }
    Add(field, absl::StrCat(from), absl::StrCat(reaching), best, note);
  }

  // Tries one value.
  void Value(const std::string& field, const std::string& from, const std::string& to,
             absl::FunctionRef<void(v1::JobSpec&)> set, const std::string& note) {
    const std::optional<Pace> outcome = With(0, [&](v1::JobSpec& spec, int64_t) { set(spec); });
    if (outcome.has_value()) Add(field, from, to, *outcome, note);
  }

  // The smallest factor of all links that reaches it.
  void Link() {
    const auto at = [&](double factor) {
      v1::Sites faster = sites_;
      for (v1::PoolSite& site : *faster.mutable_pools()) {
        site.mutable_link()->set_up_mbps(factor * site.link().up_mbps());
        site.mutable_link()->set_down_mbps(factor * site.link().down_mbps());
      }
      return PaceOf(job_, faster);
    };
    const auto text = [&](double factor) {
      double least = 0;
      for (const v1::PoolSite& site : sites_.pools()) {
        const double narrow = std::min(site.link().up_mbps(), site.link().down_mbps());
        least = least == 0 ? narrow : std::min(least, narrow);
      }
      return absl::StrFormat("%.0f Mbit/s", factor * least);
    };
    double low = 1, high = kLinkFactorMax;
    Pace best = at(high);
    if (best.utilization < wanted_)
      return Add("link", text(1), text(high), best, "bandwidth is not what it waits for");
    while (high / low > kLinkGrain) {
      const double middle = std::sqrt(low * high);
      const Pace tried = at(middle);
      if (tried.utilization >= wanted_) {
        high = middle;
        best = tried;
      } else {
        low = middle;
      }
    }
    Add("link", text(1), text(high), best, "the narrowest; the others by the same factor");
  }

  std::vector<v1::PlannedChange> Take() {
    std::stable_sort(changes_.begin(), changes_.end(),
                     [](const v1::PlannedChange& a, const v1::PlannedChange& b) {
                       if (a.reaches() != b.reaches()) return a.reaches();
                       return !a.reaches() && a.utilization() > b.utilization();
                     });
    return std::move(changes_);
  }

 private:
  // Nothing: the spec would be refused.
  std::optional<Pace> With(int64_t value, Set set) const {
    v1::JobSpec spec = job_.spec;
    set(spec, value);
    const absl::StatusOr<ResolvedJob> changed = ResolveJobSpec(spec);
    if (!changed.ok() || !CompleteSites(*changed, sites_).ok()) return std::nullopt;
    return PaceOf(*changed, sites_);
  }
  void Add(const std::string& field, const std::string& from, const std::string& to,
           const Pace& outcome, const std::string& note) {
    v1::PlannedChange& change = changes_.emplace_back();
    change.set_field(field);
    change.set_from(from);
    change.set_to(to);
    change.set_utilization(outcome.utilization);
    change.set_seconds(outcome.seconds);
    change.set_reaches(outcome.utilization >= wanted_);
    change.set_note(note);
  }

  const ResolvedJob& job_;
  const v1::Sites& sites_;
  const double wanted_;
  std::vector<v1::PlannedChange> changes_;
};

std::string NameOf(const v1::CodecSpec& spec) { return v1::Codec_Name(spec.codec()); }

}  // namespace

std::vector<v1::PlannedChange> ChangesFor(const ResolvedJob& job, const v1::Sites& sites,
                                          const v1::JobForecast& forecast, double wanted) {
  if (forecast.pace_utilization() >= wanted) return {};
  const v1::JobSpec& spec = job.spec;
  const v1::SyncSpec& sync = spec.sync();
  Search search(job, sites, wanted);
  search.Number(
      "sync.tau", sync.tau(), sync.h() - 1,
      [](v1::JobSpec& changed, int64_t tau) { changed.mutable_sync()->set_tau(tau); },
      "merges come later in the steps; losses hardly change up to about 10");
  search.Number(
      "sync.h", sync.h(), std::min(spec.train().steps(), kFactorMax * sync.h()),
      [](v1::JobSpec& changed, int64_t h) { changed.mutable_sync()->set_h(h); },
      "fewer rounds: pools drift further apart between them");
  search.Number(
      "train.batch", spec.train().batch(), kFactorMax * spec.train().batch(),
      [](v1::JobSpec& changed, int64_t batch) {
        changed.mutable_train()->set_batch(static_cast<int32_t>(batch));
      },
      "longer steps on more tokens each; learning rate and number of steps change with it");
  const auto codec = [&](v1::Codec up, v1::Codec down, const std::string& note) {
    v1::CodecSpec to_up, to_down;
    to_up.set_codec(up);
    to_down.set_codec(down);
    if (up == sync.up().codec() && down == sync.down().codec()) return;
    search.Value(
        "sync.up, sync.down", absl::StrCat(NameOf(sync.up()), ", ", NameOf(sync.down())),
        absl::StrCat(NameOf(to_up), ", ", NameOf(to_down)),
        [&](v1::JobSpec& changed) {
          *changed.mutable_sync()->mutable_up() = to_up;
          *changed.mutable_sync()->mutable_down() = to_down;
        },
        note);
  };
  codec(v1::E3M0, v1::E3M0, "4 bits; the default");
  codec(v1::SIGN1, v1::SIGN1, "1 bit with error feedback; costs loss");
  codec(v1::TOPK2, v1::E3M0, "the largest elements alone go up; costs loss");
  if (sync.mode() == v1::LOCKSTEP && sites.pools_size() > 1) {
    search.Value(
        "sync.mode", "LOCKSTEP", "QUORUM",
        [](v1::JobSpec& changed) {
          changed.mutable_sync()->set_mode(v1::QUORUM);
          changed.mutable_sync()->mutable_quorum()->set_pools(1);
        },
        "a quorum of 1; slower pools leave steps out, and results depend on timing");
  }
  if (sync.final_round()) {
    search.Value(
        "sync.final_round", "true", "false",
        [](v1::JobSpec& changed) { changed.mutable_sync()->set_final_round(false); },
        "the exchange at the end; without it the last steps of each pool are lost");
  }
  search.Link();
  return search.Take();
}

}  // namespace longhaul::plan
