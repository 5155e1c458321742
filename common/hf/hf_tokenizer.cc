#include "common/hf/hf_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/tokenizer_name.h"
#include "common/hf/bounded_json.h"
#include "common/hf/hf_config.h"
#include "common/io/file_content.h"
#include "common/io/read_only_file.h"
#include "common/io/sha256.h"

namespace longhaul {
namespace {

// That of a model with a large vocabulary lists thousands of added tokens.
constexpr int64_t kTokenizerConfigBytesMax = 64 << 20;
constexpr char kTokenizerConfig[] = "tokenizer_config.json";
constexpr int64_t kHashedAtOnce = 1 << 20;
constexpr const char* kTokenizerFiles[] = {kHfTokenizerFile,      kPieceTokenizerFile,
                                           kTokenizerConfig,      "special_tokens_map.json",
                                           "added_tokens.json",   "vocab.json",
                                           "vocab.txt",           "merges.txt",
                                           "chat_template.jinja", "generation_config.json"};

std::string FolderOf(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return path;
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// A token is written as itself, or as an object with its content.
absl::StatusOr<std::string> EndTokenIn(absl::string_view text) {
  LH_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonObject(text, kTokenizerConfigBytesMax));
  const auto found = json.find("eos_token");
  if (found == json.end() || found->is_null()) return "";
  const nlohmann::json& token =
      found->is_object() && found->contains("content") ? (*found)["content"] : *found;
  if (token.is_string()) return token.get<std::string>();
  return absl::InvalidArgumentError("eos_token: expected a token");
}

absl::Status AddFile(Sha256& sha, const std::string& path) {
  LH_ASSIGN_OR_RETURN(const ReadOnlyFile file, ReadOnlyFile::Open(path));
  if (file.size() > kTokenizerFileBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": has ", file.size(), " bytes, expected at most ", kTokenizerFileBytesMax));
  }
  std::string piece;
  for (int64_t at = 0; at < file.size(); at += kHashedAtOnce) {
    piece.resize(std::min(kHashedAtOnce, file.size() - at));
    LH_RETURN_IF_ERROR(file.Read(at, {reinterpret_cast<uint8_t*>(piece.data()), piece.size()}));
    if (at == 0) LH_RETURN_IF_ERROR(CheckPresent(path, piece.substr(0, kContentHeadBytes)));
    sha.Update(piece);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> TokenizerFile(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    // Opening names the target of a dangling link.
    if (std::filesystem::exists(path, error) || !DanglingLink(path).empty()) return path;
    return absl::NotFoundError(absl::StrCat(path, ": no such file, and no folder with a ",
                                            kHfTokenizerFile, " or ", kPieceTokenizerFile));
  }
  for (const char* name : {kHfTokenizerFile, kPieceTokenizerFile}) {
    std::string file = (std::filesystem::path(path) / name).string();
    if (std::filesystem::exists(file, error) || !DanglingLink(file).empty()) return file;
  }
  return absl::NotFoundError(absl::StrCat(path, ": a folder with neither ", kHfTokenizerFile,
                                          " nor ", kPieceTokenizerFile));
}

std::vector<std::string> TokenizerFilesOf(const std::string& folder) {
  std::vector<std::string> names;
  for (const char* name : kTokenizerFiles) {
    const std::string path = (std::filesystem::path(folder) / name).string();
    std::error_code error;
    if (std::filesystem::exists(path, error) || !DanglingLink(path).empty())
      names.emplace_back(name);
  }
  return names;
}

std::string DeclaredEnd::Describe() const {
  if (!id.has_value()) return absl::StrCat("'", token, "'");
  return token.empty() ? absl::StrCat("id ", *id) : absl::StrCat("'", token, "' (id ", *id, ")");
}

absl::StatusOr<DeclaredEnd> ReadDeclaredEnd(const std::string& path) {
  DeclaredEnd declared;
  const std::string folder = FolderOf(path);
  const std::string config = absl::StrCat(folder, "/", kTokenizerConfig);
  const absl::StatusOr<std::string> text = ReadRegularFile(config, kTokenizerConfigBytesMax);
  if (text.ok()) {
    absl::StatusOr<std::string> token = EndTokenIn(*text);
    if (!token.ok())
      return absl::InvalidArgumentError(absl::StrCat(config, ": ", token.status().message()));
    declared.token = *std::move(token);
  } else if (!absl::IsNotFound(text.status())) {
    return text.status();
  }
  LH_ASSIGN_OR_RETURN(const std::vector<int64_t> ends, ReadEndTokens(folder));
  if (!ends.empty()) declared.id = ends.front();
  return declared;
}

absl::StatusOr<std::string> DigestOfTokenizer(const std::string& path) {
  LH_ASSIGN_OR_RETURN(const std::string file, TokenizerFile(path));
  LH_ASSIGN_OR_RETURN(const DeclaredEnd declared, ReadDeclaredEnd(file));
  Sha256 sha;
  sha.Update(IsHfTokenizer(file) ? kHfTokenizerFile : kPieceTokenizerFile);
  sha.Update(absl::StrCat("\nend ", declared.token, "\nid ", declared.id.value_or(-1), "\n"));
  LH_RETURN_IF_ERROR(AddFile(sha, file));
  return sha.Hex();
}

absl::StatusOr<std::string> DigestOfChatTemplate(const std::string& folder) {
  constexpr const char* kNamed[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};
  Sha256 sha;
  bool found = false;
  for (const char* name : {"chat_template.jinja", kTokenizerConfig, "special_tokens_map.json"}) {
    const std::string path = absl::StrCat(folder, "/", name);
    absl::StatusOr<std::string> text = ReadRegularFile(path, kTokenizerConfigBytesMax);
    if (absl::IsNotFound(text.status())) continue;
    LH_RETURN_IF_ERROR(text.status());
    if (absl::EndsWith(name, ".jinja")) {
      sha.Update(absl::StrCat("template\n", *text, "\n"));
      found = true;
      continue;
    }
    const absl::StatusOr<nlohmann::json> json = ParseJsonObject(*text, kTokenizerConfigBytesMax);
    if (!json.ok())
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", json.status().message()));
    if (name == kTokenizerConfig && !found && json->contains("chat_template") &&
        !(*json)["chat_template"].is_null()) {
      sha.Update(absl::StrCat("template\n", (*json)["chat_template"].dump(), "\n"));
      found = true;
    }
    for (const char* token : kNamed) {
      if (json->contains(token))
        sha.Update(absl::StrCat(name, " ", token, " ", (*json)[token].dump(), "\n"));
    }
  }
  if (found) return sha.Hex();
  return absl::NotFoundError(
      absl::StrCat(folder, ": has no chat template (chat_template.jinja, or chat_template of ",
                   kTokenizerConfig, ")"));
}

}  // namespace longhaul
