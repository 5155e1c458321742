#include "worker/data/chat_check.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/status_marks.h"
#include "nlohmann/json.hpp"
#include "worker/data/chat_renderer.h"
#include "worker/data/documents.h"

namespace longhaul {
namespace {

constexpr size_t kChatCheckBytes = 2 << 20, kChatCheckRows = 1024;
constexpr size_t kChatSampleBytes = 200;

class ChatCheck {
 public:
  ChatCheck(const DataCheckOptions& options, ChatRenderer& renderer, DataReport& report)
      : options_(options), renderer_(renderer), report_(report), chat_(report.chat.emplace()) {}

  absl::Status Run(const std::string& path) {
    path_ = path;
    report_.documents = 0;
    LH_ASSIGN_OR_RETURN(const std::unique_ptr<DocumentReader> lines,
                        OpenJsonlLines(path, options_.line_bytes_max));
    size_t bytes = 0;
    for (DocumentPart part;;) {
      const absl::StatusOr<bool> more = lines->Next(part);
      if (!more.ok()) {
        if (!absl::IsInvalidArgument(more.status())) return more.status();
        LH_RETURN_IF_ERROR(Render());
        AddProblem(report_, more.status().message());
        return absl::OkStatus();
      }
      if (!*more) break;
      if (report_.sample_text.empty()) report_.sample_text = part.text.substr(0, kChatSampleBytes);
      bytes += part.text.size();
      rows_.push_back(std::move(part.text));
      numbers_.push_back(part.line);
      if (bytes < kChatCheckBytes && rows_.size() < kChatCheckRows) continue;
      LH_RETURN_IF_ERROR(Render());
      bytes = 0;
    }
    return Render();
  }

 private:
  absl::Status Render() {
    if (rows_.empty()) return absl::OkStatus();
    LH_RETURN_IF_ERROR(renderer_.Render(rows_, chats_));
    for (size_t i = 0; i < chats_.size(); ++i) {
      ++*report_.documents;
      if (chats_[i].ok()) {
        Count(*chats_[i]);
      } else {
        AddProblem(report_,
                   absl::StrCat(path_, ": line ", numbers_[i], ": ", chats_[i].status().message()));
      }
    }
    rows_.clear();
    numbers_.clear();
    return absl::OkStatus();
  }

  void Count(const RenderedChat& chat) {
    const auto tokens = static_cast<int64_t>(chat.tokens.size());
    // Nothing predicts the first token.
    const int64_t targets =
        tokens == 0 ? 0 : std::count(chat.counts.begin() + 1, chat.counts.end(), 1);
    report_.tokens += tokens;
    chat_.targets += targets;
    chat_.without_targets += targets == 0 ? 1 : 0;
    chat_.longest = std::max(chat_.longest, tokens);
    for (const int32_t token : chat.tokens) {
      report_.largest = std::max<int64_t>(report_.largest.value_or(token), token);
      if (static_cast<int>(report_.sample.size()) < options_.sample_tokens)
        report_.sample.push_back(token);
    }
  }

  const DataCheckOptions& options_;
  ChatRenderer& renderer_;
  DataReport& report_;
  ChatReport& chat_;
  std::string path_;
  std::vector<std::string> rows_;
  std::vector<int64_t> numbers_;
  std::vector<absl::StatusOr<RenderedChat>> chats_;
};

}  // namespace

bool LooksLikeChat(const std::string& path, const std::string& field) {
  const auto lines = OpenJsonlLines(path);
  DocumentPart first;
  if (!lines.ok() || !(*lines)->Next(first).value_or(false)) return false;
  const nlohmann::json row = nlohmann::json::parse(first.text, nullptr, /*allow_exceptions=*/false);
  if (!row.is_object() || row.contains(field)) return false;
  const auto is_list = [&](const char* name) { return row.contains(name) && row[name].is_array(); };
  return is_list("messages") || is_list("conversations");
}

absl::Status CheckChat(const std::string& path, const DataCheckOptions& options,
                       DataReport& report) {
  if (options.tokenizer.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": is chat: give --tokenizer, a folder with the model's tokenizer.json "
                     "and chat template"));
  }
  absl::StatusOr<std::unique_ptr<ChatRenderer>> renderer =
      ChatRenderer::Start({.tokenizer = options.tokenizer,
                           .chat_template = options.chat_template,
                           .threads = options.threads});
  if (!renderer.ok()) return MarkTokenizer(renderer.status());
  LH_RETURN_IF_ERROR(ChatCheck(options, **renderer, report).Run(path));
  if (options.vocab > 0 && report.largest.value_or(0) >= options.vocab) {
    AddProblem(report, absl::StrCat(path, ": token ", *report.largest, " is not below the vocab ",
                                    options.vocab));
  }
  if (*report.documents > 0 && report.chat->targets == 0 && report.problem_count == 0) {
    AddProblem(report, absl::StrCat(path,
                                    ": no conversation has a token on which the loss is: "
                                    "none has an assistant's message that counts"));
  }
  return absl::OkStatus();
}

}  // namespace longhaul
