// The same numbers as JSON lines, for people's own scripts (pandas.read_json(..., lines=True)):
//
//   {"step":120,"time":1767225600.25,"train/loss":2.31,"train/tokens_per_second":81234.5}
//   {"step":0,"time":...,"spec":"name: quickstart\n..."}     text
//   {"step":90,"time":...,"rewind":true}                      what was said of step 90 and later ones is void: the run
//                                                             goes on from before it
//
// A number that is not finite is null. Otherwise as event_file.h.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/io/filesystem.h"
#include "common/track/appended_file.h"
#include "common/track/scalar.h"

namespace longhaul {

class ScalarLines {
 public:
  static absl::StatusOr<ScalarLines> Open(FileSystem* fs, const std::string& path);

  absl::Status AddScalars(int64_t step, absl::Time time, absl::Span<const Scalar> scalars);
  absl::Status AddText(int64_t step, absl::Time time, const std::string& tag,
                       absl::string_view text);
  absl::Status Rewind(int64_t step, absl::Time time);

  const LastSteps& last() const { return last_; }

 private:
  ScalarLines(FileSystem* fs, std::string path) : file_(fs, std::move(path)) {}
  absl::Status Scan(const File& file);
  void Heard(absl::string_view line);

  AppendedFile file_;
  LastSteps last_;
};

}  // namespace longhaul
