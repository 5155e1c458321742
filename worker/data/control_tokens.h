// Control tokens of a tokenizer (<|endoftext|>, </s>) that a text spells out.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace longhaul {

// Immutable.
class ControlTokens {
 public:
  explicit ControlTokens(std::vector<std::string> names);
  // How often one of them is in the text: the longest at each place, without overlap.
  int64_t CountIn(absl::string_view text) const;

 private:
  // By the first byte, the longest name first.
  std::array<std::vector<std::string>, 256> names_;
};

// How many documents spell a control token out, and how often.
struct SpelledControlTokens {
  int64_t documents = 0, times = 0;
  // "2 documents spell out control tokens, 3 times".
  std::string Describe() const;
};

// Counts them in documents that come part after part. Not thread-safe.
class SpelledControlTokenCount {
 public:
  explicit SpelledControlTokenCount(std::vector<std::string> names) : tokens_(std::move(names)) {}
  void Look(absl::string_view part, bool ends_document);
  const SpelledControlTokens& spelled() const { return spelled_; }

 private:
  const ControlTokens tokens_;
  SpelledControlTokens spelled_;
  bool begun_ = false;  // The document spells one out.
};

}  // namespace longhaul
