#include "common/plan/clock_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/relative_fit.h"

namespace longhaul::plan {
namespace {

constexpr int kTerms = kFitTerms;
using Row = FitRow;

bool IsPositive(double value) { return std::isfinite(value) && value > 0; }

// How a core that goes on during an access combines times (clock_model.h).
constexpr double kPower = 1.2;
// A core stops paying where it has less of the time.
constexpr double kPays = 0.1;

// What one unit of each term takes.
Row Factors(const Clocks& clocks) {
  return {1 / clocks.core, 1 / clocks.l1, 1 / clocks.l2, 1 / clocks.l3, 1};
}

// Of the time, by each term. By Euler, the time is the sum of the terms, each times its derivative.
Row Derivatives(const ClockModel& model, const Clocks& clocks) {
  Row result = Factors(clocks);
  if (model.core == CoreKind::kInOrder) return result;
  const double core = model.terms[0] * result[0], l1 = model.terms[1] * result[1],
               l2 = model.terms[2] * result[2];
  const double inner = std::hypot(core, l1);
  const double outer = std::pow(std::pow(inner, kPower) + std::pow(l2, kPower), 1 / kPower);
  if (outer == 0) return result;
  const double of_inner = inner > 0 ? std::pow(inner / outer, kPower - 1) / inner : 0;
  result[0] *= of_inner * core;
  result[1] *= of_inner * l1;
  result[2] *= std::pow(l2 / outer, kPower - 1);
  return result;
}

double RelativeError(absl::Span<const ClockSample> samples, const ClockModel& model) {
  double sum = 0;
  for (const ClockSample& sample : samples) {
    const double error = model.Seconds(sample.clocks) / sample.seconds - 1;
    sum += error * error;
  }
  return sum;
}

// Gauss-Newton: the time is the sum of the terms times its derivatives, so that each step is the
// fit of a core in order with derivatives in place of factors. A step that makes it worse is
// halved.
ClockModel FitOverlap(absl::Span<const ClockSample> samples, ClockModel model) {
  constexpr int kSteps = 200, kHalves = 30;
  // The derivative by a term that is zero says nothing.
  const double largest = *std::max_element(model.terms.begin(), model.terms.end() - 1);
  for (int t = 0; t < kTerms - 1; ++t) model.terms[t] = std::max(model.terms[t], 1e-3 * largest);
  double least = RelativeError(samples, model);
  for (int step = 0; step < kSteps; ++step) {
    std::vector<Row> rows;
    for (const ClockSample& sample : samples) {
      Row& row = rows.emplace_back(Derivatives(model, sample.clocks));
      for (double& value : row) value /= sample.seconds;
    }
    const Row aim = FitToOne(rows);
    bool better = false;
    double part = 1;
    for (int half = 0; half < kHalves && !better; ++half, part /= 2) {
      ClockModel next = model;
      for (int t = 0; t < kTerms; ++t) next.terms[t] += part * (aim[t] - model.terms[t]);
      const double error = RelativeError(samples, next);
      better = error < least;
      if (!better) continue;
      const bool done = error > least * (1 - 1e-6) || error < 1e-20;
      model = next;
      least = error;
      if (done) return model;
    }
    if (!better) break;
  }
  return model;
}

}  // namespace

std::string_view ClockTermName(ClockTerm term) {
  constexpr std::string_view kNames[] = {"core", "l1", "l2", "l3", "memory"};
  return kNames[static_cast<int>(term)];
}

std::array<double, 5> ClockModel::Shares(const Clocks& clocks) const {
  Row shares = Derivatives(*this, clocks);
  for (int t = 0; t < kTerms; ++t) shares[t] *= terms[t];
  return shares;
}

double ClockModel::Seconds(const Clocks& clocks) const {
  const Row shares = Shares(clocks);
  return std::accumulate(shares.begin(), shares.end(), 0.0);
}

ClockTerm ClockModel::Limit(const Clocks& clocks) const {
  const Row shares = Shares(clocks);
  return static_cast<ClockTerm>(std::max_element(shares.begin(), shares.end()) - shares.begin());
}

std::optional<double> ClockModel::CoreStopsPaying(const Clocks& clocks) const {
  if (terms[0] == 0) return 0;
  if (std::all_of(terms.begin() + 1, terms.end(), [](double term) { return term == 0; }))
    return std::nullopt;
  const auto share = [&](double ghz) {
    Clocks at = clocks;
    at.core = ghz;
    const Row shares = Shares(at);
    return shares[0] / std::accumulate(shares.begin(), shares.end(), 0.0);
  };
  // The share falls with the clock.
  double low = clocks.core, high = clocks.core;
  while (share(low) < kPays) low /= 2;
  while (share(high) > kPays) high *= 2;
  if (!std::isfinite(high)) return std::nullopt;
  for (int i = 0; i < 100 && low < high * (1 - 1e-12); ++i)
    (share((low + high) / 2) > kPays ? low : high) = (low + high) / 2;
  return high;
}

std::optional<ClockTerm> ClockModel::CoreStoppedBy(const Clocks& clocks) const {
  Clocks at = clocks;
  const std::optional<double> stops = CoreStopsPaying(clocks);
  if (!stops.has_value()) return std::nullopt;
  if (*stops > 0) at.core = *stops;
  const Row shares = Shares(at);
  return static_cast<ClockTerm>(std::max_element(shares.begin() + 1, shares.end()) -
                                shares.begin());
}

absl::StatusOr<ClockModel> FitClocks(absl::Span<const ClockSample> samples, CoreKind core) {
  if (samples.empty()) return absl::InvalidArgumentError("there are no times to fit");
  std::vector<Row> rows;
  for (const ClockSample& sample : samples) {
    const Clocks& c = sample.clocks;
    if (!IsPositive(c.core) || !IsPositive(c.l1) || !IsPositive(c.l2) || !IsPositive(c.l3) ||
        !IsPositive(sample.seconds))
      return absl::InvalidArgumentError("clocks and times must be positive");
    // Relative to the time, which is 1 then.
    rows.push_back(Factors(c));
    for (double& value : rows.back()) value /= sample.seconds;
  }
  ClockModel model{FitToOne(rows), core};
  if (core == CoreKind::kInOrder) return model;
  return FitOverlap(samples, model);
}

double Counters::MissesPerThousandInstructions() const {
  return instructions > 0 ? 1000 * l3_misses / instructions : 0;
}

absl::StatusOr<ClockModel> FromCounters(const Counters& counters, const AccessCost& cost) {
  const double counts[] = {counters.instructions, counters.l1i,         counters.l1d,
                           counters.l2_accesses,  counters.l3_accesses, counters.l3_misses};
  for (const double count : counts) {
    if (!std::isfinite(count) || count < 0)
      return absl::InvalidArgumentError("counts must not be negative");
  }
  if (!IsPositive(counters.ghz) || !IsPositive(counters.seconds))
    return absl::InvalidArgumentError("the clock and the time must be positive");
  double l2 = cost.l2;
  if (cost.l2_falls > 0 && counters.instructions > 0 && counters.l2_accesses > 0)
    l2 *= std::pow(counters.l2_accesses / counters.instructions / 0.01, -cost.l2_falls);
  const Clocks same{counters.ghz, counters.ghz, counters.ghz, counters.ghz};
  // Millions of accesses of so many cycles are thousandths of 10^9 cycles.
  const Row waits = {0, (cost.l1i * counters.l1i + cost.l1d * counters.l1d) / 1e3,
                     l2 * counters.l2_accesses / 1e3, cost.l3 * counters.l3_accesses / 1e3,
                     cost.memory_seconds * counters.l3_misses * 1e6};
  const auto with = [&](double core, double of_waits) {
    ClockModel model{waits, cost.core};
    for (double& term : model.terms) term *= of_waits;
    model.terms[0] = core;
    return model;
  };
  const double all = counters.seconds * counters.ghz;
  const double least = std::min(all, counters.instructions / 1e3 / cost.width);
  // One of the two is sought: the core's term, or the part of the waits that fits beside `least`.
  const bool fits = with(least, 1).Seconds(same) < counters.seconds;
  double low = fits ? least : 0, high = fits ? all : 1;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    const ClockModel model = fits ? with(middle, 1) : with(least, middle);
    (model.Seconds(same) < counters.seconds ? low : high) = middle;
  }
  return fits ? with(high, 1) : with(least, low);
}

double FetchBoundSeconds(double l1i_millions, double l1_ghz) {
  constexpr double kFetchCycles = 3;
  return kFetchCycles * l1i_millions / 1e3 / l1_ghz;
}

}  // namespace longhaul::plan
