// A transcript: a text of commands to a core, each followed by what the core did. Lines that begin
// with '#' or are empty are for the reader; a line at the margin is a command; the indented lines
// after it are its output.
//
//   contribute j a fragment=0 version=1
//       apply j fragment 0 version 1 outer of [a]
//
// A command is its name, then words and key=value pairs in any order.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/schedule/round_kind.h"

namespace longhaul {

class Command {
 public:
  explicit Command(absl::string_view line);

  const std::string& name() const { return name_; }
  const std::string& word(size_t index) const;  // Aborts if there is none: the transcript is wrong.
  const std::vector<std::string>& words() const { return words_; }
  bool Has(absl::string_view word) const;
  std::string Text(absl::string_view key, absl::string_view otherwise = "") const;
  int64_t Number(absl::string_view key, int64_t otherwise = 0) const;
  std::vector<int64_t> Numbers(absl::string_view key) const;  // Separated by commas.

 private:
  std::string name_;
  std::vector<std::string> words_;
  std::map<std::string, std::string> values_;
};

std::vector<int64_t> ParseNumbers(absl::string_view text);

// The round that kind= names; without it, version 0 is a seed's and the others are outer ones.
// Aborts if there is no such kind.
RoundKind KindOf(const Command& command, int64_t version);

// Runs every command of `transcript` and returns it with the output that came.
std::string Rewrite(absl::string_view transcript,
                    const std::function<std::vector<std::string>(const Command&)>& run);

}  // namespace longhaul
