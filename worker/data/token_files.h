// Opens files of tokens that other tools wrote, as pieces. Only headers and indexes are read. The
// caller, who knows the vocabulary, checks the tokens (CheckTokens).
//
// Errors of all: NOT_FOUND: there is no such file. INVALID_ARGUMENT: the file is not of this
// format, or damaged. Every message names the file and the problem.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/file_tokens.h"

namespace longhaul {

// Unsigned tokens of 16 bits (nanoGPT), 32 or 64, nothing else.
absl::StatusOr<TokenPiece> OpenNanoGptFile(const std::string& path, int bits = 16);

// llm.c: a header of 256 int32 (magic, version, number of tokens; the rest is unused), then
// unsigned tokens: 16 bits with magic 20240520, version 1; 32 bits with magic 20240801, version 7.
absl::StatusOr<TokenPiece> OpenLlmcFile(const std::string& path);
bool IsLlmcFile(absl::Span<const uint8_t> bytes);

// Megatron-LM: PREFIX.bin and PREFIX.idx (megatron_index.h).
struct MegatronFile {
  TokenPiece tokens;
  int64_t sequences = 0, documents = 0;
};
absl::StatusOr<MegatronFile> OpenMegatronFile(const std::string& prefix,
                                              IndexCheck check = IndexCheck::kAll);

// Without .idx or .bin at its end.
std::string MegatronPrefix(const std::string& path);

}  // namespace longhaul
