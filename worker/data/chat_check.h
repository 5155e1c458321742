// Checks a file of conversations: renders each, and counts what the loss is on. Thread-safe; blocks
// on the disk and on the renderer's process.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "worker/data/data_check.h"

namespace longhaul {

// Whether the first line of a JSONL file has messages, and no such field with a text.
bool LooksLikeChat(const std::string& path, const std::string& field);

// Fills in the report of a file. Lines that cannot be rendered become problems. Errors: those of
// ChatRenderer::Start; INVALID_ARGUMENT: the options name no tokenizer; the system's.
absl::Status CheckChat(const std::string& path, const DataCheckOptions& options,
                       DataReport& report);

}  // namespace longhaul
