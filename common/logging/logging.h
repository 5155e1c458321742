// A program's log: text lines for a terminal, otherwise one JSON object in each line. Each line
// carries the job, pool, rank and round that it is about, as fields. A Logger is a value that is
// passed on; there is no global one.
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
};

// Thread-safe and cheap to copy. Copies write to the same stream, one line at a time. Blocks as
// long as the stream does.
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
