#include "coordinator/cli/cli_error.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/text.h"

namespace longhaul::cli {
namespace {

constexpr size_t kFieldsInFull = 10;

ExitCode ExitOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return ExitCode::kConnection;
    case absl::StatusCode::kDeadlineExceeded:
      return ExitCode::kTimeout;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return ExitCode::kUsage;
    case absl::StatusCode::kUnimplemented:  // Without fields: the server does not have the call.
      return FieldViolationsOf(status).empty() ? ExitCode::kFailed : ExitCode::kUsage;
    default:
      return ExitCode::kFailed;
  }
}

std::string HintOf(const absl::Status& status, const std::string& address) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      if (WasExplained(status)) return "";
      if (WasAnswered(status)) return absl::StrCat("that is what ", address, " says; try again");
      return absl::StrCat("is the coordinator running at ", address,
                          "? --server or LONGHAUL_SERVER name another");
    case absl::StatusCode::kDeadlineExceeded:
      if (WasAnswered(status)) return "--timeout extends the deadline";
      return absl::StrCat("no answer from ", address, " in time; --timeout extends the deadline");
    case absl::StatusCode::kUnimplemented:
      if (!FieldViolationsOf(status).empty()) return "";
      return "bring `longhaul` and the coordinator to the same version; `longhaul version` shows "
             "this one's";
    case absl::StatusCode::kNotFound:
      return "`longhaul list` shows the jobs";
    case absl::StatusCode::kAlreadyExists:
      return "choose another name, for example with --set name=NAME";
    default:
      return "";
  }
}

}  // namespace

ExitCode ExitOfFiles(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
      return ExitCode::kUsage;
    default:
      return ExitCode::kFailed;
  }
}

CliError ErrorOf(const absl::Status& status, ExitCode exit, std::string hint) {
  return {.exit = exit,
          .code = absl::StatusCodeToString(status.code()),
          .message = std::string(status.message()),
          .hint = std::move(hint)};
}

CliError ErrorOfCall(const absl::Status& status, const std::string& address) {
  CliError error = ErrorOf(status, ExitOf(status), HintOf(status, address));
  error.retry_after = RetryDelayOf(status);
  if (error.message.empty() && absl::IsUnimplemented(status))
    error.message = "the server does not support this call";  // gRPC's own answer has no words.
  error.fields = FieldViolationsOf(status);
  if (const auto info = ErrorInfoOf(status)) {
    error.reason = info->reason;
    const auto hint = info->metadata.find("hint");
    if (hint != info->metadata.end()) error.hint = hint->second;
  }
  return error;
}

CliError ErrorOfSpec(const absl::Status& status, const std::vector<SpecViolation>& violations,
                     const std::string& refusal) {
  CliError error = ErrorOf(status, ExitCode::kUsage);
  error.message = error.refusal = refusal;
  error.fields = FieldsOf(violations);
  return error;
}

std::vector<FieldViolation> FieldsOf(const std::vector<SpecViolation>& violations) {
  std::vector<FieldViolation> fields;
  for (const SpecViolation& v : violations) fields.push_back({v.field, Describe(v)});
  return fields;
}

CliError UsageError(std::string message, std::string hint) {
  return {.exit = ExitCode::kUsage,
          .code = "INVALID_ARGUMENT",
          .message = std::move(message),
          .hint = std::move(hint)};
}

Json ToJson(const CliError& error) {
  Json json = {{"code", error.code}, {"message", error.message}, {"hint", error.hint}};
  if (!error.reason.empty()) json["reason"] = error.reason;
  if (error.retry_after) json["retry_after_seconds"] = absl::ToDoubleSeconds(*error.retry_after);
  json["fields"] = Json::array();
  for (const FieldViolation& field : error.fields) {
    json["fields"].push_back({{"field", field.field}, {"description", field.description}});
  }
  return json;
}

std::string ToText(const CliError& error, bool colour) {
  std::string text = colour ? "\x1b[31merror:\x1b[0m " : "error: ";
  absl::StrAppend(&text, error.fields.empty() ? Printable(error.message) : error.refusal, " (",
                  error.code, ")\n");
  const size_t in_full = std::min(error.fields.size(), kFieldsInFull);
  for (size_t i = 0; i < in_full; ++i) {
    const FieldViolation& field = error.fields[i];
    absl::StrAppend(&text, "  ", Printable(field.field), field.field.empty() ? "" : ": ",
                    Printable(field.description), "\n");
  }
  if (error.fields.size() > in_full) {
    std::vector<std::string> names;
    for (size_t i = in_full; i < error.fields.size(); ++i)
      names.push_back(Printable(error.fields[i].field));
    absl::StrAppend(&text, "  and ", names.size(),
                    " more (-o json has them in full): ", absl::StrJoin(names, ", "), "\n");
  }
  if (!error.hint.empty()) absl::StrAppend(&text, "hint: ", Printable(error.hint), "\n");
  if (error.retry_after) {
    absl::StrAppend(&text, "try again in ", DurationText(*error.retry_after), "\n");
  }
  return text;
}

}  // namespace longhaul::cli
