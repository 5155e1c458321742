// The manifest of a job's folder: the options of its store, and what is needed to know the job again
// without the database. Written once, durably, when the store is made.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/io/filesystem.h"
#include "coordinator/store/job_store_options.h"

namespace longhaul {

struct JobManifest {
  std::string id, name;
  std::string idempotency_token;  // Empty: none.
  absl::Time created = absl::InfinitePast();
  std::string spec;  // Bytes of the resolved v1::JobSpec.
  JobStoreOptions options;
};

// INVALID_ARGUMENT: an option is out of range (job_store_options.h); UNIMPLEMENTED: the codec.
absl::Status CheckOptions(const JobStoreOptions& options);

absl::Status WriteJobManifest(FileSystem& fs, const std::string& job_dir,
                              const JobManifest& manifest);

// NOT_FOUND: there is none. DATA_LOSS: it is damaged. FAILED_PRECONDITION: written by a newer
// program. INVALID_ARGUMENT, UNIMPLEMENTED: whole, but its options are refused (CheckOptions).
absl::StatusOr<JobManifest> ReadJobManifest(FileSystem& fs, const std::string& job_dir);

}  // namespace longhaul
