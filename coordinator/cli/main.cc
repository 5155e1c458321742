#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "common/base/file_limit.h"
#include "common/base/mutex_checks.h"
#include "common/base/thread_limit.h"
#include "common/command_line/output_end.h"
#include "common/command_line/standard_files.h"
#include "common/rpc/allocator.h"
#include "common/rpc/grpc_library.h"
#include "coordinator/cli/cli.h"
#include "coordinator/cli/terminal.h"
#include "grpc/support/log.h"

namespace {

int Main(int argc, char** argv) {
  // Calls report what went wrong; gRPC's own lines are shown only on request.
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
  const auto clock = longhaul::MakeSystemClock();
  const auto terminal = longhaul::cli::OpenTerminal();
  const longhaul::cli::Environment environment{
      .in = std::cin,
      .out = std::cout,
      .err = std::cerr,
      .err_is_terminal = isatty(STDERR_FILENO) == 1,
      .out_is_terminal = isatty(STDOUT_FILENO) == 1,
      .clock = *clock,
      .variable = [](const char* name) -> std::optional<std::string> {
        const char* value = std::getenv(name);
        return value == nullptr ? std::nullopt : std::optional<std::string>(value);
      },
      .terminal = terminal.get(),
      .before_client =
          [] {
            absl::Status threads = longhaul::CheckThreads(longhaul::CliThreadsNeeded());
            if (!threads.ok()) return threads;
            longhaul::RaiseFileLimit();
            absl::Status files = longhaul::CheckFiles(longhaul::CliFilesNeeded());
            if (files.ok()) longhaul::KeepGrpcLibrary();
            return files;
          }};
  return static_cast<int>(
      longhaul::cli::Run(std::vector<std::string>(argv + 1, argv + argc), environment));
}

}  // namespace

int main(int argc, char** argv) {
  longhaul::KeepStandardFiles();
  longhaul::IgnoreFileSizeSignal();
  longhaul::ShareFilesWithGroupZero();
  longhaul::SkipLockCycleSearch();
  longhaul::TuneAllocatorForBulk();
  longhaul::EndProgram(Main(argc, argv));
}
