// Starts the Python tokenizer (`python3 -m longhaul.tokenize --pipe`, deploy/python) for its users:
// HfTokenizer and ChatRenderer.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/tokenizer_process.h"

namespace longhaul {

// The digest of a file in hexadecimal. Errors: those of ReadOnlyFile; INVALID_ARGUMENT: the file is
// a pointer of Git LFS in place of its content.
absl::StatusOr<std::string> DigestOfPresentFile(const std::string& path);

// `path`: a tokenizer.json. Callers append options.
std::vector<std::string> PythonTokenizerCommand(const std::string& path, int threads);

// How to get Python's longhaul with what its `extra` names (tokenize, chat; pyproject.toml).
std::string HowToInstallPythonTokenizer(absl::string_view extra);

// Starts the command and takes its greeting. `extra`: what it needs of Python's longhaul. Errors:
// NOT_FOUND: no python3, or not with these packages, and what to install. INVALID_ARGUMENT: the
// process refused the tokenizer. Blocks until the tokenizer is read.
absl::StatusOr<TokenizerProcess> StartPythonTokenizer(const std::string& path,
                                                      const std::vector<std::string>& command,
                                                      absl::string_view extra,
                                                      TokenizerProcess::Greeting& greeting);

}  // namespace longhaul
