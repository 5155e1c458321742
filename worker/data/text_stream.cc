#include "worker/data/text_stream.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

// Decoders look at few tokens before one: a space between words, a character's first bytes.
constexpr size_t kContext = 8;
// A character has four bytes at most, so what is not whole after so many tokens never will be.
constexpr size_t kWaitMax = 8;
// What decoders write for bytes that are no character (yet): U+FFFD.
constexpr char kReplacement[] = "\xEF\xBF\xBD";

}  // namespace

TextStream::TextStream(Tokenizer* tokenizer, absl::Span<const int64_t> before)
    : tokenizer_(tokenizer) {
  const size_t kept = std::min(before.size(), kContext);
  tokens_.assign(before.end() - kept, before.end());
  given_ = tokens_.size();
}

absl::StatusOr<std::string> TextStream::Append(int64_t token) {
  tokens_.push_back(static_cast<int32_t>(token));
  return New(tokens_.size() - given_ >= kWaitMax);
}

absl::StatusOr<std::string> TextStream::Finish() { return New(/*whole=*/true); }

absl::StatusOr<std::string> TextStream::New(bool whole) {
  if (given_ == tokens_.size()) return "";
  LH_ASSIGN_OR_RETURN(const std::string known,
                      tokenizer_->Decode(absl::MakeSpan(tokens_).subspan(0, given_)));
  LH_ASSIGN_OR_RETURN(const std::string all, tokenizer_->Decode(tokens_));
  if (!whole && absl::EndsWith(all, kReplacement)) return "";
  // As long as both begin alike; else (a decoder that looks far back) from where they differ.
  const auto differ = std::mismatch(known.begin(), known.end(), all.begin(), all.end()).second;
  std::string text(differ, all.end());
  if (tokens_.size() > kContext) {
    tokens_.erase(tokens_.begin(), tokens_.end() - kContext);
  }
  given_ = tokens_.size();
  return text;
}

}  // namespace longhaul
