// What a codec loses: NMSE = ||x - decoded||^2 / ||x||^2 on Gaussian or Laplacian data.
//   codec_distortion --codec e3m0 [--block 128] [--data gauss|laplace]
//                    [--scale fp32|byte|word|search] [-o json|table]
// Without --scale, or with the one that is sent, and blocks of 128 the codec itself is measured;
// else the formula (formulas.h). Exit status 4: bad arguments.
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/codec/codec.h"
#include "common/codec/topk2_format.h"
#include "common/layout/fragment_layout.h"
#include "tests/benchmark/distortion/formulas.h"
#include "tests/benchmark/harness/flags.h"
#include "tests/conformance/codec_inputs.h"

namespace longhaul::distortion {
namespace {

constexpr int kBadArguments = 4;
constexpr int64_t kElementsMax = 1 << 26;

struct Request {
  std::string codec, data = "gauss", scale, output = "table";
  int64_t block = 0;  // 0: the codec's own.
  int64_t elements = 4 * kTileElements, seed = 1;
};

std::optional<CodecKind> KindOf(const std::string& name) {
  for (const CodecRow& codec : kCodecs) {
    if (codec.name == name) return codec.kind;
  }
  return std::nullopt;
}

bool HasScales(CodecKind kind) {
  return kind != CodecKind::kFp32 && kind != CodecKind::kBf16 && kind != CodecKind::kTopk2;
}

double MeasureCodec(const CodecOptions& options, absl::Span<const float> values) {
  const auto codec = MakeCodec(options).value();
  std::vector<float> lost(kTileElements);
  std::vector<uint8_t> coded(codec->PayloadBytes(kTileElements));
  double error = 0, signal = 0;
  for (size_t first = 0; first < values.size(); first += kTileElements) {
    const auto segment = values.subspan(first, kTileElements);
    const auto left = absl::MakeSpan(lost).first(segment.size());
    const auto out = absl::MakeSpan(coded).first(codec->PayloadBytes(segment.size()));
    LH_CHECK(codec->Encode({segment}, left, out).ok(), "finite data");
    for (size_t i = 0; i < segment.size(); ++i) {
      error += static_cast<double>(left[i]) * left[i];
      signal += static_cast<double>(segment[i]) * segment[i];
    }
  }
  return error / signal;
}

// The NMSE, and where it comes from.
absl::StatusOr<std::pair<double, std::string>> Measure(const Request& request, CodecKind kind,
                                                       absl::Span<const float> values) {
  const std::string sent = !HasScales(kind) ? "" : kind == CodecKind::kE3m0 ? "byte" : "word";
  const int64_t own_block = kind == CodecKind::kTopk2 ? topk2::kChunkElements : kBlockElements;
  const bool own = request.block == 0 || request.block == own_block;
  const CodecOptions searched = {.kind = kind, .search_scale = true};
  if (own && (request.scale.empty() || request.scale == sent))
    return std::pair(MeasureCodec({.kind = kind}, values), "codec");
  if (own && request.scale == "search" && MakeCodec(searched).ok())
    return std::pair(MeasureCodec(searched, values), "codec");
  const std::string name = request.scale.empty() ? sent : request.scale;
  const Scale scale = name == "fp32"   ? Scale::kFp32
                      : name == "byte" ? Scale::kByte
                      : name == "word" ? Scale::kWord
                                       : Scale::kSearch;
  const auto nmse = Nmse(kind, scale, request.block == 0 ? own_block : request.block, values);
  if (!nmse.ok()) return nmse.status();
  return std::pair(*nmse, "formula");
}

int Run(const Request& request) {
  const auto refuse = [](absl::string_view why) {
    std::cerr << "codec_distortion: " << why << "\n";
    return kBadArguments;
  };
  const auto kind = KindOf(request.codec);
  if (!kind) return refuse("--codec is one of fp32, bf16, e3m0, int8, int6, int4, sign1, topk2");
  const std::vector<float> values = request.data == "gauss"
                                        ? codec_test::Gaussian(request.elements, 1, request.seed)
                                        : codec_test::Laplace(request.elements, request.seed);
  const auto measured = Measure(request, *kind, values);
  if (!measured.ok()) return refuse(measured.status().message());
  const nlohmann::ordered_json result = {{"schema_version", 1},     {"codec", request.codec},
                                         {"block", request.block},  {"data", request.data},
                                         {"scale", request.scale},  {"elements", request.elements},
                                         {"nmse", measured->first}, {"measured", measured->second}};
  if (request.output == "json") {
    std::cout << result.dump() << "\n";
  } else {
    for (const auto& [name, value] : result.items()) std::cout << name << "\t" << value << "\n";
  }
  return 0;
}

int Main(int argc, char** argv) {
  Request request;
  const auto end = benchmark::ReadFlags(
      "What a codec loses on Gaussian or Laplacian data.", argc, argv,
      {{"--codec", &request.codec},
       {.name = "--block",
        .value = &request.block,
        .meaning = "elements of a block (default: the codec's)",
        .most = kElementsMax},
       {.name = "--data", .value = &request.data, .choices = {"gauss", "laplace"}},
       {.name = "--scale",
        .value = &request.scale,
        .meaning = "precision of the scales (default: what is sent)",
        .choices = {"fp32", "byte", "word", "search"}},
       {.name = "--elements", .value = &request.elements, .most = kElementsMax},
       {.name = "--seed", .value = &request.seed, .least = 0},
       {.name = "-o,--output", .value = &request.output, .choices = {"json", "table"}}});
  return end ? *end : Run(request);
}

}  // namespace
}  // namespace longhaul::distortion

int main(int argc, char** argv) { return longhaul::distortion::Main(argc, argv); }
