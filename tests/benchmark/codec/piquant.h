// pi-quant (the quantizer of PCCL) as a reference: its C interface, loaded at run time from the
// library in its wheel. One thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace longhaul::benchmark {

class PiQuant {
 public:
  enum class Type { kUint4, kUint8 };

  // Stops the process if the library cannot be loaded.
  explicit PiQuant(const std::string& library);
  ~PiQuant();
  PiQuant(const PiQuant&) = delete;

  // Scale and zero point of the values (a pass of its own), then the codes.
  void Quantize(absl::Span<const float> in, Type type, bool stochastic, uint8_t* out) const;

 private:
  using Context = void;
  void* const library_;
  Context* const context_;
};

}  // namespace longhaul::benchmark
