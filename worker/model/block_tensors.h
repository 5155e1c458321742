// Places of a decoder block's tensors in its layout (LayOutTransformer). Those of one line lie one
// after another, so that one product may take them together.
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
