// What a file is that a user names, by its first bytes: so that nothing is trained on or loaded
// that is something else than it seems. deploy/python/longhaul/file_content.py says the same in the
// same words. Pure, unless said.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace longhaul {

enum class FileForm {
  kEmpty,
  kText,
  kJsonl,      // A JSON object on a line.
  kJson,       // One JSON document.
  kTokenizer,  // A tokenizer.json or a SentencePiece model.
  kTokens,     // Known by a header: of llm.c, or the index of Megatron-LM.
  kTable,      // Documents that longhaul.tokenize reads: Parquet.
  kPacked,     // gzip or zstd: the content is inside.
  kOther,      // Another known format.
  kAbsent,     // A pointer in place of the file: of Git LFS or git-annex.
  kBinary,     // Unknown, and not text.
};

struct FileContent {
  FileForm form = FileForm::kEmpty;
  // After "is": "a Parquet file". Of each form.
  std::string what;
  // What to do with a file of kOther or kAbsent: "unpack it".
  std::string hint;
};

// So many first bytes are enough.
inline constexpr size_t kContentHeadBytes = 1 << 16;

// `head`: the first kContentHeadBytes of the file, or all of it.
FileContent ContentOf(absl::string_view head);
// By the end of the name of a file, a folder's files or a pattern, for what such names always mean.
// kEmpty: it says nothing.
FileContent ContentOfName(absl::string_view path);

// INVALID_ARGUMENT: `head` is that of a pointer (kAbsent). The message begins with the path.
absl::Status CheckPresent(absl::string_view path, absl::string_view head);

// What other systems leave in folders, and what is no data by its name: names that begin with a
// dot, Thumbs.db, desktop.ini, _SUCCESS. A folder and a pattern do not stand for such files.
bool IsSideFile(absl::string_view name);

// "it is a link to TARGET, which does not exist", if the path is one. Otherwise empty. Reads the
// disk.
std::string DanglingLink(const std::string& path);

}  // namespace longhaul
