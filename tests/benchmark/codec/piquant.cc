#include "tests/benchmark/codec/piquant.h"

#include <dlfcn.h>

#include "common/base/check.h"

namespace longhaul::benchmark {
namespace {

// Of version 4.1.
constexpr int kFloat32 = 0, kUint4 = 3, kUint8 = 4, kNearest = 0, kStochastic = 1;
using Create = void* (*)(size_t threads);
using Destroy = void (*)(void* context);
using Parameters = void (*)(void* context, const float* in, size_t count, int type, float* scale,
                            int64_t* zero_point);
using QuantizeCall = void (*)(void* context, const void* in, int in_type, void* out, int out_type,
                              size_t count, float scale, int64_t zero_point, int rounding);

template <typename Function>
Function Find(void* library, const char* name) {
  void* const symbol = dlsym(library, name);
  LH_CHECK(symbol != nullptr, "not the library of pi-quant");
  return reinterpret_cast<Function>(symbol);
}

void* Open(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  LH_CHECK(handle != nullptr, "pi-quant cannot be loaded");
  return handle;
}

}  // namespace

PiQuant::PiQuant(const std::string& library)
    : library_(Open(library)), context_(Find<Create>(library_, "piquant_context_create")(1)) {}

PiQuant::~PiQuant() { Find<Destroy>(library_, "piquant_context_destroy")(context_); }

void PiQuant::Quantize(absl::Span<const float> in, Type type, bool stochastic, uint8_t* out) const {
  const int code = type == Type::kUint4 ? kUint4 : kUint8;
  float scale = 0;
  int64_t zero_point = 0;
  Find<Parameters>(library_, "piquant_compute_quant_params_float32")(context_, in.data(), in.size(),
                                                                     code, &scale, &zero_point);
  Find<QuantizeCall>(library_, "piquant_quantize")(context_, in.data(), kFloat32, out, code,
                                                   in.size(), scale, zero_point,
                                                   stochastic ? kStochastic : kNearest);
}

}  // namespace longhaul::benchmark
