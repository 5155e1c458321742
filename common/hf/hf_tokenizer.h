// The tokenizer of a Hugging Face folder, and the end token that the folder declares for it. All
// functions block on the disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace longhaul {

// The file of a tokenizer that is given as itself or as its folder: in a folder tokenizer.json,
// else tokenizer.model. NOT_FOUND, with the path: neither. IsHfTokenizer
// (common/base/tokenizer_name.h) tells how it is to be started.
absl::StatusOr<std::string> TokenizerFile(const std::string& path);

// No file of a tokenizer is larger.
inline constexpr int64_t kTokenizerFileBytesMax = 256 << 20;

// The names of what belongs to a folder's tokenizer, and exists there: its file, what declares its
// special tokens, its chat template, generation_config.json. Empty: the folder has none of them.
std::vector<std::string> TokenizerFilesOf(const std::string& folder);

// What a folder says of the token after each text.
struct DeclaredEnd {
  // eos_token of tokenizer_config.json. Empty: none.
  std::string token;
  // eos_token_id of generation_config.json, else of config.json; the first one of a list. Counts if
  // there is no `token`, or the tokenizer does not have it.
  std::optional<int64_t> id;

  bool any() const { return !token.empty() || id.has_value(); }
  // For messages: "'</s>' (id 2)".
  std::string Describe() const;
};

// Of the folder, or of the folder of a file. Files that do not exist declare nothing.
// INVALID_ARGUMENT, with the path: a file is malformed. deploy/python/longhaul/tokenizer_json.py
// reads the same.
absl::StatusOr<DeclaredEnd> ReadDeclaredEnd(const std::string& path);

// What decides which tokens a text becomes: SHA-256, in hexadecimal, of the file's content and of
// what its folder declares. Two folders with the same one make the same tokens. Errors: those of
// TokenizerFile and ReadDeclaredEnd. INVALID_ARGUMENT, too: a pointer of Git LFS in place of the
// file, or more than kTokenizerFileBytesMax.
absl::StatusOr<std::string> DigestOfTokenizer(const std::string& path);

// What decides how a conversation is rendered, besides the tokenizer: SHA-256, in hexadecimal, of
// the chat template of the folder (chat_template.jinja, else chat_template of
// tokenizer_config.json), and of the special tokens that the folder names. NOT_FOUND: it has no
// template. INVALID_ARGUMENT: a file is malformed.
absl::StatusOr<std::string> DigestOfChatTemplate(const std::string& folder);

}  // namespace longhaul
