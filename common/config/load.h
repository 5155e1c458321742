// Reads a JobSpec from the YAML (or proto JSON) that people write.
//   sync: {h: 30, tau: 1, fragments: {balanced: 3}, up: {codec: e3m0}}
// The proto is the only schema. YAML becomes JSON, is checked against the message type so that
// every mistake is reported with its path, and is then parsed by protobuf's own JSON parser. Only
// types are checked, and no defaults are filled in: ResolveJobSpec does the rest.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/config/spec_violation.h"
#include "common/config/violation_list.h"
#include "google/protobuf/message.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {

// `overrides` have the form "path=value" (overrides.h) and are applied in order. INVALID_ARGUMENT
// is the only error; then `violations`, if not null, receives all mistakes. `text` has at most 1
// MiB (kYamlBytesMax).
absl::StatusOr<v1::JobSpec> ParseJobSpec(absl::string_view text,
                                         const std::vector<std::string>& overrides = {},
                                         std::vector<SpecViolation>* violations = nullptr);

// The same for a message of another type, which is empty before. `zero_default`: see
// CheckAgainstSchema.
void ParseYamlMessage(absl::string_view text, const std::vector<std::string>& overrides,
                      absl::string_view (*zero_default)(absl::string_view path),
                      google::protobuf::Message& message, ViolationList& violations);

}  // namespace longhaul
