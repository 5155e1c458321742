// The curves of a job, read from its files (coordinator/effects/job_tracks.h), for people and
// programs that cannot read the coordinator's disk.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/io/filesystem.h"
#include "longhaul/v1/curves.pb.h"

namespace longhaul::coordinator {

inline constexpr int kCurvePointsMax = 512;
inline constexpr int kCurveNamesMax = 64;

// `track`: the folder of the job's curves. Without it there are no curves. Reads at most a few MB
// of each run, evenly distributed in a larger file; the answer fits in a message, with fewer points
// of each curve where there are many. Blocks on the disk.
absl::StatusOr<v1::GetCurvesResponse> ReadCurves(FileSystem& fs, const std::string& track,
                                                 const v1::GetCurvesRequest& request);

}  // namespace longhaul::coordinator
