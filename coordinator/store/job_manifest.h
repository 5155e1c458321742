// The manifest of a job's folder: the options of its store, and what is needed to recognise the job
// without the database. It is written once, durably, when the store is made.
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
  // Empty if there is none.
  std::string idempotency_token;
  absl::Time created = absl::InfinitePast();
  // Bytes of the resolved v1::JobSpec.
  std::string spec;
  JobStoreOptions options;
  // Who submitted the job; empty if not known.
  std::string owner;
};

// INVALID_ARGUMENT: an option is out of range (job_store_options.h); UNIMPLEMENTED: the codec.
absl::Status CheckOptions(const JobStoreOptions& options);

absl::Status WriteJobManifest(FileSystem& fs, const std::string& job_dir,
                              const JobManifest& manifest);

// NOT_FOUND: there is none. DATA_LOSS: it is damaged. FAILED_PRECONDITION: a newer program wrote
// it. INVALID_ARGUMENT, UNIMPLEMENTED: the file is good, but its options are refused
// (CheckOptions).
absl::StatusOr<JobManifest> ReadJobManifest(FileSystem& fs, const std::string& job_dir);

}  // namespace longhaul
