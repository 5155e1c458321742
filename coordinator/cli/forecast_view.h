// What people see of a job's forecast: at submit, and beside what was measured since.
#pragma once

#include <string>
#include <vector>

#include "coordinator/cli/table.h"
#include "longhaul/v1/plan.pb.h"

namespace longhaul::cli {

// Three lines: how long it takes, what it needs, and what was assumed.
std::vector<std::string> ForecastLines(const v1::JobForecast& forecast);

// What is bad about it, each with what to do. Empty: nothing.
std::vector<std::string> ForecastWarnings(const v1::JobForecast& forecast);

// A table of the terms, and which one was wrong.
std::string ForecastCheckText(const v1::ForecastCheck& check, TableWidth width);

// Of a forecast: "93.1 %"; "1.2 GiB"; "0.31 s", "3h20m".
std::string PercentText(double share);
std::string WholeBytesText(double bytes);
std::string SecondsText(double seconds);

}  // namespace longhaul::cli
