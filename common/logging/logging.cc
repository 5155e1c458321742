#include "common/logging/logging.h"

#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/escaped_text.h"
#include "common/logging/standard_error.h"
#include "nlohmann/json.hpp"
#include "spdlog/details/null_mutex.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/base_sink.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

namespace longhaul {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

// The members of a JSON object without its braces. The pattern of the sink adds time, level and
// program before them.
std::string JsonMembers(absl::string_view message, const LogFields& fields) {
  nlohmann::ordered_json line;
  line["message"] = message;
  if (!fields.job.empty()) line["job"] = fields.job;
  if (!fields.job_id.empty()) line["job_id"] = fields.job_id;
  if (!fields.pool.empty()) line["pool"] = fields.pool;
  if (fields.rank) line["rank"] = *fields.rank;
  if (fields.round) line["round"] = *fields.round;
  const std::string text = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.substr(1, text.size() - 2);
}

// A message from outside cannot forge another line, or drive the terminal.
std::string TextLine(absl::string_view message, const LogFields& fields) {
  std::string line = EscapedLine(message);
  const auto append = [&](const char* name, absl::string_view value) {
    absl::StrAppend(&line, " ", name, "=", EscapedLine(value));
  };
  if (!fields.job.empty()) append("job", fields.job);
  if (!fields.job_id.empty()) append("job_id", fields.job_id);
  if (!fields.pool.empty()) append("pool", fields.pool);
  if (fields.rank) append("rank", absl::StrCat(*fields.rank));
  if (fields.round) append("round", absl::StrCat(*fields.round));
  return line;
}

class StandardErrorSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  StandardErrorSink(bool coloured, std::function<void(absl::string_view)> on_line)
      : coloured_(coloured), on_line_(std::move(on_line)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    message.color_range_start = message.color_range_end = 0;
    spdlog::memory_buf_t buffer;
    formatter_->format(message, buffer);
    std::string line(buffer.data(), buffer.size());
    if (on_line_) on_line_(absl::StripSuffix(line, "\n"));
    if (coloured_ && message.color_range_end > message.color_range_start) {
      line.insert(message.color_range_end, "\x1b[0m");
      line.insert(message.color_range_start, ColourOf(message.level));
    }
    WriteToStandardError(std::move(line), message.level >= spdlog::level::err);
  }
  void flush_() override {}

  static const char* ColourOf(spdlog::level::level_enum level) {
    if (level >= spdlog::level::err) return "\x1b[31m";
    return level == spdlog::level::warn ? "\x1b[33m" : "\x1b[32m";
  }

  const bool coloured_;
  const std::function<void(absl::string_view)> on_line_;
};

// Formats, for the notice alone, a line of the same form.
class LineOf final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  std::string line;

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t buffer;
    formatter_->format(message, buffer);
    line.assign(buffer.data(), buffer.size());
  }
  void flush_() override {}
};

// A NO_COLOR that is not empty turns colours off (no-color.org).
bool WantsColour() {
  const char* no_colour = std::getenv("NO_COLOR");
  return isatty(STDERR_FILENO) == 1 && (no_colour == nullptr || *no_colour == '\0');
}

spdlog::sink_ptr MakeSink(const LogOptions& options) {
  if (options.stream == nullptr)
    return std::make_shared<StandardErrorSink>(WantsColour(), options.on_line);
  return std::make_shared<spdlog::sinks::ostream_sink_mt>(*options.stream, /*force_flush=*/true);
}

void SetForm(spdlog::logger& logger, bool json) {
  if (json) {
    logger.set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","program":"%n",%v})",
                       spdlog::pattern_time_type::utc);
  } else {
    logger.set_pattern("%H:%M:%S.%e %^%-7l%$ %v");
  }
}

// The line in place of those that standard error did not take.
std::string DroppedLine(const std::string& program, bool json, int64_t dropped) {
  const auto made = std::make_shared<LineOf>();
  spdlog::logger logger(program, made);
  SetForm(logger, json);
  const std::string message =
      absl::StrCat(dropped, dropped == 1 ? " log line was" : " log lines were",
                   " dropped here because nobody read standard error");
  logger.warn(json ? JsonMembers(message, {}) : TextLine(message, {}));
  return made->line;
}

}  // namespace

absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  return absl::InvalidArgumentError(
      absl::StrCat("log level '", name, "': expected debug, info, warning or error"));
}

absl::StatusOr<LogFormat> ParseLogFormat(absl::string_view name) {
  if (name == "auto") return LogFormat::kAuto;
  if (name == "text") return LogFormat::kText;
  if (name == "json") return LogFormat::kJson;
  return absl::InvalidArgumentError(
      absl::StrCat("log format '", name, "': expected auto, text or json"));
}

Logger::Logger(const LogOptions& options) {
  const bool terminal = options.stream == nullptr && isatty(STDERR_FILENO) == 1;
  json_ = options.format == LogFormat::kJson || (options.format == LogFormat::kAuto && !terminal);
  sink_ = std::make_shared<spdlog::logger>(options.program, MakeSink(options));
  sink_->set_level(ToSpdlog(options.level));
  SetForm(*sink_, json_);
  if (options.stream != nullptr || options.program.empty()) return;
  SetStandardErrorNotice([program = options.program, json = json_](int64_t dropped) {
    return DroppedLine(program, json, dropped);
  });
}

Logger Logger::With(const LogFields& fields) const {
  Logger logger = *this;
  if (!fields.job.empty()) logger.fields_.job = fields.job;
  if (!fields.job_id.empty()) logger.fields_.job_id = fields.job_id;
  if (!fields.pool.empty()) logger.fields_.pool = fields.pool;
  if (fields.rank) logger.fields_.rank = fields.rank;
  if (fields.round) logger.fields_.round = fields.round;
  return logger;
}

bool Logger::Enabled(LogLevel level) const { return sink_->should_log(ToSpdlog(level)); }

void Logger::Log(LogLevel level, absl::string_view message) const {
  if (!Enabled(level)) return;
  sink_->log(ToSpdlog(level), json_ ? JsonMembers(message, fields_) : TextLine(message, fields_));
}

}  // namespace longhaul
