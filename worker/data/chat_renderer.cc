#include "worker/data/chat_renderer.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/tokenizer_name.h"
#include "common/hf/hf_tokenizer.h"
#include "worker/data/python_tokenizer.h"

namespace longhaul {
namespace {

// Of everything in a tokenizer's folder that decides what a conversation becomes.
absl::StatusOr<std::string> ChatIdentity(const std::string& file,
                                         const std::string& chat_template) {
  // Raise it when the same folder gives other tokens or another mask.
  std::string all = "chat 1";
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::vector<std::string> files = {file};
  for (const char* name :
       {"tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"})
    files.push_back((folder / name).string());
  if (!chat_template.empty()) files.push_back(chat_template);
  for (const std::string& each : files) {
    std::error_code ignored;
    const bool required = each == file || each == chat_template;
    if (!required && !std::filesystem::exists(each, ignored)) continue;
    LH_ASSIGN_OR_RETURN(const std::string digest, DigestOfPresentFile(each));
    const bool given = each == chat_template;
    absl::StrAppend(&all, "\n",
                    given ? "template" : std::filesystem::path(each).filename().string(), " ",
                    digest);
  }
  return all;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChatRenderer>> ChatRenderer::Start(const ChatOptions& options) {
  LH_ASSIGN_OR_RETURN(const std::string file, TokenizerFile(options.tokenizer));
  if (!IsHfTokenizer(file)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file,
                     ": chat needs a tokenizer.json: a SentencePiece model cannot be given "
                     "the control tokens of a chat template"));
  }
  LH_ASSIGN_OR_RETURN(std::string identity, ChatIdentity(file, options.chat_template));
  std::vector<std::string> command = PythonTokenizerCommand(file, options.threads);
  command.push_back("--chat");
  if (!options.chat_template.empty()) {
    command.push_back("--chat-template");
    command.push_back(options.chat_template);
  }
  TokenizerProcess::Greeting greeting;
  LH_ASSIGN_OR_RETURN(TokenizerProcess process,
                      StartPythonTokenizer(file, command, "chat", greeting));
  return std::unique_ptr<ChatRenderer>(
      new ChatRenderer(std::move(identity), greeting.vocab, std::move(process)));
}

ChatRenderer::ChatRenderer(std::string identity, int64_t vocab, TokenizerProcess process)
    : identity_(std::move(identity)), vocab_(vocab), process_(std::move(process)) {}

absl::Status ChatRenderer::Render(absl::Span<const std::string> rows,
                                  std::vector<absl::StatusOr<RenderedChat>>& chats) {
  chats.assign(rows.size(), absl::UnknownError("not rendered"));
  return process_.Render(rows, absl::MakeSpan(chats));
}

}  // namespace longhaul
