// The order of a decoder block's tensors in its layout (LayOutTransformer). Tensors in one line are
// neighbours in memory, so that one product may use them together.
#pragma once

namespace longhaul {

// clang-format off
enum BlockTensor {
  kQuery, kKey, kValue,
  kOutput,
  kGate, kUp,
  kDown,
  kInputNorm, kMlpNorm,
  kQueryNorm, kKeyNorm  // With qk_norm.
};
// clang-format on

}  // namespace longhaul
