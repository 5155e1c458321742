// The manifest of a job's folder: the options of its store, written once, durably, when the store
// is made.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/filesystem.h"
#include "coordinator/store/job_store_options.h"

namespace longhaul {

// INVALID_ARGUMENT: an option is out of range (job_store_options.h); UNIMPLEMENTED: the codec.
absl::Status CheckOptions(const JobStoreOptions& options);

absl::Status WriteJobManifest(FileSystem& fs, const std::string& job_dir,
                              const JobStoreOptions& options);

// NOT_FOUND: there is none. DATA_LOSS: it is damaged. FAILED_PRECONDITION: written by a newer
// program. INVALID_ARGUMENT, UNIMPLEMENTED: whole, but its options are refused (CheckOptions).
absl::StatusOr<JobStoreOptions> ReadJobManifest(FileSystem& fs, const std::string& job_dir);

}  // namespace longhaul
