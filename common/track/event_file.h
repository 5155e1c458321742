// A TensorBoard event file of one run. Later starts of the program append to the same file, and
// TensorBoard reads it meanwhile. If a crash tore its last record, the record is cut off when the
// file is opened again. Nothing is synced: a crash of the machine may lose the last seconds.
//
// Externally synchronised. Blocks on the disk. No file stays open between calls. Errors: those of
// the file system; a failed call may be repeated.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/io/filesystem.h"
#include "common/track/appended_file.h"
#include "common/track/scalar.h"

namespace longhaul {

class EventFile {
 public:
  // Opens the newest event file of the folder. Makes a new one if there is none, or if it is
  // damaged. `fs` outlives it.
  static absl::StatusOr<EventFile> Open(FileSystem* fs, const std::string& folder, absl::Time now);

  // Writes those scalars that the file does not have yet.
  absl::Status AddScalars(int64_t step, absl::Time time, absl::Span<const Scalar> scalars);
  absl::Status AddText(int64_t step, absl::Time time, const std::string& tag,
                       absl::string_view text);
  // The run continues from before `step`: readers drop the points of this step and of later ones.
  absl::Status Rewind(int64_t step, absl::Time time);

  const LastSteps& last() const { return last_; }
  // When the file's first record was written.
  absl::Time begun() const { return begun_; }

 private:
  EventFile(FileSystem* fs, std::string path) : file_(fs, std::move(path)) {}
  absl::Status Scan(const File& file, int64_t size, bool* damaged);

  AppendedFile file_;
  LastSteps last_;
  absl::Time begun_ = absl::InfiniteFuture();
};

}  // namespace longhaul
