// Whether a pool's data is what it was. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {

// Of DataSummary.warnings.
inline constexpr int kDataWarningsMax = 16;
inline constexpr size_t kDataWarningKindBytesMax = 64, kDataWarningBytesMax = 512;
// Of DataSummary.features.
inline constexpr size_t kDataFeaturesBytesMax = 256;

// How the data differs from what it was before, in words: "source 0 had 2000 tokens and has 100".
// Empty: it does not, or one of the two is not known.
std::string DifferenceOf(const v1::DataSummary& before, const v1::DataSummary& now,
                         absl::string_view unit = "tokens");

}  // namespace longhaul
