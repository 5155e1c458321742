// Non-negative least squares of relative errors: each measured time, divided by itself, is 1. Pure.
#pragma once

#include <array>
#include <vector>

namespace longhaul::plan {

// What one unit of each term adds to a time, divided by that time. Terms that are not needed are 0
// in every row.
inline constexpr int kFitTerms = 5;
using FitRow = std::array<double, kFitTerms>;

// The terms, none negative, with which each row comes closest to 1. Of equal fits the one with
// fewer terms.
FitRow FitToOne(const std::vector<FitRow>& rows);

double SquaredError(const std::vector<FitRow>& rows, const FitRow& terms);

}  // namespace longhaul::plan
