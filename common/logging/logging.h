// Log lines of a program: text for a terminal, one JSON object a line otherwise. Each line carries
// the job, pool, rank and round that it is about, as fields. A Logger is a value that is handed
// down; there is no global one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spdlog {
class logger;
}

namespace longhaul {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kAuto, kText, kJson };  // kAuto: text if standard error is a terminal.

// "debug", "info", "warning", "error". INVALID_ARGUMENT: another name.
absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view name);
// "auto", "text", "json". INVALID_ARGUMENT: another name.
absl::StatusOr<LogFormat> ParseLogFormat(absl::string_view name);

// What a line is about. Empty fields are left out of it.
struct LogFields {
  std::string job;  // Its name.
  std::string pool;
  std::string job_id;
  std::optional<int64_t> rank, round;
};

// Programs take level and format from --log-level and --log-format, then LONGHAUL_LOG_LEVEL and
// LONGHAUL_LOG_FORMAT.
struct LogOptions {
  std::string program;               // In each JSON line.
  LogLevel level = LogLevel::kInfo;  // Lines below are dropped.
  LogFormat format = LogFormat::kAuto;
  std::ostream* stream = nullptr;  // Null: standard error. Must outlive every Logger made of this.
};

// Thread-safe; cheap to copy; copies write to the same stream, a line at a time. Blocks as long as
// the stream does.
class Logger {
 public:
  explicit Logger(const LogOptions& options);

  // A logger whose lines have these fields too; those given here replace those it had.
  Logger With(const LogFields& fields) const;

  bool Enabled(LogLevel level) const;
  void Log(LogLevel level, absl::string_view message) const;
  void Debug(absl::string_view message) const { Log(LogLevel::kDebug, message); }
  void Info(absl::string_view message) const { Log(LogLevel::kInfo, message); }
  void Warning(absl::string_view message) const { Log(LogLevel::kWarning, message); }
  void Error(absl::string_view message) const { Log(LogLevel::kError, message); }

 private:
  std::shared_ptr<spdlog::logger> sink_;  // Shared by all copies: the last one closes it.
  bool json_;
  LogFields fields_;
};

}  // namespace longhaul
