#include "worker/data/control_tokens.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/counted.h"

namespace longhaul {

ControlTokens::ControlTokens(std::vector<std::string> names) {
  std::sort(names.begin(), names.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  for (std::string& name : names) {
    if (!name.empty()) names_[static_cast<uint8_t>(name[0])].push_back(std::move(name));
  }
}

int64_t ControlTokens::CountIn(absl::string_view text) const {
  int64_t count = 0;
  for (size_t at = 0; at < text.size();) {
    size_t size = 1;
    for (const std::string& name : names_[static_cast<uint8_t>(text[at])]) {
      if (!absl::StartsWith(text.substr(at), name)) continue;
      ++count;
      size = name.size();
      break;
    }
    at += size;
  }
  return count;
}

std::string SpelledControlTokens::Describe() const {
  return absl::StrCat(Counted(documents, "document"), documents == 1 ? " spells" : " spell",
                      " out control tokens, ", Counted(times, "time"));
}

void SpelledControlTokenCount::Look(absl::string_view part, bool ends_document) {
  const int64_t times = tokens_.CountIn(part);
  spelled_.times += times;
  begun_ = begun_ || times > 0;
  if (ends_document) spelled_.documents += std::exchange(begun_, false);
}

}  // namespace longhaul
