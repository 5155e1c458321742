// A command line.
//   input: the words, one a line
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_split.h"
#include "coordinator/cli/arguments.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_target.h"

namespace longhaul::fuzz::arguments_fuzz {

std::vector<Seed> Seeds() {
  return {{"submit", "submit\n-f\njob.yaml\n--set\nsync.h=10\n--set=name=b\n--follow"},
          {"list", "list\n--limit\n5\n-o\njson\n--timeout\n1.5s"},
          {"cancel", "--server\nlocalhost:7070\ncancel\na\n--reason\nenough"},
          {"typo", "sumbit\n--fiel=x"}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  const std::vector<std::string> words =
      absl::StrSplit(absl::string_view(reinterpret_cast<const char*>(data), size), '\n');
  (void)cli::OutputFormatOf(words);
  const auto parsed = cli::ParseArguments(words);
  if (const auto* arguments = std::get_if<cli::Arguments>(&parsed)) {
    LH_CHECK(!arguments->command.empty(), "a command");
    LH_CHECK(arguments->timeout > absl::ZeroDuration(), "a timeout is positive");
  }
  if (const auto* error = std::get_if<cli::CliError>(&parsed)) {
    LH_CHECK(error->exit == cli::ExitCode::kUsage && !error->message.empty(), "a usage error");
    (void)cli::ToText(*error, /*colour=*/false);
  }
  return 0;
}

}  // namespace longhaul::fuzz::arguments_fuzz
