// The incarnation of an agent, on the disk of its machine. Who finds that of an agent before it,
// and gets the lock on it, knows that the process of that agent has ended: so the coordinator need
// not wait for the end of its lease (JoinRequest.replaces).
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/file_lock.h"

namespace longhaul {

// Move-only. One thread at a time. Locked, and so this agent's alone, as long as the object lives.
class IncarnationRecord {
 public:
  // Takes the first record of this pool at this coordinator that no agent has; a machine may have
  // several agents of a pool. `folder` is made if it is not there. `boot` identifies the running
  // system (see BootId): a record of another one may be another machine's, on a shared disk, whose
  // locks are not seen here. Errors: those of FileLock; RESOURCE_EXHAUSTED: all of 256 are taken.
  static absl::StatusOr<IncarnationRecord> Open(const std::string& folder, const std::string& pool,
                                                const std::string& coordinator,
                                                const std::string& boot);

  // The incarnation that ended. Empty: none is known.
  const std::string& before() const { return before_; }
  // Not synced: it is of use only while this system runs.
  absl::Status Write(const std::string& incarnation);

 private:
  IncarnationRecord(FileLock lock, std::string boot)
      : lock_(std::move(lock)), boot_(std::move(boot)) {}

  FileLock lock_;
  std::string boot_, before_;
};

// Differs for each start of each machine; the same in all its containers. NOT_FOUND: the system
// does not tell.
absl::StatusOr<std::string> BootId();

}  // namespace longhaul
