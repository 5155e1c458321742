#include "common/plan/level_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/status/status.h"
#include "common/plan/relative_fit.h"

namespace longhaul::plan {
namespace {

constexpr size_t kCachesMax = 3;
// Of a cache's size, the part that counts. Neighbours on the machine use a cache, too, and the
// system may report that of another machine.
constexpr double kParts[] = {1, 0.5, 2, 0.25};
// Another size has to fit so much better.
constexpr double kBetter = 0.9;
// The core stops paying where it has less of the time.
constexpr double kCoreShare = 0.1;

bool IsSize(double value) { return std::isfinite(value) && value > 0; }

double Missed(double working_set, double cache) {
  return std::clamp((std::log2(working_set / cache) + 1) / 2, 0.0, 1.0);
}

// What one unit of each term adds. The last cache before memory may be any.
std::array<double, 4> Factors(const std::vector<double>& caches, double working_set) {
  std::array<double, 4> factors = {1, 0, 0, 0};
  for (size_t i = 0; i < caches.size(); ++i) {
    const size_t from = i + 1 == caches.size() ? 3 : i + 1;
    factors[from] = Missed(working_set, caches[i]);
  }
  return factors;
}

struct Fit {
  LevelModel model;
  double error = 0;
};

Fit FitWith(absl::Span<const LevelSample> samples, std::vector<double> caches) {
  std::vector<FitRow> rows;
  for (const LevelSample& sample : samples) {
    const std::array<double, 4> factors = Factors(caches, sample.working_set);
    FitRow& row = rows.emplace_back(FitRow{});
    for (size_t t = 0; t < factors.size(); ++t) row[t] = factors[t] / sample.seconds;
  }
  const FitRow terms = FitToOne(rows);
  Fit fit{.model = {.caches = std::move(caches)}, .error = SquaredError(rows, terms)};
  std::copy_n(terms.begin(), fit.model.terms.size(), fit.model.terms.begin());
  return fit;
}

// All choices of sizes, for the caches from `i` on.
void Try(absl::Span<const LevelSample> samples, absl::Span<const double> sizes,
         std::vector<double>& chosen, Fit& best) {
  if (chosen.size() == sizes.size()) {
    Fit fit = FitWith(samples, chosen);
    if (fit.error < kBetter * best.error) best = std::move(fit);
    return;
  }
  for (const double part : kParts) {
    const double size = part * sizes[chosen.size()];
    if (!chosen.empty() && size <= chosen.back()) continue;
    chosen.push_back(size);
    Try(samples, sizes, chosen, best);
    chosen.pop_back();
  }
}

}  // namespace

std::string_view MemoryLevelName(MemoryLevel level) {
  constexpr std::string_view kNames[] = {"core", "l2", "l3", "memory"};
  return kNames[static_cast<int>(level)];
}

std::array<double, 4> LevelModel::Shares(double working_set) const {
  std::array<double, 4> shares = Factors(caches, working_set);
  for (size_t t = 0; t < shares.size(); ++t) shares[t] *= terms[t];
  return shares;
}

double LevelModel::Seconds(double working_set) const {
  const std::array<double, 4> shares = Shares(working_set);
  return std::accumulate(shares.begin(), shares.end(), 0.0);
}

double LevelModel::Transfer(double working_set) const {
  return std::min(transfer_term * Factors(caches, working_set)[3], Seconds(working_set));
}

MemoryLevel LevelModel::Limit(double working_set) const {
  std::array<double, 4> shares = Shares(working_set);
  shares[3] = std::max(shares[3], Transfer(working_set));
  if (2 * shares[0] >= Seconds(working_set) && shares[0] >= shares[3]) return MemoryLevel::kCore;
  return static_cast<MemoryLevel>(std::max_element(shares.begin() + 1, shares.end()) -
                                  shares.begin());
}

double LevelModel::WithClock(double working_set, double times) const {
  const std::array<double, 4> shares = Shares(working_set);
  const double own = shares[0] + shares[1], rest = shares[2] + shares[3];
  return Seconds(working_set) / std::max(own / times + rest, Transfer(working_set));
}

double LevelModel::ClockStopsPaying(double working_set) const {
  const std::array<double, 4> shares = Shares(working_set);
  const double own = shares[0] + shares[1], rest = shares[2] + shares[3];
  // At that clock: kCoreShare of it is the core's, or all of it transfer.
  const double seconds = std::max(rest / (1 - kCoreShare), Transfer(working_set));
  return seconds == 0 ? std::numeric_limits<double>::infinity() : own / (seconds - rest);
}

double LevelModel::WithBandwidth(double working_set, double times) const {
  const double memory = Shares(working_set)[3], all = Seconds(working_set);
  return all / (all - std::min(memory, Transfer(working_set) * (1 - 1 / times)));
}

absl::StatusOr<LevelModel> FitLevels(absl::Span<const LevelSample> samples,
                                     absl::Span<const double> caches) {
  if (samples.empty()) return absl::InvalidArgumentError("there are no times to fit");
  for (const LevelSample& sample : samples) {
    if (!IsSize(sample.working_set) || !IsSize(sample.seconds))
      return absl::InvalidArgumentError("working sets and times must be positive");
  }
  if (caches.size() > kCachesMax || !std::all_of(caches.begin(), caches.end(), IsSize))
    return absl::InvalidArgumentError("expected at most three caches, with positive sizes");
  Fit best{.error = std::numeric_limits<double>::infinity()};
  std::vector<double> chosen;
  Try(samples, caches, chosen, best);
  return best.model;
}

}  // namespace longhaul::plan
