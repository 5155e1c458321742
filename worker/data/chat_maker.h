// Makes rows (chat_rows.h) from files of conversations, and keeps them as token_cache.h says.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/chat_renderer.h"
#include "worker/data/source.h"

namespace longhaul {

// Returns the prefix of the rows of these files of a source of kChat, rendered by `renderer`.
// Blocks. A conversation that is longer than a row is cut, and one without a counted target is left
// out (ChatCounts). Errors: those of OpenSource; INVALID_ARGUMENT: a
// line cannot be rendered, with file, line and reason.
absl::StatusOr<std::string> MakeChatRows(const SourceOptions& options, ChatRenderer& renderer,
                                         const std::vector<std::string>& files,
                                         const TokenWork& work);

}  // namespace longhaul
