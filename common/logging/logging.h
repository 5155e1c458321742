// A program's log: text lines for a terminal, otherwise one JSON object in each line. Each line
// carries the job, pool, rank and round that it is about, as fields. A Logger is a value that is
// passed on; there is no global one.
#pragma once

#include <cstdint>
#include <functional>
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
// kAuto means text if standard error is a terminal, otherwise JSON.
enum class LogFormat { kAuto, kText, kJson };

// "debug", "info", "warning", "error". INVALID_ARGUMENT: another name.
absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view name);
// "auto", "text", "json". INVALID_ARGUMENT: another name.
absl::StatusOr<LogFormat> ParseLogFormat(absl::string_view name);

// What a line is about. Empty fields are left out.
struct LogFields {
  // The job's name.
  std::string job;
  std::string pool;
  std::string job_id;
  std::optional<int64_t> rank, round;
};

// Programs take level and format from --log-level and --log-format, otherwise from
// LONGHAUL_LOG_LEVEL and LONGHAUL_LOG_FORMAT.
struct LogOptions {
  // Written in each JSON line.
  std::string program;
  // Lines below this level are dropped.
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kAuto;
  // Null: standard error. It must outlive every Logger that uses it.
  std::ostream* stream = nullptr;
  // Gets each line for standard error, without its end and colours, before it is written there. May
  // be empty. Called under a lock: it must not log.
  std::function<void(absl::string_view line)> on_line = nullptr;
};

// Thread-safe and cheap to copy. Copies write to the same stream, one line at a time. Standard
// error is written by another thread (standard_error.h), so nobody waits for who reads it: lines
// that it does not take are dropped and counted. The end of a program waits a little for the last
// ones (EndProgram). Another stream is written at once.
class Logger {
 public:
  explicit Logger(const LogOptions& options);

  // A logger whose lines also have these fields. They replace fields that the logger had.
  Logger With(const LogFields& fields) const;

  bool Enabled(LogLevel level) const;
  void Log(LogLevel level, absl::string_view message) const;
  void Debug(absl::string_view message) const { Log(LogLevel::kDebug, message); }
  void Info(absl::string_view message) const { Log(LogLevel::kInfo, message); }
  void Warning(absl::string_view message) const { Log(LogLevel::kWarning, message); }
  void Error(absl::string_view message) const { Log(LogLevel::kError, message); }

 private:
  // Shared by all copies. The last one closes it.
  std::shared_ptr<spdlog::logger> sink_;
  bool json_;
  LogFields fields_;
};

}  // namespace longhaul
