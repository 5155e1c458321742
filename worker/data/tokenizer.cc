#include "worker/data/tokenizer.h"

namespace longhaul {
namespace {

constexpr int64_t kByteValues = 256;

class ByteTokenizer : public Tokenizer {
 public:
  int64_t vocab() const override { return kByteValues; }
  int64_t eos() const override { return kNoToken; }
  std::string identity() const override { return "bytes"; }
  absl::Status Encode(absl::Span<const std::string> texts,
                      std::vector<std::vector<int32_t>>& tokens) override {
    tokens.resize(texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      tokens[i].resize(texts[i].size());
      for (size_t k = 0; k < texts[i].size(); ++k) tokens[i][k] = static_cast<uint8_t>(texts[i][k]);
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> tokens) override {
    std::string text;
    for (const int32_t token : tokens) {
      if (token >= 0 && token < kByteValues) text += static_cast<char>(token);
    }
    return text;
  }
};

}  // namespace

std::unique_ptr<Tokenizer> MakeByteTokenizer() { return std::make_unique<ByteTokenizer>(); }

}  // namespace longhaul
