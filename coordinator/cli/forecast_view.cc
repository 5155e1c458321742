#include "coordinator/cli/forecast_view.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/base/bytes_text.h"
#include "coordinator/cli/text.h"

namespace longhaul::cli {
namespace {

// More does not fit a number of 64 bits.
constexpr double kBytesShownMax = 9e18;
// A pool that sets the pace and computes less is worth a warning.
constexpr double kUtilizationLow = 0.8;
// Of what was assumed, that many are shown.
constexpr int kAssumptionsShown = 2;

// "2.1 GiB of 24.0 GiB".
std::string MemoryOfText(const v1::RankMemory& memory) {
  if (memory.available() <= 0) return WholeBytesText(memory.total());
  return absl::StrCat(WholeBytesText(memory.total()), " of ", WholeBytesText(memory.available()));
}

// "of other pools", and the seconds, of the longest wait of a cycle.
std::pair<double, std::string> LongestWait(const v1::CycleSeconds& cycle) {
  return std::max({std::pair<double, std::string>{cycle.uplink(), "for its uplink"},
                   {cycle.downlink(), "for its downlink"},
                   {cycle.others(), "for other pools"},
                   {cycle.coordinator(), "for the coordinator"},
                   {cycle.copying(), "for copying and merging"}});
}

}  // namespace

std::string PercentText(double share) { return absl::StrFormat("%.1f %%", 100 * share); }
std::string WholeBytesText(double bytes) {
  return BytesText(std::llround(std::min(bytes, kBytesShownMax)));
}
std::string SecondsText(double seconds) {
  return seconds < 60 ? absl::StrFormat("%.3g s", seconds) : DurationText(absl::Seconds(seconds));
}

std::vector<std::string> ForecastLines(const v1::JobForecast& forecast) {
  double tokens_per_second = 0, device = 0;
  for (const v1::PoolForecast& pool : forecast.pools()) {
    tokens_per_second += pool.copies() * pool.tokens_per_second();
    device = std::max(device, pool.device().total());
  }
  std::vector<std::string> lines = {
      absl::StrCat("the job takes ", SecondsText(forecast.seconds()), "; pools compute ",
                   PercentText(forecast.utilization()), " of the time, at ",
                   CountText(tokens_per_second), " tokens/s together"),
      absl::StrCat("a rank takes up to ", WholeBytesText(device), " of memory, the coordinator ",
                   WholeBytesText(forecast.coordinator_memory_bytes()), "; pools together send ",
                   WholeBytesText(forecast.bytes_up_per_hour()), " and receive ",
                   WholeBytesText(forecast.bytes_down_per_hour()), " per hour")};
  std::string assumed = "assumed, since not measured: ";
  const int count = forecast.assumptions_size();
  for (int i = 0; i < std::min(count, kAssumptionsShown); ++i)
    absl::StrAppend(&assumed, i > 0 ? "; " : "", Printable(forecast.assumptions(i)));
  if (count > kAssumptionsShown)
    absl::StrAppend(&assumed, "; and ", count - kAssumptionsShown, " more (`longhaul plan`)");
  lines.push_back(count > 0 ? assumed : "all of it was measured");
  return lines;
}

std::vector<std::string> ForecastWarnings(const v1::JobForecast& forecast) {
  std::vector<std::string> warnings;
  const v1::PoolForecast* pace = nullptr;
  for (const v1::PoolForecast& pool : forecast.pools()) {
    if (pace == nullptr || pool.utilization() > pace->utilization()) pace = &pool;
    const std::pair<bool, const v1::RankMemory*> lacks[] = {
        {pool.has_device_fits() && !pool.device_fits(), &pool.device()},
        {pool.has_host_fits() && !pool.host_fits(), &pool.host()}};
    for (const auto& [lack, memory] : lacks) {
      if (!lack) continue;
      warnings.push_back(absl::StrCat(
          "it does not fit pool ", Printable(pool.name()), ": ", MemoryOfText(*memory),
          memory == &pool.device() ? " of a rank" : " of a node",
          "; a smaller train.micro_batch, offload or another partition.preset may help"));
    }
  }
  if (forecast.has_coordinator_memory_fits() && !forecast.coordinator_memory_fits()) {
    warnings.push_back(absl::StrCat("the coordinator lacks memory for it: ",
                                    WholeBytesText(forecast.coordinator_memory_bytes()),
                                    " are needed (--memory-gib)"));
  }
  if (pace != nullptr && forecast.pace_utilization() < kUtilizationLow) {
    const auto [seconds, what] = LongestWait(pace->cycle());
    warnings.push_back(
        absl::StrCat("pools would compute only ", PercentText(forecast.pace_utilization()),
                     " of the time: of a cycle of ", SecondsText(forecast.cycle_seconds()),
                     ", pool ", Printable(pace->name()), " waits ", SecondsText(seconds), " ", what,
                     "; `longhaul plan -f FILE` shows what would change that"));
  }
  return warnings;
}

std::string ForecastCheckText(const v1::ForecastCheck& check, TableWidth width) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::ForecastTerm& term : check.terms()) {
    const bool share = term.name() == "utilization";
    const bool time = absl::EndsWith(term.name(), "_seconds");
    const auto text = [&](double value) {
      return share ? PercentText(value) : time ? SecondsText(value) : CountText(value);
    };
    const double off =
        term.has_measured() && term.forecast() > 0 ? term.measured() / term.forecast() - 1 : 0;
    rows.push_back({absl::StrReplaceAll(Printable(term.name()), {{"_seconds", ""}, {"_", " "}}),
                    text(term.forecast()), term.has_measured() ? text(term.measured()) : "-",
                    !term.has_measured() ? "-"
                    : share
                        ? absl::StrFormat("%+.1f points", 100 * (term.measured() - term.forecast()))
                    : term.forecast() <= 0 ? "-"
                                           : absl::StrFormat("%+.0f %%", 100 * off)});
  }
  std::string text =
      FittedTable({{"FORECAST OF"}, {"EXPECTED"}, {"MEASURED"}, {"OFF"}}, rows, width);
  if (!check.finding().empty())
    absl::StrAppend(&text, "The forecast was wrong: ", Printable(check.finding()), "\n");
  return text;
}

}  // namespace longhaul::cli
