#include "common/io/machine_fingerprint.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/io/system_file.h"

namespace longhaul {

std::string MachineFingerprint(absl::string_view of, const std::string& root) {
  const std::string info = ReadSystemFile(root + "/proc/cpuinfo");
  std::string model = "unknown processor";
  int processors = 0;
  for (absl::string_view line : absl::StrSplit(info, '\n')) {
    if (absl::StartsWith(line, "processor")) ++processors;
    if (absl::StartsWith(line, "model name")) model = std::string(line.substr(line.find(':') + 1));
  }
  return absl::StrCat(absl::StripAsciiWhitespace(model), " x ", processors, ", ", of);
}

}  // namespace longhaul
