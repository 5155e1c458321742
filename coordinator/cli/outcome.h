// The result of a command: data or an error. Both if a job failed while the command waited for it.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "coordinator/cli/arguments.h"
#include "coordinator/cli/cli_error.h"
#include "coordinator/cli/environment.h"

namespace longhaul::cli {

struct Outcome {
  std::optional<Json> data;
  // `data` for people.
  std::string table;
  std::optional<CliError> error;

  // The command has written everything itself.
  static Outcome Nothing() {
    Outcome outcome(Json(), "");
    outcome.data.reset();
    outcome.silent = true;
    return outcome;
  }
  // Nothing is written.
  bool silent = false;

  Outcome(Json json, std::string text) : data(std::move(json)), table(std::move(text)) {}
  Outcome(CliError failure) : error(std::move(failure)) {}  // NOLINT: a command returns either.
};

// The envelope (below) on one line, without its end.
std::string JsonLine(const Outcome& outcome);

// Writes it: table to stdout and error to stderr, or one envelope {schema_version, status, data,
// error} to stdout (and the error to stderr too). Returns the exit code.
ExitCode Write(const Outcome& outcome, OutputFormat format, const Environment& environment);

}  // namespace longhaul::cli
