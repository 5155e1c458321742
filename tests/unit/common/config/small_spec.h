// The spec of a small job, for tests that change some of its fields.
#pragma once

#include <string>
#include <vector>

#include "common/config/job_spec.h"
#include "common/config/load.h"

namespace longhaul {

inline constexpr char kSmall[] = R"(
name: small
model: {transformer: {layers: 4, dim: 96, heads: 4, ff_dim: 256, context: 128}}
data: {text: {path: text.txt}}
train: {steps: 600, batch: 4}
)";

inline v1::JobSpec Small(const std::vector<std::string>& overrides = {}) {
  return ParseJobSpec(kSmall, overrides).value();
}

// The wrong fields, with a '~' if a field is only not built yet.
inline std::vector<std::string> FaultsOf(const v1::JobSpec& spec) {
  std::vector<SpecViolation> violations;
  (void)ResolveJobSpec(spec, &violations);
  std::vector<std::string> fields;
  for (const SpecViolation& v : violations)
    fields.push_back((v.unimplemented ? "~" : "") + v.field);
  return fields;
}

inline std::vector<std::string> FaultsWith(const std::vector<std::string>& overrides) {
  return FaultsOf(Small(overrides));
}

}  // namespace longhaul
