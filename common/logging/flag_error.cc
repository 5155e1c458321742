#include "common/logging/flag_error.h"

#include <cstdlib>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/escaped_text.h"
#include "common/logging/logging.h"
#include "common/logging/standard_error.h"

namespace longhaul {

bool AsksForJsonLog(int argc, const char* const* argv) {
  const char* const variable = std::getenv("LONGHAUL_LOG_FORMAT");
  absl::string_view format = variable == nullptr ? "" : variable;
  for (int i = 1; i < argc; ++i) {
    absl::string_view word = argv[i];
    if (word == "--") break;
    if (!absl::ConsumePrefix(&word, "--log-format")) continue;
    if (absl::ConsumePrefix(&word, "=")) {
      format = word;
    } else if (word.empty() && i + 1 < argc) {
      format = argv[++i];
    }
  }
  return format == "json";
}

void SayFlagError(const std::string& program, int argc, const char* const* argv,
                  absl::string_view message, absl::string_view hint) {
  if (AsksForJsonLog(argc, argv)) {
    Logger({.program = program, .format = LogFormat::kJson})
        .Error(absl::StrCat(message, hint.empty() ? "" : "; ", hint));
    FlushStandardError();
  } else {
    std::cerr << "error: " << EscapedLine(message) << "\n";
    if (!hint.empty()) std::cerr << "hint: " << EscapedLine(hint) << "\n";
    std::cerr << std::flush;
  }
}

absl::Status OfFlag(absl::string_view flag, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(flag, ": ", status.message()));
}

}  // namespace longhaul
