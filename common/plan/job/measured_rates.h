// What follows for a job from what workers measured of their machines (HostFigures). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/config/spec_violation.h"
#include "longhaul/v1/plan.pb.h"

namespace longhaul::plan {

// What is wrong with figures from outside: sizes, names, rates that are out of range. `field`:
// their name in the message or file.
std::vector<SpecViolation> FaultsOf(const v1::HostFigures& figures, const std::string& field);

// The most of all matrix products, 10^9 operations per second of a rank. 0: none was measured.
double FastestProducts(const v1::HostFigures& figures);

// Empty: it was not measured.

// 10^12 operations per second that a rank sustains in a transformer of this width.
std::optional<double> MeasuredTeraflops(const v1::HostFigures& figures, double dim, bool bfloat16);
// Of a rank, elements per second.
std::optional<double> MeasuredEncoding(const v1::HostFigures& figures, v1::Codec codec);
std::optional<double> MeasuredDecoding(const v1::HostFigures& figures, v1::Codec codec);
// Of a rank, numbers of 4 bytes per second, if all ranks of the node copy.
std::optional<double> MeasuredCopying(const v1::HostFigures& figures);
// Of a rank: parameters per second that AdamW updates, if it has so many and all ranks of the node
// update. By the level model of what was measured (level_model.h), and by the memory that the ranks
// share.
std::optional<double> MeasuredUpdates(const v1::HostFigures& figures, double parameters);

}  // namespace longhaul::plan
