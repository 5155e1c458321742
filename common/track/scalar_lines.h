// The same numbers as JSON lines, for people's own scripts (pandas.read_json(..., lines=True)):
//
//   {"step":120,"time":1767225600.25,"train/loss":2.31,"train/tokens_per_second":81234.5}
//   {"step":0,"time":...,"spec":"name: quickstart\n..."}     text
//   {"step":90,"time":...,"session":"...","rewind":true}     the training started; its first step
//                                                            is 90. rewind: earlier lines of step
//                                                            90 and later ones are not valid any
//                                                            more
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
  // `session` names a start of the training. `step` is its first step.
  absl::Status BeginSession(const std::string& session, int64_t step, absl::Time time);
  // The newest session, also if an earlier start of the program wrote it. Empty: none.
  const std::string& session() const { return session_; }

  const LastSteps& last() const { return last_; }

 private:
  ScalarLines(FileSystem* fs, std::string path) : file_(fs, std::move(path)) {}
  absl::Status Scan(const File& file);
  void Heard(absl::string_view line);

  AppendedFile file_;
  LastSteps last_;
  std::string session_;
};

}  // namespace longhaul
