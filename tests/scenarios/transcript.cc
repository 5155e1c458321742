#include "tests/scenarios/transcript.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"

namespace longhaul {

Command::Command(absl::string_view line) {
  for (absl::string_view part : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (name_.empty()) {
      name_ = std::string(part);
    } else if (absl::StrContains(part, '=')) {
      values_.emplace(pair.first, pair.second);
    } else {
      words_.emplace_back(part);
    }
  }
}

const std::string& Command::word(size_t index) const {
  LH_CHECK(index < words_.size(), "a command of the transcript lacks a word");
  return words_[index];
}

bool Command::Has(absl::string_view word) const {
  return std::find(words_.begin(), words_.end(), std::string(word)) != words_.end();
}

std::string Command::Text(absl::string_view key, absl::string_view otherwise) const {
  const auto it = values_.find(std::string(key));
  return it == values_.end() ? std::string(otherwise) : it->second;
}

int64_t Command::Number(absl::string_view key, int64_t otherwise) const {
  const auto it = values_.find(std::string(key));
  return it == values_.end() ? otherwise : ParseNumbers(it->second)[0];
}

std::vector<int64_t> Command::Numbers(absl::string_view key) const {
  return ParseNumbers(Text(key));
}

std::vector<int64_t> ParseNumbers(absl::string_view text) {
  std::vector<int64_t> numbers;
  for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    LH_CHECK(absl::SimpleAtoi(part, &numbers.emplace_back()), "a number of the transcript is none");
  }
  return numbers;
}

RoundKind KindOf(const Command& command, int64_t version) {
  const std::string name = command.Text("kind", version == 0 ? "seed" : "outer");
  for (RoundKind kind :
       {RoundKind::kSeed, RoundKind::kOuter, RoundKind::kFinal, RoundKind::kSkipped}) {
    if (name == RoundKindName(kind)) return kind;
  }
  LH_CHECK(false, "no such kind of round");
  return RoundKind::kOuter;
}

std::string Rewrite(absl::string_view transcript,
                    const std::function<std::vector<std::string>(const Command&)>& run) {
  std::string result;
  for (absl::string_view line : absl::StrSplit(absl::StripSuffix(transcript, "\n"), '\n')) {
    if (!line.empty() && line[0] == ' ') continue;
    absl::StrAppend(&result, line, "\n");
    if (line.empty() || line[0] == '#') continue;
    for (const std::string& output : run(Command(line)))
      absl::StrAppend(&result, "    ", output, "\n");
  }
  return result;
}

}  // namespace longhaul
