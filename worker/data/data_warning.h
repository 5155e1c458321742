// What is suspicious of data that is trained on nevertheless.
#pragma once

#include <string>

namespace longhaul {

// Kinds, which DataWarning of job.proto lists.
inline constexpr char kDocumentEnds[] = "DOCUMENT_ENDS";
inline constexpr char kIdWidth[] = "ID_WIDTH";
inline constexpr char kJsonAsText[] = "JSON_AS_TEXT";
inline constexpr char kFilesPassedOver[] = "FILES_PASSED_OVER";
inline constexpr char kControlTokensSpelled[] = "CONTROL_TOKENS_SPELLED";
inline constexpr char kNullRowsSkipped[] = "NULL_ROWS_SKIPPED";
inline constexpr char kChatCut[] = "CHAT_CUT";
inline constexpr char kChatLeftOut[] = "CHAT_LEFT_OUT";
inline constexpr char kChatRowsFilledUp[] = "CHAT_ROWS_FILLED_UP";
inline constexpr char kModelDocuments[] = "MODEL_DOCUMENTS";
inline constexpr char kNodesWithoutInEdges[] = "NODES_WITHOUT_IN_EDGES";
inline constexpr char kFeatureAccess[] = "FEATURE_ACCESS";

struct DataWarning {
  std::string kind;
  // In words; names the file or folder.
  std::string message;
};

}  // namespace longhaul
