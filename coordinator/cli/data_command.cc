#include "coordinator/cli/data_command.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/bytes_text.h"
#include "common/base/counted.h"
#include "coordinator/cli/table.h"
#include "coordinator/cli/text.h"
#include "worker/data/data_check.h"

namespace longhaul::cli {
namespace {

constexpr SourceKind kKinds[] = {SourceKind::kText,    SourceKind::kJsonl, SourceKind::kChat,
                                 SourceKind::kNanoGpt, SourceKind::kLlmc,  SourceKind::kMegatron};

DataCheckOptions OptionsOf(const Arguments& arguments) {
  DataCheckOptions options{
      .field = arguments.data.field,
      .line_bytes_max = int64_t{arguments.data.line_mib_max} << 20,
      .chat_template = arguments.data.chat_template,
      .null_rows = arguments.data.null_rows == "skip" ? NullRows::kSkip : NullRows::kRefuse,
      .tokenizer = arguments.data.tokenizer,
      .eos = arguments.data.eos,
      .bos = arguments.data.bos,
      .as_is = arguments.data.as_is,
      .control_tokens = arguments.data.control_tokens,
      .width = arguments.data.width,
      .vocab = arguments.data.vocab,
      .sample_tokens = arguments.data.sample,
      .threads = std::max<int>(1, std::thread::hardware_concurrency())};
  for (const SourceKind kind : kKinds) {
    if (KindName(kind) == arguments.data.format) options.kind = kind;
  }
  return options;
}

CliError ErrorOfPath(const std::string& path, const absl::Status& status) {
  // The tokenizer, or its program, may be what is not found.
  std::error_code ignored;
  const bool missing = absl::IsNotFound(status) && !std::filesystem::exists(path, ignored);
  return ErrorOf(status, ExitOfFiles(status), missing ? "give a file, a folder or a pattern" : "");
}

template <typename Number>
Json OrNull(const std::optional<Number>& number) {
  return number.has_value() ? Json(*number) : Json(nullptr);
}

std::string FormatOf(const DataReport& report) {
  return report.other_format ? "other" : KindName(report.kind);
}

// "2 documents spell out control tokens, 3 times".
std::string NoteOfControlTokens(const DataReport& report, bool encoded) {
  return absl::StrCat(report.control_tokens->Describe(), "; ",
                      encoded ? "they become these tokens" : "they stay text (--control-tokens)");
}

// "the loss is on 120 of 500 tokens (24%), those of the assistant; ..."
std::string NoteOfChat(const DataReport& report) {
  const ChatReport& chat = *report.chat;
  const double share =
      report.tokens == 0 ? 0 : 100.0 * static_cast<double>(chat.targets) / report.tokens;
  std::string note = absl::StrFormat(
      "the loss is on %d of %d tokens (%.1f%%), those of the assistant; the longest conversation "
      "has %d tokens",
      chat.targets, report.tokens, share, chat.longest);
  if (chat.without_targets > 0) {
    absl::StrAppend(&note, "; ", Counted(chat.without_targets, "conversation"),
                    chat.without_targets == 1 ? " has" : " have",
                    " no such token: jobs leave them out");
  }
  return note;
}

Json ReportJson(const DataReport& report) {
  const auto printable = [](const std::vector<std::string>& lines) {
    Json result = Json::array();
    for (const std::string& line : lines) result.push_back(Printable(line));
    return result;
  };
  Json control_tokens = nullptr;
  if (report.control_tokens.has_value()) {
    control_tokens = {{"documents", report.control_tokens->documents},
                      {"times", report.control_tokens->times}};
  }
  Json chat = nullptr;
  if (report.chat.has_value()) {
    chat = {{"target_tokens", report.chat->targets},
            {"without_targets", report.chat->without_targets},
            {"longest", report.chat->longest}};
  }
  return {{"path", report.path},
          {"format", FormatOf(report)},
          {"compression", report.compression},
          {"bytes", report.bytes},
          {"tokens", report.tokens},
          {"documents", OrNull(report.documents)},
          {"largest_token", OrNull(report.largest)},
          {"sample", {{"tokens", report.sample}, {"text", Printable(report.sample_text)}}},
          {"not_utf8_at", OrNull(report.not_utf8_at)},
          {"control_tokens", std::move(control_tokens)},
          {"chat", std::move(chat)},
          {"null_rows", report.null_rows},
          {"warnings", printable(report.warnings)},
          {"problems", printable(report.problems)},
          {"problem_count", report.problem_count}};
}

std::string ReportsTable(const std::vector<DataReport>& reports, bool control_tokens) {
  static const std::vector<Column> kColumns = {{"FILE"},      {"FORMAT"},  {"SIZE"},    {"TOKENS"},
                                               {"DOCUMENTS"}, {"LARGEST"}, {"PROBLEMS"}};
  std::vector<std::vector<std::string>> rows;
  std::string samples, notes, problems;
  for (const DataReport& report : reports) {
    const std::string format = FormatOf(report);
    rows.push_back(
        {report.path,
         report.compression.empty() ? format : absl::StrCat(format, "+", report.compression),
         BytesText(report.bytes), absl::StrCat(report.tokens),
         report.documents.has_value() ? absl::StrCat(*report.documents) : "-",
         report.largest.has_value() ? absl::StrCat(*report.largest) : "-",
         absl::StrCat(report.problem_count)});
    for (const std::string& problem : report.problems)
      absl::StrAppend(&problems, "  ", Printable(problem), "\n");
    if (report.not_utf8_at.has_value()) {
      absl::StrAppend(&notes, "\n", Printable(report.path), ": byte ", *report.not_utf8_at,
                      " is not UTF-8; training uses it as a byte, a tokenizer would reject it\n");
    }
    if (report.control_tokens.has_value() && report.control_tokens->times > 0) {
      absl::StrAppend(&notes, "\n", Printable(report.path), ": ",
                      NoteOfControlTokens(report, control_tokens), "\n");
    }
    if (report.chat.has_value())
      absl::StrAppend(&notes, "\n", Printable(report.path), ": ", NoteOfChat(report), "\n");
    if (report.null_rows > 0) {
      absl::StrAppend(&notes, "\n", Printable(report.path), ": ", Counted(report.null_rows, "row"),
                      " with null in place of text, skipped\n");
    }
    for (const std::string& warning : report.warnings)
      absl::StrAppend(&notes, "\nWarning: ", Printable(warning), "\n");
    if (report.tokens == 0 && report.problem_count == 0)
      absl::StrAppend(&notes, "\n", Printable(report.path), ": contains no text; jobs skip it\n");
    if (!report.sample.empty() && samples.empty()) {
      absl::StrAppend(&samples, "\nSample of ", Printable(report.path), ":\n  tokens ",
                      absl::StrJoin(report.sample, " "), "\n");
      if (!report.sample_text.empty())
        absl::StrAppend(&samples, "  text   ", LineText(report.sample_text), "\n");
    }
  }
  return absl::StrCat(FittedTable(kColumns, rows), samples, notes,
                      problems.empty() ? "" : absl::StrCat("\nProblems:\n", problems));
}

}  // namespace

Outcome CheckDataFiles(const Arguments& arguments) {
  const DataCheckOptions options = OptionsOf(arguments);
  std::vector<DataReport> reports;
  for (const std::string& path : arguments.data.paths) {
    absl::StatusOr<std::vector<DataReport>> of_path = CheckData(path, options);
    if (!of_path.ok()) return ErrorOfPath(path, of_path.status());
    reports.insert(reports.end(), of_path->begin(), of_path->end());
  }
  Json files = Json::array();
  int64_t tokens = 0, problems = 0;
  std::optional<int64_t> documents = 0;
  for (const DataReport& report : reports) {
    files.push_back(ReportJson(report));
    tokens += report.tokens;
    problems += report.problem_count;
    if (report.documents.has_value() && documents.has_value()) {
      *documents += *report.documents;
    } else {
      documents.reset();
    }
  }
  Outcome outcome(Json{{"files", std::move(files)},
                       {"tokens", tokens},
                       {"documents", OrNull(documents)},
                       {"problem_count", problems}},
                  ReportsTable(reports, arguments.data.control_tokens));
  if (problems > 0) {
    outcome.error = CliError{.exit = ExitCode::kFailed,
                             .code = "DATA_LOSS",
                             .message = absl::StrCat(Counted(problems, "problem"), " in the data"),
                             .hint = "a job that reads these files would be rejected"};
  }
  return outcome;
}

}  // namespace longhaul::cli
