// Every codec with every option of its encoder, for the backends of the codec suite.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "tests/conformance/codec_suite.h"

namespace longhaul::codec_test {

inline std::function<int64_t(int64_t)> Dense(int64_t code_bits, int64_t scale_bytes) {
  return [=](int64_t n) {
    return CeilDiv(n * code_bits, 8) + CeilDiv(n, kBlockElements) * scale_bytes;
  };
}

inline int64_t Topk2(int64_t n) {
  int64_t bytes = n / 4096 * 84;
  const int64_t rest = n % 4096, kept = std::min(2 * CeilDiv(rest, 128), rest);
  if (rest > 0) bytes += 4 + CeilDiv(kept + 2 * CeilDiv(rest, 128), 8) + kept;
  return bytes;
}

inline std::vector<CodecCase> AllCodecs() {
  return {
      {"Fp32", {.kind = CodecKind::kFp32}, Dense(32, 0)},
      {"Bf16", {.kind = CodecKind::kBf16}, Dense(16, 0)},
      {"E3m0", {.kind = CodecKind::kE3m0}, Dense(4, 1)},
      {"E3m0Search", {.kind = CodecKind::kE3m0, .search_scale = true}, Dense(4, 1)},
      {"E3m0Stochastic", {.kind = CodecKind::kE3m0, .stochastic = true}, Dense(4, 1)},
      {"Int8", {.kind = CodecKind::kInt8}, Dense(8, 2)},
      {"Int8Stochastic", {.kind = CodecKind::kInt8, .stochastic = true}, Dense(8, 2)},
      {"Int8Decay", {.kind = CodecKind::kInt8, .feedback_decay = 0.9f}, Dense(8, 2)},
      {"Int6", {.kind = CodecKind::kInt6}, Dense(6, 2)},
      {"Int6Decay", {.kind = CodecKind::kInt6, .feedback_decay = 0.9f}, Dense(6, 2)},
      {"Int4", {.kind = CodecKind::kInt4}, Dense(4, 2)},
      {"Int4Search", {.kind = CodecKind::kInt4, .search_scale = true}, Dense(4, 2)},
      {"Int4Stochastic", {.kind = CodecKind::kInt4, .stochastic = true}, Dense(4, 2)},
      {"Sign1", {.kind = CodecKind::kSign1}, Dense(1, 2)},
      {"Sign1Rms", {.kind = CodecKind::kSign1, .rms_scale = true}, Dense(1, 2)},
      {"Topk2", {.kind = CodecKind::kTopk2}, Topk2},
      {"Topk2Decay", {.kind = CodecKind::kTopk2, .feedback_decay = 0.95f}, Topk2},
  };
}

}  // namespace longhaul::codec_test
