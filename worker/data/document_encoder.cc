#include "worker/data/document_encoder.h"

#include <utility>

#include "common/base/status_macros.h"

namespace longhaul {

DocumentEncoder::DocumentEncoder(const SourceTokenizer* tokenizer, Batch batch, Sink sink)
    : tokenizer_(tokenizer), batch_(batch), sink_(std::move(sink)) {}

absl::StatusOr<bool> DocumentEncoder::Add(DocumentPart part) {
  size_ += part.text.size();
  texts_.push_back(std::move(part.text));
  ends_.push_back(part.ends_document);
  if (size_ < batch_.bytes && texts_.size() < batch_.texts) return false;
  LH_RETURN_IF_ERROR(Flush());
  return true;
}

absl::Status DocumentEncoder::Flush() {
  LH_RETURN_IF_ERROR(tokenizer_->tokenizer->Encode(texts_, tokens_));
  for (size_t i = 0; i < texts_.size(); ++i) {
    std::vector<int32_t>& tokens = tokens_[i];
    if (begins_ && tokenizer_->bos != kNoToken)
      tokens.insert(tokens.begin(), static_cast<int32_t>(tokenizer_->bos));
    if (ends_[i] && tokenizer_->eos != kNoToken)
      tokens.push_back(static_cast<int32_t>(tokenizer_->eos));
    LH_RETURN_IF_ERROR(sink_(tokens, ends_[i]));
    begins_ = ends_[i];
  }
  text_bytes_ += static_cast<int64_t>(size_);
  texts_.clear();
  ends_.clear();
  size_ = 0;
  return absl::OkStatus();
}

}  // namespace longhaul
